//! An administrator leaves: what they made is listed, and can be revoked in the same step.

use super::roles::{hire, hired};
use super::{is, problem};
use crate::support::*;
use serde_json::{Value, json};
use server::testing::{Answer, TestServer};
use std::time::Duration;

const ADMINISTRATORS: &str = "/api/organizations/acme/administrators";
const KEYS: &str = "/api/organizations/acme/keys";

/// A second owner of the organization, with what they made there.
struct Second<'s> {
    owner: Admin<'s>,
    id: String,
    key: Value,
    /// A client whose only secret is theirs.
    client: Value,
    /// A client of the first owner, to which they added a secret.
    shared: Value,
    added: Value,
}

async fn second<'s>(server: &'s TestServer, first: &Admin<'_>) -> Second<'s> {
    let id = hire(first, "second@acme.test", "owner").await;
    let owner = hired(server, "second@acme.test", "org:acme").await;
    let key = owner.make(KEYS, json!({ "name": "Second's", "scopes": ["users:write"] })).await;
    let client = owner.make_client("web", &[CALLBACK]).await;
    let shared = first.make_client("web", &[CALLBACK]).await;
    let secrets = format!("/api/organizations/acme/clients/{}/secrets", text(&shared, "client_id"));
    // Ids of one millisecond have no order among them.
    server.clock.advance(Duration::from_millis(1));
    let added = owner.make(&secrets, Value::Null).await;
    owner.invite("third@acme.test", "owner").await;
    Second { owner, id, key, client, shared, added }
}

