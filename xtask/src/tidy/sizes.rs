//! The shape of a Rust file: it begins by saying what it is for, and it is not a book.

use super::{Tree, assert_none};

const SOURCE_LINES_MAX: usize = 700;

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
fn it_bites() {
    let long = "//! x\n".repeat(SOURCE_LINES_MAX + 1);
    let tree = Tree::of(&[
        ("crates/a/src/lib.rs", "mod b;"),
        ("crates/a/src/b.rs", &long),
        ("crates/a/build.rs", "fn main() {}"),
        ("crates/a/tests/fixtures/x.rs", "fn main() {}"),
    ]);
    assert_eq!(without_header(&tree), ["crates/a/src/lib.rs"]);
    assert_eq!(too_long(&tree), ["crates/a/src/b.rs: 701"]);
}
