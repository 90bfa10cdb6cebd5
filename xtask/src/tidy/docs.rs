//! The commands in the README and in `docs/` exist, and ARCHITECTURE.md is a map of the whole tree.

use super::{Tree, assert_none, manifest};
use crate::VERBS;

#[test]
fn the_commands_in_the_readme_exist() {
    assert_none("README.md", &readme(&Tree::real()));
}

#[test]
fn the_commands_in_the_docs_exist() {
    let tree = Tree::real();
    let pages = tree.iter().filter(|(path, _)| path.starts_with("docs/") && path.ends_with(".md"));
    let found: Vec<String> = pages
        .flat_map(|(path, text)| {
            unknown(&tree, text).into_iter().map(move |wrong| format!("{path}: {wrong}"))
        })
        .collect();
    assert_none("a command in the docs", &found);
}

#[test]
fn the_map_names_every_folder() {
    assert_none("ARCHITECTURE.md", &architecture(&Tree::real()));
}

fn readme(tree: &Tree) -> Vec<String> {
    let Some(text) = tree.text("README.md") else { return vec!["there is none".into()] };
    if commands(text).is_empty() {
        return vec!["holds no command: how does a newcomer begin?".into()];
    }
    unknown(tree, text)
}

/// The commands of a page that do not exist.
fn unknown(tree: &Tree, text: &str) -> Vec<String> {
    commands(text)
        .iter()
        .filter_map(|words| Some(format!("`{}`: {}", words.join(" "), wrong(tree, words)?)))
        .collect()
}

/// The lines of `sh` blocks that call `cargo` or `sarsen`, as words.
fn commands(text: &str) -> Vec<Vec<&str>> {
    let fenced = text.split("```").skip(1).step_by(2).filter(|block| block.starts_with("sh\n"));
    let lines = fenced.flat_map(|block| block.lines().skip(1)).map(str::trim);
    let is_setting = |word: &str| word.contains('=') && !word.starts_with('-');
    let words = lines.map(|line| {
        let line = line.strip_prefix("$ ").unwrap_or(line).split(" #").next().unwrap_or_default();
        line.split_whitespace().skip_while(|word| is_setting(word)).collect::<Vec<_>>()
    });
    let ours = |word: &str| word == "cargo" || word.rsplit('/').next() == Some("sarsen");
    words.filter(|words| words.first().is_some_and(|word| ours(word))).collect()
}

/// What is wrong with a command, as far as the tree can tell.
fn wrong(tree: &Tree, words: &[&str]) -> Option<String> {
    match words {
        ["cargo", "xtask", verb, ..] => (!VERBS.contains(verb)).then(|| "no such xtask verb".into()),
        ["cargo", rest @ ..] => {
            let (cargo, program) = match rest.iter().position(|word| *word == "--") {
                Some(at) => (rest.get(..at)?, rest.get(at + 1..)?),
                None => (rest, &[][..]),
            };
            let package = after(cargo, &["-p", "--package"]);
            let path = after(cargo, &["--path"]);
            let runs_sarsen = cargo.first() == Some(&"run") && package.is_none_or(|name| name == "sarsen");
            if let Some(name) = package.filter(|name| !has_package(tree, name)) {
                return Some(format!("no package `{name}`"));
            }
            if let Some(path) = path.filter(|path| !tree.holds(&format!("{path}/Cargo.toml"))) {
                return Some(format!("no package in `{path}`"));
            }
            if runs_sarsen { subcommand(tree, program) } else { None }
        }
        [_sarsen, rest @ ..] => subcommand(tree, rest),
        [] => None,
    }
}

fn after<'a>(words: &[&'a str], flags: &[&str]) -> Option<&'a str> {
    let at = words.iter().position(|word| flags.contains(word))?;
    words.get(at + 1).copied()
}

fn has_package(tree: &Tree, name: &str) -> bool {
    let mut manifests = tree.iter().filter(|(path, _)| path.ends_with("Cargo.toml"));
    manifests.any(|(_, text)| manifest::package(text) == Some(name))
}

/// A subcommand is a variant (`Demo`, `Demo(…)`) or a quoted name in the sources of the binary.
fn subcommand(tree: &Tree, words: &[&str]) -> Option<String> {
    let name = words.first().filter(|word| !word.starts_with('-'))?;
    let variant: String = name.split('-').map(capitalised).collect();
    let is_variant = |line: &str| {
        let rest = line.trim_start().strip_prefix(&variant);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['(', ',', ' ']))
    };
    let quoted = format!("\"{name}\"");
    let mut sources = tree.rust_files().filter(|(path, _)| path.starts_with("crates/sarsen/src/"));
    let known = sources.any(|(_, text)| text.contains(&quoted) || text.lines().any(is_variant));
    (!known).then(|| format!("no subcommand `{name}`"))
}

fn capitalised(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(chars).collect()
}

fn architecture(tree: &Tree) -> Vec<String> {
    let Some(text) = tree.text("ARCHITECTURE.md") else { return vec!["there is none".into()] };
    let top = tree.folders("").into_iter().map(str::to_owned);
    let crates = tree.folders("crates/").into_iter().map(|name| format!("crates/{name}"));
    let missing = top.chain(crates).filter(|folder| !names(text, folder));
    missing.map(|folder| format!("does not name the folder `{folder}/`")).collect()
}

/// Whether a text names a folder: `crates/store`, or in a drawing of the tree, `store/`.
fn names(text: &str, folder: &str) -> bool {
    let last = folder.rsplit('/').next().unwrap_or(folder);
    let starts_here = |start: usize| {
        let before = text.get(..start).and_then(|text| text.chars().next_back());
        !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '/' | '-' | '_' | '.'))
    };
    let drawn = format!("{last}/");
    text.match_indices(&drawn).any(|(start, _)| starts_here(start))
        || (folder.contains('/') && text.contains(folder))
        || text.contains(&format!("`{last}`"))
}

#[test]
fn it_bites() {
    let readme_text = "Try `sarsen nothing`.\n```sh\n$ cargo run --release -- demo --json\ncargo xtask dance\n\
                       sarsen frolic\nRUST_LOG=info sarsen serve  # a comment\ncargo test -p ghost\ncurl x\n```\n";
    let tree = Tree::of(&[
        ("README.md", readme_text),
        ("ARCHITECTURE.md", "`crates/`\n  sarsen/  the binary\n"),
        ("crates/sarsen/Cargo.toml", "[package]\nname = \"sarsen\""),
        ("crates/sarsen/src/main.rs", "enum Verb {\n    Demo(demo::Args),\n    Serve,\n}"),
        ("crates/store/src/lib.rs", ""),
        ("docs/a.md", ""),
    ]);
    let found = readme(&tree).join("\n");
    for expected in ["no such xtask verb", "no subcommand `frolic`", "no package `ghost`"] {
        assert!(found.contains(expected), "{expected} is not in:\n{found}");
    }
    assert_eq!(found.lines().count(), 3, "{found}");
    assert_eq!(
        architecture(&tree),
        ["does not name the folder `docs/`", "does not name the folder `crates/store/`"]
    );
    assert_eq!(readme(&Tree::default()), ["there is none"]);
    assert_eq!(architecture(&Tree::default()), ["there is none"]);
}
