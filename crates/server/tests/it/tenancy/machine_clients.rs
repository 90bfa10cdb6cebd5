//! Machine clients that administer their organization: who grants the scopes, what a token may do, and how it ends.

use super::api_keys::may_do_what_its_scopes_name;
use super::roles::{hire, hired};
use super::{Things, globex, is, organization, problem};
use crate::instances::{at, instances, stop};
use crate::support::*;
use identity::programs::SCOPES;
use serde_json::{Value, json};
use server::testing::{Answer, Rows, TestServer};
use std::time::{Duration, Instant};

const CLIENTS: &str = "/api/organizations/acme/clients";
const USERS: &str = "/api/organizations/acme/users";

/// A machine client and its secret.
pub(super) struct Machine<'s> {
    server: &'s TestServer,
    id: String,
    secret: String,
    /// Its address in the API.
    pub(super) path: String,
}

/// An owner creates a machine client and grants it scopes.
pub(super) async fn machine_client<'s>(owner: &Admin<'s>, scopes: &[&str]) -> Machine<'s> {
    let body = json!({ "service": "sketch", "kind": "machine", "name": "Program" });
    let made = owner.make(CLIENTS, body).await;
    assert_eq!(made["scopes"], json!([]), "none without an owner's grant");
    let id = text(&made, "client_id").to_owned();
    let path = format!("{CLIENTS}/{id}");
    let granted = owner.change("PUT", &format!("{path}/scopes"), json!({ "scopes": scopes })).await;
    assert_eq!(granted.json()["scopes"], json!(scopes));
    Machine { server: owner.server, id, secret: text(&made, "client_secret").to_owned(), path }
}

impl<'s> Machine<'s> {
    async fn request(&self, secret: &str, scope: Option<&str>) -> Answer {
        let mut fields =
            vec![("grant_type", "client_credentials"), ("client_id", &self.id), ("client_secret", secret)];
        fields.extend(scope.map(|scope| ("scope", scope)));
        self.server.post("/auth/token", &fields).send().await
    }

    /// A token with these scopes, which acts like any caller with a token.
    pub(super) async fn token(&self, scopes: &[&str]) -> Admin<'s> {
        let answer = self.request(&self.secret, Some(&scopes.join(" "))).await;
        assert_eq!((answer.status, answer.text("scope")), (200, scopes.join(" ")), "{answer:?}");
        Admin { server: self.server, token: answer.text("access_token") }
    }
}

