//! The stream of a user: the state, then each change, until the grant ends.

use super::{Live, ada, owner, set_plan};
use crate::support::{Admin, text, tokens};
use serde_json::{Value, json};
use server::testing::{TestServer, at_once};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn a_users_stream_begins_with_the_state_and_has_each_change() {
    let server = TestServer::start().await;
    let owner = owner(&server).await;
    let (user, subscription) = ada(&owner).await;
    let token = tokens(&server, "ada@acme.test", "openid").await.text("access_token");
    let mut live = Live::open(&server, &token, None).await;
    let state = live.expect("state").await;
    assert!(state.id.is_some(), "{state:?}");
    assert_eq!((text(&state.data["user"], "id"), text(&state.data["subscription"], "plan")), (&*user, "pro"));
    assert_eq!(state.data["administers"], json!([]));
    assert_eq!(text(&state.data["service"], "service"), "sketch");
    let session = text(&state.data["session"], "id").to_owned();

    set_plan(&owner, &subscription, "starter").await;
    let changed = live.expect("subscription.changed").await;
    assert_eq!(text(&changed.data["subscription"], "plan"), "starter");
    // A change of the plan, not of the subscription.
    owner.change("PATCH", "/api/organizations/acme/plans/starter", json!({ "features": ["teleport"] })).await;
    let changed = live.expect("subscription.changed").await;
    assert_eq!(changed.data["subscription"]["features"], json!(["teleport"]));
    owner
        .change("PATCH", &format!("/api/organizations/acme/users/{user}"), json!({ "name": "Countess" }))
        .await;
    assert_eq!(text(&live.expect("user.changed").await.data["user"], "name"), "Countess");
    owner.change("PATCH", "/api/organizations/acme/services/sketch", json!({ "name": "Sketchbook" })).await;
    assert_eq!(text(&live.expect("service.changed").await.data["service"], "name"), "Sketchbook");

    // The session ends: one last event, and nothing of what comes later.
    owner
        .change("DELETE", &format!("/api/organizations/acme/users/{user}/sessions/{session}"), Value::Null)
        .await;
    set_plan(&owner, &subscription, "pro").await;
    let last = live.expect("session.revoked").await;
    assert_eq!(last.data["sessions"], json!([session]));
    assert!(live.next().await.is_none());
    assert_eq!(Live::request(&server, &token, None).await.status(), 401);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_users_stream_ends_with_its_grant_its_token_and_its_organization() {
    let server = TestServer::start().await;
    let owner = owner(&server).await;
    let ada = tokens(&server, "ada@acme.test", "openid offline_access").await;
    let grace = tokens(&server, "grace@acme.test", "openid").await;
    let mut of_ada = Live::open(&server, &ada.text("access_token"), None).await;
    let mut of_grace = Live::open(&server, &grace.text("access_token"), None).await;
    of_ada.expect("state").await;
    of_grace.expect("state").await;
    let form = [("client_id", server.client("spa")), ("token", &*ada.text("refresh_token"))];
    assert_eq!(server.post("/auth/revoke", &form).send().await.status, 200);
    let revoked = of_ada.expect("session.revoked").await;
    assert_eq!(revoked.data["sessions"], json!([]), "the session goes on");
    assert_eq!(revoked.data["grants"].as_array().map(Vec::len), Some(1));
    assert!(of_ada.next().await.is_none(), "the grant is revoked");

    // Other users' streams live on, until their organization is suspended.
    let platform = Admin::sign_in(&server, "owner@sarsen.test", "platform").await;
    let path = "/api/platform/organizations/acme/suspension";
    let mut of_key = Live::open(&server, &server.demo.api_key, None).await;
    of_key.joined().await;
    platform.change("PUT", path, json!({})).await;
    of_grace.expect("session.revoked").await;
    assert!(of_grace.next().await.is_none());
    assert_eq!(of_key.expect("bye").await.data["reason"], "key_ended");
    assert!(of_key.next().await.is_none());
    platform.change("DELETE", path, Value::Null).await;
    drop(owner);
    server.stop().await;

    // A token that expires ends its stream, with the invitation to come back.
    let quick = |settings: &mut server::Settings| settings.stream_heartbeat = Duration::from_millis(20);
    let server = TestServer::start_with(quick, |_| {}).await;
    let token = tokens(&server, "grace@acme.test", "openid").await.text("access_token");
    let mut live = Live::open(&server, &token, None).await;
    live.expect("state").await;
    assert!(live.next_or_beat().await.expect("a sign of life").name.is_empty());
    server.clock.advance(Duration::from_secs(601));
    let bye = live.expect("bye").await;
    assert_eq!((text(&bye.data, "reason"), bye.retry.is_some()), ("token_expired", true));
    assert!(live.next().await.is_none());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_many_users_share_reaches_all_of_them() {
    // More than the store accepts as background queries.
    const STREAMS: usize = 1300;
    let server = TestServer::start_with(|settings| settings.streams_per_caller_max = STREAMS, |_| {}).await;
    let owner = owner(&server).await;
    let token = tokens(&server, "ada@acme.test", "openid").await.text("access_token");
    let mut all = at_once((0..STREAMS).map(|_| Live::open(&server, &token, None))).await;
    for live in &mut all {
        live.expect("state").await;
    }
    let mut of_key = Live::open(&server, &server.demo.api_key, None).await;
    of_key.joined().await;
    owner.change("PATCH", "/api/organizations/acme/services/sketch", json!({ "name": "Sketchbook" })).await;
    for live in &mut all {
        let changed = live.expect("service.changed").await;
        assert_eq!(text(&changed.data["service"], "name"), "Sketchbook");
    }
    assert_eq!(text(&of_key.expect("service.changed").await.data, "name"), "Sketchbook");
    server.stop().await;
}
