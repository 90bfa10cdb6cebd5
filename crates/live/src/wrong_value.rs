//! Says what is wrong with a value that a caller sent, in words that need no Rust: what serde found, where, and what would be
//! right.

use crate::Problem;
use serde::de::DeserializeOwned;
use serde_json::error::Category;

/// The most of a caller's value that an error repeats, in characters.
const SHOWN_MAX: usize = 60;

/// Reads a JSON body.
pub(crate) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    if body.is_empty() {
        return Err(Problem::invalid("", "The body is empty. Send JSON."));
    }
    let mut reader = serde_json::Deserializer::from_slice(body);
    let read = serde_path_to_error::deserialize(&mut reader)
        .map_err(|error| problem("The body", &error.path().to_string(), error.inner()))?;
    reader.end().map(|()| read).map_err(|error| problem("The body", ".", &error))
}

/// The problem with a value. `whole` names what was read, such as "The body"; `path` is where in it the error is, as
/// `serde_path_to_error` writes it.
pub(crate) fn problem(whole: &str, path: &str, error: &serde_json::Error) -> Problem {
    let (text, position) =
        (error.to_string(), format!(" at line {} column {}", error.line(), error.column()));
    let text = text.strip_suffix(&position).unwrap_or(&text);
    if error.classify() != Category::Data {
        let (line, column) = (error.line(), error.column());
        let detail = format!("{whole} is not valid JSON: {text}, in line {line}, column {column}.");
        return Problem::invalid("", detail);
    }
    let at = &shortened(if path == "." { "" } else { path });
    if let Some(name) = text.strip_prefix("missing field ").and_then(unquoted) {
        let field = joined(at, name);
        return Problem::invalid(&field, format!("`{field}` is missing."));
    }
    if let Some(name) = text.strip_prefix("duplicate field ").and_then(unquoted) {
        let field = joined(at, name);
        return Problem::invalid(&field, format!("`{field}` is there twice."));
    }
    let subject = if at.is_empty() { whole.to_owned() } else { format!("`{at}`") };
    Problem::invalid(at, format!("{subject} {}.", what(text)))
}

/// What is wrong, as what follows its name.
fn what(text: &str) -> String {
    let parts = |kind: &str| text.strip_prefix(kind)?.rsplit_once(", expected ");
    if let Some((found, expected)) = parts("invalid type: ").or_else(|| parts("invalid value: ")) {
        return format!("must be {}, not {}", expectation(expected), shown(found));
    }
    if let Some((found, expected)) = parts("unknown variant ") {
        return format!("must be {expected}, not {}", shortened(found));
    }
    if let Some((length, expected)) = parts("invalid length ") {
        if expected.starts_with("struct ") {
            return "must be an object, not an array".to_owned();
        }
        let size = ["a tuple of size ", "an array of length "];
        return match size.iter().find_map(|kind| expected.strip_prefix(kind)) {
            Some(size) => format!("must be an array of length {size}, not {length}"),
            None => format!("must be {expected}, and its length is {length}"),
        };
    }
    let text = text.trim_end_matches('.');
    if let Some((name, expected)) =
        text.strip_prefix("unknown field `").and_then(|rest| rest.split_once("`, "))
    {
        return format!("is not valid: unknown field `{}`, {expected}", shortened(name));
    }
    format!("is not valid: {text}")
}

/// A value of a type of Rust, in words.
pub(crate) fn expectation(expected: &str) -> &str {
    match expected {
        "i8" => "a whole number from -128 to 127",
        "i16" => "a whole number from -32768 to 32767",
        "i32" => "a whole number from -2147483648 to 2147483647",
        "i64" | "i128" | "isize" => "a whole number",
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "u128" | "usize" => "a whole number, 0 or more",
        "a nonzero u32" => "a whole number from 1 to 4294967295",
        "a nonzero u64" => "a whole number, 1 or more",
        "f32" | "f64" => "a number",
        "bool" | "a boolean" => "true or false",
        "a borrowed string" | "string" => "a string",
        "a map" => "an object",
        "a sequence" => "an array",
        expected if expected.starts_with("struct ") => "an object",
        expected => expected,
    }
}

