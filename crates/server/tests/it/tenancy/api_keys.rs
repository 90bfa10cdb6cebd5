//! API keys: what each may do, how it ends, and what is refused.

use super::{Things, body, everything, globex, is, problem, routes};
use crate::instances::{at, instances, stop};
use crate::support::*;
use identity::api_keys;
use identity::ids::{ApiKeyId, OrganizationId};
use identity::programs::{Program, SCOPES};
use serde_json::{Value, json};
use server::testing::{Rows, TestServer};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(super) const KEYS: &str = "/api/organizations/acme/keys";

/// An owner creates a key, which then acts like any caller with a token.
pub(super) async fn key<'s>(owner: &Admin<'s>, body: Value) -> (Admin<'s>, String) {
    let made = owner.make(KEYS, body).await;
    let key = Admin { server: owner.server, token: text(&made, "key").to_owned() };
    (key, text(&made, "id").to_owned())
}

/// A key of the organization.
async fn with_scopes<'s>(owner: &Admin<'s>, scopes: &[&str]) -> (Admin<'s>, String) {
    key(owner, json!({ "name": "Program", "scopes": scopes })).await
}

/// Waits until the last use of a key is written.
async fn until_used(owner: &Admin<'_>, id: &str) {
    while owner.read(&format!("{KEYS}/{id}")).await["last_used_at"].is_null() {
        tokio::task::yield_now().await;
    }
}

