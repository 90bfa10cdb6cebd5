//! The description of the API that clients know: `document.json`, which is part of the tree. A change of the program that
//! would break a client of it fails a test, by the rules of `rules.rs`; any other change is kept by `cargo xtask api keep`.
//!
//! Until the first release `api keep` also keeps a change that breaks clients, if CHANGELOG.md names it.

mod compare;
mod rules;
mod samples;

use super::DOCUMENT;
use compare::breaks;
use serde_json::Value;
use std::path::PathBuf;

/// Set by `cargo xtask api keep`.
const KEEP: &str = "SARSEN_API_KEEP";

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/openapi/kept/document.json")
}

fn kept() -> Value {
    let text = std::fs::read_to_string(path()).expect("the kept document");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn the_api_is_the_kept_one() {
    let (kept, mut problem) = (kept(), String::new());
    for found in breaks(&kept, &DOCUMENT) {
        problem.push_str(&format!("- {found}\n"));
    }
    assert!(
        problem.is_empty(),
        "This breaks clients of the kept API (crates/server/src/openapi/kept):\n{problem}Make it compatible. Until the first \
         release you may also name it in CHANGELOG.md, as `METHOD /path` or `Schema.field`, and run `cargo xtask api keep`."
    );
    assert!(
        kept == *DOCUMENT,
        "The API has changed, and no client breaks: run `cargo xtask api keep`, and read what it changes."
    );
}

/// Keeps the API of this program.
#[test]
#[ignore = "not a test: `cargo xtask api keep` starts it"]
fn keep() {
    if std::env::var_os(KEEP).is_none() {
        return;
    }
    let changelog = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../CHANGELOG.md");
    let changelog = std::fs::read_to_string(changelog).expect("the changelog");
    let breaks = breaks(&kept(), &DOCUMENT);
    let unnamed: String = breaks
        .iter()
        .filter(|found| !found.is_named_in(&changelog))
        .map(|found| format!("- {found}\n"))
        .collect();
    assert!(
        unnamed.is_empty(),
        "CHANGELOG.md names none of these, as `METHOD /path` or `Schema.field`:\n{unnamed}Nothing was kept."
    );
    let mut text = String::new();
    print(&DOCUMENT, 0, &mut text);
    text.push('\n');
    std::fs::write(path(), text).expect("writes the document");
}

/// JSON in lines; what fits into one stands on one.
fn print(value: &Value, depth: usize, text: &mut String) {
    let short = value.to_string();
    let parts: Vec<(String, &Value)> = match value {
        Value::Object(fields) if short.len() + depth > 118 => {
            fields.iter().map(|(name, value)| (format!("{name:?}: "), value)).collect()
        }
        Value::Array(items) if short.len() + depth > 118 => {
            items.iter().map(|item| (String::new(), item)).collect()
        }
        _ => return text.push_str(&short),
    };
    let (open, close) = if value.is_array() { ('[', ']') } else { ('{', '}') };
    text.push(open);
    for (index, (name, part)) in parts.into_iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        text.push_str(&format!("{comma}\n{}{name}", " ".repeat(depth + 1)));
        print(part, depth + 1, text);
    }
    text.push_str(&format!("\n{}{close}", " ".repeat(depth)));
}