fn shown(found: &str) -> String {
    match found {
        "map" => "an object".to_owned(),
        "sequence" => "an array".to_owned(),
        found => {
            let kinds = ["string ", "integer ", "floating point ", "boolean ", "character "];
            shortened(kinds.iter().find_map(|kind| found.strip_prefix(kind)).unwrap_or(found))
        }
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn unquoted(text: &str) -> Option<&str> {
    text.strip_prefix('`')?.strip_suffix('`')
}

fn joined(at: &str, name: &str) -> String {
    if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only its errors are of interest")]
    struct Sent {
        id: i64,
        age: Option<u8>,
        share: Option<f64>,
        is_open: Option<bool>,
        kind: Option<Kind>,
        inner: Option<Inner>,
        list: Option<Vec<i64>>,
        pair: Option<(i64, i64)>,
        name: Option<String>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Kind {
        Small,
        Large,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its errors are of interest")]
    struct Inner {
        text: String,
    }

    /// The field and the detail.
    fn read(body: &str) -> (String, String) {
        let mut reader = serde_json::Deserializer::from_str(body);
        let error = serde_path_to_error::deserialize::<_, Sent>(&mut reader).expect_err(body);
        let problem = problem("The body", &error.path().to_string(), error.inner());
        (problem.field.unwrap_or_default(), problem.detail)
    }

    #[test]
    fn an_error_says_where_and_what_would_be_right() {
        let long = format!(r#"{{"id": "{}"}}"#, "x".repeat(5000));
        let cut = format!("`id` must be a whole number, not \"{}….", "x".repeat(59));
        let tried = [
            (r#"{"id": "1"}"#, "id", r#"`id` must be a whole number, not "1"."#),
            (&long, "id", &cut),
            (r#"{"id": null}"#, "id", "`id` must be a whole number, not null."),
            (r#"{"id": 1.5}"#, "id", "`id` must be a whole number, not `1.5`."),
            (r#"{"id": 1, "age": 300}"#, "age", "`age` must be a whole number from 0 to 255, not `300`."),
            (r#"{"id": 1, "share": true}"#, "share", "`share` must be a number, not `true`."),
            (r#"{"id": 1, "is_open": {}}"#, "is_open", "`is_open` must be true or false, not an object."),
            (r#"{"id": 1, "kind": "big"}"#, "kind", "`kind` must be `small` or `large`, not `big`."),
            (r#"{"id": 1, "list": [1, "2"]}"#, "list[1]", r#"`list[1]` must be a whole number, not "2"."#),
            (r#"{"id": 1, "list": {}}"#, "list", "`list` must be an array, not an object."),
            (r#"{"id": 1, "pair": [1]}"#, "pair", "`pair` must be an array of length 2, not 1."),
            (r#"{"id": 1, "name": 5}"#, "name", "`name` must be a string, not `5`."),
            (r#"{"id": 1, "inner": []}"#, "inner", "`inner` must be an object, not an array."),
            (r#"{"id": 1, "inner": {}}"#, "inner.text", "`inner.text` is missing."),
            (r#"{"id": 1, "id": 2}"#, "id", "`id` is there twice."),
            ("{}", "id", "`id` is missing."),
            ("5", "", "The body must be an object, not `5`."),
            ("{", "", "The body is not valid JSON: EOF while parsing an object, in line 1, column 1."),
        ];
        for (body, field, detail) in tried {
            assert_eq!(read(body), (field.to_owned(), detail.to_owned()), "{body}");
        }
        let (field, detail) = read(r#"{"id": 1, "inner": {"text": "a", "txt": "b"}}"#);
        assert_eq!(field, "inner.txt");
        assert_eq!(detail, "`inner.txt` is not valid: unknown field `txt`, expected `text`.");
    }
}
