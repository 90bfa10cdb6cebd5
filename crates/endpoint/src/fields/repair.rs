//! Reads a tree completely. serde stops at the first field that does not fit; here that field is noted and repaired in
//! the tree, and the tree is read again, until all fields fit. A request has few fields, and the number of errors is
//! limited, so the repetition costs little; a request without an error is read once.

use super::FieldErrors;
use super::node::{Node, child};
use super::reader::{Kind, Mismatch, Reader, alternatives};
use serde::de::{DeserializeOwned, Deserializer};

/// The value, with placeholders where a field is noted as wrong. `None` if that is impossible; then an error is noted.
pub(super) fn read<T: DeserializeOwned>(tree: &mut Node, errors: &mut FieldErrors) -> Option<T> {
    loop {
        let mismatch = match T::deserialize(Reader(tree)) {
            Ok(value) => return Some(value),
            Err(mismatch) => mismatch,
        };
        let is_repaired = repair(tree, mismatch, errors);
        if !is_repaired || errors.is_full() {
            return None;
        }
    }
}

/// Reads a value, and notes each field that its type does not have.
pub(super) fn without_unknown<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    value: D,
    errors: &mut FieldErrors,
) -> Result<T, D::Error> {
    let mut unknown = |at: serde_ignored::Path<'_>| {
        let problem = "there is no such field; leave it out, or correct its name";
        errors.note("unknown", path_of(&at), problem);
    };
    serde_ignored::deserialize(value, &mut unknown)
}

fn path_of(at: &serde_ignored::Path<'_>) -> String {
    use serde_ignored::Path::{Map, NewtypeStruct, NewtypeVariant, Root, Seq, Some};
    match at {
        Root => String::new(),
        Map { parent, key } => child(&path_of(parent), key),
        Seq { parent, index } => format!("{}[{index}]", path_of(parent)),
        Some { parent } | NewtypeStruct { parent } | NewtypeVariant { parent } => path_of(parent),
    }
}

