//! Which crate may import which, read from the manifests: most rules name crates that must not be imported.

use super::{Tree, assert_none, manifest};

/// Our crates, and which of ours each may name.
const OURS: [(&str, &[&str]); 16] = [
    // It does no I/O and knows no product: tests, the load generator and clients of streams use it.
    ("browser", &[]),
    // What is measured, and the text that shows it.
    ("metrics", &[]),
    ("store", &["metrics", "store-derive"]),
    // Macros of `store`, which Rust wants in a crate of their own.
    ("store-derive", &[]),
    // Rules for names and e-mail addresses: the domain, the terminal and back ends share them.
    ("text", &[]),
    // The words of pages and mails. It knows no page and no mail.
    ("texts", &["text"]),
    // From the socket to a service: it knows no product.
    ("web", &["metrics"]),
    // What serves one operation. It knows no product and, without its feature `store`, no database.
    ("endpoint", &["metrics", "store", "web"]),
    // The operations of the platform as types. It knows no database, no rules and no server.
    ("api", &[]),
    ("live", &["browser", "endpoint", "metrics", "store", "web"]),
    ("identity", &["store", "text"]),
    // The one way out to other machines, and what is sent there.
    ("outgoing", &["text", "web"]),
    (
        "server",
        &[
            "api", "browser", "endpoint", "identity", "live", "metrics", "outgoing", "store", "text",
            "texts", "web",
        ],
    ),
    ("bench", &["browser"]),
    // It passes `live` and `store` on to back ends of other programs. What it needs itself of the store and the domain
    // comes through the server's re-exports.
    ("sarsen", &["api", "browser", "server", "bench", "live", "store", "text"]),
    // Not shipped: what can damage an installation.
    ("bench-tools", &["browser", "live", "sarsen", "server", "store"]),
];
/// An example sees what a user of the library sees. Their tests use the browser without a screen and the load generator.
const EXAMPLE_MAY_NAME: [&str; 5] = ["live", "store", "text", "browser", "bench"];

/// Crates of others that only some of ours may name, and why.
const RESERVED: [(&[&str], &[&str], &str); 6] = [
    (
        &[
            "rusqlite",
            "libsqlite3-sys",
            "postgres",
            "tokio-postgres",
            "mysql",
            "mysql_common",
            "mysql_async",
            "sqlx",
        ],
        &["store"],
        "only `store` names a database driver",
    ),
    (
        &["axum", "axum-core", "axum-extra"],
        &["endpoint", "live", "server"],
        "only `endpoint`, `live` and `server` name axum",
    ),
    (
        &["hyper", "hyper-util", "http", "http-body", "http-body-util", "cookie", "tower", "tower-http"],
        &["endpoint", "live", "web", "server", "sarsen"],
        "HTTP belongs to `web`, `endpoint`, `live`, `server` and `sarsen` (the load generator speaks it over a bare socket)",
    ),
    (
        &["lettre", "hickory-resolver", "reqwest"],
        &["outgoing"],
        "connections to other machines are opened by `outgoing`, which judges their addresses",
    ),
    (&["maud", "askama"], &["server"], "pages belong to `server`"),
    (&["syn", "quote", "proc-macro2"], &["store-derive"], "the one derive is that of rows"),
];

#[test]
fn a_crate_names_only_what_lies_below_it() {
    assert_none("who may import whom (xtask/src/tidy/imports.rs)", &complaints(&Tree::real()));
}

fn complaints(tree: &Tree) -> Vec<String> {
    let ours: Vec<&str> = OURS.iter().map(|(name, _)| *name).collect();
    let mut found = Vec::new();
    for (path, text) in tree.iter() {
        let Some((place, name)) = place(path) else { continue };
        let allowed = match place {
            "crates" => OURS.iter().find(|(ours, _)| *ours == name).map(|(_, allowed)| *allowed),
            _ => Some(&EXAMPLE_MAY_NAME[..]),
        };
        let Some(allowed) = allowed else {
            found.push(format!("{path}: a new crate; give it a line in OURS and a reason in the design"));
            continue;
        };
        if place == "crates" && manifest::package(text).map(in_short) != Some(name) {
            found.push(format!("{path}: the package is not named like its folder"));
        }
        for dependency in manifest::dependencies(text).into_iter().map(in_short) {
            if ours.contains(&dependency) && dependency != name && !allowed.contains(&dependency) {
                found.push(format!("{path}: `{name}` must not know `{dependency}`"));
            }
            let rule = RESERVED.iter().find(|(reserved, ..)| reserved.contains(&dependency));
            // Those of others are for our crates; an example may choose, but for the database.
            let rule = rule.filter(|(_, holders, _)| place == "crates" || holders.contains(&"store"));
            if let Some((_, holders, why)) = rule
                && !holders.contains(&name)
            {
                found.push(format!("{path}: names `{dependency}`, but {why}"));
            }
        }
    }
    found
}

/// Our packages have a word before their names that registries do not have yet: `sarsen-store` is `store`.
fn in_short(package: &str) -> &str {
    package.strip_prefix("sarsen-").unwrap_or(package)
}

/// `crates/store/Cargo.toml` is ("crates", "store").
fn place(path: &str) -> Option<(&str, &str)> {
    match path.split('/').collect::<Vec<_>>().as_slice() {
        [place @ ("crates" | "examples"), name, "Cargo.toml"] => Some((place, name)),
        _ => None,
    }
}

#[test]
fn it_bites() {
    let tree = Tree::of(&[
        (
            "crates/store/Cargo.toml",
            "[package]\nname = \"sarsen-store\"\n[dependencies]\nrusqlite = \"1\"\nlive.workspace = true",
        ),
        (
            "crates/bench/Cargo.toml",
            "[package]\nname = \"bench\"\n[dev-dependencies]\nserver.workspace = true\nhyper = \"1\"",
        ),
        (
            "crates/sarsen/Cargo.toml",
            "[package]\nname = \"sarsen\"\n[dependencies]\nidentity.workspace = true\naxum = \"1\"",
        ),
        ("crates/extra/Cargo.toml", "[package]\nname = \"extra\""),
        (
            "examples/counters/Cargo.toml",
            "[package]\nname = \"counters\"\n[dependencies]\nlive.workspace = true\naxum = \"1\"\nrusqlite = \"1\"\nserver.workspace = true",
        ),
    ]);
    let found = complaints(&tree).join("\n");
    for expected in [
        "`store` must not know `live`",
        "`bench` must not know `server`",
        "names `hyper`",
        "`sarsen` must not know `identity`",
        "names `axum`, but only `endpoint`, `live` and `server`",
        "crates/extra/Cargo.toml: a new crate",
        "`counters` must not know `server`",
        "examples/counters/Cargo.toml: names `rusqlite`",
    ] {
        assert!(found.contains(expected), "{expected} is not in:\n{found}");
    }
    assert_eq!(found.lines().count(), 8, "{found}");
}
