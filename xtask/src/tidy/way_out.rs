//! Connections to other machines are opened in one place, `crates/outgoing`, which judges the address. `clippy.toml` in `server` and
//! `outgoing` forbids the functions; this rule reads the names in all that is shipped, also those of other crates' clients.

use super::{Tree, assert_none};

/// What is shipped. Tools for benchmarks and tests talk to what their user names.
const SOURCES: [&str; 9] = [
    "crates/endpoint/src/",
    "crates/identity/src/",
    "crates/live/src/",
    "crates/metrics/src/",
    "crates/outgoing/src/",
    "crates/sarsen/src/",
    "crates/server/src/",
    "crates/text/src/",
    "crates/web/src/",
];

/// What opens a connection, or asks where a name leads.
const FORBIDDEN: [&str; 11] = [
    "TcpStream::connect",
    "TcpSocket::new",
    "UdpSocket::",
    "lookup_host",
    "to_socket_addrs",
    "ureq::",
    "reqwest::",
    "http1::handshake",
    "http2::handshake",
    "rustls_acme::",
    "AsyncSmtpTransport",
];

/// The files that may, and why.
const MAY: [(&str, &str); 10] = [
    ("crates/outgoing/src/connector.rs", "it is the place"),
    ("crates/outgoing/src/names.rs", "resolves names for it"),
    ("crates/live/src/auth/http.rs", "a back end reads the keys of the one issuer that its program names"),
    ("crates/sarsen/src/api_client/http.rs", "a terminal speaks with the server that its user names"),
    ("crates/sarsen/src/api_client/oauth.rs", "names methods of HTTP"),
    ("crates/sarsen/src/commands/restore/rehearsal.rs", "speaks with the server that it started itself"),
    ("crates/sarsen/src/commands/doctor/database.rs", "asks whether the operator's database server answers"),
    ("crates/sarsen/src/tls/acme.rs", "the operator's certificate authority"),
    ("crates/sarsen/src/config/value.rs", "reads URLs"),
    ("crates/sarsen/src/config/issuer.rs", "reads URLs"),
];
/// Files that only name methods of HTTP.
const NAMES_METHODS: &str = "use ureq::http::Method;";

#[test]
fn connections_are_opened_where_addresses_are_judged() {
    assert_none("the way out (xtask/src/tidy/way_out.rs)", &complaints(&Tree::real()));
}

fn complaints(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    let is_read = |path: &str| {
        let is_test = path.ends_with("/tests.rs") || path == "crates/server/src/testing.rs";
        !is_test && SOURCES.iter().any(|folder| path.starts_with(folder))
    };
    for (path, text) in tree.rust_files().filter(|(path, _)| is_read(path)) {
        if MAY.iter().any(|(file, _)| *file == path) {
            continue;
        }
        let code = text.lines().take_while(|line| line.trim() != "#[cfg(test)]");
        let code = code.enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
        for (index, line) in code.filter(|(_, line)| *line != NAMES_METHODS) {
            if let Some(word) = FORBIDDEN.iter().find(|word| line.contains(**word)) {
                found.push(format!(
                    "{path}:{}: `{word}`; connections to other machines are opened by `outgoing`",
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
        (
            "crates/server/src/jobs/a.rs",
            "let socket = TcpStream::connect(place).await?;\n// TcpStream::connect",
        ),
        ("crates/sarsen/src/b.rs", "let page = ureq::get(url).call()?;\nuse ureq::http::Method;"),
        ("crates/identity/src/c.rs", "let places = (host, 25).to_socket_addrs()?;"),
        ("crates/web/src/d.rs", "#[cfg(test)]\nmod tests { fn a() { TcpStream::connect(a); } }"),
        ("crates/outgoing/src/connector.rs", "TcpStream::connect(place)"),
        ("crates/bench/src/e.rs", "TcpStream::connect(place)"),
    ]);
    let found = complaints(&tree);
    assert_eq!(found.len(), 3, "{found:#?}");
}
