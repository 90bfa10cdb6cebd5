//! Names beside ids: what those who administer read says who and what an id is, of their own organization only.

use super::globex;
use crate::support::*;
use serde_json::{Value, json};
use server::testing::TestServer;
use std::time::Duration;

const ACME: &str = "/api/organizations/acme";

/// The newest entry of the audit trail of acme: who and what, by name.
async fn newest(admin: &Admin<'_>) -> (Value, Value) {
    let entry = admin.read(&format!("{ACME}/audit?limit=1")).await["items"][0].take();
    assert!(entry["actor"].is_string() && entry["target"].is_string(), "the ids stay: {entry}");
    (entry["actor_email"].clone(), entry["target_name"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_trail_names_people_and_things() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let made = [
        ("users", json!({ "email": "hedy@acme.test" }), json!("hedy@acme.test")),
        ("services", json!({ "slug": "tables", "name": "Acme Tables" }), json!("tables")),
        (
            "plans",
            json!({ "slug": "team", "name": "Team", "services": ["tables"], "price_cents": 1, "currency": "EUR" }),
            json!("team"),
        ),
        (
            "clients",
            json!({ "service": "tables", "kind": "spa", "name": "Web", "redirect_uris": [CALLBACK] }),
            json!("Web"),
        ),
        (
            "invitations",
            json!({ "email": "owner@sarsen.test", "role": "member" }),
            json!("owner@sarsen.test"),
        ),
    ];
    for (what, body, name) in made {
        // Entries of one millisecond have no order among them.
        server.clock.advance(Duration::from_millis(1));
        admin.make(&format!("{ACME}/{what}"), body).await;
        assert_eq!(newest(&admin).await, (json!("admin@acme.test"), name), "{what}");
    }
    server.clock.advance(Duration::from_millis(1));
    let id = admin.read(&format!("{ACME}/plans/team")).await["id"].clone();
    admin.change("DELETE", &format!("{ACME}/plans/team"), Value::Null).await;
    assert_eq!(newest(&admin).await, (json!("admin@acme.test"), Value::Null), "what is no more: {id}");

    // What a user does by himself: a session has no name.
    server.clock.advance(Duration::from_millis(1));
    server.browser().sign_in("acme", "ada@acme.test").await;
    assert_eq!(newest(&admin).await, (json!("ada@acme.test"), Value::Null));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_acts_from_above_stays_an_id() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let owner = globex(&server).await;
    for (method, path) in [("PUT", "suspension"), ("DELETE", "suspension")] {
        server.clock.advance(Duration::from_millis(1));
        let body = if method == "PUT" { json!({}) } else { Value::Null };
        owner.change(method, &format!("/api/platform/organizations/acme/{path}"), body).await;
    }
    assert_eq!(newest(&admin).await, (Value::Null, Value::Null));
    let trail = admin.read(&format!("{ACME}/audit?limit=200")).await.to_string();
    assert!(!trail.contains("owner@sarsen.test") && trail.contains("organization.activated"), "{trail}");
    // In his own organization he is known by name.
    let own = owner.read("/api/organizations/globex/audit?limit=1").await["items"][0].take();
    assert_eq!(own["actor_email"], "owner@sarsen.test", "{own}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_says_whose_it_is() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let user = admin.read(&format!("{ACME}/users?email=grace@acme.test")).await["items"][0].take();
    let path = format!("{ACME}/subscriptions");
    let by_user = json!({ "user": user["id"], "plan": "starter" });
    let made = admin.make(&path, by_user).await;
    let one = format!("{path}/{}", text(&made, "id"));
    let changed = admin.change("PATCH", &one, json!({ "status": "past_due" })).await.json();
    let listed = admin.read(&format!("{path}?user={}", text(&user, "id"))).await["items"][0].take();
    let shown = admin.read(&one).await;
    admin.change("DELETE", &one, Value::Null).await;
    let by_customer = json!({ "customer": made["customer"], "plan": "starter" });
    let again = admin.make(&path, by_customer).await;
    for subscription in [&made, &changed, &listed, &shown, &again] {
        let said = (&subscription["user"], &subscription["user_email"], &subscription["customer_name"]);
        assert_eq!(said, (&user["id"], &json!("grace@acme.test"), &user["name"]), "{subscription}");
    }
    server.stop().await;
}
