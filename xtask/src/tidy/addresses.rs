//! The public addresses of the project stand in `packaging/names.toml`, so that one change moves them. Elsewhere there is
//! neither a host of that file, nor an address of the open internet that names the project.

use std::collections::BTreeSet;

use super::{Tree, assert_none};
use crate::packages::names::{FILE, parse};

/// Begins an address, in pages, scripts and lists of images.
const BEGINNINGS: [&str; 6] = ["http://", "https://", "ssh://", "git@", "docker.io/", "ghcr.io/"];

/// Names that lead nowhere, or to this machine (RFC 2606 and 6761).
const RESERVED: [&str; 9] = [
    "example",
    "test",
    "invalid",
    "localhost",
    "example.com",
    "example.org",
    "example.net",
    "127.0.0.1",
    "::1",
];

#[test]
fn public_addresses_stand_in_one_file() {
    assert_none("addresses (xtask/src/tidy/addresses.rs)", &complaints(&Tree::real()));
}

fn complaints(tree: &Tree) -> Vec<String> {
    let Some(names) = tree.text(FILE) else { return vec![format!("there is no {FILE}")] };
    let hosts = match parse(names) {
        Ok(values) => values.values().filter_map(|value| host_of(value)).map(str::to_owned).collect(),
        Err(why) => return vec![format!("{FILE}:{why}")],
    };
    let mut found = Vec::new();
    for (path, text) in tree.iter().filter(|(path, _)| *path != FILE) {
        for (index, line) in text.lines().enumerate() {
            if let Some(what) = complaint(&hosts, line) {
                found.push(format!("{path}:{}: {what}: it belongs to {FILE}", index + 1));
            }
        }
    }
    found
}

/// The host of an address, of an image or of a mail address.
fn host_of(value: &str) -> Option<&str> {
    let rest = value.split_once("://").map_or(value, |(_, rest)| rest);
    let rest = rest.split_once('@').map_or(rest, |(_, rest)| rest);
    let host = rest.split(['/', ':']).next().filter(|host| host.contains('.'))?;
    // A file name or a sentence is none.
    let is_host = host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-'));
    (is_host && host != "Cargo.toml").then_some(host)
}

fn complaint(hosts: &BTreeSet<String>, line: &str) -> Option<String> {
    if let Some(host) = hosts.iter().find(|host| line.contains(host.as_str())) {
        return Some(format!("the host {host}"));
    }
    let starts = BEGINNINGS.iter().flat_map(|beginning| line.match_indices(beginning));
    let addresses = starts.filter_map(|(start, beginning)| Some((beginning, line.get(start..)?)));
    let is_end = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '<' | '>' | ')' | '|' | '\\');
    addresses
        .filter_map(|(beginning, rest)| Some((beginning, rest.split(is_end).next()?)))
        .find(|(beginning, address)| is_ours(beginning, address))
        .map(|(_, address)| format!("the public address {address}"))
}

/// Names the project, and leads to the internet.
fn is_ours(beginning: &str, address: &str) -> bool {
    let rest = address.strip_prefix(beginning).unwrap_or(address);
    let is_address = beginning.contains("://") || beginning == "git@";
    let authority = if is_address { rest.split('/').next().unwrap_or_default() } else { beginning };
    let host = authority.rsplit('@').next().unwrap_or_default();
    let host = host.trim_start_matches('[').split([']']).next().unwrap_or_default();
    let host = if host.starts_with("::") { host } else { host.split(':').next().unwrap_or_default() };
    let is_public = host.contains('.') && !host.contains(['{', '$', '*']);
    let is_reserved = RESERVED
        .iter()
        .any(|name| host.strip_suffix(name).is_some_and(|before| before.is_empty() || before.ends_with('.')));
    address.to_ascii_lowercase().contains("sarsen") && is_public && !is_reserved
}

#[test]
fn it_bites() {
    let names = "a = \"Cargo.toml\"\nb = \"https://x.example/sarsen\"\nc = \"images.x.example/s\"\nd = \"p@mail.example\"";
    let at = |host: &str| format!("curl https://{host}/sarsen/install.sh | sh");
    const OURS: &str = concat!("get.sarsen", ".dev");
    let image = concat!("image: ghcr", ".io/someone/sarsen");
    let tree = Tree::of(&[
        (FILE, names),
        ("README.md", &format!("{}\n{}", at("x.example"), at("sarsen.test"))),
        ("docs/a.md", &format!("{}\n{}\n", at(OURS), at("127.0.0.1:7070"))),
        ("docs/b.md", &at("localhost").replace("install", "Cargo.toml")),
        ("deploy/c.yaml", image),
        ("d.txt", "write to p@mail.example, or see https://sqlite.org/x and the program sarsen"),
    ]);
    let found = complaints(&tree);
    let places: Vec<&str> = found.iter().filter_map(|line| line.split(": it").next()).collect();
    assert_eq!(
        places,
        [
            "README.md:1: the host x.example",
            "d.txt:1: the host mail.example",
            &format!("deploy/c.yaml:1: the public address {}", concat!("ghcr", ".io/someone/sarsen")),
            &format!("docs/a.md:1: the public address https://{OURS}/sarsen/install.sh"),
        ]
    );
    assert_eq!(complaints(&Tree::default()), [format!("there is no {FILE}")]);
}
