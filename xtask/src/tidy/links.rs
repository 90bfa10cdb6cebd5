//! The links between our Markdown pages lead to files, folders and headings that exist.

use super::{Tree, assert_none};

#[test]
fn links_between_pages_lead_somewhere() {
    assert_none("a link of a page leads nowhere", &broken(&Tree::real()));
}

fn broken(tree: &Tree) -> Vec<String> {
    let pages = tree.iter().filter(|(path, _)| path.ends_with(".md"));
    pages
        .flat_map(|(path, text)| {
            let prose = without_blocks(text);
            let wrong = links(&prose).into_iter().filter(|link| !leads_somewhere(tree, path, link));
            wrong.map(|link| format!("{path}: {link}")).collect::<Vec<_>>()
        })
        .collect()
}

/// The text without its fenced blocks.
fn without_blocks(text: &str) -> String {
    let mut fenced = false;
    let lines = text.lines().filter(|line| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        !fenced && !is_fence
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The targets in `[text](target)`, but for those on other sites.
fn links(text: &str) -> Vec<&str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains("://") && !target.contains(char::is_whitespace)).collect()
}

fn leads_somewhere(tree: &Tree, page: &str, link: &str) -> bool {
    let (file, heading) = link.split_once('#').map_or((link, None), |(file, heading)| (file, Some(heading)));
    let target = if file.is_empty() { page.to_owned() } else { resolved(page, file) };
    match (tree.text(&target), heading) {
        (Some(text), Some(heading)) => headings(text).any(|known| known == heading),
        (Some(_), None) => true,
        (None, _) => {
            let folder = format!("{}/", target.trim_end_matches('/'));
            heading.is_none() && tree.iter().any(|(path, _)| path.starts_with(&folder))
        }
    }
}

/// A relative address from the folder of a page.
fn resolved(page: &str, relative: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in relative.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

/// The anchors that GitHub gives to headings.
fn headings(text: &str) -> impl Iterator<Item = String> {
    let titles = text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#'));
    titles.map(|title| {
        let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
        let kept: String = title.trim().chars().filter(kept).collect();
        kept.to_lowercase().replace(' ', "-")
    })
}

#[test]
fn it_bites() {
    let page = "# A page\n[a](../README.md) [b](b.md#two-words) [c](#a-page) [d](sub) [e](https://example.com/x)\n\
                [f](missing.md) [g](b.md#three) [h](#other)\n```\n[i](nowhere.md)\n```\n";
    let tree = Tree::of(&[
        ("README.md", "# R\n"),
        ("docs/a.md", page),
        ("docs/b.md", "## Two `words`\n"),
        ("docs/sub/c.md", "# C\n"),
    ]);
    assert_eq!(broken(&tree), ["docs/a.md: missing.md", "docs/a.md: b.md#three", "docs/a.md: #other"]);
}
