//! Reads a tree completely. serde stops at the first field that does not fit; here that field is noted and repaired in
//! the tree, and the tree is read again, until all fields fit. A request has few fields, and the number of errors is
//! limited, so the repetition costs little; a request without an error is read once.

use super::FieldErrors;
use super::node::{Node, child};
use super::reader::{Kind, Mismatch, Reader, alternatives};
use serde::de::DeserializeOwned;

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

/// Notes what does not fit and puts something there that fits. False if it cannot.
fn repair(tree: &mut Node, mismatch: Mismatch, errors: &mut FieldErrors) -> bool {
    let (mut node, mut path) = (tree, String::new());
    let mut steps = mismatch.steps;
    // The field itself is unknown: the way ends at its object.
    let unknown = if matches!(mismatch.kind, Kind::Unknown(_)) && !steps.is_empty() {
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
        (Kind::Unknown(_), _) => {
            errors.add("invalid", path, "the value is not valid");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FieldErrors, Unreadable, read_object, read_query};
    use serde::Deserialize;
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
}
