//! Billing: signed events of a payment provider change plans, whatever their order and however often they come.

mod attacks;
mod events;
mod mappings;
mod removal;

use crate::support::*;
use aws_lc_rs::hmac;
use serde_json::{Value, json};
use server::testing::{Answer, Request, TestServer};

pub const BILLING: &str = "/api/organizations/acme/billing";
pub const SECRET: &str = "whsec_a_secret_of_the_tests";

/// Stripe, as far as one connection sees it.
pub struct Stripe<'s> {
    pub server: &'s TestServer,
    /// The id of the connection.
    pub connection: String,
    pub secret: String,
}

/// The header of a signature.
pub fn header(secret: &str, seconds: i64, body: &[u8]) -> String {
    let text = [seconds.to_string().as_bytes(), b".", body].concat();
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), &text);
    let hex: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("t={seconds},v1={hex}")
}

impl<'s> Stripe<'s> {
    /// Creates a connection to the test mode, with the plans of the demo.
    pub async fn connect(owner: &Admin<'s>) -> Stripe<'s> {
        let body = json!({ "name": "Stripe", "livemode": false, "secret": SECRET });
        let made = owner.make(BILLING, body).await;
        assert_eq!(text(&made, "endpoint"), format!("{ISSUER}/webhooks/billing/{}", text(&made, "id")));
        let stripe = Stripe {
            server: owner.server,
            connection: text(&made, "id").to_owned(),
            secret: SECRET.to_owned(),
        };
        for (price, plan) in [("price_starter", "starter"), ("price_pro", "pro")] {
            owner.change("PUT", &stripe.path(&format!("prices/{price}")), json!({ "plan": plan })).await;
        }
        stripe
    }

    /// An address of the API below the connection.
    pub fn path(&self, rest: &str) -> String {
        format!("{BILLING}/{}/{rest}", self.connection)
    }

    /// Lets a customer of Stripe stand for a user.
    pub async fn set_customer(&self, admin: &Admin<'_>, external: &str, email: &str) {
        let user = user_id(admin, email).await;
        admin.change("PUT", &self.path(&format!("customers/{external}")), json!({ "user": user })).await;
    }

    /// The server's time.
    pub fn now(&self) -> i64 {
        self.server.app.now().millis() / 1000
    }

    /// A signed request with these bytes.
    pub fn signed(&self, body: Vec<u8>) -> Request<'s> {
        let header = header(&self.secret, self.now(), &body);
        let request = self.server.request("POST", &format!("/webhooks/billing/{}", self.connection));
        request.header("stripe-signature", &header).body("application/json; charset=utf-8", body)
    }

    /// Sends an event; what it has led to.
    pub async fn send(&self, event: &Value) -> String {
        let answer = self.signed(event.to_string().into_bytes()).send().await;
        outcome(&answer)
    }
}

pub fn outcome(answer: &Answer) -> String {
    assert_eq!((answer.status, answer.json()["received"].clone()), (200, json!(true)), "{answer:?}");
    answer.text("outcome")
}

pub async fn user_id(admin: &Admin<'_>, email: &str) -> String {
    let found = admin.read(&format!("/api/organizations/acme/users?email={email}")).await;
    text(&found["items"][0], "id").to_owned()
}

/// A subscription of `cus_ada`, as Stripe sends it.
pub fn subscription(id: &str, price: &str, status: &str, period_end: i64) -> Value {
    json!({
        "id": id, "object": "subscription", "customer": "cus_ada", "status": status, "livemode": false,
        "cancel_at_period_end": false, "cancel_at": null, "metadata": { "plan": "gold", "user_id": "user_1" },
        "items": { "object": "list", "has_more": false, "data": [
            { "id": "si_1", "object": "subscription_item", "quantity": 1, "current_period_end": period_end,
              "price": { "id": price, "object": "price", "product": "prod_1", "unit_amount": 1900 } }
        ] },
    })
}

/// An event about an object.
pub fn event(id: &str, kind: &str, created: i64, object: Value) -> Value {
    json!({
        "id": id, "object": "event", "api_version": "2026-01-28.clover", "created": created, "type": kind,
        "livemode": false, "pending_webhooks": 1, "request": { "id": null, "idempotency_key": null },
        "data": { "object": object },
    })
}

/// A checkout that is finished.
pub fn checkout(id: &str, customer: &str, reference: Option<&str>) -> Value {
    json!({
        "id": id, "object": "checkout.session", "mode": "subscription", "customer": customer, "livemode": false,
        "subscription": "sub_1", "status": "complete", "payment_status": "paid", "client_reference_id": reference,
        "metadata": { "client_reference_id": "customer_00000000000000000000000000" },
    })
}

/// The live subscriptions of a user: plan and status.
pub async fn live(admin: &Admin<'_>, email: &str) -> Vec<(String, String)> {
    let user = user_id(admin, email).await;
    let found = admin.read(&format!("/api/organizations/acme/subscriptions?user={user}")).await;
    let items = found["items"].as_array().expect("a list").iter();
    let live = items.filter(|one| one["status"] != "canceled");
    live.map(|one| (text(one, "plan").to_owned(), text(one, "status").to_owned())).collect()
}

/// How often the audit trail has an action.
pub async fn noted(admin: &Admin<'_>, action: &str) -> usize {
    let audit = admin.read("/api/organizations/acme/audit?limit=200").await;
    audit["items"].as_array().expect("a list").iter().filter(|entry| entry["action"] == action).count()
}

pub fn one(plan: &str, status: &str) -> Vec<(String, String)> {
    vec![(plan.to_owned(), status.to_owned())]
}