async fn status(program: &Admin<'_>) -> (u16, String) {
    problem(&program.call("GET", USERS, &Value::Null).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_may_do_what_its_scopes_name_and_nothing_else() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let things = Things::of_acme(&owner).await;
    let reading: Vec<&str> = SCOPES.iter().copied().filter(|scope| scope.ends_with(":read")).collect();
    let machine = machine_client(&owner, SCOPES).await;
    let sets: [&[&str]; 4] = [&["audit:read"], &["users:read"], &reading, SCOPES];
    // The scopes of the token count, though the client has them all …
    for scopes in sets {
        let program = machine.token(scopes).await;
        may_do_what_its_scopes_name(&program, &owner, &things, scopes).await;
    }
    // … and those of the client, though the token has them all.
    let program = machine.token(SCOPES).await;
    for scopes in &sets[..3] {
        owner.change("PUT", &format!("{}/scopes", machine.path), json!({ "scopes": scopes })).await;
        may_do_what_its_scopes_name(&program, &owner, &things, scopes).await;
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_administers_its_own_organization_only_and_is_for_no_service() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let machine = machine_client(&owner, &["users:write", "audit:read"]).await;
    let program = machine.token(&["users:write"]).await;
    let own = claims(&program.token);
    assert_eq!((&own["aud"], &own["sub"]), (&json!("org:acme"), &json!(machine.id)));
    assert_eq!((&own["scope"], &own["service"]), (&json!("users:write"), &Value::Null));

    // Without a scope the token is for the service, and administers nothing.
    for scope in [None, Some("")] {
        let plain = machine.request(&machine.secret, scope).await;
        let plain = Admin { server: &server, token: plain.text("access_token") };
        assert_eq!(claims(&plain.token)["aud"], "service:acme/sketch");
        assert_eq!(status(&plain).await, is(403, "insufficient_scope"));
    }
    // Scopes that it does not have are left out, and none is an error.
    let some = machine.request(&machine.secret, Some("plans:write org:acme platform users:write")).await;
    assert_eq!(some.text("scope"), "users:write", "{some:?}");
    for scope in ["plans:write", "openid", "org:acme", "platform", "users:Write", "users:write2"] {
        let none = machine.request(&machine.secret, Some(scope)).await;
        assert_eq!((none.status, none.text("error")), (400, "invalid_scope".to_owned()), "{none:?}");
    }

    globex(&server).await;
    let mut rows = Rows::new();
    for (path, expected) in [
        ("/api/organizations/globex/users", is(403, "insufficient_scope")),
        ("/api/organizations/ACME/users", is(403, "insufficient_scope")),
        ("/api/organizations/platform", is(403, "insufficient_scope")),
        ("/api/organizations", is(403, "insufficient_scope")),
        ("/api/platform/organizations", is(403, "insufficient_scope")),
        ("/api/service/users?ids=x", is(403, "insufficient_scope")),
        ("/api/subscription", is(403, "insufficient_scope")),
        ("/api/user", is(403, "insufficient_scope")),
    ] {
        let row = async {
            let answer = program.call("GET", path, &Value::Null).await;
            assert_eq!(problem(&answer), expected, "{answer:?}");
        };
        rows.row(path.to_owned(), row).await;
    }

    // Entries of one millisecond have no order among them.
    server.clock.advance(Duration::from_millis(1));
    let made = program.make(USERS, json!({ "email": "new@acme.test" })).await;
    let audit = owner.read("/api/organizations/acme/audit?limit=1").await;
    let entry = &audit["items"][0];
    assert_eq!((&entry["actor"], &entry["action"]), (&json!(machine.id), &json!("user.created")));
    assert_eq!(entry["target"], made["id"]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_owners_grant_scopes_and_know_secrets_of_clients_that_have_some() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    hire(&owner, "second@acme.test", "admin").await;
    let admin = hired(&server, "second@acme.test", "org:acme").await;
    let machine = machine_client(&owner, &["clients:secrets"]).await;
    let itself = machine.token(&["clients:secrets"]).await;
    let (scopes, secrets) = (format!("{}/scopes", machine.path), format!("{}/secrets", machine.path));
    let web = format!("{CLIENTS}/{}/scopes", server.client("web"));
    let users = json!({ "scopes": ["users:write"] });

    let mut rows = Rows::new();
    for (whose, caller) in [("an admin", &admin), ("the client itself", &itself)] {
        let row = async {
            let answer = caller.call("PUT", &scopes, &users).await;
            assert_eq!(problem(&answer), is(403, "forbidden"), "{answer:?}");
            // A secret would outlive the role of the one who knows it.
            let answer = caller.call("POST", &secrets, &Value::Null).await;
            assert_eq!(problem(&answer), is(403, "forbidden"), "{answer:?}");
            assert!(answer.text("detail").contains("Only an owner"), "{answer:?}");
        };
        rows.row(whose.to_owned(), row).await;
    }
    for (path, body, expected, words) in [
        (&scopes, json!({ "scopes": [] }), is(422, "invalid"), "name some of services:read"),
        (&scopes, json!({}), is(422, "invalid"), "scopes"),
        (&scopes, json!({ "scopes": ["keys:write"] }), is(422, "invalid"), "\"keys:write\" is not a scope"),
        (&scopes, json!({ "scopes": ["users:read plans:read"] }), is(422, "invalid"), "is not a scope"),
        (&scopes, json!({ "scopes": ["entitlements:read"] }), is(422, "invalid"), "is not a scope"),
        (&web, users.clone(), is(422, "invalid"), "use a machine client"),
    ] {
        let row = async {
            let answer = owner.call("PUT", path, &body).await;
            assert_eq!(problem(&answer), expected, "{answer:?}");
            assert!(answer.text("detail").contains(words), "{answer:?}");
        };
        rows.row(format!("{path} {body}"), row).await;
    }
    assert_eq!(owner.read(&machine.path).await["scopes"], json!(["clients:secrets"]));
    assert!(owner.read(&format!("{CLIENTS}/{}", server.client("web"))).await.get("scopes").is_none());

    // An owner may, and an admin may take away; then the client is like any other.
    owner.make(&secrets, Value::Null).await;
    admin.change("DELETE", &scopes, Value::Null).await;
    assert_eq!(owner.read(&machine.path).await["scopes"], json!([]));
    admin.make(&secrets, Value::Null).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_do_not_administer_the_platform() {
    let server = TestServer::start().await;
    let platform = Admin::sign_in(&server, "owner@sarsen.test", "org:platform").await;
    let clients = "/api/organizations/platform/clients";
    platform.make("/api/organizations/platform/services", json!({ "slug": "own", "name": "Own" })).await;
    let body = json!({ "service": "own", "kind": "machine", "name": "Program" });
    let made = platform.make(clients, body).await;
    let path = format!("{clients}/{}/scopes", text(&made, "client_id"));
    let answer = platform.call("PUT", &path, &json!({ "scopes": ["users:write"] })).await;
    assert_eq!(problem(&answer), is(409, "platform_has_no_keys"), "{answer:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_ends_with_the_scope_the_token_the_client_and_the_organization() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let over = is(401, "invalid_token");
    let machine = machine_client(&owner, &["users:read", "audit:read"]).await;
    let scopes = format!("{}/scopes", machine.path);
    let program = machine.token(&["users:read"]).await;
    assert_eq!(status(&program).await.0, 200);

    // Each change holds as soon as its call has returned.
    owner.change("PUT", &scopes, json!({ "scopes": ["audit:read"] })).await;
    assert_eq!(status(&program).await, is(403, "insufficient_scope"));
    let fields = [("client_id", &*machine.id), ("client_secret", &machine.secret), ("token", &program.token)];
    let seen = server.post("/auth/introspect", &fields).send().await.json();
    assert_eq!((&seen["active"], &seen["scope"]), (&json!(true), &Value::Null), "{seen}");
    let none = machine.request(&machine.secret, Some("users:read")).await;
    assert_eq!(none.text("error"), "invalid_scope", "{none:?}");
    owner.change("PUT", &scopes, json!({ "scopes": ["users:read"] })).await;
    assert_eq!(status(&program).await.0, 200);
    owner.change("DELETE", &scopes, Value::Null).await;
    assert_eq!(status(&program).await, is(403, "insufficient_scope"));
    let entries = async || owner.read("/api/organizations/acme/audit?limit=200").await["items"].clone();
    let before = entries().await;
    owner.change("DELETE", &scopes, Value::Null).await;
    assert_eq!(entries().await, before, "the second time changed nothing");
    owner.change("PUT", &scopes, json!({ "scopes": ["users:read"] })).await;

    assert_eq!(server.post("/auth/revoke", &fields).send().await.status, 200);
    assert_eq!(status(&program).await, over, "the token was revoked");

    globex(&server).await;
    let platform = Admin::sign_in(&server, "owner@sarsen.test", "platform").await;
    let program = machine.token(&["users:read"]).await;
    assert_eq!(status(&program).await.0, 200);
    platform.change("PUT", "/api/platform/organizations/acme/suspension", json!({})).await;
    assert_eq!(status(&program).await, over);
    platform.change("DELETE", "/api/platform/organizations/acme/suspension", Value::Null).await;
    assert_eq!(status(&program).await.0, 200);
    server.clock.advance(Duration::from_secs(600));
    assert_eq!(status(&program).await, over, "it expired");
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let program = machine.token(&["users:read"]).await;
    assert_eq!(status(&program).await.0, 200);
    owner.change("DELETE", &machine.path, Value::Null).await;
    assert_eq!(status(&program).await, over, "the client was deleted");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scope_that_one_instance_revoked_is_refused_by_the_others() {
    let instances = instances().await;
    let owner = Admin::sign_in(at(&instances, 0), "admin@acme.test", "org:acme").await;
    let machine = machine_client(&owner, &["users:read"]).await;
    let token = machine.token(&["users:read"]).await.token;
    let elsewhere = Admin { server: at(&instances, 1), token };
    while status(&elsewhere).await.0 != 200 {
        tokio::task::yield_now().await;
    }
    owner.change("DELETE", &format!("{}/scopes", machine.path), Value::Null).await;
    let began = Instant::now();
    while status(&elsewhere).await.0 != 403 {
        assert!(began.elapsed() < Duration::from_secs(5), "a revoked scope still counts");
        tokio::task::yield_now().await;
    }
    stop(instances).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_of_another_organization_is_not_there() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let machine = machine_client(&owner, &["users:read"]).await;
    let stranger = organization(&server, "globex").await;
    for method in ["PUT", "DELETE"] {
        let path = format!("/api/organizations/globex/clients/{}/scopes", machine.id);
        let body = if method == "PUT" { json!({ "scopes": ["users:write"] }) } else { Value::Null };
        let answer = stranger.call(method, &path, &body).await;
        assert_eq!(problem(&answer), is(404, "not_found"), "{method}: {answer:?}");
    }
    assert_eq!(owner.read(&machine.path).await["scopes"], json!(["users:read"]));
    server.stop().await;
}

/// A stolen key must not live on in the links that it has made.
#[tokio::test(flavor = "multi_thread")]
async fn a_link_of_a_program_is_void_when_the_program_may_not_make_it_any_more() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let found = owner.read("/api/organizations/acme/users?email=ada@acme.test").await;
    let path = format!("/api/organizations/acme/users/{}/password-link", text(&found["items"][0], "id"));
    let machine = machine_client(&owner, &["users:links"]).await;
    let (key, id) =
        super::api_keys::key(&owner, json!({ "name": "Program", "scopes": ["users:links"] })).await;
    let of_machine = machine.token(&["users:links"]).await;
    let mut links = Vec::new();
    for program in [&key, &of_machine] {
        links.push(path_of(text(&program.make(&path, Value::Null).await, "url")));
    }
    let opens = async || {
        let mut statuses = Vec::new();
        for link in &links {
            statuses.push(open_link(&mut server.browser(), link).await.status);
        }
        statuses
    };
    let may = async |scopes: Value| {
        owner.change("PUT", &format!("{}/scopes", machine.path), json!({ "scopes": scopes })).await
    };
    assert_eq!(opens().await, [200, 200]);
    may(json!(["users:read"])).await;
    assert_eq!(opens().await, [200, 404], "a right that was taken");
    may(json!(["users:links"])).await;
    assert_eq!(opens().await, [200, 200]);
    owner.change("DELETE", &format!("{}/{id}", super::api_keys::KEYS), Value::Null).await;
    owner.change("DELETE", &machine.path, Value::Null).await;
    assert_eq!(opens().await, [404, 404], "a program that is gone");
    server.stop().await;
}
