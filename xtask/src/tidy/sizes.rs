//! The shape of a Rust file: it begins by saying what it is for, and it is not a book.

use super::{Tree, assert_none};
use std::collections::BTreeMap;

const SOURCE_LINES_MAX: usize = 700;
const EXAMPLE_LINES_MAX: usize = 299;

#[test]
fn every_file_begins_with_what_it_is_for() {
    assert_none("the first line of a Rust file is its header, `//! …`", &without_header(&Tree::real()));
}

#[test]
fn no_source_file_is_a_book() {
    let rule = format!("a file of crates/*/src has {SOURCE_LINES_MAX} lines at most");
    assert_none(&rule, &too_long(&Tree::real()));
}

fn without_header(tree: &Tree) -> Vec<String> {
    let exempt = |path: &str| path.contains("tests/fixtures/") || path.ends_with("build.rs");
    let headless = |text: &str| !text.trim_start().starts_with("//!");
    let files = tree.rust_files().filter(|(path, text)| !exempt(path) && headless(text));
    files.map(|(path, _)| path.to_owned()).collect()
}

fn too_long(tree: &Tree) -> Vec<String> {
    let sources = tree.rust_files().filter(|(path, _)| path.starts_with("crates/") && path.contains("/src/"));
    let sized = sources.map(|(path, text)| (path, text.lines().count()));
    sized
        .filter(|(_, lines)| *lines > SOURCE_LINES_MAX)
        .map(|(path, lines)| format!("{path}: {lines}"))
        .collect()
}

#[test]
fn an_example_stays_small() {
    let rule = format!("the Rust of an example has {EXAMPLE_LINES_MAX} lines at most");
    assert_none(&rule, &long_examples(&Tree::real()));
}

/// Counted without imports, comments and blank lines.
fn long_examples(tree: &Tree) -> Vec<String> {
    let mut lines = BTreeMap::<&str, usize>::new();
    for (path, text) in tree.rust_files() {
        let Some((name, file)) = path.strip_prefix("examples/").and_then(|rest| rest.split_once('/')) else {
            continue;
        };
        if file.starts_with("src/") {
            let is_code =
                |line: &&str| !line.is_empty() && !line.starts_with("//") && !line.starts_with("use ");
            *lines.entry(name).or_default() += text.lines().map(str::trim_start).filter(is_code).count();
        }
    }
    let long = lines.into_iter().filter(|(_, lines)| *lines > EXAMPLE_LINES_MAX);
    long.map(|(name, lines)| format!("examples/{name}: {lines}")).collect()
}

#[test]
fn it_bites() {
    let long = "//! x\n".repeat(SOURCE_LINES_MAX + 1);
    let code = format!("//! x\n{}", "x\n".repeat(EXAMPLE_LINES_MAX));
    let tree = Tree::of(&[
        ("crates/a/src/lib.rs", "mod b;"),
        ("crates/a/src/b.rs", &long),
        ("crates/a/build.rs", "fn main() {}"),
        ("crates/a/tests/fixtures/x.rs", "fn main() {}"),
        ("examples/a/src/lib.rs", &code),
        ("examples/a/src/main.rs", "//! x\nuse x;\n\nfn main() {}\n"),
        ("examples/b/src/lib.rs", &code),
    ]);
    assert_eq!(without_header(&tree), ["crates/a/src/lib.rs"]);
    assert_eq!(too_long(&tree), ["crates/a/src/b.rs: 701"]);
    assert_eq!(long_examples(&tree), ["examples/a: 300"]);
}
