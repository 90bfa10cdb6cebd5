//! `Idempotency-Key`: a write that is sent again is done once, and gets the first answer.

use crate::instances::{at, instances, stop};
use crate::support::*;
use identity::idempotent_writes::{self, KeyedRequest};
use identity::ids::IdempotentWriteId;
use serde_json::{Value, json};
use server::testing::{Answer, Kind, Request, Rows, TestServer, at_once, kind};
use std::time::Duration;

const SERVICES: &str = "/api/organizations/acme/services";

/// A write with a key.
fn keyed<'s>(admin: &Admin<'s>, key: &str, method: &str, path: &str, body: &Value) -> Request<'s> {
    let request = admin.request(method, path).header("idempotency-key", key);
    if body.is_null() { request } else { request.json(body) }
}

fn problem(answer: &Answer) -> (u16, String) {
    (answer.status, answer.text("code"))
}

fn is(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

fn service(slug: &str) -> Value {
    json!({ "slug": slug, "name": "A service" })
}

/// How many services there are with this slug.
async fn count(admin: &Admin<'_>, slug: &str) -> usize {
    let list = admin.read(SERVICES).await;
    let items = list["items"].as_array().expect("a list");
    items.iter().filter(|service| service["slug"] == slug).count()
}

fn is_replay(answer: &Answer) -> bool {
    answer.header("idempotency-replayed") == "true"
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_write_gets_the_first_answer_again() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let first = keyed(&admin, "k1", "POST", SERVICES, &service("atlas")).send().await;
    assert_eq!((first.status, is_replay(&first)), (201, false), "{first:?}");
    // What happens in between does not change the answer.
    admin.change("PATCH", &format!("{SERVICES}/atlas"), json!({ "name": "Renamed" })).await;
    let again = keyed(&admin, "k1", "POST", SERVICES, &service("atlas")).send().await;
    assert_eq!((again.status, &again.body, is_replay(&again)), (201, &first.body, true), "{again:?}");
    assert_eq!(again.header("content-type"), first.header("content-type"));
    assert_eq!(count(&admin, "atlas").await, 1);

    // Another body is refused, another route or another key is another write.
    for body in [service("borea"), json!({ "slug": "atlas", "name": "Another name" })] {
        let other = keyed(&admin, "k1", "POST", SERVICES, &body).send().await;
        assert_eq!(problem(&other), is(422, "idempotency_key_reused"), "{other:?}");
    }
    assert_eq!(count(&admin, "borea").await, 0);
    let other = keyed(&admin, "k2", "POST", SERVICES, &service("atlas")).send().await;
    assert_eq!(problem(&other), is(409, "taken"), "{other:?}");

    // The other methods. The second time, what they change is gone.
    let path = format!("{SERVICES}/atlas");
    for (method, body, status) in
        [("PATCH", json!({ "name": "Last name" }), 200), ("DELETE", Value::Null, 204)]
    {
        let first = keyed(&admin, "k1", method, &path, &body).send().await;
        let again = keyed(&admin, "k1", method, &path, &body).send().await;
        assert_eq!((first.status, again.status), (status, status), "{method}: {first:?} {again:?}");
        assert_eq!((&again.body, is_replay(&again)), (&first.body, true), "{method}");
    }
    let gone = admin.call("DELETE", &path, &Value::Null).await;
    assert_eq!(problem(&gone), is(404, "not_found"));
    let reading = admin.request("GET", SERVICES).header("idempotency-key", "k1").send().await;
    assert_eq!((reading.status, is_replay(&reading)), (200, false), "reads ignore it");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_of_its_caller_who_is_checked_each_time() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let body = json!({ "name": "Program", "scopes": ["services:write"] });
    let made = owner.make("/api/organizations/acme/keys", body).await;
    let program = Admin { server: &server, token: text(&made, "key").to_owned() };
    assert_eq!(keyed(&owner, "k", "POST", SERVICES, &service("atlas")).send().await.status, 201);
    let taken = keyed(&program, "k", "POST", SERVICES, &service("atlas")).send().await;
    assert_eq!(problem(&taken), is(409, "taken"), "another caller: {taken:?}");

    assert_eq!(keyed(&program, "p", "POST", SERVICES, &service("borea")).send().await.status, 201);
    assert!(is_replay(&keyed(&program, "p", "POST", SERVICES, &service("borea")).send().await));
    let key = format!("/api/organizations/acme/keys/{}", text(&made, "id"));
    owner.change("DELETE", &key, Value::Null).await;
    let revoked = keyed(&program, "p", "POST", SERVICES, &service("borea")).send().await;
    assert_eq!(problem(&revoked), is(401, "invalid_token"), "{revoked:?}");
    let nobody = server.request("POST", SERVICES).header("idempotency-key", "k").json(&service("atlas"));
    assert_eq!(problem(&nobody.send().await), is(401, "unauthenticated"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_failed_may_be_sent_again_with_its_key() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let wrong = keyed(&admin, "k", "POST", SERVICES, &json!({ "slug": "X X", "name": "x" })).send().await;
    assert_eq!(problem(&wrong), is(422, "invalid"));
    let taken = keyed(&admin, "k", "POST", SERVICES, &service("notes")).send().await;
    assert_eq!(problem(&taken), is(409, "taken"));
    let made = keyed(&admin, "k", "POST", SERVICES, &service("atlas")).send().await;
    assert_eq!((made.status, is_replay(&made)), (201, false), "nothing was written before: {made:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_shows_no_secret() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let users = admin.read("/api/organizations/acme/users?email=ada@acme.test").await;
    let user = text(&users["items"][0], "id").to_owned();
    let client = json!({ "service": "sketch", "kind": "web", "name": "Web", "redirect_uris": ["http://127.0.0.1:9/cb"] });
    let secrets = format!("clients/{}/secrets", server.client("web"));
    let mut rows = Rows::new();
    let new = json!({ "email": "new@acme.test", "password_link": true });
    for (path, body, holder, secret) in [
        ("keys", json!({ "name": "Back end", "service": "sketch" }), "", "key"),
        ("clients", client, "", "client_secret"),
        (&secrets, Value::Null, "", "client_secret"),
        (&format!("users/{user}/sign-in-link"), Value::Null, "", "url"),
        ("users", new, "/password_link", "url"),
    ] {
        let row = async {
            let path = format!("/api/organizations/acme/{path}");
            let first = keyed(&admin, "k", "POST", &path, &body).send().await;
            let again = keyed(&admin, "k", "POST", &path, &body).send().await;
            assert_eq!((first.status, again.status), (201, 201), "{first:?} {again:?}");
            let mut rest = first.json();
            let fields = rest.pointer_mut(holder).and_then(Value::as_object_mut);
            let shown = fields.and_then(|fields| fields.remove(secret)).expect("a secret");
            assert!(shown.as_str().is_some_and(|secret| secret.len() > 20), "{shown}");
            assert_eq!(again.json(), rest, "everything else");
        };
        rows.row(path.to_owned(), row).await;
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_keys_and_too_many_are_refused() {
    let server = TestServer::start_with(|settings| settings.keyed_writes_max = 3, |_| {}).await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let mut rows = Rows::new();
    for key in ["", "two words", "caf\u{e9}", &"x".repeat(256)] {
        let row = async {
            let answer = keyed(&admin, key, "POST", SERVICES, &service("atlas")).send().await;
            assert_eq!(problem(&answer), is(400, "invalid_idempotency_key"), "{answer:?}");
        };
        rows.row(format!("{key:?}"), row).await;
    }
    let twice = keyed(&admin, "a", "POST", SERVICES, &service("atlas")).header("idempotency-key", "b");
    assert_eq!(problem(&twice.send().await), is(400, "invalid_idempotency_key"));
    assert_eq!(count(&admin, "atlas").await, 0);
    for (number, slug) in ["atlas", "borea", "cirrus"].into_iter().enumerate() {
        let key = "x".repeat(255 - number);
        assert_eq!(keyed(&admin, &key, "POST", SERVICES, &service(slug)).send().await.status, 201);
    }
    let refused = keyed(&admin, "y", "POST", SERVICES, &service("dorado")).send().await;
    assert_eq!(problem(&refused), is(429, "too_many_idempotency_keys"), "{refused:?}");
    assert_eq!(
        refused.header("retry-after"),
        "900",
        "the clock of the test begins with a quarter of an hour"
    );
    assert_eq!(count(&admin, "dorado").await, 0);
    admin.make(SERVICES, service("dorado")).await;
    server.clock.advance(Duration::from_secs(16 * 60));
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    assert_eq!(keyed(&admin, "y", "POST", SERVICES, &service("elara")).send().await.status, 201);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_hundred_at_once_one_is_done() {
    let instances = instances().await;
    let admins: Vec<Admin<'_>> = {
        let token = admin_token(at(&instances, 0), "admin@acme.test", "org:acme").await;
        instances.iter().map(|server| Admin { server, token: token.clone() }).collect()
    };
    let send = async |number: usize| {
        let admin = &admins[number % admins.len()];
        loop {
            let answer = keyed(admin, "k", "POST", SERVICES, &service("atlas")).send().await;
            if problem(&answer) != is(409, "idempotency_in_progress") {
                return answer;
            }
            assert_eq!(answer.header("retry-after"), "1");
            tokio::task::yield_now().await;
        }
    };
    let answers = at_once((0..100).map(send)).await;
    let first = answers.iter().find(|answer| !is_replay(answer)).expect("one is the first");
    for answer in &answers {
        assert_eq!((answer.status, &answer.body), (201, &first.body), "{answer:?}");
    }
    assert_eq!(answers.iter().filter(|answer| !is_replay(answer)).count(), 1);
    assert_eq!(count(&admins[0], "atlas").await, 1);
    let audit = admins[0].read("/api/organizations/acme/audit?limit=200").await;
    let made = audit["items"].as_array().expect("a list").iter();
    let made = made.filter(|entry| entry["action"] == "service.created" && entry["target_name"] == "atlas");
    assert_eq!(made.count(), 1);
    drop(admins);
    stop(instances).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_hung_up_gets_its_answer_later() {
    if kind() != Kind::Sqlite {
        // Only SQLite has a single writer, so that a command can be held back.
        return;
    }
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let writer = HeldWriters::of(&server).await;
    let sent = keyed(&admin, "k", "POST", SERVICES, &service("atlas")).spawn();
    while server.app.store.stats().queue_depth < 1 {
        tokio::task::yield_now().await;
    }
    sent.abort();
    // The request for the metrics has a connection too.
    while metric(&server, "sarsen_http_connections").await > 1 {
        tokio::task::yield_now().await;
    }
    writer.release().await;
    let answer = loop {
        let answer = keyed(&admin, "k", "POST", SERVICES, &service("atlas")).send().await;
        if problem(&answer) != is(409, "idempotency_in_progress") {
            break answer;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!((answer.status, is_replay(&answer)), (201, true), "{answer:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_whose_answer_was_lost_is_not_done_again() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    // As if the server had been killed between the commit and the answer.
    let id = IdempotentWriteId::new(server.app.now(), server.app.random());
    let body = service("atlas").to_string();
    let request = KeyedRequest::new(id, ["POST", SERVICES, "k"], "", body.as_bytes());
    let (caller, now) = (text(&claims(&admin.token), "sub").to_owned(), server.app.now());
    let begun =
        server.app.store.write("test", move |tx| idempotent_writes::begin(tx, &caller, &request, now));
    assert_eq!(begun.await.expect("begins"), None);
    let running = keyed(&admin, "k", "POST", SERVICES, &service("atlas")).send().await;
    assert_eq!(problem(&running), is(409, "idempotency_in_progress"), "{running:?}");
    assert_eq!(running.header("retry-after"), "1");
    server.clock.advance(Duration::from_secs(60));
    let lost = keyed(&admin, "k", "POST", SERVICES, &service("atlas")).send().await;
    assert_eq!(problem(&lost), is(409, "idempotency_answer_lost"), "{lost:?}");
    assert_eq!(count(&admin, "atlas").await, 0, "whatever was done before, nothing was done now");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_forgotten_after_a_day() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    assert_eq!(keyed(&admin, "k", "POST", SERVICES, &service("atlas")).send().await.status, 201);
    for (hours, expected) in [(23, is(201, "")), (2, is(409, "taken"))] {
        server.clock.advance(Duration::from_secs(hours * 3600));
        assert!(server.tidy().await.expect("tidies"));
        let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
        let answer = keyed(&admin, "k", "POST", SERVICES, &service("atlas")).send().await;
        assert_eq!(problem(&answer), expected, "after {hours} more hours: {answer:?}");
    }
    server.stop().await;
}