/// Notes what does not fit and puts something there that fits. False if it cannot.
fn repair(tree: &mut Node, mismatch: Mismatch, errors: &mut FieldErrors) -> bool {
    let (mut node, mut path) = (tree, String::new());
    let mut steps = mismatch.steps;
    // The field itself is wrong, whatever its value: the way ends at its object.
    let unknown = if matches!(mismatch.kind, Kind::Unknown(_) | Kind::Name { .. }) && !steps.is_empty() {
        Some(steps.remove(0))
    } else {
        None
    };
    for step in steps.into_iter().rev() {
        node = match node {
            Node::Object(fields) if step < fields.len() => {
                let (name, value) = &mut fields[step];
                path = child(&path, name);
                value
            }
            Node::Array(items) if step < items.len() => {
                path = format!("{path}[{step}]");
                &mut items[step]
            }
            // The way leads into a placeholder: nothing better can be put there.
            _ => {
                errors.add("invalid", path, "the value is not valid");
                return false;
            }
        };
    }
    match (mismatch.kind, node) {
        (Kind::Missing(name), Node::Object(fields)) => {
            errors.add("missing", child(&path, name), "the field is required; add it");
            fields.push((name.to_owned(), Node::Placeholder));
            true
        }
        (Kind::Unknown(known), Node::Object(fields)) => {
            let Some(position) = unknown.filter(|position| *position < fields.len()) else { return false };
            let (name, _) = fields.remove(position);
            let problem = match known {
                [] => "unknown; the request has no fields, remove it".to_owned(),
                known => format!("unknown; use {}", alternatives(known)),
            };
            errors.add("unknown", child(&path, &name), &problem);
            true
        }
        (Kind::Name { code, problem }, Node::Object(fields)) => {
            let Some(position) = unknown.filter(|position| *position < fields.len()) else { return false };
            let (name, _) = fields.remove(position);
            errors.add(code, child(&path, &name), &problem);
            true
        }
        (Kind::Value { code, problem }, node) => {
            errors.add(code, path, &problem);
            let was_placeholder = *node == Node::Placeholder;
            *node = Node::Placeholder;
            !was_placeholder
        }
        (Kind::Missing(name), _) => {
            errors.add("missing", child(&path, name), "the field is required; add it");
            false
        }
        (Kind::Unknown(_) | Kind::Name { .. }, _) => {
            errors.add("invalid", path, "the value is not valid");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FieldErrors, Unreadable, read_arguments, read_json, read_object, read_query};
    use serde::Deserialize;
    use serde_json::value::RawValue;
    use std::collections::BTreeMap;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Order {
        item: String,
        count: u8,
        size: Option<Size>,
        #[serde(default)]
        parts: Vec<Part>,
        #[serde(default)]
        weights: BTreeMap<String, serde_json::Number>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Part {
        name: String,
        is_new: bool,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Size {
        Small,
        Large,
    }

    /// The wrong fields of a body, each with its code.
    fn wrong(body: &str) -> Vec<(String, &'static str)> {
        found(read_object::<Order>(body.as_bytes(), |_, _| {}))
    }

    fn found<T: std::fmt::Debug>(read: Result<T, Unreadable>) -> Vec<(String, &'static str)> {
        match read.expect_err("a wrong body") {
            Unreadable::Fields(errors) => errors.into_iter().map(|error| (error.field, error.code)).collect(),
            Unreadable::Syntax(problem) => panic!("{problem}"),
        }
    }

    fn list(expected: &[(&str, &'static str)]) -> Vec<(String, &'static str)> {
        expected.iter().map(|(field, code)| ((*field).to_owned(), *code)).collect()
    }

    #[test]
    fn a_body_that_fits_is_read() {
        let body = br#"{"item": "a", "count": 3, "size": "large", "parts": [{"name": "b", "is_new": true}],
            "weights": {"x": 1.5, "y": -2}}"#;
        let order: Order = read_object(body, |_, _| {}).expect("fits");
        assert_eq!((order.parts[0].name.as_str(), order.parts[0].is_new), ("b", true));
        assert_eq!(order.weights["x"].as_f64(), Some(1.5));
        assert!(matches!((&*order.item, order.count, order.size), ("a", 3, Some(Size::Large))));
        assert!(read_object::<Order>(br#"{"item": "", "count": 0, "size": null}"#, |_, _| {}).is_ok());
        assert!(matches!(
            read_query::<Order>(b"item=a+b&count=7&size=small"),
            Ok(Order { count: 7, size: Some(Size::Small), .. })
        ));
    }

    #[test]
    fn every_field_that_does_not_fit_is_listed() {
        let all = wrong(
            r#"{"count": 300, "size": "huge", "colour": 1, "parts": [{"name": 1}, 2, {"name": "b", "is_new": true, "x": 1}],
                "weights": {"a": "1", "b.c": null, "d": 4}}"#,
        );
        assert_eq!(
            all,
            list(&[
                ("count", "out_of_range"),
                ("size", "not_allowed"),
                ("colour", "unknown"),
                ("parts[0].name", "wrong_type"),
                ("parts[0].is_new", "missing"),
                ("parts[1]", "wrong_type"),
                ("parts[2].x", "unknown"),
                ("weights.a", "wrong_type"),
                ("weights[\"b.c\"]", "wrong_type"),
                ("item", "missing"),
            ])
        );
    }

    #[test]
    fn what_types_do_not_notice_is_listed_too() {
        let all = wrong(
            r#"{"item": "a\u0000", "count": 1, "count": 2, "parts": [{"name": "b", "is_new": false, "name": "c"}]}"#,
        );
        assert_eq!(all, list(&[("count", "repeated"), ("item", "invalid"), ("parts[0].name", "repeated")]));
    }

    #[test]
    fn a_rule_about_a_field_that_could_not_be_read_is_ignored() {
        let rules = |_: &Order, errors: &mut FieldErrors| {
            errors.note("invalid", "item".to_owned(), "use another");
            errors.note("invalid", "parts[0].name".to_owned(), "use another");
            errors.note("invalid", "count".to_owned(), "use another");
        };
        let all = found(read_object(br#"{"item": 1, "count": 1, "parts": [7]}"#, rules));
        assert_eq!(all, list(&[("item", "wrong_type"), ("parts[0]", "wrong_type"), ("count", "invalid")]));
    }

    /// What back ends ask for and the platform does not: variants with content, numbers as keys, any JSON, fields that are unknown though
    /// the type does not refuse them.
    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only whether it is read is of interest")]
    struct Call {
        id: i64,
        #[serde(default)]
        raw: Option<Box<RawValue>>,
        #[serde(default)]
        shape: Option<Shape>,
        #[serde(default)]
        sheet: BTreeMap<u32, Vec<u8>>,
        #[serde(default)]
        inner: Option<Inner>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "snake_case")]
    #[expect(dead_code, reason = "only whether it is read is of interest")]
    enum Shape {
        Point,
        Circle { radius: u8 },
        Name(String),
        Pair(i64, i64),
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only whether it is read is of interest")]
    struct Inner {
        text: String,
    }

    #[test]
    fn arguments_that_fit_are_not_noted_beside_one_that_does_not() {
        for shape in
            [r#""point""#, r#"{"circle": {"radius": 1}}"#, r#"{"name": "a"}"#, r#"{"pair": [1, 2]}"#, "null"]
        {
            let rest = format!(
                r#""shape": {shape}, "sheet": {{"7": [1]}}, "inner": {{"text": "a"}}, "raw": [{{}}]}}"#
            );
            let good = serde_json::from_str(&format!(r#"{{"id": 1, {rest}"#)).expect("JSON");
            assert_eq!(read_arguments::<Call>(&good, |_, _| {}).expect("fits").id, 1);
            let one = format!(r#"{{"id": "1", {rest}"#);
            let wrong = list(&[("id", "wrong_type")]);
            assert_eq!(found(read_json::<Call>(one.as_bytes())), wrong, "{shape}");
            let one = serde_json::from_str(&one).expect("JSON");
            assert_eq!(found(read_arguments::<Call>(&one, |_, _| {})), wrong, "{shape}");
        }
    }

    #[test]
    fn a_number_that_is_too_large_is_told_which_ones_are_not() {
        let read = read_json::<Vec<u8>>(b"[1, 256]");
        let Err(Unreadable::Fields(errors)) = read else { panic!("{read:?}") };
        assert_eq!(errors[0].detail, "256 is out of range; use a whole number from 0 to 255.");
    }

    #[test]
    fn every_argument_that_is_wrong_or_unknown_is_listed() {
        let call = serde_json::json!({
            "id": true, "shape": {"circle": {"radius": 300}}, "sheet": {"a": [], "7": [1, "2"]}, "inner": {"text": "a", "x": 1},
            "more": 1,
        });
        let rules = |_: &Call, errors: &mut FieldErrors| {
            errors.note("invalid", "id".to_owned(), "use another");
            errors.note("invalid", "inner.text".to_owned(), "use another");
        };
        let mut all = found(read_arguments(&call, rules));
        all.sort();
        let expected = list(&[
            ("id", "wrong_type"),
            ("inner.text", "invalid"),
            ("inner.x", "unknown"),
            ("more", "unknown"),
            ("shape.circle.radius", "out_of_range"),
            ("sheet.7[1]", "wrong_type"),
            ("sheet.a", "invalid"),
        ]);
        assert_eq!(all, expected);
    }
}
