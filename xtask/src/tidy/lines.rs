//! What no line may hold. The words are written in two parts here, so that this file obeys them too.

use super::{Tree, assert_none};

/// Left over from work in progress; in Rust files only, but for the last.
const UNFINISHED: [&str; 4] = [
    concat!("dbg", "!("),
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
    concat!("#[ign", "ore]"), // `#[ignore = "why"]` is fine
];
const FIX_LATER: &str = concat!("FIX", "ME");

/// Somebody's machine.
const PRIVATE_FOLDERS: [&str; 3] = [concat!("/", "root/"), concat!("/", "home/"), concat!("/", "work/")];

/// Where packages come from is a setting of the machine, not of the tree.
const REGISTRIES: [&str; 11] = [
    concat!("registry.npm", "js."),
    concat!("npm", "js.com"),
    concat!("yarn", "pkg.com"),
    concat!("pypi", ".org"),
    concat!("python", "hosted.org"),
    concat!("//", "crates.io"),
    concat!("index.", "crates.io"),
    concat!("static.", "crates.io"),
    concat!("deb.", "debian.org"),
    concat!("proxy.", "golang.org"),
    concat!("repo1.", "maven.org"),
];

#[test]
fn nothing_unfinished_is_left_and_no_line_knows_a_machine() {
    assert_none("lines (xtask/src/tidy/lines.rs)", &complaints(&Tree::real()));
}

fn complaints(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in tree.iter() {
        for (index, line) in text.lines().enumerate() {
            if let Some(what) = complaint(path, line) {
                found.push(format!("{path}:{}: {what}", index + 1));
            }
        }
        if path.ends_with(".rs") {
            found.extend(forgotten(path, text));
        }
    }
    found
}

/// Ignored tests that nothing runs: the soak finds its tests by their names, and what only another test starts says so.
fn forgotten(path: &str, text: &str) -> Vec<String> {
    const IGNORED: &str = concat!("#[ign", "ore = ");
    let mut lines = text.lines().enumerate();
    let mut found = Vec::new();
    while let Some((index, line)) = lines.next() {
        let is_ignored = line.trim_start().starts_with(IGNORED) && !line.contains("\"not a test: ");
        let test = is_ignored.then(|| lines.find_map(|(_, line)| line.split_once("fn "))).flatten();
        if test.is_some_and(|(_, name)| !name.starts_with("soak_")) {
            found.push(format!(
                "{path}:{}: the soak runs ignored tests whose names begin with `soak_`; a reason that begins with \
                 `not a test: ` is for what another test or a person starts",
                index + 1
            ));
        }
    }
    found
}

fn complaint(path: &str, line: &str) -> Option<String> {
    let rust = path.ends_with(".rs");
    if let Some(word) = UNFINISHED.iter().find(|word| rust && line.contains(**word)) {
        return Some(format!("`{word}` is left over, or gives no reason"));
    }
    if line.contains(FIX_LATER) {
        return Some(format!("`{FIX_LATER}`: do it now, or file an issue"));
    }
    if let Some(folder) = PRIVATE_FOLDERS.iter().find(|folder| holds_path(line, folder)) {
        return Some(format!("a path of one machine: {folder}…"));
    }
    if let Some(host) = REGISTRIES.iter().find(|host| line.contains(**host)) {
        return Some(format!("the address of a package registry: {host}"));
    }
    let lock = path.ends_with("package-lock.json");
    (lock && line.contains("\"resolved\"")).then(|| "a download address; see .npmrc beside it".into())
}

/// An absolute path begins here: what stands before it is no part of a longer path or address.
fn holds_path(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(start, _)| {
        let before = line.get(..start).and_then(|text| text.chars().next_back());
        !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '}' | ')' | '~'))
    })
}

#[test]
fn it_bites() {
    let line = |path: &str, parts: &[&str]| complaint(path, &parts.concat());
    assert!(line("a.rs", &["  db", "g!(x)"]).is_some());
    assert!(line("a.md", &["call db", "g!(x)"]).is_none());
    assert!(line("a.rs", &["#[ign", "ore]"]).is_some());
    assert!(line("a.rs", &["#[ign", "ore = \"needs a network\"]"]).is_none());
    assert!(line("a.sh", &["# FIX", "ME later"]).is_some());
    assert!(line("a.toml", &["path = \"/ho", "me/ada/x\""]).is_some());
    assert!(line("a.md", &["https://example.com/ho", "me/ada"]).is_none());
    assert!(line("a.js", &["'https://pypi", ".org/simple'"]).is_some());
    assert!(line("x/package-lock.json", &["\"resolved\": \"x\""]).is_some());
}

#[test]
fn a_test_that_the_soak_does_not_find_is_a_complaint() {
    let ignored =
        |name: &str| ["#[ign", "ore = \"long: the soak runs it\"]\nasync fn ", name, "() {"].concat();
    assert_eq!(forgotten("a.rs", &ignored("many_streams")).len(), 1);
    assert!(forgotten("a.rs", &ignored("soak_many_streams")).is_empty());
}
