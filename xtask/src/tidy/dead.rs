//! No dead file: each Rust file is the root of a crate or is reached from one by `mod`.

use std::collections::BTreeSet;

use super::{Tree, assert_none, manifest};

#[test]
fn every_rust_file_is_compiled() {
    assert_none("Rust files that no crate reaches", &complaints(&Tree::real()));
}

fn complaints(tree: &Tree) -> Vec<String> {
    let mut waiting: Vec<(String, bool)> = roots(tree).into_iter().map(|path| (path, true)).collect();
    let mut reached = BTreeSet::new();
    while let Some((path, is_root)) = waiting.pop() {
        let Some(text) = tree.text(&path) else { continue };
        if reached.insert(path.clone()) {
            waiting.extend(children(tree, &path, text, is_root).into_iter().map(|child| (child, false)));
        }
    }
    // What `sarsen new` writes is compiled by `cargo xtask soak templates`.
    let is_text =
        |path: &str| path.contains("tests/fixtures/") || path.starts_with("crates/sarsen/templates/");
    let dead = |path: &str| !is_text(path) && !reached.contains(path);
    tree.rust_files().filter(|(path, _)| dead(path)).map(|(path, _)| path.to_owned()).collect()
}

/// What cargo compiles by itself: by its place beside a manifest, or because the manifest says so.
fn roots(tree: &Tree) -> Vec<String> {
    let mut roots = Vec::new();
    for (path, text) in tree.iter().filter(|(_, text)| manifest::package(text).is_some()) {
        let Some(folder) = path.strip_suffix("Cargo.toml") else { continue };
        let named = text.lines().filter_map(|line| line.trim().strip_prefix("path = \"")?.strip_suffix('"'));
        roots.extend(named.map(|file| format!("{folder}{file}")));
        let by_place = tree.rust_files().map(|(path, _)| path);
        let by_place = by_place.filter(|path| path.strip_prefix(folder).is_some_and(is_root_by_place));
        roots.extend(by_place.map(str::to_owned));
    }
    roots
}

fn is_root_by_place(path: &str) -> bool {
    match path.split('/').collect::<Vec<_>>().as_slice() {
        ["build.rs"] | ["src", "lib.rs" | "main.rs"] => true,
        ["src", "bin", rest @ ..] | ["tests" | "examples" | "benches", rest @ ..] => {
            matches!(rest, [_] | [_, "main.rs"])
        }
        _ => false,
    }
}

/// Files that a file names with `mod x;`, `#[path = "…"]` or `include!("…")`.
fn children(tree: &Tree, path: &str, text: &str, is_root: bool) -> Vec<String> {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = file.trim_end_matches(".rs");
    let beside = if is_root || stem == "mod" { folder.to_owned() } else { format!("{folder}/{stem}") };
    let mut found = Vec::new();
    // Folders of the inline modules that we are inside of, with their indentation.
    let mut inline: Vec<(usize, &str)> = Vec::new();
    for line in text.lines() {
        let depth = line.len() - line.trim_start().len();
        let line = line.trim();
        if !line.is_empty() {
            inline.retain(|(outer, _)| *outer < depth);
        }
        let quoted = || line.split('"').nth(1).map(|name| format!("{folder}/{name}"));
        if line.starts_with("#[path") || line.contains("include!(\"") {
            found.extend(quoted());
        }
        let Some(name) = after_mod(line) else { continue };
        if let Some(name) = name.strip_suffix(';') {
            let within: String = inline.iter().map(|(_, outer)| format!("{outer}/")).collect();
            let place = format!("{beside}/{within}{name}");
            found.extend([format!("{place}.rs"), format!("{place}/mod.rs")]);
        } else if let Some(name) = name.strip_suffix(" {") {
            inline.push((depth, name));
        }
    }
    found.retain(|path| tree.holds(path));
    found
}

/// What follows `mod` in `pub(crate) mod name;`.
fn after_mod(line: &str) -> Option<&str> {
    let line = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(')')?.1,
        Some(rest) => rest,
        None => line,
    };
    line.trim_start().strip_prefix("mod ")
}

#[test]
fn it_bites() {
    let tree = Tree::of(&[
        ("a/Cargo.toml", "[package]\nname = \"a\"\n[[bin]]\npath = \"src/other.rs\""),
        (
            "a/src/lib.rs",
            "pub mod b;\npub(crate) mod c;\nmod inner {\n    mod deep;\n}\n#[path = \"odd.rs\"]\nmod strange;",
        ),
        ("a/src/b.rs", "mod d;"),
        ("a/src/b/d.rs", ""),
        ("a/src/c/mod.rs", "mod e;"),
        ("a/src/c/e.rs", ""),
        ("a/src/inner/deep.rs", ""),
        ("a/src/odd.rs", ""),
        ("a/src/other.rs", ""),
        ("a/src/bin/tool.rs", ""),
        ("a/tests/all/main.rs", "mod story;"),
        ("a/tests/all/story.rs", ""),
        ("a/tests/fixtures/any.rs", ""),
        ("crates/sarsen/templates/live/src/any.rs", ""),
        ("a/src/d.rs", ""),
        ("a/src/b/forgotten.rs", ""),
    ]);
    assert_eq!(complaints(&tree), ["a/src/b/forgotten.rs", "a/src/d.rs"]);
}
