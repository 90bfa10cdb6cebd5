//! The layers of `store`: the core does not name a back end, and a back end names neither another one nor the handle.

use super::modules::code;
use super::{Tree, assert_none};

const SOURCES: &str = "crates/store/src/";

/// The folders of the back ends, and which of the others each may name.
const BACK_ENDS: [(&str, &[&str]); 4] =
    [("sqlite", &[]), ("remote", &[]), ("postgres", &["remote"]), ("mysql", &["remote"])];

/// What lies above the back ends: these files may name them, and they may not name these.
const ABOVE: [&str; 7] = ["backup", "open", "store", "reads", "transfer", "fault_injection", "testing"];

/// The files of the core that may name a back end, and why.
const MAY_NAME: [(&str, &str); 4] = [
    ("backup.rs", "a backup is a SQLite file"),
    ("open.rs", "chooses the back end"),
    ("transfer.rs", "reads the schema's tables off a SQLite database in memory"),
    ("lib.rs", "declares the modules"),
];

#[test]
fn the_core_of_the_store_names_no_back_end() {
    assert_none("layers of store (xtask/src/tidy/layers.rs)", &complaints(&Tree::real()));
}

fn complaints(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in tree.rust_files() {
        let Some(file) = path.strip_prefix(SOURCES) else { continue };
        for module in named(&code(text)) {
            if let Some(why) = complaint(file, module) {
                found.push(format!("{path}: names `crate::{module}`; {why}"));
            }
        }
    }
    found
}

/// Why this file must not name that module of the crate's root.
fn complaint(file: &str, module: &str) -> Option<&'static str> {
    let folder = file.split_once('/').map_or("", |(folder, _)| folder);
    let is_back_end = BACK_ENDS.iter().any(|(name, _)| *name == module);
    if let Some((own, allowed)) = BACK_ENDS.iter().find(|(name, _)| *name == folder) {
        if is_back_end && module != *own && !allowed.contains(&module) {
            return Some("back ends do not know each other");
        }
        return ABOVE.contains(&module).then_some("that lies above the back ends");
    }
    let may = ABOVE.contains(&folder) || MAY_NAME.iter().any(|(name, _)| *name == file);
    (is_back_end && !may).then_some("the core knows no back end; use a trait of `engine.rs`")
}

/// The modules that follow `crate::` (alone, or in braces).
fn named(code: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (start, path) in code.match_indices("crate::") {
        let Some(rest) = code.get(start + path.len()..) else { continue };
        match rest.strip_prefix('{') {
            Some(group) => found.extend(members(group)),
            None => found.push(first_word(rest)),
        }
    }
    found
}

/// The first words of the members of `a::b, c::{d, e}, f}`.
fn members(group: &str) -> Vec<&str> {
    let (mut found, mut depth, mut start) = (Vec::new(), 0, 0);
    for (place, letter) in group.char_indices() {
        if (letter == ',' || letter == '}') && depth == 0 {
            found.extend(group.get(start..place).map(|member| first_word(member.trim_start())));
            start = place + 1;
        }
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            _ => {}
        }
    }
    found
}

fn first_word(text: &str) -> &str {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next().unwrap_or_default()
}

#[test]
fn it_bites() {
    let tree = Tree::of(&[
        (
            "crates/store/src/cache.rs",
            "// crate::postgres\nlet a = \"crate::mysql // \"; let b = crate::mysql::X;",
        ),
        ("crates/store/src/queue.rs", "use crate::{Error, options::{A, sqlite}, postgres, job::remote};"),
        ("crates/store/src/open.rs", "use crate::{mysql, postgres, sqlite};"),
        ("crates/store/src/engine.rs", "use crate::remote::Replicas;"),
        ("crates/store/src/testing/mod.rs", "use crate::postgres::A;"),
        ("crates/store/src/postgres/mod.rs", "use crate::remote::{self, A};\nuse crate::store::Store;"),
        ("crates/store/src/sqlite/mod.rs", "use crate::{Error, remote};"),
        ("crates/identity/src/lib.rs", "use crate::postgres;"),
    ]);
    let found = complaints(&tree);
    let places: Vec<&str> = found.iter().filter_map(|line| line.split(';').next()).collect();
    assert_eq!(
        places,
        [
            "crates/store/src/cache.rs: names `crate::mysql`",
            "crates/store/src/engine.rs: names `crate::remote`",
            "crates/store/src/postgres/mod.rs: names `crate::store`",
            "crates/store/src/queue.rs: names `crate::postgres`",
            "crates/store/src/sqlite/mod.rs: names `crate::remote`",
        ]
    );
}
