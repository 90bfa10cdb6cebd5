//! What a stolen key can do: the rows of `docs/operate/keys.md`, each tried with a key and with a token of a machine client
//! that has that scope alone; and the powers that the page denies.

use super::api_keys::{KEYS, key};
use super::machine_clients::machine_client;
use super::roles::{hire, hired};
use super::{Things, body, is, problem, routes};
use crate::support::*;
use identity::api_keys::SERVICE_SCOPES;
use identity::programs::SCOPES;
use serde_json::{Value, json};
use server::testing::{Answer, Rows, TestBrowser, TestServer};
use std::collections::{BTreeMap, BTreeSet};

const PAGE: &str = include_str!("../../../../../docs/operate/keys.md");
const CLIENTS: &str = "/api/organizations/acme/clients";
const USERS: &str = "/api/organizations/acme/users";
const EVIL: &str = "https://evil.example/cb";

/// The requests of each scope, from the table of the page whose first column has this title.
fn rows(title: &str) -> BTreeMap<&'static str, BTreeSet<(&'static str, &'static str)>> {
    let table = PAGE.lines().skip_while(|line| !line.starts_with(&format!("| {title} |"))).skip(2);
    let rows = table.take_while(|line| line.starts_with('|')).map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let requests = cells.last().into_iter().flat_map(|cell| cell.split(", "));
        let requests = requests.filter_map(|text| text.trim_matches('`').split_once(' '));
        (cells[0].trim_matches('`'), requests.collect())
    });
    rows.collect()
}

/// A body that a program with this scope alone may send.
fn body_of(scope: &str, method: &str, route: &str, things: &Things) -> Value {
    match (scope, method, route.strip_prefix("/api/organizations/{org}").unwrap_or_default()) {
        // Neither an address nor a secret.
        ("clients:write", "POST", "/clients") => {
            json!({ "service": "sketch", "kind": "device", "name": "Made" })
        }
        ("clients:redirects", "PATCH", "/clients/{client}") => json!({ "redirect_uris": [CALLBACK, EVIL] }),
        (_, "POST", "/users") => json!({ "email": format!("{}@acme.test", scope.replace(':', ".")) }),
        _ => body(method, route, things),
    }
}

