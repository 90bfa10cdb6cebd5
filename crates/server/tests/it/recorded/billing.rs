//! Connections to payment providers, and their events.

use super::{ACME, People, Recording, call, get, is_recorded, post, recorded_server};
use crate::billing::{SECRET, checkout, event, header, subscription, user_id};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn billing() {
    if !is_recorded() {
        return;
    }
    let server = recorded_server(|_| {}, true).await;
    let people = People::of(&server).await;
    let to = &mut Recording::of(&server);
    let all = format!("{ACME}/billing");

    to.section("Connections");
    let body = json!({ "name": "Stripe", "livemode": false, "secret": SECRET });
    let id = people.admin(to, "made", post(&all).json(&body)).await.text("id");
    let one = format!("{all}/{id}");
    people.admin(to, "read", get(&one)).await;
    people.admin(to, "a list", get(&all)).await;
    people.admin(to, "changed", call("PATCH", &one).json(&json!({ "name": "Stripe, test mode" }))).await;

    to.section("Prices and customers");
    let prices = format!("{one}/prices");
    people.admin(to, "set", call("PUT", format!("{prices}/price_pro")).json(&json!({ "plan": "pro" }))).await;
    people
        .admin(to, "for no plan", call("PUT", format!("{prices}/price_x")).json(&json!({ "plan": "gold" })))
        .await;
    people.admin(to, "a list", get(&prices)).await;
    people.admin(to, "the plan is in use", call("DELETE", format!("{ACME}/plans/pro"))).await;
    let customers = format!("{one}/customers");
    let ada = json!({ "user": user_id(&people.as_admin(), "ada@acme.test").await });
    people.admin(to, "set", call("PUT", format!("{customers}/cus_ada")).json(&ada)).await;
    let nobody = json!({ "user": "user_00000000000000000000000000" });
    people.admin(to, "for nobody", call("PUT", format!("{customers}/cus_x")).json(&nobody)).await;
    people.admin(to, "a list", get(&customers)).await;
    let reference = people.admin(to, "a reference", post(format!("{one}/references")).json(&ada)).await;

    to.section("Events");
    let now = server.app.now().millis() / 1000;
    let hook = format!("/webhooks/billing/{id}");
    let signed = |body: &[u8]| {
        let header = header(SECRET, now, body);
        post(&hook).header("stripe-signature", &header).body("application/json", body.to_vec())
    };
    let created = |id: &str, price: &str| {
        let object = subscription("sub_1", price, "active", now + 86_400);
        event(id, "customer.subscription.created", now, object)
    };
    let reference = reference.text("reference");
    let known =
        event("evt_1", "checkout.session.completed", now, checkout("cs_1", "cus_new", Some(&reference)));
    for (what, event) in [
        ("a checkout with a reference", known),
        ("a subscription", created("evt_2", "price_pro")),
        ("the same event again", created("evt_2", "price_pro")),
        ("a price that is not known", created("evt_3", "price_other")),
        (
            "an event of another kind",
            event("evt_4", "invoice.paid", now, json!({ "id": "in_1", "object": "invoice" })),
        ),
    ] {
        to.send(&server, what, signed(event.to_string().as_bytes())).await;
    }
    to.send(&server, "no JSON", signed(b"x")).await;
    to.send(&server, "no event", signed(b"{}")).await;
    let unsigned = post(&hook).body("application/json", "{}");
    to.send(&server, "without a signature", unsigned.clone()).await;
    let forged = unsigned.header("stripe-signature", &header("whsec_other", now, b"{}"));
    to.send(&server, "signed by another", forged).await;
    let late = header(SECRET, now - 400, b"{}");
    to.send(&server, "too old", post(&hook).header("stripe-signature", &late).body("application/json", "{}"))
        .await;
    let large = vec![b' '; 256 * 1024 + 1];
    to.send(&server, "too large", signed(&large)).await;
    let nowhere = post("/webhooks/billing/billing_00000000000000000000000000");
    to.send(&server, "no connection", nowhere.body("application/json", "{}")).await;

    to.section("What became of them");
    people.admin(to, "events", get(format!("{one}/events"))).await;
    people.admin(to, "subscriptions", get(format!("{one}/subscriptions"))).await;
    people.admin(to, "those that wait", get(format!("{one}/subscriptions?waiting=true"))).await;
    people.admin(to, "a choice that is none", get(format!("{one}/subscriptions?waiting=x"))).await;
    people.admin(to, "a retry", post(format!("{one}/retry"))).await;
    people.admin(to, "a cursor that is none", post(format!("{one}/retry?cursor=%20"))).await;
    people.admin(to, "a price is forgotten", call("DELETE", format!("{prices}/price_pro"))).await;
    people.admin(to, "a customer is forgotten", call("DELETE", format!("{customers}/cus_ada"))).await;
    people.admin(to, "gone", call("DELETE", format!("{customers}/cus_ada"))).await;
    for number in 1..20 {
        people.as_admin().make(&all, json!({ "name": format!("Connection {number}") })).await;
    }
    people.admin(to, "one connection too many", post(&all).json(&json!({ "name": "Last" }))).await;
    people.admin(to, "deleted", call("DELETE", &one)).await;
    people.admin(to, "gone", call("GET", &one)).await;
    insta::assert_snapshot!("billing", to.finish());
    server.stop().await;
}
