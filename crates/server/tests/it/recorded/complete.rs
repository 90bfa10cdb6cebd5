//! No route and no error code without a recording. Both are read from the snapshots, so that these tests need no server.

use crate::tenancy::routes;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const ERRORS: &str = include_str!("../../../../../docs/errors.md");

/// Codes that one request cannot get, and why.
const NOT_BY_ONE_REQUEST: [(&str, &str); 14] = [
    ("body_timeout", "ten seconds of silence: http/connections.rs"),
    ("overloaded", "a full queue: full_lane.rs"),
    ("too_slow", "a slow database: a unit test of web/error.rs"),
    ("outcome_unknown", "a lost commit: the tests of the store"),
    ("signed_out", "two requests at once: sessions.rs"),
    ("too_many_invitations", "a hundred writes: invitations.rs"),
    ("too_many_billing_customers", "a hundred writes: billing/mappings.rs"),
    ("too_many_prices", "a thousand writes: billing/mappings.rs"),
    ("too_many_subscriptions", "two hundred writes"),
    ("too_many_plans", "two hundred writes"),
    ("too_many_keys", "a hundred writes: tenancy/api_keys.rs"),
    ("plans_too_large", "a megabyte of plans"),
    ("server_error", "a defect: a unit test of web/middleware.rs"),
    ("temporarily_unavailable", "a million device flows: device/codes.rs"),
];

/// The recordings, by area.
fn recordings() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/recorded/snapshots");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the recordings") {
        let path = entry.expect("a file").path();
        if path.extension().is_some_and(|extension| extension == "snap") {
            let area =
                path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.rsplit("__").next());
            found.push((area.unwrap_or_default().to_owned(), std::fs::read_to_string(&path).expect("text")));
        }
    }
    found
}

/// Method, path without query, and status of what was recorded.
fn answers(text: &str) -> Vec<(String, String, u16)> {
    let mut found = Vec::new();
    let mut asked: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        let mut words = line.split([' ', '?']);
        let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let is_method =
            ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE"].contains(&first);
        match first {
            _ if is_method && second.starts_with('/') => asked.push((first.to_owned(), second.to_owned())),
            "<" => {
                let status = second.trim_end_matches(';').parse();
                if let Ok(status) = status {
                    found.extend(asked.drain(..).map(|(method, path)| (method, path, status)));
                }
            }
            _ => {}
        }
    }
    found
}

/// Whether a path is one of a route.
fn is_of(path: &str, route: &str) -> bool {
    let (path, route): (Vec<&str>, Vec<&str>) = (path.split('/').collect(), route.split('/').collect());
    path.len() == route.len()
        && path.iter().zip(&route).all(|(part, name)| name.starts_with('{') || part == name)
}

#[test]
fn every_route_of_the_server_is_recorded() {
    let all: Vec<_> = recordings().iter().flat_map(|(_, text)| answers(text)).collect();
    let has = |method: &str, route: &str, wanted: fn(u16) -> bool| {
        all.iter().any(|(known, path, status)| known == method && is_of(path, route) && wanted(*status))
    };
    let mut missing = Vec::new();
    for (method, route) in server::router().listed() {
        // A document may be recorded by its head.
        let heads = if *method == http::Method::GET { "HEAD" } else { method.as_str() };
        if !has(method.as_str(), route, |_| true) && !has(heads, route, |_| true) {
            missing.push(format!("{method} {route}: no recorded request"));
        }
    }
    for (method, route) in routes("/api/") {
        for (what, wanted) in
            [("success", (|status| status < 300) as fn(u16) -> bool), ("refusal", |status| status >= 400)]
        {
            if !has(method, route, wanted) && route != "/api/live" {
                missing.push(format!("{method} {route}: no recorded {what}"));
            }
        }
    }
    assert!(missing.is_empty(), "record them in server/tests/it/recorded: {missing:#?}");
}

/// The sources of the crate `live`, without its tests.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true if path.ends_with("tests") => {}
            true => found.extend(sources(&path)),
            false => found.push(path),
        }
    }
    found
}

#[test]
fn every_route_of_a_back_end_is_recorded() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../live/src");
    let mut known = BTreeSet::new();
    for path in sources(&folder) {
        let text = std::fs::read_to_string(&path).expect("text");
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            let after = line.split_once(".route(\"").and_then(|(_, rest)| rest.split_once('"'));
            known.extend(after.map(|(route, _)| route.to_owned()));
        }
    }
    assert!(known.len() >= 9, "{known:?}");
    let recorded = recordings().into_iter().filter(|(area, _)| area == "back_end");
    let all: Vec<_> = recorded.flat_map(|(_, text)| answers(&text)).collect();
    let missing: Vec<_> =
        known.iter().filter(|route| !all.iter().any(|(_, path, _)| is_of(path, route))).collect();
    assert!(missing.is_empty(), "record them in server/tests/it/recorded/back_end.rs: {missing:?}");
}

#[test]
fn every_error_that_one_request_can_get_is_recorded() {
    let all: String = recordings().into_iter().map(|(_, text)| text).collect();
    let (mut missing, mut needless) = (Vec::new(), Vec::new());
    let before = ERRORS.split("## Pages").next().unwrap_or_default();
    for line in before.lines().filter(|line| line.starts_with('|')) {
        for code in
            line.split('`').skip(1).step_by(2).take(1).filter(|code| !["code", "error"].contains(code))
        {
            // A code is a member of a document, or a parameter of an address.
            let is_recorded = [format!("\"{code}\""), format!("error={code}")]
                .iter()
                .any(|text| all.contains(text.as_str()));
            let excused = NOT_BY_ONE_REQUEST.iter().any(|(known, _)| *known == code);
            match (is_recorded, excused) {
                (false, false) => missing.push(code),
                (true, true) => needless.push(code),
                _ => {}
            }
        }
    }
    assert!(missing.is_empty(), "record them in server/tests/it/recorded, or say why not: {missing:?}");
    assert!(needless.is_empty(), "these are recorded: {needless:?}");
}

#[test]
fn there_are_some_four_hundred() {
    let counted = recordings().into_iter().map(|(area, text)| {
        let line =
            text.lines().find_map(|line| line.strip_suffix(" requests")).unwrap_or_default().to_owned();
        line.parse::<usize>().unwrap_or_else(|_| panic!("{area} begins with its number: {line}"))
    });
    let count: usize = counted.sum();
    assert!(count >= 400, "{count}");
}
