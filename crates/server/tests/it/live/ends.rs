//! Streams end with their key and with the server, and their number is limited.

use super::{Live, STATE, ada, owner, set_plan};
use crate::support::{admin_token, text};
use serde_json::{Value, json};
use server::testing::TestServer;
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_revoked_gets_nothing_more() {
    let server = TestServer::start().await;
    let owner = owner(&server).await;
    let (_, subscription) = ada(&owner).await;
    let key =
        owner.make("/api/organizations/acme/keys", json!({ "name": "Copy", "service": "sketch" })).await;
    let (id, token) = (text(&key, "id").to_owned(), text(&key, "key").to_owned());
    let mut live = Live::open(&server, &token, None).await;
    live.joined().await;
    owner.change("DELETE", &format!("/api/organizations/acme/keys/{id}"), Value::Null).await;
    set_plan(&owner, &subscription, "starter").await;
    assert_eq!(live.expect("bye").await.data["reason"], "key_ended");
    assert!(live.next().await.is_none());
    assert_eq!(Live::request(&server, &token, None).await.status(), 401);
    // Both scopes are needed, and a key of a service.
    let half = json!({ "name": "Half", "service": "sketch", "scopes": ["users:read"] });
    let half = owner.make("/api/organizations/acme/keys", half).await;
    let admin = admin_token(&server, "admin@acme.test", "org:acme").await;
    for token in [text(&half, "key"), &admin] {
        assert_eq!(Live::request(&server, token, None).await.status(), 403);
        assert_eq!(server.get(STATE).bearer(token).send().await.status, 403);
    }
    assert_eq!(server.get("/api/live").send().await.status, 401);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_are_limited_and_say_goodbye_at_the_end() {
    let server = TestServer::start_with(|settings| settings.streams_per_caller_max = 2, |_| {}).await;
    let key = server.demo.api_key.clone();
    let mut first = Live::open(&server, &key, None).await;
    let mut second = Live::open(&server, &key, None).await;
    first.joined().await;
    second.joined().await;
    let refused = server.get("/api/live").bearer(&key).send().await;
    assert_eq!((refused.status, refused.text("code")), (429, "too_many_streams".to_owned()));
    drop(first);
    let began = Instant::now();
    let mut third = loop {
        let live = Live::request(&server, &key, None).await;
        if live.status() == 200 {
            break live;
        }
        assert!(began.elapsed() < Duration::from_secs(10), "the place of a client that has gone is free");
        tokio::task::yield_now().await;
    };
    third.joined().await;
    let ends = tokio::spawn(async move {
        let (one, other) = (second.expect("bye").await, third.expect("bye").await);
        assert!(second.next().await.is_none() && third.next().await.is_none());
        (one, other)
    });
    server.stop().await;
    let (one, other) = ends.await.expect("ends");
    assert_eq!((text(&one.data, "reason"), text(&other.data, "reason")), ("stopping", "stopping"));
    assert_ne!(one.retry, other.retry, "they do not come back at once");
}