/// What a program with these scopes gets at a route: nothing where it is allowed.
fn refusal(scopes: &[&str], method: &str, route: &str) -> Option<(u16, String)> {
    let noun = route.split('/').nth(4).unwrap_or_default();
    let known = SCOPES.iter().any(|scope| scope.split(':').next() == Some(noun));
    let has = |action: &str| scopes.contains(&&*format!("{noun}:{action}"));
    let own = match route {
        _ if route.contains("/secrets") => "clients:secrets",
        _ if route.ends_with("_link") || route.ends_with("-link") => "users:links",
        _ => "",
    };
    match (noun, method) {
        ("", "GET") => None,
        // Owners only.
        _ if super::is_connection_write(method, route) => Some(is(403, "forbidden")),
        // The organization itself, its administrators, their invitations and the keys are for users.
        _ if !known => Some(is(403, "forbidden")),
        // Owners grant scopes.
        (_, "PUT") if route.ends_with("/scopes") => Some(is(403, "forbidden")),
        (_, "GET") if has("read") || has("write") => None,
        (_, "GET") => Some(is(403, "insufficient_scope")),
        _ if own.is_empty() && has("write") || scopes.contains(&own) => None,
        _ => Some(is(403, "insufficient_scope")),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_may_do_what_its_scopes_name_and_nothing_else() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let things = Things::of_acme(&owner).await;
    let reading: Vec<&str> = SCOPES.iter().copied().filter(|scope| scope.ends_with(":read")).collect();
    let sets: [&[&str]; 4] = [&["audit:read"], &["users:read"], &reading, SCOPES];
    for scopes in sets {
        let (program, id) = with_scopes(&owner, scopes).await;
        program.read("/api/organizations/acme").await;
        until_used(&owner, &id).await;
        may_do_what_its_scopes_name(&program, &owner, &things, scopes).await;
    }
    server.stop().await;
}

/// Tries every route of the table with a program.
pub(super) async fn may_do_what_its_scopes_name(
    program: &Admin<'_>,
    owner: &Admin<'_>,
    things: &Things,
    scopes: &[&str],
) {
    let mut rows = Rows::new();
    let before = everything(owner, "acme").await;
    for (method, route) in routes("/api/organizations/{org}") {
        let row = async {
            let path = things.path("acme", route);
            let expected = refusal(scopes, method, route);
            // A deletion that is allowed would take away what later rows need.
            if expected.is_none() && method == "DELETE" {
                return;
            }
            let answer = program.call(method, &path, &body(method, route, things)).await;
            match expected {
                Some(refused) => assert_eq!(problem(&answer), refused, "{method} {path}: {answer:?}"),
                // An earlier row may stand in the way of this one, but the program is not refused.
                None => {
                    assert!(matches!(answer.status, 200..300 | 409), "{method} {path}: {answer:?}");
                }
            }
        };
        rows.row(format!("{} scopes: {method} {route}", scopes.len()), row).await;
    }
    if scopes != SCOPES {
        assert_eq!(everything(owner, "acme").await, before, "{scopes:?} change nothing");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_administers_and_the_audit_trail_names_its_key() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let (program, id) = with_scopes(&owner, &["subscriptions:write", "users:write"]).await;
    let made = program.make("/api/organizations/acme/users", json!({ "email": "new@acme.test" })).await;
    let subscription = json!({ "user": made["id"], "plan": "pro" });
    program.make("/api/organizations/acme/subscriptions", subscription).await;

    let audit = owner.read("/api/organizations/acme/audit").await;
    let by_key = audit["items"].as_array().expect("a list").iter().filter(|entry| entry["actor"] == *id);
    let actions: Vec<&str> = by_key.map(|entry| text(entry, "action")).collect();
    assert_eq!(BTreeSet::from_iter(actions), ["subscription.created", "user.created"].into());
    // The key is in no other answer, and in no audit entry.
    let shown = [owner.read(KEYS).await, owner.read(&format!("{KEYS}/{id}")).await, audit];
    assert!(shown.iter().all(|answer| !answer.to_string().contains(&program.token)));
    assert!(program.token.starts_with("sarsen_sk_"));
    let key = &shown[1];
    assert!(program.token.ends_with(text(key, "hint")));
    assert_eq!(key["scopes"], json!(["subscriptions:write", "users:write"]));
    assert_eq!((text(key, "name"), &key["service"]), ("Program", &Value::Null));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_use_is_written_once_in_five_minutes() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let (program, id) = with_scopes(&owner, &["users:read"]).await;
    let last_used = async || owner.read(&format!("{KEYS}/{id}")).await["last_used_at"].clone();
    assert_eq!(last_used().await, Value::Null);
    program.read("/api/organizations/acme/users").await;
    until_used(&owner, &id).await;
    let first = last_used().await;
    server.clock.advance(Duration::from_secs(299));
    program.read("/api/organizations/acme/users").await;
    // Writes are in order: after this one, an earlier one would show.
    owner.change("PATCH", "/api/organizations/acme", json!({ "name": "Acme Inc." })).await;
    assert_eq!(last_used().await, first);
    server.clock.advance(Duration::from_secs(1));
    program.read("/api/organizations/acme/users").await;
    while last_used().await == first {
        tokio::task::yield_now().await;
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_owners_make_keys_and_each_wrong_one_is_refused_with_the_reason() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let mut rows = Rows::new();
    for (body, expected, words) in [
        (json!({ "name": "x" }), is(422, "invalid"), "scopes: name some of services:read"),
        (json!({ "name": "x", "scopes": [] }), is(422, "invalid"), "scopes: "),
        (json!({ "name": "", "scopes": ["users:read"] }), is(422, "invalid"), "name: "),
        (
            json!({ "name": "x", "scopes": ["keys:write"] }),
            is(422, "invalid"),
            "\"keys:write\" is not a scope",
        ),
        (json!({ "name": "x", "scopes": ["users:read plans:write"] }), is(422, "invalid"), "is not a scope"),
        (json!({ "name": "x", "scopes": ["platform"] }), is(422, "invalid"), "is not a scope"),
        (
            json!({ "name": "x", "service": "sketch", "scopes": ["users:write"] }),
            is(422, "invalid"),
            "use some of users:read, entitlements:read",
        ),
        (json!({ "name": "x", "service": "nothing" }), is(404, "not_found"), "use cli, notes or sketch"),
        (
            json!({ "name": "x", "service": "sketch", "expires_at": "2001-01-01T00:00:00Z" }),
            is(422, "invalid"),
            "expires_at: the time is in the past",
        ),
        (json!({ "name": "x", "service": "sketch", "expires_at": "soon" }), is(422, "invalid"), "RFC 3339"),
        (json!({ "name": "x", "key": "sarsen_sk_mine" }), is(422, "invalid"), "key"),
    ] {
        let row = async {
            let answer = owner.call("POST", KEYS, &body).await;
            assert_eq!(problem(&answer), expected, "{answer:?}");
            assert!(answer.text("detail").contains(words), "{answer:?}");
        };
        rows.row(body.to_string(), row).await;
    }
    let platform = Admin::sign_in(&server, "owner@sarsen.test", "org:platform").await;
    let own = json!({ "name": "x", "scopes": ["users:write"] });
    let answer = platform.call("POST", "/api/organizations/platform/keys", &own).await;
    assert_eq!(problem(&answer), is(409, "platform_has_no_keys"), "{answer:?}");
    // A key of a service of platform reads the users of that service, and administers nothing.
    platform.make("/api/organizations/platform/services", json!({ "slug": "ops", "name": "Ops" })).await;
    let of_service = json!({ "name": "x", "service": "ops" });
    let key = platform.make("/api/organizations/platform/keys", of_service.clone()).await;
    let ops = Admin { server: &server, token: text(&key, "key").to_owned() };
    assert_eq!(text(&ops.read("/api/service/state").await["service"], "service"), "ops");
    for path in [
        "/api/organizations/platform",
        "/api/organizations/platform/users",
        "/api/organizations/platform/audit",
        "/api/organizations/platform/keys",
        "/api/organizations/acme/users",
        "/api/organizations",
        "/api/platform/organizations",
        "/api/platform/owners",
    ] {
        let answer = ops.call("GET", path, &Value::Null).await;
        assert_eq!(problem(&answer), is(403, "insufficient_scope"), "{path}: {answer:?}");
    }
    // Nobody else makes one: not an owner of another organization, and not a key.
    for (who, expected) in [(&owner, is(403, "insufficient_scope")), (&ops, is(403, "insufficient_scope"))] {
        let answer = who.call("POST", "/api/organizations/platform/keys", &of_service).await;
        assert_eq!(problem(&answer), expected, "{answer:?}");
    }
    let mut browser = server.browser();
    assert_eq!(browser.sign_in("platform", "admin@acme.test").await.status, 303);
    let ask = Ask::by("console", CONSOLE).with("scope", "org:platform org:acme");
    let granted = tokens_of(&server, &mut browser, &ask).await;
    assert_eq!(granted.text("scope"), "org:acme", "only platform owners administer platform");
    // One key is that of the demo.
    for _ in 1..100 {
        with_scopes(&owner, &["users:read"]).await;
    }
    let answer = owner.call("POST", KEYS, &own).await;
    assert_eq!(problem(&answer), is(409, "too_many_keys"), "{answer:?}");
    let pages = owner.read(&format!("{KEYS}?limit=99")).await;
    let next = owner.read(&format!("{KEYS}?limit=99&cursor={}", text(&pages, "next"))).await;
    assert_eq!((next["items"].as_array().map(Vec::len), &next["next"]), (Some(1), &Value::Null));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_exactly_a_key_is_refused() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let (program, _) = with_scopes(&owner, &["users:read"]).await;
    let (other, _) = with_scopes(&owner, &["users:read"]).await;
    let good = &program.token;
    let (row_part, _) = good.rsplit_once('_').expect("three parts");
    let (_, other_secret) = other.token.rsplit_once('_').expect("three parts");
    let unknown = ApiKeyId::new(server.app.now(), server.app.random());
    let unknown = unknown.as_str().strip_prefix("apikey_").expect("an id").to_owned();
    let users = "/api/organizations/acme/users";
    let mut rows = Rows::new();
    for wrong in [
        format!("{row_part}_{other_secret}"),
        format!("sarsen_sk_{unknown}_{other_secret}"),
        format!("{good}x"),
        good[..good.len() - 1].to_owned(),
        good.to_uppercase(),
        row_part.to_owned(),
        "sarsen_sk_".to_owned(),
        format!("sarsen_sk_{}", "_".repeat(70)),
        format!("{row_part}_{}", "\u{0}".repeat(3)),
    ] {
        let row = async {
            let answer = server.get(users).bearer(&wrong).send().await;
            assert!(matches!(answer.status, 400 | 401), "{answer:?}");
            assert!(!answer.body.contains("sarsen_sk_"), "{answer:?}");
        };
        rows.row(wrong.clone(), row).await;
    }
    for header in [format!("Basic {good}"), good.clone(), String::new()] {
        let answer = server.get(users).header("authorization", &header).send().await;
        assert_eq!(problem(&answer), is(401, "unauthenticated"), "{header}: {answer:?}");
        assert!(answer.text("detail").starts_with("The header has no bearer token."), "{answer:?}");
    }
    // In an address it would be in logs: refused, with and without the header.
    for path in [
        format!("{users}?access_token={good}"),
        format!("{users}?key={good}"),
        format!("/api/organizations/acme/users/{good}"),
        format!("/api/service/users?ids={good}"),
    ] {
        for request in [server.get(&path), server.get(&path).bearer(good)] {
            let answer = request.send().await;
            assert_eq!(problem(&answer), is(400, "key_in_url"), "{path}: {answer:?}");
            assert!(!answer.body.contains(good.as_str()), "{answer:?}");
        }
    }
    // A good key at routes for others.
    for (method, path, expected) in [
        ("GET", "/api/subscription", is(403, "insufficient_scope")),
        ("GET", "/api/user", is(403, "insufficient_scope")),
        ("GET", "/api/organizations", is(403, "insufficient_scope")),
        ("POST", "/api/organizations", is(403, "insufficient_scope")),
        ("GET", "/api/platform/organizations", is(403, "insufficient_scope")),
        ("GET", "/api/service/users?ids=x", is(403, "insufficient_scope")),
        ("POST", "/api/service/check", is(403, "insufficient_scope")),
    ] {
        let answer = program.call(method, path, &Value::Null).await;
        assert_eq!(problem(&answer), expected, "{method} {path}: {answer:?}");
    }
    program.read(users).await;
    server.stop().await;
}

/// How a key's request is answered.
async fn status(program: &Admin<'_>) -> (u16, String) {
    problem(&program.call("GET", "/api/organizations/acme/users", &Value::Null).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_ends_with_its_revocation_its_time_its_organization_and_its_service() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let over = is(401, "invalid_token");

    let (revoked, id) = with_scopes(&owner, &["users:read"]).await;
    assert_eq!(status(&revoked).await.0, 200);
    owner.change("DELETE", &format!("{KEYS}/{id}"), Value::Null).await;
    assert_eq!(status(&revoked).await, over, "as soon as the call has returned");
    let again = owner.call("DELETE", &format!("{KEYS}/{id}"), &Value::Null).await;
    assert_eq!(problem(&again), is(404, "not_found"));

    let stranger = globex(&server).await;
    let platform = Admin::sign_in(&server, "owner@sarsen.test", "platform").await;
    let (suspended, _) = with_scopes(&owner, &["users:write"]).await;
    assert_eq!(status(&suspended).await.0, 200);
    platform.change("PUT", "/api/platform/organizations/acme/suspension", json!({})).await;
    assert_eq!(status(&suspended).await, over);
    let made =
        suspended.call("POST", "/api/organizations/acme/users", &json!({ "email": "x@acme.test" })).await;
    assert_eq!(problem(&made), over);
    platform.change("DELETE", "/api/platform/organizations/acme/suspension", Value::Null).await;
    assert_eq!(status(&suspended).await.0, 200);

    // The key of a service that is deleted.
    stranger.make("/api/organizations/globex/services", json!({ "slug": "lens", "name": "Lens" })).await;
    let body = json!({ "name": "Back end", "service": "lens" });
    let lens = stranger.make("/api/organizations/globex/keys", body).await;
    let lens = Admin { server: &server, token: text(&lens, "key").to_owned() };
    assert_eq!(lens.read("/api/service/users?ids=x").await["items"], json!([]));
    stranger.change("DELETE", "/api/organizations/globex/services/lens", Value::Null).await;
    assert_eq!(problem(&lens.call("GET", "/api/service/users?ids=x", &Value::Null).await), over);
    assert_eq!(stranger.read("/api/organizations/globex/keys").await["items"], json!([]));

    let at = "2027-01-15T09:00:00Z"; // An hour after the clock of the test.
    let body = json!({ "name": "Short", "scopes": ["users:read"], "expires_at": at });
    let (short, short_id) = key(&owner, body).await;
    assert_eq!(text(&owner.read(&format!("{KEYS}/{short_id}")).await, "expires_at"), at);
    assert_eq!(status(&short).await.0, 200);
    server.clock.advance(Duration::from_secs(3600) - Duration::from_millis(1));
    assert_eq!(status(&short).await.0, 200);
    server.clock.advance(Duration::from_millis(1));
    assert_eq!(status(&short).await, over);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_looks_at_the_key_again() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let acme =
        OrganizationId::parse(text(&owner.read("/api/organizations/acme").await, "id")).expect("an id");
    let (_, id) = with_scopes(&owner, &["users:write"]).await;
    let (_, of_service) = key(&owner, json!({ "name": "Back end", "service": "sketch" })).await;
    let program = async |id: &str| {
        let (id, acme) = (ApiKeyId::parse(id).expect("an id"), acme.clone());
        let found = server.app.store.read(move |snapshot| api_keys::get(snapshot, &acme, &id));
        Program::Key(Arc::new(found.await.expect("a key")))
    };
    let require = async |program: &Program, scopes: &[&str]| {
        let (program, acme, now) = (program.clone(), acme.clone(), server.app.now());
        let needed: Vec<String> = scopes.iter().map(|&scope| scope.to_owned()).collect();
        let found = server.app.store.read(move |snapshot| program.require(snapshot, &acme, &needed, now));
        found.await.map(|_| ()).map_err(|error| error.to_string())
    };
    let (of_acme, of_service) = (program(&id).await, program(&of_service).await);
    assert_eq!(require(&of_acme, &["users:write"]).await, Ok(()));
    assert_eq!(require(&of_acme, &["users:read"]).await, Ok(()));
    for (program, scopes) in [
        (&of_acme, &["plans:write"][..]),
        (&of_acme, &[]),
        (&of_acme, &["users:links"]),
        (&of_acme, &["users:write", "users:links"]),
        (&of_service, &["users:read"]),
    ] {
        let error = require(program, scopes).await.expect_err("refused");
        assert!(error.contains("lacks the scope"), "{scopes:?}: {error}");
    }
    owner.change("DELETE", &format!("{KEYS}/{id}"), Value::Null).await;
    assert_eq!(require(&of_acme, &["users:write"]).await, Err("the grant is not valid".to_owned()));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_one_instance_revoked_is_refused_by_the_others() {
    let instances = instances().await;
    let owner = Admin::sign_in(at(&instances, 0), "admin@acme.test", "org:acme").await;
    let (program, id) = with_scopes(&owner, &["users:read"]).await;
    let elsewhere = Admin { server: at(&instances, 1), token: program.token };
    while status(&elsewhere).await.0 != 200 {
        tokio::task::yield_now().await;
    }
    owner.change("DELETE", &format!("{KEYS}/{id}"), Value::Null).await;
    let began = Instant::now();
    while status(&elsewhere).await.0 != 401 {
        assert!(began.elapsed() < Duration::from_secs(5), "a revoked key is still valid");
        tokio::task::yield_now().await;
    }
    stop(instances).await;
}
