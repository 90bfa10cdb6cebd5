//! YAML as configuration needs it: a document becomes JSON, and every value keeps its line and column, so that an error about
//! a field can say where it is.
//!
//! The parser is `saphyr-parser`. What makes YAML surprising or large is refused: aliases and anchors, tags, several
//! documents, repeated keys, keys that are no plain texts. Only `true`, `false`, `null` and `~`, and decimal numbers are not
//! texts (the core schema of YAML 1.2, without hexadecimal and octal numbers and infinities).

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput};
use serde_json::Number;
use std::collections::{BTreeMap, HashSet};
use std::fmt;

/// The most bytes of a document.
pub const LENGTH_MAX: usize = 64 * 1024;
/// How deep lists and mappings may be in each other.
const DEPTH_MAX: usize = 16;

/// A line and a column, each from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub line: usize,
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.line, self.column)
    }
}

impl From<Span> for Place {
    fn from(span: Span) -> Place {
        Place { line: span.start.line(), column: span.start.col() + 1 }
    }
}

/// What is wrong with a document, and where.
#[derive(Debug)]
pub struct Problem {
    pub place: Place,
    /// What is wrong, then what to do.
    pub detail: String,
}

impl Problem {
    fn new(span: Span, detail: impl Into<String>) -> Problem {
        Problem { place: span.into(), detail: detail.into() }
    }
}

impl From<ScanError> for Problem {
    fn from(error: ScanError) -> Problem {
        let marker = error.marker();
        let place = Place { line: marker.line(), column: marker.col() + 1 };
        Problem { place, detail: format!("this is not YAML: {}", error.info()) }
    }
}

/// A mapping, read.
#[derive(Debug)]
pub struct Document {
    /// The same as a JSON object.
    pub json: String,
    places: BTreeMap<String, Place>,
}

impl Document {
    /// Reads a document whose root is a mapping.
    pub fn read(text: &str) -> Result<Document, Problem> {
        if text.len() > LENGTH_MAX {
            let detail = format!("the file has {} bytes; use at most {LENGTH_MAX}", text.len());
            return Err(Problem { place: Place { line: 1, column: 1 }, detail });
        }
        let mut reader =
            Reader { events: Parser::new_from_str(text), json: String::new(), places: BTreeMap::new() };
        reader.document()?;
        Ok(Document { json: reader.json, places: reader.places })
    }

    /// Where the field with this path is, such as `clients.web.kind` or `plans[0].services[1]`. A field that is not there is
    /// where the mapping is that lacks it.
    pub fn place(&self, path: &str) -> Place {
        let mut path = path;
        loop {
            if let Some(place) = self.places.get(path) {
                return *place;
            }
            match path.rfind(['.', '[']) {
                Some(end) => path = &path[..end],
                None => return Place { line: 1, column: 1 },
            }
        }
    }
}

struct Reader<'a> {
    events: Parser<'a, StrInput<'a>>,
    json: String,
    places: BTreeMap<String, Place>,
}

