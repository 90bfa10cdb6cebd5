//! Who names whom inside a crate: no large circle of files, and what lies below knows nothing of what lies above it.

use super::modules::{self, Arrows};
use super::{Tree, assert_none};
use std::collections::{BTreeMap, BTreeSet};

/// Files that belong together may name each other. A circle of more files than this has parts that could be read alone.
const FILES_MAX: usize = 5;

/// A larger circle: where it is, which files it has at most, and why it stands.
struct Named {
    sources: &'static str,
    files: &'static [&'static str],
    why: &'static str,
}

const NAMED: [Named; 4] = [
    Named {
        sources: "crates/live/src/",
        files: &[
            "account.rs",
            "app.rs",
            "auth/mod.rs",
            "auth/token.rs",
            "backend.rs",
            "background/effects.rs",
            "background/lease.rs",
            "background/mod.rs",
            "background/reader.rs",
            "background/repeated.rs",
            "background/tasks.rs",
            "caller.rs",
            "context.rs",
            "described/mod.rs",
            "engine.rs",
            "extract.rs",
            "frame.rs",
            "given.rs",
            "group.rs",
            "http/calls.rs",
            "http/canary.rs",
            "http/explain.rs",
            "http/health.rs",
            "http/live.rs",
            "http/mod.rs",
            "http/streams.rs",
            "http/tickets.rs",
            "http/unread.rs",
            "idempotent.rs",
            "members.rs",
            "once.rs",
            "openapi.rs",
            "query.rs",
            "run_queue.rs",
            "serve.rs",
            "stream/mod.rs",
            "stream/sending.rs",
            "stream/subscription.rs",
            "typescript.rs",
        ],
        why: "The engine, its groups and its streams name each other, and the app all of them. They part when the states of the engine do",
    },
    Named {
        sources: "crates/server/src/",
        files: &[
            "api/users/mod.rs",
            "api/users/password_link.rs",
            "api/users/sign_in_link.rs",
            "app.rs",
            "events/bodies.rs",
            "events/frame.rs",
            "events/hub.rs",
            "events/streams.rs",
            "web/administration.rs",
            "web/auth.rs",
            "web/idempotency.rs",
        ],
        why: "App has the streams of events, whose bodies are the accounts that the handlers of users show",
    },
    Named {
        sources: "crates/server/src/",
        files: &[
            "pages/browser.rs",
            "pages/language.rs",
            "pages/respond.rs",
            "pages/sentence.rs",
            "pages/views/consent.rs",
            "pages/views/field.rs",
            "pages/views/parts.rs",
            "pages/views/problem.rs",
        ],
        why: "An error page is a page in the language of a browser, with its cookies",
    },
    Named {
        sources: "crates/store/src/",
        files: &[
            "postgres/address.rs",
            "postgres/change_log.rs",
            "postgres/cluster.rs",
            "postgres/connection.rs",
            "postgres/epochs.rs",
            "postgres/notify.rs",
            "postgres/tx_mode.rs",
        ],
        why: "A connection to PostgreSQL carries its epoch, its log and its cluster, each of which asks by a connection",
    },
];

/// A file, or a folder with a slash at its end, the files or folders that it must not reach, also not through others, and why.
struct Below {
    sources: &'static str,
    what: &'static str,
    never: &'static [&'static str],
    why: &'static str,
}

const IDENTITY: &str = "crates/identity/src/";

