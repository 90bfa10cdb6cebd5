//! Every write of the API, sent twice with one `Idempotency-Key`: it is done once, and the second answer is the first one
//! without what is shown once.

use super::roles::{hire, hired};
use super::{PASSWORD, Things, body, routes};
use crate::support::*;
use serde_json::{Value, json};
use server::testing::TestServer;

/// What a replay leaves out.
const SECRETS: [&str; 3] = ["client_secret", "key", "url"];

fn without_secrets(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            SECRETS.iter().for_each(|secret| drop(fields.remove(*secret)));
            fields.values_mut().for_each(without_secrets);
        }
        Value::Array(items) => items.iter_mut().for_each(without_secrets),
        _ => {}
    }
}

/// The routes that write, in an order in which each of them can: what is made first is deleted last.
fn writes() -> Vec<(&'static str, &'static str)> {
    let mut all = routes("/api/");
    // It reads, in a body.
    all.retain(|(method, route)| *method != "GET" && *route != "/api/service/check");
    let nouns = ["/subscriptions/{", "/users/{", "/clients/{", "/plans/{", "/services/{"];
    all.sort_by_key(|(method, route)| {
        let is_whole = ["/api/organizations/{org}", "/api/organizations/{org}/deletion"].contains(route);
        // A review rejects the organization, and its suspension stops it; that of a user ends their sessions.
        let stops = route.starts_with("/api/platform/organizations");
        let suspends = route.ends_with("/suspension");
        let deletes = *method == "DELETE" || suspends;
        let noun = nouns.iter().position(|noun| route.contains(noun)).unwrap_or_default();
        let depth = std::cmp::Reverse(route.matches('/').count());
        let of_sessions = !route.contains("/sessions");
        let restores = route.ends_with("/deletion");
        (
            deletes && is_whole,
            restores,
            stops,
            deletes,
            noun,
            of_sessions,
            depth,
            route.len(),
            *method == "DELETE",
        )
    });
    all
}

/// The newest entry of the audit trails.
async fn newest(server: &TestServer) -> Option<String> {
    static NEWEST: store::Sql = store::sql("SELECT MAX(id) FROM audit");
    let read = server.app.store.read(|snapshot| snapshot.one(&NEWEST, store::args![], |row| row.get(0)));
    let found: Result<Option<Option<String>>, store::Error> = read.await;
    found.expect("reads").flatten()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_write_of_the_api_is_done_once_for_its_key() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme platform").await;
    let platform = Admin::sign_in(&server, "owner@sarsen.test", "platform").await;
    owner.invite("third@acme.test", "admin").await;
    let administrator = hire(&owner, "second@acme.test", "admin").await;
    let things = Things { administrator, ..Things::of_acme(&owner).await };
    let made = platform.make("/api/platform/owners", json!({ "email": "second@sarsen.test" })).await;
    accept_as_new(&mut server.browser(), &path_of(text(&made, "url")), PASSWORD).await;
    let second = hired(&server, "second@sarsen.test", "platform").await;
    let second_owner = text(&claims(&second.token), "sub").to_owned();
    owner.make("/api/organizations", json!({ "slug": "pending", "name": "Pending" })).await;
    let mut wrong = Vec::new();
    let all = writes();
    for (number, (method, route)) in all.iter().enumerate() {
        let path = match (*method, *route) {
            (_, "/api/platform/owners/{user}") => route.replace("{user}", &second_owner),
            (_, "/api/platform/organizations/{org}/review") => route.replace("{org}", "pending"),
            // Nobody uses these.
            (
                "DELETE",
                "/api/organizations/{org}/plans/{plan}" | "/api/organizations/{org}/services/{service}",
            ) => things.path("acme", &route.replace("{plan}", "made").replace("{service}", "made")),
            _ => things.path("acme", route),
        };
        let by = if route.starts_with("/api/organizations/{org}") { &owner } else { &platform };
        let body = body(method, route, &things);
        let key = format!("key-{number}");
        let send = async || {
            let request = by.request(method, &path).header("idempotency-key", &key);
            let request = if body.is_null() { request } else { request.json(&body) };
            request.send().await
        };
        let first = send().await;
        let before = newest(&server).await;
        let again = send().await;
        let mut expected = first.body.clone();
        if let Ok(mut shown) = serde_json::from_str::<Value>(&first.body) {
            without_secrets(&mut shown);
            expected = shown.to_string();
        }
        let is_once = first.status < 300
            && (again.status, again.header("content-type")) == (first.status, first.header("content-type"))
            && [first.header("idempotency-replayed"), again.header("idempotency-replayed")] == ["", "true"]
            && serde_json::from_str::<Value>(&again.body).ok() == serde_json::from_str(&expected).ok()
            && newest(&server).await == before;
        // Who may write is judged before the key is looked at, and nobody writes in a deleted organization.
        let is_refused = (*method, *route) == ("DELETE", "/api/organizations/{org}")
            && first.status == 204
            && again.text("code") == "organization_not_active";
        if !is_once && !is_refused {
            wrong.push(format!("{method} {path}\n  {first:?}\n  {again:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(all.len() > 45, "{}", all.len());
    server.stop().await;
}