impl<'a> Reader<'a> {
    fn document(&mut self) -> Result<(), Problem> {
        let mut is_read = false;
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamEnd if is_read => return Ok(()),
                Event::StreamEnd => {
                    return Err(Problem::new(span, "the file is empty; write a mapping"));
                }
                Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd | Event::Nothing => {}
                _ if is_read => return Err(Problem::new(span, "a second document begins here; write one")),
                Event::MappingStart(..) => {
                    self.value(event, span, "", 0)?;
                    is_read = true;
                }
                _ => {
                    return Err(Problem::new(
                        span,
                        "this is not a mapping; write names with values, like `name: Notes`",
                    ));
                }
            }
        }
    }

    fn next(&mut self) -> Result<(Event<'a>, Span), Problem> {
        match self.events.next_event() {
            Some(event) => Ok(event?),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    /// Writes a value as JSON. `path` is its path.
    fn value(&mut self, event: Event<'a>, span: Span, path: &str, depth: usize) -> Result<(), Problem> {
        if depth > DEPTH_MAX {
            let detail = format!("more than {DEPTH_MAX} levels of lists and mappings; no field takes that");
            return Err(Problem::new(span, detail));
        }
        check_plain(&event, span)?;
        match event {
            Event::Scalar(text, style, ..) => self.json.push_str(&scalar(&text, style)),
            Event::SequenceStart(..) => self.sequence(path, depth)?,
            Event::MappingStart(..) => self.mapping(path, depth)?,
            _ => return Err(Problem::new(span, "a value is missing here")),
        }
        Ok(())
    }

    fn sequence(&mut self, path: &str, depth: usize) -> Result<(), Problem> {
        self.json.push('[');
        for number in 0.. {
            let (event, span) = self.next()?;
            if event == Event::SequenceEnd {
                break;
            }
            if number > 0 {
                self.json.push(',');
            }
            let path = format!("{path}[{number}]");
            self.places.insert(path.clone(), span.into());
            self.value(event, span, &path, depth + 1)?;
        }
        self.json.push(']');
        Ok(())
    }

    fn mapping(&mut self, path: &str, depth: usize) -> Result<(), Problem> {
        self.json.push('{');
        let mut names = HashSet::new();
        for number in 0.. {
            let (event, span) = self.next()?;
            if event == Event::MappingEnd {
                break;
            }
            if number > 0 {
                self.json.push(',');
            }
            check_plain(&event, span)?;
            let Event::Scalar(name, ..) = event else {
                return Err(Problem::new(span, "the name of a field is a text, not a list or a mapping"));
            };
            if !names.insert(name.to_string()) {
                return Err(Problem::new(span, format!("{name:?} is there twice; write it once")));
            }
            let path = child(path, &name);
            self.places.insert(path.clone(), span.into());
            self.json.push_str(&quoted(&name));
            self.json.push(':');
            let (event, span) = self.next()?;
            self.value(event, span, &path, depth + 1)?;
        }
        self.json.push('}');
        Ok(())
    }
}

/// The path of a field, as the server writes it in its errors.
fn child(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn check_plain(event: &Event<'_>, span: Span) -> Result<(), Problem> {
    let (anchor, tag) = match event {
        Event::Alias(_) => {
            return Err(Problem::new(span, "aliases (*name) are not used here; write the value again"));
        }
        Event::Scalar(_, _, anchor, tag) => (*anchor, tag),
        Event::SequenceStart(anchor, tag) | Event::MappingStart(anchor, tag) => (*anchor, tag),
        _ => return Ok(()),
    };
    if anchor != 0 {
        return Err(Problem::new(span, "anchors (&name) are not used here; remove it"));
    }
    match tag {
        Some(tag) => Err(Problem::new(span, format!("tags ({tag}) are not used here; remove it"))),
        None => Ok(()),
    }
}

/// A scalar as JSON. Only a plain one can be something else than a text.
fn scalar(text: &str, style: ScalarStyle) -> String {
    if style != ScalarStyle::Plain {
        return quoted(text);
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => "null".to_owned(),
        "true" | "True" | "TRUE" => "true".to_owned(),
        "false" | "False" | "FALSE" => "false".to_owned(),
        _ => number(text).map_or_else(|| quoted(text), |number| number.to_string()),
    }
}

fn number(text: &str) -> Option<Number> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    // Rust reads `inf` too; and what begins with a zero may be meant as a text, such as a telephone number.
    let is_decimal = unsigned.starts_with(|first: char| first.is_ascii_digit())
        && unsigned.bytes().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte))
        && !(unsigned.len() > 1 && unsigned.starts_with('0') && !unsigned.starts_with("0."));
    if !is_decimal {
        return None;
    }
    text.parse::<i64>().ok().map(Number::from).or_else(|| Number::from_f64(text.parse().ok()?))
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(text: &str) -> Document {
        Document::read(text).unwrap_or_else(|problem| panic!("{}: {}", problem.place, problem.detail))
    }

    #[test]
    fn a_document_becomes_json() {
        let text = "a: 1\nb: [true, no, ~, 'x', \"2\", -3.5, 007, 1.2.3, 2026-01-02]\nc:\n  d: |\n    two\n    lines\n  e:\n";
        let value: Value = serde_json::from_str(&read(text).json).expect("JSON");
        assert_eq!(
            value,
            json!({
                "a": 1,
                "b": [true, "no", null, "x", "2", -3.5, "007", "1.2.3", "2026-01-02"],
                "c": {"d": "two\nlines\n", "e": null},
            })
        );
    }

    #[test]
    fn every_field_has_a_place() {
        let document = read(
            "plans:\n  - slug: pro\n    services: [a, b]\n  - slug: max\nclients:\n  web:\n    kind: web\n",
        );
        for (path, place) in [
            ("plans[0].services[1]", "3:19"),
            ("plans[1].slug", "4:5"),
            ("clients.web.kind", "7:5"),
            ("clients.web.name", "6:3"),
            ("plans[1].services", "4:5"),
            ("colour", "1:1"),
        ] {
            assert_eq!(document.place(path).to_string(), place, "{path}");
        }
    }

    #[test]
    fn what_makes_yaml_surprising_is_refused_with_its_place() {
        let deep = format!("a: {}{}", "[".repeat(20), "]".repeat(20));
        for (text, place, detail) in [
            ("a: &x 1\nb: *x\n", "1:4", "anchors"),
            ("a: !!int 1\n", "1:4", "tags"),
            ("a: 1\nb: 2\na: 3\n", "3:1", "twice"),
            ("a: 1\n---\nb: 2\n", "3:1", "second document"),
            ("- a\n", "1:1", "not a mapping"),
            ("", "1:1", "empty"),
            ("? [a]\n: 1\n", "1:3", "a text"),
            ("a: 1\n b: 2\n", "2:", "not YAML"),
            (&*deep, "1:", "levels"),
        ] {
            let problem = Document::read(text).expect_err(text);
            let (found, seen) = (problem.place.to_string(), problem.detail);
            assert!(found.starts_with(place) && seen.contains(detail), "{text:?}: {found}: {seen}");
        }
        let long = format!("a: {}", "b".repeat(LENGTH_MAX));
        assert!(Document::read(&long).expect_err("too long").detail.contains("at most"));
    }

    #[test]
    fn a_name_cannot_leave_its_string() {
        let document = read("\"a\\\"b\\u0000\": \"\\\\\\n\"\n");
        let value: Value = serde_json::from_str(&document.json).expect("JSON");
        assert_eq!(value, json!({"a\"b\u{0}": "\\\n"}));
    }
}
