//! What an owner of the server does with organizations and owners, and what an organization that is not active may do.

use super::{ACME, People, Recording, call, get, is_recorded, post, recorded_server};
use crate::support::{accept_as_new, claims, path_of, text};
use serde_json::json;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn platform() {
    if !is_recorded() {
        return;
    }
    let server = recorded_server(|_| {}, true).await;
    let people = People::of(&server).await;
    let to = &mut Recording::of(&server);
    let all = "/api/platform/organizations";

    to.section("Reviews");
    for slug in ["globex", "initech"] {
        people.as_admin().make("/api/organizations", json!({ "slug": slug, "name": slug })).await;
    }
    people.owner(to, "a page", get(format!("{all}?limit=2"))).await;
    people.owner(to, "those that wait", get(format!("{all}?status=pending"))).await;
    people
        .owner(to, "approved", post(format!("{all}/globex/review")).json(&json!({ "decision": "approved" })))
        .await;
    people
        .owner(
            to,
            "approved again",
            post(format!("{all}/globex/review")).json(&json!({ "decision": "approved" })),
        )
        .await;
    let body = json!({ "decision": "rejected", "reason": "a fake" });
    people.owner(to, "rejected", post(format!("{all}/initech/review")).json(&body)).await;

    to.section("Suspension");
    let suspension = format!("{all}/acme/suspension");
    people
        .owner(to, "not platform", call("PUT", format!("{all}/platform/suspension")).json(&json!({})))
        .await;
    people.owner(to, "suspended", call("PUT", &suspension).json(&json!({ "reason": "unpaid" }))).await;
    people.owner(to, "suspended again", call("PUT", &suspension).json(&json!({}))).await;
    people.admin(to, "it is still read", get(ACME)).await;
    people.admin(to, "and not changed", call("PATCH", ACME).json(&json!({ "name": "X" }))).await;
    let key = server.demo.api_key.clone();
    to.send(&server, "a key of its service", get("/api/service/users?ids=x").by("key", &key)).await;
    to.send(&server, "its sign-in", get("/o/acme/login")).await;
    to.send(&server, "its devices", post("/auth/device/code").form(&[("client_id", server.client("cli"))]))
        .await;
    people.owner(to, "active again", call("DELETE", &suspension)).await;
    people.owner(to, "it is active", call("DELETE", &suspension)).await;

    to.section("Owners");
    let owners = "/api/platform/owners";
    people.owner(to, "a list", get(owners)).await;
    let second = json!({ "email": "second@sarsen.test" });
    let invited = people.owner(to, "invited", post(owners).json(&second)).await;
    let link = path_of(&invited.text("url"));
    accept_as_new(&mut server.browser(), &link, "correct horse battery").await;
    let listed = people.owner(to, "two", get(owners)).await.json();
    let second =
        listed["items"].as_array().into_iter().flatten().find(|one| one["email"] == "second@sarsen.test");
    let second = text(second.expect("a second owner"), "user").to_owned();
    people.owner(to, "removed", call("DELETE", format!("{owners}/{second}"))).await;
    people.owner(to, "an owner already", post(owners).json(&json!({ "email": "owner@sarsen.test" }))).await;
    let own = format!("{owners}/{}", text(&claims(&people.owner), "sub"));
    people.owner(to, "the last one", call("DELETE", &own)).await;
    people.owner(to, "nobody", call("DELETE", format!("{owners}/user_00000000000000000000000000"))).await;

    to.section("Deletion of an organization");
    people.admin(to, "deleted", call("DELETE", ACME)).await;
    people.admin(to, "deleted again", call("DELETE", ACME)).await;
    people.admin(to, "restored", call("DELETE", format!("{ACME}/deletion"))).await;
    people.admin(to, "restored again", call("DELETE", format!("{ACME}/deletion"))).await;
    people.admin(to, "read", get(ACME)).await;
    server.clock.advance(Duration::from_secs(3600));
    people.admin(to, "a token that has expired", get(ACME)).await;
    insta::assert_snapshot!("platform", to.finish());
    server.stop().await;
}
