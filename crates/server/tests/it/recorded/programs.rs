//! What a service reads with a user's token or its key, and writes that are sent again with an `Idempotency-Key`.

use super::{ACME, Call, People, Recording, call, get, is_recorded, post, recorded_server};
use crate::support::{claims, text, tokens};
use identity::idempotent_writes::{self, KeyedRequest};
use identity::ids::IdempotentWriteId;
use serde_json::json;
use server::testing::Answer;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn services_of_users() {
    if !is_recorded() {
        return;
    }
    let server = recorded_server(|_| {}, true).await;
    let to = &mut Recording::of(&server);
    let (ada, grace) = (
        tokens(&server, "ada@acme.test", "openid profile email").await.text("access_token"),
        tokens(&server, "grace@acme.test", "openid").await.text("access_token"),
    );
    to.section("With the token of a user");
    for (name, token) in [("ada", &ada), ("grace", &grace)] {
        for path in ["/api/subscription", "/api/user"] {
            to.send(&server, "read", get(path).by(name, token)).await;
        }
    }
    to.send(&server, "HEAD", call("HEAD", "/api/user").by("ada", &ada)).await;
    let basic = get("/api/user").header("authorization", "Basic YTpi");
    to.send(&server, "no bearer token", basic).await;
    to.section("With the key of a service");
    let key = server.demo.api_key.clone();
    let key = |call: Call| call.by("key", &key);
    let (ada, grace) = (claims(&ada), claims(&grace));
    let (ada, grace) = (text(&ada, "sub"), text(&grace, "sub"));
    let users = "/api/service/users";
    to.send(&server, "its users", key(get(format!("{users}?ids={ada},{grace},user_x")))).await;
    to.send(&server, "none", key(get(format!("{users}?ids=")))).await;
    to.send(&server, "none", key(get(users))).await;
    let many = vec!["user_x"; 101].join(",");
    to.send(&server, "too many", key(get(format!("{users}?ids={many}")))).await;
    let checks = json!({ "checks": [
        { "user": ada, "feature": "history" }, { "user": grace, "feature": "history" },
        { "user": "user_00000000000000000000000000", "feature": "history" },
    ] });
    to.send(&server, "checks", key(post("/api/service/check").json(&checks))).await;
    to.send(&server, "no checks", key(post("/api/service/check").json(&json!({ "checks": [] })))).await;
    let state = to.send(&server, "the state", key(get("/api/service/state?limit=1"))).await;
    let next = state.text("next");
    if !next.is_empty() {
        to.send(&server, "its next page", key(get(format!("/api/service/state?limit=1&cursor={next}"))))
            .await;
    }
    to.send(&server, "a cursor that is none", key(get("/api/service/state?cursor=x"))).await;
    insta::assert_snapshot!("services_of_users", to.finish());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn idempotency() {
    if !is_recorded() {
        return;
    }
    let server = recorded_server(|settings| settings.keyed_writes_max = 14, true).await;
    let people = People::of(&server).await;
    let to = &mut Recording::of(&server);
    let services = format!("{ACME}/services");
    let body = json!({ "slug": "atlas", "name": "Atlas" });
    let keyed = |call: Call, key: &str| call.header("idempotency-key", key);
    people.admin(to, "first", keyed(post(&services).json(&body), "k1")).await;
    people.admin(to, "again", keyed(post(&services).json(&body), "k1")).await;
    let other = json!({ "slug": "borea", "name": "Borea" });
    people.admin(to, "with another body", keyed(post(&services).json(&other), "k1")).await;
    people.admin(to, "another key", keyed(post(&services).json(&body), "k2")).await;
    people.admin(to, "what failed is not kept", keyed(post(&services).json(&other), "k2")).await;
    let borea = format!("{services}/borea");
    people.admin(to, "a deletion", keyed(call("DELETE", &borea), "k3")).await;
    people.admin(to, "again", keyed(call("DELETE", &borea), "k3")).await;
    let key = json!({ "name": "Audits", "scopes": ["audit:read"] });
    people.admin(to, "a secret", keyed(post(format!("{ACME}/keys")).json(&key), "k4")).await;
    people.admin(to, "its replay has none", keyed(post(format!("{ACME}/keys")).json(&key), "k4")).await;
    people.admin(to, "a read ignores it", keyed(get(&borea), "k1")).await;
    let nobody = keyed(post(&services).json(&body), "k1");
    to.send(&server, "nobody", nobody).await;
    for wrong in ["", "two words", &"x".repeat(256)] {
        people.admin(to, "a wrong key", keyed(post(&services).json(&body), wrong)).await;
    }
    let twice = keyed(keyed(post(&services).json(&body), "a"), "b");
    people.admin(to, "two keys", twice).await;

    to.section("A write whose answer is not there");
    let lost = json!({ "slug": "lost", "name": "Lost" });
    let id = IdempotentWriteId::new(server.app.now(), server.app.random());
    let (claims, now) = (claims(&people.admin), server.app.now());
    let sent = lost.to_string();
    let request = KeyedRequest::new(id, text(&claims, "sub"), ["POST", &services, "k5"], "", sent.as_bytes());
    // As the release before this one has it between its two commands.
    let begun = server.app.store.write("test", move |tx| idempotent_writes::insert(tx, &request, now));
    assert!(begun.await.expect("begins"));
    people.admin(to, "it is being answered", keyed(post(&services).json(&lost), "k5")).await;
    server.clock.advance(Duration::from_secs(60));
    people.admin(to, "it was lost", keyed(post(&services).json(&lost), "k5")).await;
    let mut last = Answer { status: 0, headers: Vec::new(), body: String::new() };
    let mut number = 0;
    while last.status != 429 {
        number += 1;
        assert!(number < 20, "{last:?}");
        let call = keyed(post(&services).json(&body), &format!("n{number}")).by("admin", &people.admin);
        last = to.silently(&server, &call).await;
        if last.status == 429 {
            to.record("too many keys", &call, &last);
        }
    }
    insta::assert_snapshot!("idempotency", to.finish());
    server.stop().await;
}
