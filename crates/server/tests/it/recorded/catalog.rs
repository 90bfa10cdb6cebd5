//! Services, clients with their secrets and scopes, plans, customers and subscriptions.

use super::{ACME, People, Recording, call, get, is_recorded, post, recorded_server};
use crate::support::{Ask, CALLBACK, text};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn services_and_clients() {
    if !is_recorded() {
        return;
    }
    let server = recorded_server(|_| {}, true).await;
    let people = People::of(&server).await;
    let to = &mut Recording::of(&server);
    let services = format!("{ACME}/services");

    to.section("Services");
    let body = json!({ "slug": "draw", "name": "Draw", "access_token_typ": "JWT" });
    people.admin(to, "made", post(&services).json(&body)).await;
    people.admin(to, "a slug that is taken", post(&services).json(&body)).await;
    people.admin(to, "read", get(format!("{services}/draw"))).await;
    people
        .admin(to, "changed", call("PATCH", format!("{services}/draw")).json(&json!({ "name": "Drawing" })))
        .await;
    let next = people.admin(to, "a page", get(format!("{services}?limit=3"))).await.text("next");
    people.admin(to, "the next page", get(format!("{services}?limit=3&cursor={next}"))).await;
    people.admin(to, "one in use", call("DELETE", format!("{services}/sketch"))).await;
    people.admin(to, "deleted", call("DELETE", format!("{services}/draw"))).await;
    people.admin(to, "gone", get(format!("{services}/draw"))).await;

    to.section("Clients");
    let clients = format!("{ACME}/clients");
    for (kind, uris) in [
        ("web", &[CALLBACK][..]),
        ("spa", &[CALLBACK]),
        ("native", &["com.example.app:/callback"]),
        ("device", &[]),
        ("machine", &[]),
    ] {
        let body =
            json!({ "service": "sketch", "kind": kind, "name": format!("A {kind}"), "redirect_uris": uris });
        people.admin(to, "made", post(&clients).json(&body)).await;
    }
    let body = json!({
        "service": "notes", "kind": "web", "name": "With all", "redirect_uris": [CALLBACK],
        "post_logout_redirect_uris": [CALLBACK], "pkce": "required", "id_token_alg": "ES256", "consent_required": false,
    });
    let made = people.admin(to, "made with all fields", post(&clients).json(&body)).await;
    let one = format!("{clients}/{}", made.text("client_id"));
    let other = json!({ "service": "nothing", "kind": "web", "name": "X", "redirect_uris": [CALLBACK] });
    people.admin(to, "of a service that does not exist", post(&clients).json(&other)).await;
    people.admin(to, "read", get(&one)).await;
    let change = json!({ "name": "Changed", "redirect_uris": [CALLBACK, "https://a.example/cb"] });
    people.admin(to, "changed", call("PATCH", &one).json(&change)).await;
    people.admin(to, "those of a service", get(format!("{clients}?service=notes"))).await;
    people.admin(to, "of no service", get(format!("{clients}?service=nothing"))).await;
    let next = people.admin(to, "a page", get(format!("{clients}?limit=2"))).await.text("next");
    people.admin(to, "the next page", get(format!("{clients}?limit=2&cursor={next}"))).await;
    let of_platform = "/api/organizations/platform/clients";
    people.owner(to, "those of platform", get(of_platform)).await;
    people
        .owner(to, "built in", call("PATCH", format!("{of_platform}/cli")).json(&json!({ "name": "Mine" })))
        .await;
    people.owner(to, "built in", call("DELETE", format!("{of_platform}/cli"))).await;
    people.owner(to, "built in", post(format!("{of_platform}/cli/secrets"))).await;

    to.section("Secrets");
    let secrets = format!("{one}/secrets");
    let made = people.admin(to, "another one", post(&secrets)).await.text("id");
    people.admin(to, "a list", get(&secrets)).await;
    people.admin(to, "deleted", call("DELETE", format!("{secrets}/{made}"))).await;
    people.admin(to, "gone", call("DELETE", format!("{secrets}/{made}"))).await;
    let public = format!("{clients}/{}/secrets", server.client("spa"));
    people.admin(to, "of a public client", post(&public)).await;
    for _ in 0..9 {
        people.as_admin().make(&secrets, serde_json::Value::Null).await;
    }
    people.admin(to, "one too many", post(&secrets)).await;

    to.section("Scopes of machines");
    let scopes = format!("{clients}/{}/scopes", server.client("machine"));
    let body = json!({ "scopes": ["users:read", "audit:read"] });
    people.admin(to, "granted", call("PUT", &scopes).json(&body)).await;
    people.admin(to, "not to a program of people", call("PUT", format!("{one}/scopes")).json(&body)).await;
    people.admin(to, "revoked", call("DELETE", &scopes)).await;

    to.section("Problems and deletion");
    let wrong = Ask::of(&server, "spa").with("redirect_uri", "https://evil.example/").path();
    server.get(&wrong).send().await;
    people
        .admin(to, "what a client sent wrong", get(format!("{clients}/{}/problems", server.client("spa"))))
        .await;
    people.admin(to, "deleted", call("DELETE", &one)).await;
    people.admin(to, "gone", get(&one)).await;
    insta::assert_snapshot!("services_and_clients", to.finish());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_and_subscriptions() {
    if !is_recorded() {
        return;
    }
    let server = recorded_server(|_| {}, true).await;
    let people = People::of(&server).await;
    let to = &mut Recording::of(&server);
    let plans = format!("{ACME}/plans");

    to.section("Plans");
    let body = json!({
        "slug": "gold", "name": "Gold", "services": ["sketch"], "price_cents": 900, "currency": "EUR",
        "features": ["export"], "limits": { "projects": 3 }, "seats": 2,
    });
    people.admin(to, "made", post(&plans).json(&body)).await;
    people.admin(to, "a slug that is taken", post(&plans).json(&body)).await;
    let mut lost = body.clone();
    lost["slug"] = json!("lost");
    lost["services"] = json!(["nothing"]);
    people.admin(to, "for a service that does not exist", post(&plans).json(&lost)).await;
    people.admin(to, "read", get(format!("{plans}/gold"))).await;
    let change = json!({ "name": "Golden", "features": ["export", "teleport"], "limits": {}, "seats": null });
    people.admin(to, "changed", call("PATCH", format!("{plans}/gold")).json(&change)).await;
    let next = people.admin(to, "a page", get(format!("{plans}?limit=2"))).await.text("next");
    people.admin(to, "the next page", get(format!("{plans}?limit=2&cursor={next}"))).await;
    people.admin(to, "one in use", call("DELETE", format!("{plans}/pro"))).await;
    people.admin(to, "deleted", call("DELETE", format!("{plans}/gold"))).await;

    to.section("Customers and subscriptions");
    let subscriptions = format!("{ACME}/subscriptions");
    let customers = people.admin(to, "customers", get(format!("{ACME}/customers"))).await;
    let customer = text(&customers.json()["items"][0], "id").to_owned();
    let listed = people.admin(to, "a list", get(&subscriptions)).await;
    let one = format!("{subscriptions}/{}", text(&listed.json()["items"][0], "id"));
    people.admin(to, "read", get(&one)).await;
    people.admin(to, "changed", call("PATCH", &one).json(&json!({ "plan": "starter" }))).await;
    let end = json!({ "status": "past_due", "current_period_end": "2027-02-01T00:00:00Z" });
    people.admin(to, "past due", call("PATCH", &one).json(&end)).await;
    people
        .admin(to, "to a plan that does not exist", call("PATCH", &one).json(&json!({ "plan": "gold" })))
        .await;
    let again = json!({ "customer": customer, "plan": "pro" });
    people.admin(to, "already subscribed", post(&subscriptions).json(&again)).await;
    let users = people.as_admin().read(&format!("{ACME}/users?email=grace@acme.test")).await;
    let grace = text(&users["items"][0], "id").to_owned();
    let body = json!({ "user": grace, "plan": "pro", "status": "trialing", "current_period_end": "2027-03-01T00:00:00Z" });
    people.admin(to, "made", post(&subscriptions).json(&body)).await;
    let nobody = json!({ "user": "user_00000000000000000000000000", "plan": "pro" });
    people.admin(to, "for nobody", post(&subscriptions).json(&nobody)).await;
    people.admin(to, "of a user", get(format!("{subscriptions}?user={grace}"))).await;
    people.admin(to, "of a plan", get(format!("{subscriptions}?plan=pro&limit=1"))).await;
    people.admin(to, "of no plan", get(format!("{subscriptions}?plan=gold"))).await;
    people.admin(to, "deleted", call("DELETE", &one)).await;
    people.admin(to, "gone", get(&one)).await;
    insta::assert_snapshot!("plans_and_subscriptions", to.finish());
    server.stop().await;
}