impl Second<'_> {
    fn path(&self) -> String {
        format!("{ADMINISTRATORS}/{}", self.id)
    }

    /// The answers to a request with the key, and to one with each secret.
    async fn use_all(&self) -> [u16; 4] {
        let server = self.owner.server;
        let program = Admin { server, token: text(&self.key, "key").to_owned() };
        let by_key = program.call("GET", "/api/organizations/acme/users", &Value::Null).await;
        let with_secret = async |client: &Value, secret: &Value| {
            let fields = [
                ("token", "x"),
                ("client_id", text(client, "client_id")),
                ("client_secret", text(secret, "client_secret")),
            ];
            server.post("/auth/introspect", &fields).send().await.status
        };
        [
            by_key.status,
            with_secret(&self.client, &self.client).await,
            with_secret(&self.shared, &self.added).await,
            with_secret(&self.shared, &self.shared).await,
        ]
    }

    fn assert_lists_all(&self, removed: &Answer, revoked: bool) {
        assert_eq!(removed.status, 200, "{removed:?}");
        let removed = removed.json();
        assert_eq!((&removed["user"], &removed["revoked"]), (&json!(self.id), &json!(revoked)), "{removed}");
        let all = |list: &str, name: &str| -> Vec<Value> {
            removed[list].as_array().expect("a list").iter().map(|made| made[name].clone()).collect()
        };
        assert_eq!(all("api_keys", "id"), [self.key["id"].clone()]);
        assert_eq!(all("api_keys", "scopes"), [json!(["users:write"])]);
        let clients = [self.client["client_id"].clone(), self.shared["client_id"].clone()];
        assert_eq!(all("client_secrets", "client_id"), clients);
        assert_eq!(all("client_secrets", "last"), [true, false], "{removed}");
        assert_eq!(all("client_secrets", "id")[1], self.added["id"]);
        assert_eq!(all("invitations", "email"), [json!("third@acme.test")]);
        assert_eq!(removed["more"], false);
        let shown = removed.to_string();
        let secrets = [text(&self.key, "key"), text(&self.client, "client_secret")];
        assert!(secrets.iter().all(|secret| !shown.contains(secret)), "{shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_administrator_made_is_listed_when_they_leave_and_works_until_it_is_revoked() {
    let server = TestServer::start().await;
    let first = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let second = second(&server, &first).await;
    assert_eq!(second.use_all().await, [200, 200, 200, 200]);

    let removed = first.call("DELETE", &second.path(), &Value::Null).await;
    second.assert_lists_all(&removed, false);
    assert_eq!(second.use_all().await, [200, 200, 200, 200], "the programs go on");
    let gone = first.call("DELETE", &second.path(), &Value::Null).await;
    assert_eq!(problem(&gone), is(404, "not_found"), "{gone:?}");

    // The list was read; now it is decided.
    let revoked = first.call("DELETE", &format!("{}?revoke=made", second.path()), &Value::Null).await;
    second.assert_lists_all(&revoked, true);
    assert_eq!(second.use_all().await, [401, 401, 401, 200], "only what the first owner made is left");
    let open = first.read(INVITATIONS).await;
    assert_eq!(open["items"], json!([]));
    let gone = first.call("DELETE", &format!("{}?revoke=made", second.path()), &Value::Null).await;
    assert_eq!(problem(&gone), is(404, "not_found"), "{gone:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_revokes_what_an_administrator_made_in_the_same_step() {
    let server = TestServer::start().await;
    let first = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let second = second(&server, &first).await;
    let wrong = first.call("DELETE", &format!("{}?revoke=all", second.path()), &Value::Null).await;
    assert_eq!(problem(&wrong), is(400, "invalid_query"), "{wrong:?}");
    assert_eq!(wrong.json()["errors"][0]["field"], "revoke", "{wrong:?}");
    assert_eq!(second.use_all().await, [200, 200, 200, 200]);

    server.clock.advance(Duration::from_millis(1));
    let removed = first.call("DELETE", &format!("{}?revoke=made", second.path()), &Value::Null).await;
    second.assert_lists_all(&removed, true);
    assert_eq!(second.use_all().await, [401, 401, 401, 200]);
    assert_eq!(second.owner.call("GET", "/api/organizations/acme", &Value::Null).await.status, 404);
    let trail = first.read("/api/organizations/acme/audit?limit=5").await;
    let mut actions: Vec<&str> =
        trail["items"].as_array().expect("a list").iter().map(|entry| text(entry, "action")).collect();
    actions.sort_unstable();
    let expected = [
        "administrator.removed",
        "api_key.revoked",
        "client.secret_deleted",
        "client.secret_deleted",
        "invitation.revoked",
    ];
    assert_eq!(actions, expected, "{trail}");
    let by_first = trail["items"]
        .as_array()
        .expect("a list")
        .iter()
        .all(|entry| entry["actor_email"] == "admin@acme.test");
    assert!(by_first, "{trail}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_an_owner_revokes_what_was_made_also_what_they_made_themselves() {
    let server = TestServer::start().await;
    let first = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let second = second(&server, &first).await;
    first.change("PATCH", &second.path(), json!({ "role": "admin" })).await;
    let refused = second.owner.call("DELETE", &format!("{}?revoke=made", second.path()), &Value::Null).await;
    assert_eq!(problem(&refused), is(403, "forbidden"), "{refused:?}");
    assert_eq!(second.use_all().await, [200, 200, 200, 200]);
    assert_eq!(second.owner.read("/api/organizations/acme").await["slug"], "acme", "nothing was done");
    let left = second.owner.call("DELETE", &second.path(), &Value::Null).await;
    second.assert_lists_all(&left, false);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_of_the_server_leaves_what_they_made_in_platform() {
    let server = TestServer::start().await;
    let platform = Admin::sign_in(&server, "owner@sarsen.test", "platform org:platform").await;
    platform.make("/api/organizations/platform/services", json!({ "slug": "ops", "name": "Ops" })).await;
    let link = platform.make("/api/platform/owners", json!({ "email": "second@sarsen.test" })).await;
    let accepted = accept_as_new(&mut server.browser(), &path_of(text(&link, "url")), super::PASSWORD).await;
    assert_eq!(accepted.status, 303, "{accepted:?}");
    let second = hired(&server, "second@sarsen.test", "platform org:platform").await;
    let key =
        second.make("/api/organizations/platform/keys", json!({ "name": "Ops", "service": "ops" })).await;
    let path = format!("/api/platform/owners/{}", text(&claims(&second.token), "sub"));
    let program = Admin { server: &server, token: text(&key, "key").to_owned() };
    let users = async || program.call("GET", "/api/service/users?ids=x", &Value::Null).await.status;
    assert_eq!(users().await, 200);
    let removed = platform.call("DELETE", &path, &Value::Null).await;
    assert_eq!((removed.status, &removed.json()["api_keys"][0]["id"]), (200, &key["id"]), "{removed:?}");
    assert_eq!(users().await, 200);
    let revoked = platform.call("DELETE", &format!("{path}?revoke=made"), &Value::Null).await;
    assert_eq!((revoked.status, &revoked.json()["revoked"]), (200, &json!(true)), "{revoked:?}");
    assert_eq!(users().await, 401);
    server.stop().await;
}
