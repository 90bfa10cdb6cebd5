//! What is deleted leaves nothing behind, and comes back by no event.

use super::*;
use identity::billing::{connections, events};
use identity::organization_deletions::GRACE;
use identity::sealed;
use server::SecretKey;
use server::testing::at_once;
use std::time::Duration;
use store::{Sql, args};

const TABLES: [&str; 6] = [
    "billing_connections",
    "billing_prices",
    "billing_customers",
    "billing_subscriptions",
    "billing_events",
    "billing_walks",
];

/// The rows of all tables of billing.
async fn rows(server: &TestServer) -> Vec<i64> {
    let mut rows = Vec::new();
    for table in TABLES {
        let count = server.app.store.read(move |snapshot| {
            snapshot.one(&Sql::dynamic(format!("SELECT COUNT(*) FROM {table}")), args![], |row| row.get(0))
        });
        rows.push(count.await.map_err(|error: store::Error| error).expect("counts").expect("a row"));
    }
    rows
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_user_gets_no_plan_back() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let stripe = Stripe::connect(&owner).await;
    stripe.set_customer(&owner, "cus_ada", "grace@acme.test").await;
    let grace = user_id(&owner, "grace@acme.test").await;
    let made = owner.make(&stripe.path("references"), json!({ "user": grace })).await;
    let (now, end) = (stripe.now(), stripe.now() + 3600);
    let active = |price: &str| subscription("sub_1", price, "active", end);
    let created = event("evt_1", "customer.subscription.created", now, active("price_pro"));
    assert_eq!(stripe.send(&created).await, "applied");
    owner.change("DELETE", &format!("/api/organizations/acme/users/{grace}"), Value::Null).await;
    let renewed = event("evt_2", "customer.subscription.updated", now + 1, active("price_starter"));
    assert_eq!(
        stripe.send(&renewed).await,
        "unknown_customer",
        "the administrator sees that Stripe still charges"
    );
    let paid = checkout("cs_1", "cus_ada", Some(text(&made, "reference")));
    assert_eq!(stripe.send(&event("evt_3", "checkout.session.completed", now, paid)).await, "no_reference");
    let body = json!({ "customer": made["customer"] });
    assert_eq!(owner.call("PUT", &stripe.path("customers/cus_ada"), &body).await.status, 404);
    let found = owner.read(&format!("/api/organizations/acme/subscriptions?user={grace}")).await;
    assert!(
        found["items"].as_array().expect("a list").iter().all(|one| one["status"] == "canceled"),
        "{found}"
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_connection_goes_in_slices_and_so_do_old_events() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let stripe = Stripe::connect(&owner).await;
    stripe.set_customer(&owner, "cus_ada", "grace@acme.test").await;
    let (now, end) = (stripe.now(), stripe.now() + 3600);
    let sends = (0..230).map(|number| {
        let object = subscription(&format!("sub_{number:03}"), "price_pro", "incomplete", end);
        event(&format!("evt_{number:03}"), "customer.subscription.created", now, object)
    });
    let sends: Vec<Value> = sends.collect();
    at_once(sends.iter().map(|event| stripe.send(event))).await;
    assert_eq!(rows(&server).await, [1, 2, 1, 230, 230, 2]);
    server.clock.advance(events::KEPT - Duration::from_secs(1));
    assert!(server.tidy().await.expect("tidies"));
    assert_eq!(rows(&server).await[4], 230);
    server.clock.advance(Duration::from_secs(2));
    assert!(server.tidy().await.expect("tidies"));
    assert_eq!(rows(&server).await, [1, 2, 1, 230, 0, 0]);
    // The order of events is still known.
    let old = event(
        "evt_000",
        "customer.subscription.created",
        now,
        subscription("sub_000", "price_pro", "active", end),
    );
    assert_eq!(stripe.send(&old).await, "outdated");

    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    owner.change("DELETE", &format!("{BILLING}/{}", stripe.connection), Value::Null).await;
    assert_eq!(owner.read(BILLING).await["items"], json!([]));
    assert!(server.tidy().await.expect("tidies"));
    assert_eq!(rows(&server).await, [0, 0, 0, 0, 0, 0]);
    let plan = owner.call("DELETE", "/api/organizations/acme/plans/starter", &Value::Null).await;
    assert_eq!(plan.status, 204, "{plan:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_an_organization_takes_its_connections_along() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let stripe = Stripe::connect(&owner).await;
    stripe.set_customer(&owner, "cus_ada", "grace@acme.test").await;
    let (now, end) = (stripe.now(), stripe.now() + 3600);
    let created = event(
        "evt_1",
        "customer.subscription.created",
        now,
        subscription("sub_1", "price_pro", "active", end),
    );
    assert_eq!(stripe.send(&created).await, "applied");
    let platform = Admin::sign_in(&server, "owner@sarsen.test", "platform").await;
    platform.change("PUT", "/api/platform/organizations/acme/suspension", json!({})).await;
    let ended = subscription("sub_1", "price_pro", "canceled", end);
    let ended = event("evt_2", "customer.subscription.deleted", now + 1, ended);
    assert_eq!(stripe.send(&ended).await, "applied", "a suspended organization keeps its books");
    platform.change("DELETE", "/api/platform/organizations/acme/suspension", Value::Null).await;
    // The last of several, whose customer and plans must not go before it.
    let other = Stripe::connect(&owner).await;
    other.set_customer(&owner, "cus_grace", "grace@acme.test").await;
    owner.change("DELETE", "/api/organizations/acme", Value::Null).await;
    server.clock.advance(GRACE + Duration::from_secs(600));
    for _ in 0..20 {
        assert!(server.tidy().await.expect("tidies"));
    }
    assert_eq!(rows(&server).await, [0, 0, 0, 0, 0, 0]);
    let late = stripe.signed(created.to_string().into_bytes()).send().await;
    assert_eq!(late.text("code"), "invalid_signature");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_secret_key_opens_the_signing_secrets() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let stripe = Stripe::connect(&owner).await;
    let (old, new) = (SecretKey::new(&[7; 32]), SecretKey::new(&[8; 32]));
    let (from, to) = (old.clone(), new.clone());
    let resealed = server
        .app
        .store
        .write("test.rekey", move |tx| sealed::reseal(tx, &from, &to, &server::SystemRandom))
        .await;
    resealed.expect("seals again");
    let id = identity::ids::BillingConnectionId::parse(&stripe.connection).expect("an id");
    let found = server.app.store.read(move |snapshot| connections::find(snapshot, &id)).await;
    let connection = found.expect("reads").expect("a connection");
    assert_eq!(connection.open_secret(&new).expect("opens").as_deref(), Some(SECRET.as_bytes()));
    assert!(connection.open_secret(&old).is_err());
    server.stop().await;
}