const BELOW: [Below; 6] = [
    Below {
        sources: IDENTITY,
        what: "audit.rs",
        never: &["audit_trail.rs", "administrators.rs", "organizations.rs", "users.rs"],
        why: "every noun writes the log; the list with its names is `audit_trail.rs`",
    },
    Below {
        sources: IDENTITY,
        what: "users.rs",
        never: &["user_search.rs", "user_suspensions.rs", "user_deletions.rs"],
        why: "their keys are in `account_keys.rs`, the terms of a search in `user_terms.rs`",
    },
    Below {
        sources: IDENTITY,
        what: "organizations.rs",
        never: &["administrators.rs", "organization_decisions.rs", "organization_deletions.rs"],
        why: "what platform owners decide is `organization_decisions.rs`",
    },
    Below {
        sources: IDENTITY,
        what: "program_scopes.rs",
        never: &["api_keys.rs", "clients/", "links.rs", "programs.rs"],
        why: "keys and clients are stored with these scopes; `programs.rs` checks them",
    },
    Below {
        sources: IDENTITY,
        what: "sealed_column.rs",
        never: &["sealed.rs", "billing/", "idempotent_writes.rs", "keys.rs"],
        why: "each of them describes its columns with it; `sealed.rs` lists them",
    },
    Below {
        sources: IDENTITY,
        what: "billing/connections.rs",
        never: &["billing/mod.rs", "billing/events.rs", "billing/removal.rs", "billing/subscriptions.rs"],
        why: "events, prices and states belong to a connection; `removal.rs` deletes them with it",
    },
];

#[test]
fn files_name_only_what_lies_below_them() {
    assert_none("who names whom (xtask/src/tidy/circles.rs)", &complaints(&Tree::real(), &NAMED, &BELOW));
}

fn complaints(tree: &Tree, named: &[Named], below: &[Below]) -> Vec<String> {
    let mut found = Vec::new();
    let mut used = BTreeSet::new();
    let arrows = all_arrows(tree);
    for (sources, arrows) in &arrows {
        for circle in circles(arrows).into_iter().filter(|circle| circle.len() > FILES_MAX) {
            let is_known = |known: &Named| {
                known.sources == *sources && circle.iter().all(|file| known.files.contains(file))
            };
            match named.iter().position(is_known) {
                Some(known) => drop(used.insert(known)),
                None => found.push(format!(
                    "{sources}: {} files are a circle: {}",
                    circle.len(),
                    within(arrows, &circle)
                )),
            }
        }
    }
    for (_, known) in named.iter().enumerate().filter(|(place, _)| !used.contains(place)) {
        found.push(format!(
            "{}: no circle has the files of the name \"{}\" any more; remove it",
            known.sources, known.why
        ));
    }
    for Below { sources, what, never, why } in below {
        let Some(arrows) = arrows.get(*sources) else { continue };
        for from in arrows.keys().filter(|file| is_in(file, what)) {
            for way in never.iter().filter_map(|never| way(arrows, from, never)) {
                found.push(format!("{sources}{}: {why}", way.join(" → ")));
            }
        }
    }
    found
}

/// The arrows of each crate, by its sources.
fn all_arrows(tree: &Tree) -> BTreeMap<String, Arrows<'_>> {
    let crates = tree.folders("crates/").into_iter().map(|name| format!("crates/{name}/src/"));
    crates
        .chain(["xtask/src/".to_owned()])
        .map(|sources| (sources.clone(), modules::arrows(tree, &sources)))
        .collect()
}

/// The files that reach each other, in groups of two or more.
fn circles<'a>(arrows: &Arrows<'a>) -> Vec<BTreeSet<&'a str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        arrows.keys().map(|from| (*from, reached(arrows, from))).collect();
    let mut found: Vec<BTreeSet<&str>> = Vec::new();
    for (from, to) in &reached {
        if to.contains(from) && !found.iter().any(|circle| circle.contains(from)) {
            found.push(
                to.iter()
                    .filter(|to| reached.get(**to).is_some_and(|back| back.contains(from)))
                    .copied()
                    .collect(),
            );
        }
    }
    found
}

/// The files that a file names, and those that they name, and so on.
fn reached<'a>(arrows: &Arrows<'a>, from: &str) -> BTreeSet<&'a str> {
    let (mut found, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(file) = next.pop() {
        for to in arrows.get(file).into_iter().flatten() {
            if found.insert(*to) {
                next.push(to);
            }
        }
    }
    found
}

