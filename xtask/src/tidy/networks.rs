//! Which network an address is from is said in one place, `crates/web/src/network.rs`. A counter with a key of its own would
//! forget the /48, or take an IPv4 address in IPv6 notation for another client.

use super::{Tree, assert_none};

/// The crates that count clients.
const SOURCES: [&str; 4] =
    ["crates/server/src/", "crates/live/src/", "crates/web/src/", "crates/sarsen/src/"];

/// What takes an address apart, and what counts by one.
const FORBIDDEN: [&str; 14] = [
    "cidr::prefix",
    ".octets()",
    ".segments()",
    ".to_bits()",
    "Addr::from_bits",
    "to_canonical()",
    "to_ipv4",
    "to_ipv6_mapped",
    "Map<IpAddr",
    "Map<(IpAddr",
    "Set<IpAddr",
    "Set<(IpAddr",
    "network: IpAddr",
    "site: IpAddr",
];

/// The files that may, and why.
const MAY: [(&str, &str); 5] = [
    ("crates/web/src/network.rs", "it is the place"),
    ("crates/web/src/cidr.rs", "blocks of addresses, which the operator lists"),
    ("crates/web/src/forwarded.rs", "finds the client's address behind proxies"),
    ("crates/web/src/address_sources.rs", "counts requests of proxies and of private addresses"),
    ("crates/web/src/request_log.rs", "writes an address"),
];

#[test]
fn one_type_says_which_network_an_address_is_from() {
    assert_none("networks (xtask/src/tidy/networks.rs)", &complaints(&Tree::real()));
}

fn complaints(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    let is_read = |path: &str| SOURCES.iter().any(|folder| path.starts_with(folder));
    for (path, text) in tree.rust_files().filter(|(path, _)| is_read(path)) {
        if MAY.iter().any(|(file, _)| *file == path) {
            continue;
        }
        let code = text.lines().take_while(|line| line.trim() != "#[cfg(test)]");
        for (index, line) in code.enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")) {
            if let Some(word) = FORBIDDEN.iter().find(|word| line.contains(**word)) {
                found.push(format!(
                    "{path}:{}: `{word}`; take web::network::Network and count what it says",
                    index + 1
                ));
            }
        }
    }
    found
}

#[test]
fn each_exception_is_needed() {
    let tree = Tree::real();
    for (file, _) in MAY {
        let text = tree.text(file).unwrap_or_default();
        assert!(FORBIDDEN.iter().any(|word| text.contains(word)), "{file} needs no exception");
    }
}

#[test]
fn it_bites() {
    let tree = Tree::of(&[
        ("crates/server/src/limits/a.rs", "struct A(HashMap<IpAddr, usize>);\n// HashMap<IpAddr, usize>"),
        ("crates/live/src/b.rs", "let [a, b, ..] = address.octets();"),
        ("crates/web/src/c.rs", "use super::cidr::prefix;\nstruct A { network: IpAddr }"),
        ("crates/sarsen/src/d.rs", "#[cfg(test)]\nmod tests { fn a(a: IpAddr) { a.to_canonical(); } }"),
        ("crates/web/src/network.rs", "use super::cidr::prefix;"),
        ("crates/bench/src/e.rs", "address.octets()"),
    ]);
    let found = complaints(&tree);
    let places: Vec<&str> = found.iter().filter_map(|line| line.split(';').next()).collect();
    assert_eq!(
        places,
        [
            "crates/live/src/b.rs:1: `.octets()`",
            "crates/server/src/limits/a.rs:1: `Map<IpAddr`",
            "crates/web/src/c.rs:1: `cidr::prefix`",
            "crates/web/src/c.rs:2: `network: IpAddr`",
        ]
    );
}