/// The same address of nothing, so that a deletion that is allowed finds nothing.
fn of_nothing(path: &str) -> String {
    let (before, last) = path.rsplit_once('/').expect("a path");
    match last.split_once('_').filter(|(_, rest)| rest.len() == 26) {
        Some((prefix, _)) => format!("{before}/{prefix}_00000000000000000000000000"),
        None => format!("{before}/nothing"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_says_what_a_key_of_each_scope_can_do() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let things = Things::of_acme(&owner).await;
    let page = rows("scope");
    let scopes: BTreeSet<&str> = SCOPES.iter().copied().collect();
    assert_eq!(page.keys().copied().collect::<BTreeSet<_>>(), scopes, "each scope has a row");
    let mut tried = Rows::new();
    for (&scope, own) in &page {
        let (of_key, _) = key(&owner, json!({ "name": "Program", "scopes": [scope] })).await;
        let of_machine = machine_client(&owner, &[scope]).await.token(&[scope]).await;
        // `x:write` includes `x:read`.
        let included = scope.strip_suffix(":write").and_then(|noun| page.get(&*format!("{noun}:read")));
        let allowed: BTreeSet<_> = own.iter().chain(included.into_iter().flatten()).copied().collect();
        for (method, route) in routes("/api/organizations/{org}") {
            let short = route.strip_prefix("/api/organizations/{org}").unwrap_or(route);
            let may = allowed.contains(&(method, short)) || (method, short) == ("GET", "");
            let path = things.path("acme", route);
            let path = if method == "DELETE" && route.ends_with('}') { of_nothing(&path) } else { path };
            for (kind, program) in [("a key", &of_key), ("a machine", &of_machine)] {
                let row = async {
                    let answer = program.call(method, &path, &body_of(scope, method, route, &things)).await;
                    let refused = matches!(&*answer.text("code"), "insufficient_scope" | "forbidden");
                    assert_eq!(refused, !may, "{answer:?}");
                    assert!(answer.status < 500 && (!may || answer.status != 422), "{answer:?}");
                };
                tried.row(format!("{scope} of {kind}: {method} {path}"), row).await;
            }
        }
        for named in own {
            let exists = routes("/api/organizations/{org}").iter().any(|(method, route)| {
                (*method, route.trim_start_matches("/api/organizations/{org}")) == *named
            });
            assert!(exists, "{scope}: there is no {named:?}");
        }
    }
    let of_service = rows("scope of a key of a service");
    assert_eq!(of_service.keys().copied().collect::<BTreeSet<_>>(), SERVICE_SCOPES.iter().copied().collect());
    for scope in SERVICE_SCOPES {
        let (program, _) =
            key(&owner, json!({ "name": "Back end", "service": "sketch", "scopes": [scope] })).await;
        let with_both = [("GET", "/api/service/state"), ("GET", "/api/live")];
        for (method, path) in of_service.values().flatten().chain(&with_both) {
            let may = of_service[scope].contains(&(method, path));
            let (path, body) = match *path {
                "/api/service/users" => {
                    ("/api/service/users?ids=user_00000000000000000000000000", Value::Null)
                }
                "/api/service/check" => (*path, json!({ "checks": [{ "user": "user_x", "feature": "x" }] })),
                path => (path, Value::Null),
            };
            let answer = program.call(method, path, &body).await;
            assert_eq!(answer.status == 200, may, "{scope}: {method} {path}: {answer:?}");
        }
        for (method, route) in routes("/api/organizations/{org}") {
            let answer =
                program.call(method, &things.path("acme", route), &body(method, route, &things)).await;
            assert_eq!(answer.status, 403, "{scope}: {method} {route}: {answer:?}");
        }
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_needs_two_scopes_needs_both() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let client = |kind: &str, uris: &[&str]| json!({ "service": "sketch", "kind": kind, "name": "Made", "redirect_uris": uris });
    let web = format!("{CLIENTS}/{}", server.client("web"));
    let signed_out = json!({ "service": "sketch", "kind": "device", "name": "Made",
        "post_logout_redirect_uris": [EVIL] });
    let mut tried = Rows::new();
    for (method, path, sent, scopes) in [
        ("POST", CLIENTS, client("spa", &[EVIL]), &["clients:write", "clients:redirects"][..]),
        ("POST", CLIENTS, client("native", &["a.b:/cb"]), &["clients:write", "clients:redirects"]),
        ("POST", CLIENTS, signed_out, &["clients:write", "clients:redirects"]),
        ("POST", CLIENTS, client("machine", &[]), &["clients:write", "clients:secrets"]),
        ("POST", CLIENTS, client("web", &[EVIL]), &["clients:write", "clients:redirects", "clients:secrets"]),
        ("POST", CLIENTS, client("device", &[]), &["clients:write"]),
        (
            "PATCH",
            &web,
            json!({ "name": "x", "redirect_uris": [EVIL] }),
            &["clients:write", "clients:redirects"],
        ),
        ("PATCH", &web, json!({ "redirect_uris": [CALLBACK] }), &["clients:redirects"]),
        ("PATCH", &web, json!({ "post_logout_redirect_uris": [] }), &["clients:redirects"]),
        ("PATCH", &web, json!({ "pkce": "required" }), &["clients:write"]),
        ("PATCH", &web, json!({}), &["clients:write"]),
        (
            "POST",
            USERS,
            json!({ "email": "a@acme.test", "password_link": true }),
            &["users:write", "users:links"],
        ),
        ("POST", USERS, json!({ "email": "b@acme.test", "password_link": false }), &["users:write"]),
    ] {
        for (place, missing) in scopes.iter().enumerate() {
            // All others, so that only this one is missing.
            let rest: Vec<&str> = SCOPES.iter().copied().filter(|scope| scope != missing).collect();
            let (of_key, _) = key(&owner, json!({ "name": "Program", "scopes": rest })).await;
            let of_machine = machine_client(&owner, &rest).await.token(&rest).await;
            for (kind, program) in [("a key", &of_key), ("a machine", &of_machine)] {
                let row = async {
                    let answer = program.call(method, path, &sent).await;
                    assert_eq!(problem(&answer), is(403, "insufficient_scope"), "{answer:?}");
                    assert!(answer.text("detail").contains(missing), "{answer:?}");
                };
                tried.row(format!("{place} {method} {sent} of {kind} without {missing}"), row).await;
            }
        }
        let (program, _) = key(&owner, json!({ "name": "Program", "scopes": scopes })).await;
        let answer = program.call(method, path, &sent).await;
        assert!(matches!(answer.status, 200 | 201), "{method} {sent} with {scopes:?}: {answer:?}");
    }
    server.stop().await;
}

async fn ada(server: &TestServer) -> TestBrowser<'_> {
    let mut ada = server.browser();
    assert_eq!(ada.sign_in("acme", "ada@acme.test").await.status, 303);
    ada
}

/// What a client gets without a page.
async fn silent(browser: &mut TestBrowser<'_>, ask: &Ask) -> Result<String, String> {
    let answer = browser.get(&ask.clone().with("prompt", "none").path()).await;
    answer.redirect_param("code").ok_or_else(|| answer.redirect_param("error").unwrap_or_default())
}

fn asked() -> Result<String, String> {
    Err("consent_required".to_owned())
}

/// The user allows what the page asks; the answer, which has a code.
async fn allow(browser: &mut TestBrowser<'_>, ask: &Ask) -> Answer {
    let page = browser.get(&ask.path()).await;
    assert!(page.status == 200 && page.body.contains("asks to use your account"), "{page:?}");
    let own = ["csrf", "next", "session"].map(|name| (name, page.input(name)));
    let fields: Vec<(&str, &str)> = own.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let answer = browser.post("/consent", &[&fields[..], &[("decision", "allow")]].concat()).await;
    assert!(answer.redirect_param("code").is_some(), "{answer:?}");
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_a_program_made_asks_until_an_owner_accepts_it() {
    let server = TestServer::start().await;
    until_both_keys_sign(&server).await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    hire(&owner, "second@acme.test", "admin").await;
    let admin = hired(&server, "second@acme.test", "org:acme").await;
    let scopes = ["clients:write", "clients:redirects", "clients:secrets"];
    let (of_key, _) = key(&owner, json!({ "name": "Program", "scopes": scopes })).await;
    let of_machine = machine_client(&owner, &scopes).await.token(&scopes).await;
    for (kind, program) in [("a key", &of_key), ("a machine", &of_machine)] {
        for (of, wish) in [("spa", None), ("spa", Some(false)), ("spa", Some(true)), ("native", None)] {
            let what = format!("{kind}: {of}, {wish:?}");
            let mut sent =
                json!({ "service": "sketch", "kind": of, "name": "Sketch", "redirect_uris": [EVIL] });
            if let Some(wish) = wish {
                sent["consent_required"] = json!(wish);
            }
            let made = program.make(CLIENTS, sent).await;
            assert_eq!(
                (&made["consent_required"], &made["needs_review"]),
                (&json!(true), &json!(true)),
                "{what}"
            );
            let path = format!("{CLIENTS}/{}", text(&made, "client_id"));
            let ask = Ask::by(text(&made, "client_id"), EVIL);
            let mut ada = ada(&server).await;
            assert_eq!(silent(&mut ada, &ask).await, asked(), "{what}");
            let page = ada.get(&ask.path()).await;
            assert!(page.body.contains("https://evil.example"), "the page names where it leads: {page:?}");
            // A consent to one request is none to the next.
            let code = allow(&mut ada, &ask).await.redirect_param("code").expect("a code");
            assert_eq!(redeem(&server, text(&made, "client_id"), EVIL, &code).await.status, 200, "{what}");
            assert_eq!(silent(&mut ada, &ask).await, asked(), "{what}");

            // Neither a program nor an admin can end the question, and no other change does.
            for (who, caller) in [("the program", program), ("an admin", &admin)] {
                let answer = caller.call("PATCH", &path, &json!({ "consent_required": false })).await;
                assert_eq!(problem(&answer), is(403, "forbidden"), "{what}: {who}: {answer:?}");
                caller.change("PATCH", &path, json!({ "consent_required": true, "name": who })).await;
            }
            owner.change("PATCH", &path, json!({ "name": "Renamed" })).await;
            assert_eq!(silent(&mut ada, &ask).await, asked(), "{what}");
            let accepted = owner.change("PATCH", &path, json!({ "consent_required": false })).await.json();
            assert_eq!(
                (&accepted["consent_required"], &accepted["needs_review"]),
                (&json!(false), &json!(false))
            );
            assert!(silent(&mut ada, &ask).await.is_ok(), "{what}");
            // Once more in the hands of the program.
            let answer = program.call("PATCH", &path, &json!({ "consent_required": true })).await;
            assert_eq!(answer.status, 200, "{answer:?}");
            let answer = program.call("PATCH", &path, &json!({ "consent_required": false })).await;
            assert_eq!(
                problem(&answer),
                is(403, "forbidden"),
                "{what}: a program ends no question: {answer:?}"
            );
        }
    }
    // A person's own client is as before.
    let made = admin.make_client("spa", &[CALLBACK]).await;
    assert_eq!((&made["consent_required"], &made["needs_review"]), (&json!(false), &json!(false)));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn consents_end_when_a_program_changes_where_codes_go() {
    let server = TestServer::start().await;
    until_both_keys_sign(&server).await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let (program, id) =
        key(&owner, json!({ "name": "Program", "scopes": ["clients:redirects", "clients:write"] })).await;
    let (spa, path) = (Ask::of(&server, "spa"), format!("{CLIENTS}/{}", server.client("spa")));
    let evil = spa.clone().with("redirect_uri", EVIL);
    owner.change("PATCH", &path, json!({ "consent_required": true })).await;
    let mut ada = ada(&server).await;
    allow(&mut ada, &spa).await;
    assert!(silent(&mut ada, &spa).await.is_ok(), "what she allowed is remembered");

    // What leads nowhere else ends nothing: other fields, the same addresses, where users go after a sign-out.
    let known = owner.read(&path).await["redirect_uris"].clone();
    for harmless in [
        json!({ "name": "x" }),
        json!({ "redirect_uris": known }),
        json!({ "post_logout_redirect_uris": [CALLBACK] }),
    ] {
        program.change("PATCH", &path, harmless).await;
        assert!(silent(&mut ada, &spa).await.is_ok());
    }
    // A code that waits is void too.
    let waiting = silent(&mut ada, &spa).await.expect("a code");
    let changed = program.change("PATCH", &path, json!({ "redirect_uris": [CALLBACK, EVIL] })).await.json();
    assert_eq!((&changed["consent_required"], &changed["needs_review"]), (&json!(true), &json!(true)));
    let redeemed = redeem(&server, server.client("spa"), CALLBACK, &waiting).await;
    assert_eq!(redeemed.error(), (400, "invalid_grant".to_owned()));
    for ask in [&spa, &evil] {
        assert_eq!(silent(&mut ada, ask).await, asked());
    }
    // She goes on at the product, and the other address has nothing from it.
    allow(&mut ada, &spa).await;
    assert_eq!(silent(&mut ada, &evil).await, asked());

    // An owner keeps the question: it is asked anew, and then remembered as before.
    let kept =
        owner.change("PATCH", &path, json!({ "consent_required": true, "redirect_uris": [CALLBACK] })).await;
    assert_eq!(kept.json()["needs_review"], json!(false));
    assert!(silent(&mut ada, &spa).await.is_ok(), "she has allowed the client since the program's change");
    let mut grace = server.browser();
    grace.sign_in("acme", "grace@acme.test").await;
    allow(&mut grace, &spa).await;
    program.change("PATCH", &path, json!({ "redirect_uris": [CALLBACK, EVIL] })).await;
    owner.change("PATCH", &path, json!({ "consent_required": true, "redirect_uris": [CALLBACK] })).await;
    assert_eq!(silent(&mut grace, &spa).await, asked(), "what was remembered ended with the change");

    // Without a question before, there is one after; and the trail names the program.
    let web = format!("{CLIENTS}/{}", server.client("web"));
    assert!(silent(&mut ada, &Ask::of(&server, "web")).await.is_ok());
    let answer =
        program.call("PATCH", &web, &json!({ "redirect_uris": [EVIL], "consent_required": false })).await;
    assert_eq!(problem(&answer), is(403, "forbidden"), "{answer:?}");
    program.change("PATCH", &web, json!({ "redirect_uris": [CALLBACK, EVIL] })).await;
    assert_eq!(silent(&mut ada, &Ask::of(&server, "web")).await, asked());
    let trail = owner.read(&format!("/api/organizations/acme/audit?actor={id}&action=client.changed")).await;
    assert!(trail["items"].to_string().contains("redirect_uris"), "{trail}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_program_raises_its_rank() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let machine = machine_client(&owner, SCOPES).await;
    let (of_key, _) = key(&owner, json!({ "name": "Program", "scopes": SCOPES })).await;
    let of_machine = machine.token(SCOPES).await;
    let administrators = owner.read("/api/organizations/acme/administrators").await;
    let user = text(&administrators["items"][0], "user").to_owned();
    for program in [&of_key, &of_machine] {
        for (method, path, sent) in [
            ("POST", KEYS.to_owned(), json!({ "name": "x", "scopes": ["users:links"] })),
            ("PUT", format!("{}/scopes", machine.path), json!({ "scopes": ["users:links"] })),
            ("POST", format!("{}/secrets", machine.path), Value::Null),
            ("POST", INVITATIONS.to_owned(), json!({ "email": "x@acme.test", "role": "owner" })),
            ("PATCH", format!("/api/organizations/acme/administrators/{user}"), json!({ "role": "member" })),
            ("DELETE", format!("/api/organizations/acme/administrators/{user}"), Value::Null),
            ("PATCH", "/api/organizations/acme".to_owned(), json!({ "sign_up": true })),
            ("DELETE", "/api/organizations/acme".to_owned(), Value::Null),
        ] {
            let answer = program.call(method, &path, &sent).await;
            assert_eq!(problem(&answer), is(403, "forbidden"), "{method} {path}: {answer:?}");
        }
    }
    server.stop().await;
}