/// A shortest way from a file to one that it must not reach.
fn way<'a>(arrows: &Arrows<'a>, from: &'a str, never: &str) -> Option<Vec<&'a str>> {
    let (mut seen, mut ways) = (BTreeSet::from([from]), std::collections::VecDeque::from([vec![from]]));
    while let Some(way) = ways.pop_front() {
        for to in way.last().and_then(|last| arrows.get(last)).into_iter().flatten() {
            let longer = [way.as_slice(), &[*to]].concat();
            if is_in(to, never) {
                return Some(longer);
            }
            if seen.insert(to) {
                ways.push_back(longer);
            }
        }
    }
    None
}

fn is_in(file: &str, place: &str) -> bool {
    if place.ends_with('/') { file.starts_with(place) } else { file == place }
}

/// What each file of a circle names of it.
fn within(arrows: &Arrows<'_>, circle: &BTreeSet<&str>) -> String {
    let line = |file: &str| {
        let names: Vec<&str> = arrows[file].intersection(circle).copied().collect();
        format!("\n    {file} names {}", names.join(", "))
    };
    circle.iter().map(|file| line(file)).collect()
}

#[test]
fn it_bites() {
    let tree = Tree::of(&[
        ("crates/a/src/lib.rs", "mod one; mod two; pub use one::A;"),
        // One to six are a circle: in braces, by a path, through a name that is passed on, and by a child's name.
        ("crates/a/src/one.rs", "use crate::{Error, two::{self, B as C}};\npub struct A;"),
        ("crates/a/src/two.rs", "fn b() { super::three::c() }"),
        ("crates/a/src/three/mod.rs", "mod four;\npub use four::D;\nfn c() { four::d() }"),
        ("crates/a/src/three/four.rs", "use crate::five::E;"),
        ("crates/a/src/five.rs", "impl crate::six::F for G {}"),
        ("crates/a/src/six.rs", "use crate::A;"),
        // Names no file: a comment, literals, tests, and what it passes on of its child.
        (
            "crates/a/src/seven/mod.rs",
            "// crate::one\nmod eight;\npub use eight::X;\nfn a() -> (&str, char, &str) { (\"\n crate::one\", '\"', r#\"crate::one\"#) }\n\
             #[cfg(test)]\nmod tests {\n    use crate::one;\n}",
        ),
        ("crates/a/src/seven/eight.rs", "use super::X;"),
        ("crates/a/src/seven/tests.rs", "use crate::one;"),
        ("crates/a/src/nine.rs", "use crate::seven::X;"),
        ("crates/b/src/x.rs", "use crate::y::Y;"),
        ("crates/b/src/y.rs", "use crate::x::X;"),
    ]);
    let arrows = modules::arrows(&tree, "crates/a/src/");
    assert!(!arrows.contains_key("seven/mod.rs") && !arrows.contains_key("seven/tests.rs"), "{arrows:?}");
    assert_eq!(arrows["nine.rs"], BTreeSet::from(["seven/eight.rs"]));
    assert_eq!(circles(&arrows).len(), 1);

    let found = complaints(&tree, &[], &[]);
    assert_eq!(found.len(), 1, "{found:?}");
    for line in
        ["crates/a/src/: 6 files are a circle", "three/mod.rs names three/four.rs", "six.rs names one.rs"]
    {
        assert!(found[0].contains(line), "{line} is not in {}", found[0]);
    }

    let name = |files| Named { sources: "crates/a/src/", files, why: "they are one" };
    let six = &["one.rs", "two.rs", "three/mod.rs", "three/four.rs", "five.rs", "six.rs"];
    assert_eq!(complaints(&tree, &[name(six)], &[]), Vec::<String>::new());
    let five = complaints(&tree, &[name(&six[..5])], &[]);
    assert!(
        five.len() == 2 && five[1].contains("no circle has the files of the name \"they are one\""),
        "{five:?}"
    );

    let below = |what, never| Below { sources: "crates/a/src/", what, never, why: "it is below" };
    let cut = complaints(&tree, &[name(six)], &[below("three/", &["one.rs", "seven/"])]);
    assert_eq!(
        cut,
        [
            "crates/a/src/three/four.rs → five.rs → six.rs → one.rs: it is below",
            "crates/a/src/three/mod.rs → three/four.rs → five.rs → six.rs → one.rs: it is below",
        ]
    );
}
