//! docs/stability.md promises the names of the actions in the audit trail. Its table is exactly what the domain writes: a name
//! that nobody promised, and a promise that nobody keeps, are both found here.

use std::collections::BTreeSet;

use super::{Tree, assert_none};

const PAGE: &str = "docs/stability.md";
const HEADING: &str = "## The audit trail";
const SOURCES: &str = "crates/identity/src/";
/// The server writes one that it has gathered. Most of its texts with a dot name writes, and are no actions.
const SERVER: &str = "crates/server/src/";

/// Actions whose second word comes from a value, so that no text of the sources has them whole.
const MADE_OF_WORDS: [&str; 2] = ["organization.approved", "organization.rejected"];
/// Texts of the same form that are no actions: statistics of writes, columns, files.
const NO_ACTIONS: [&str; 2] = ["device.begin", "common.bin"];

#[test]
fn the_actions_of_the_audit_trail_are_those_that_are_promised() {
    assert_none("actions of the audit trail (xtask/src/tidy/audit_actions.rs)", &complaints(&Tree::real()));
}

fn complaints(tree: &Tree) -> Vec<String> {
    let promised = promised(tree.text(PAGE).unwrap_or_default());
    let sources = tree.rust_files().filter(|(path, _)| path.starts_with(SOURCES));
    let written: BTreeSet<String> = sources.flat_map(|(_, text)| written(text)).collect();
    let is_gathered = |action: &str| {
        let mut sources = tree.rust_files().filter(|(path, _)| path.starts_with(SERVER));
        sources.any(|(_, text)| text.contains(&format!("\"{action}\"")))
    };
    let is_made =
        |action: &str| written.contains(action) || MADE_OF_WORDS.contains(&action) || is_gathered(action);
    let unkept = promised.iter().filter(|action| !is_made(action));
    let unkept = unkept.map(|action| format!("{PAGE}: nothing writes `{action}`"));
    let unsaid = written.iter().filter(|action| !promised.contains(*action));
    unkept.chain(unsaid.map(|action| format!("{PAGE}: `{action}` is written and missing there"))).collect()
}

/// The table: a noun or several in the first column, what was done to them in the second.
fn promised(page: &str) -> BTreeSet<String> {
    let section = page.split_once(HEADING).map_or("", |(_, rest)| rest);
    let section = section.split_once("\n## ").map_or(section, |(section, _)| section);
    let mut actions = BTreeSet::new();
    for line in section.lines().filter(|line| line.starts_with("| `")) {
        let mut cells = line.trim_matches('|').split('|').map(quoted);
        let (nouns, done) = (cells.next().unwrap_or_default(), cells.next().unwrap_or_default());
        actions.extend(nouns.iter().flat_map(|noun| done.iter().map(move |done| format!("{noun}.{done}"))));
    }
    actions
}

/// The words between backticks.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// The texts in code, before its tests, that look like an action.
fn written(text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let texts = lines.flat_map(|line| line.split('"').skip(1).step_by(2));
    texts.filter(|text| is_action(text)).map(str::to_owned).collect()
}

fn is_action(text: &str) -> bool {
    let is_word = |word: &str| word.len() > 2 && word.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    let parts = text.split_once('.');
    parts.is_some_and(|(noun, done)| is_word(noun) && is_word(done)) && !NO_ACTIONS.contains(&text)
}

#[test]
fn it_bites() {
    let page = "## The audit trail\n\n| noun | actions |\n|---|---|\n| `plan`, `user` | `created` `deleted` |\n\n## Next\n| `a` | `b` |";
    let code = "note(tx, \"plan.created\");\nnote(tx, \"user.created\"); note(tx, \"user.seen\");\nnote(\"plan.deleted\");\n\
                #[cfg(test)]\nmod tests { \"user.deleted\" }";
    let tree = Tree::of(&[(PAGE, page), ("crates/identity/src/a.rs", code)]);
    let found = complaints(&tree);
    assert_eq!(
        found,
        [
            format!("{PAGE}: nothing writes `user.deleted`"),
            format!("{PAGE}: `user.seen` is written and missing there"),
        ]
    );
}
