//! Keys of changes are made in one place for each table and column, so that a command and a query that mean the same
//! rows name the same key.

use super::{Tree, assert_none};
use std::collections::BTreeMap;

/// What makes a key; the first texts that follow name it.
const MADE_BY: [&str; 2] = ["Key::row(", "Key::table("];
/// The folder whose modules own tables. No other sources make keys.
const OWNERS: &str = "crates/identity/src/";
const OTHERS: [&str; 2] = ["crates/server/src/", "crates/sarsen/src/"];

#[test]
fn each_key_is_made_in_one_place() {
    assert_none("keys of changes (xtask/src/tidy/keys.rs)", &complaints(&Tree::real()));
}

fn complaints(tree: &Tree) -> Vec<String> {
    let mut made: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let mut found = Vec::new();
    for (path, text) in tree.rust_files() {
        let keys = keys(text);
        if path.starts_with(OWNERS) {
            keys.into_iter().for_each(|key| made.entry(key).or_default().push(path));
        } else if OTHERS.iter().any(|folder| path.starts_with(folder)) && !keys.is_empty() {
            found.push(format!("{path}: makes the key {}; call the table's module of identity", keys[0]));
        }
    }
    let several = made.into_iter().filter(|(_, paths)| paths.len() > 1);
    found.extend(several.map(|(key, paths)| format!("the key {key} is made in {}", paths.join(" and "))));
    found
}

/// The keys that this source makes: the table, and the column if there is one.
fn keys(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for maker in MADE_BY {
        for arguments in text.split(maker).skip(1) {
            let words = arguments.split('"').skip(1).step_by(2);
            let words: Vec<&str> = words.take(if maker == MADE_BY[0] { 2 } else { 1 }).collect();
            found.push(words.join("."));
        }
    }
    found
}

#[test]
fn a_key_that_is_made_twice_or_elsewhere_is_found() {
    let tree = Tree::of(&[
        ("crates/identity/src/users.rs", r#"Key::row("users", "id", id) Key::row("users", "email", "x")"#),
        ("crates/identity/src/grants.rs", r#"Key::row("users", "id", "") Key::table("users")"#),
        ("crates/server/src/api/users.rs", r#"Key::table("plans")"#),
        ("crates/server/tests/it/a.rs", r#"Key::table("plans")"#),
    ]);
    assert_eq!(
        complaints(&tree),
        [
            "crates/server/src/api/users.rs: makes the key plans; call the table's module of identity",
            "the key users.id is made in crates/identity/src/grants.rs and crates/identity/src/users.rs",
        ]
    );
}
