//! The stream of a service: each event of its users.

use super::{Live, STATE, ada, back_end, owner, set_plan};
use crate::support::{Admin, Ask, CALLBACK, claims, text, tokens, tokens_of};
use serde_json::{Value, json};
use server::testing::TestServer;
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread")]
async fn a_service_gets_each_event_of_its_users_and_resumes() {
    let server = TestServer::start().await;
    let (owner, sketch) = (owner(&server).await, back_end(&server));
    let (user, subscription) = ada(&owner).await;
    let state = sketch.read(STATE).await;
    let found = state["users"].as_array().expect("users").iter().find(|one| text(one, "id") == user);
    assert_eq!(found.map(|one| text(one, "plan")), Some("pro"));
    let plans = state["service"]["plans"].as_array().expect("plans");
    let pro = plans.iter().find(|plan| text(plan, "plan") == "pro").expect("pro");
    assert_eq!(pro["features"], json!(["export", "history", "priority support"]));
    let cursor = text(&state, "last_event_id").to_owned();

    // What happens between the state and the stream is in the stream.
    set_plan(&owner, &subscription, "starter").await;
    let mut live = Live::open(&server, &sketch.token, Some(&cursor)).await;
    let first = live.expect("subscription.changed").await;
    assert_eq!((text(&first.data, "user"), text(&first.data["state"], "plan")), (&*user, "starter"));
    live.joined().await;
    let signed_in = tokens(&server, "grace@acme.test", "openid offline_access").await;
    let grace = owner.read("/api/organizations/acme/users?email=grace@acme.test").await;
    let grace = text(&grace["items"][0], "id").to_owned();
    let users = "/api/organizations/acme/users";
    owner.change("PATCH", &format!("{users}/{grace}"), json!({ "name": "Admiral" })).await;
    let changed = live.expect("user.changed").await;
    assert_eq!((text(&changed.data, "user"), text(&changed.data["state"], "name")), (&*grace, "Admiral"));
    assert_eq!(text(&changed.data["state"], "plan"), "free");
    let form = [("client_id", server.client("spa")), ("token", &*signed_in.text("refresh_token"))];
    assert_eq!(server.post("/auth/revoke", &form).send().await.status, 200);
    let revoked = live.expect("session.revoked").await;
    assert_eq!((text(&revoked.data, "user"), &revoked.data["sessions"]), (&*grace, &json!([])));
    assert_eq!(revoked.data["grants"].as_array().map(Vec::len), Some(1));
    tokens(&server, "grace@acme.test", "openid").await;
    owner.change("PUT", &format!("{users}/{grace}/suspension"), json!({})).await;
    let suspended = live.expect("user.changed").await;
    assert_eq!(suspended.data["state"]["suspended"], true);
    let ended = live.expect("session.revoked").await;
    assert_eq!(ended.data["sessions"].as_array().map(Vec::len), Some(2), "{ended:?}");
    owner.change("PATCH", "/api/organizations/acme/plans/pro", json!({ "features": ["teleport"] })).await;
    let service = live.expect("service.changed").await;
    let plans = service.data["plans"].as_array().cloned().unwrap_or_default();
    assert!(plans.iter().any(|plan| text(plan, "plan") == "pro" && plan["features"] == json!(["teleport"])));
    owner.change("DELETE", &subscription, Value::Null).await;
    let gone = live.expect("subscription.changed").await;
    assert_eq!((text(&gone.data, "user"), &gone.data["state"]), (&*user, &Value::Null), "she is no user");

    // The state has what was revoked within the lifetime of a token.
    let later = sketch.read(STATE).await;
    let revoked = later["revoked"].as_array().expect("a list");
    assert!(revoked.iter().any(|one| one["sessions"] == ended.data["sessions"]), "{revoked:?}");

    // From any cursor the rest comes again, once and in its order.
    drop(live);
    let mut again = Live::open(&server, &sketch.token, suspended.id.as_deref()).await;
    for name in ["session.revoked", "service.changed", "subscription.changed"] {
        again.expect(name).await;
    }
    again.joined().await;

    // A user of another service, and one of another organization, are not there.
    owner.make(users, json!({ "email": "new@acme.test" })).await;
    owner.change("PATCH", &format!("{users}/{grace}"), json!({ "name": "Rear Admiral" })).await;
    assert_eq!(text(&again.expect("user.changed").await.data["state"], "name"), "Rear Admiral");

    // Her grants are gone from the list of those that count, but the service may still have data of hers.
    owner.change("DELETE", &format!("{users}/{grace}"), Value::Null).await;
    let deleted = again.expect("user.changed").await;
    assert_eq!((text(&deleted.data, "user"), &deleted.data["state"]), (&*grace, &Value::Null));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_without_refresh_tokens_is_revoked_after_weeks() {
    let server = TestServer::start().await;
    let sketch = back_end(&server);
    // She has no subscription: the service knows her by the grant alone.
    tokens(&server, "grace@acme.test", "openid").await;
    server.clock.advance(Duration::from_secs(8 * 24 * 3600));
    server.tidy().await.expect("tidies");
    let mut live = Live::open(&server, &sketch.token, None).await;
    live.joined().await;
    let owner = owner(&server).await;
    let grace = owner.read("/api/organizations/acme/users?email=grace@acme.test").await;
    let path = format!("/api/organizations/acme/users/{}/suspension", text(&grace["items"][0], "id"));
    owner.change("PUT", &path, json!({})).await;
    assert_eq!(live.expect("user.changed").await.data["state"]["suspended"], true);
    let ended = live.expect("session.revoked").await;
    assert_eq!(ended.data["sessions"].as_array().map(Vec::len), Some(1), "{ended:?}");
    server.stop().await;
}

/// The slugs and roles in a list of administered organizations.
fn administered(list: &Value) -> Vec<(String, String)> {
    let role = |one: &Value| (text(one, "org").to_owned(), text(one, "role").to_owned());
    list.as_array().expect("a list").iter().map(role).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_of_platform_follows_the_roles_of_administrators() {
    let server = TestServer::start().await;
    let platform = Admin::sign_in(&server, "owner@sarsen.test", "org:platform").await;
    let base = "/api/organizations/platform";
    platform.make(&format!("{base}/services"), json!({ "slug": "ops", "name": "Ops" })).await;
    let spa = json!({ "service": "ops", "kind": "spa", "name": "Ops", "redirect_uris": [CALLBACK] });
    let spa = platform.make(&format!("{base}/clients"), spa).await;
    let key = platform.make(&format!("{base}/keys"), json!({ "name": "Ops", "service": "ops" })).await;
    let ops = Admin { server: &server, token: text(&key, "key").to_owned() };

    // An administrator of acme signs in to the service.
    let mut browser = server.browser();
    assert_eq!(browser.sign_in("platform", "admin@acme.test").await.status, 303);
    let ask = Ask::by(text(&spa, "client_id"), CALLBACK).with("scope", "openid org:acme platform");
    let token = tokens_of(&server, &mut browser, &ask).await.text("access_token");
    let aud = claims(&token)["aud"].clone();
    assert!(aud == json!("service:platform/ops") || aud == json!(["service:platform/ops"]), "{aud}");
    let mut of_user = Live::open(&server, &token, None).await;
    let state = of_user.expect("state").await;
    let user = text(&state.data["user"], "id").to_owned();
    assert_eq!(administered(&state.data["administers"]), [("acme".to_owned(), "owner".to_owned())]);
    let mut of_key = Live::open(&server, &ops.token, None).await;
    of_key.joined().await;
    let mut of_acme = Live::open(&server, &server.demo.api_key, None).await;
    of_acme.joined().await;

    let administrator = Admin::sign_in(&server, "admin@acme.test", "platform").await;
    administrator.make("/api/organizations", json!({ "slug": "initech", "name": "Initech" })).await;
    let both = [("acme".to_owned(), "owner".to_owned()), ("initech".to_owned(), "owner".to_owned())];
    assert_eq!(administered(&of_user.expect("member.changed").await.data["administers"]), both);
    let changed = of_key.expect("member.changed").await;
    assert_eq!(
        (text(&changed.data, "user"), administered(&changed.data["administers"])),
        (&*user, both.to_vec())
    );

    // A copy that begins now has the roles of those who have a plan.
    let plan = json!({ "slug": "staff", "name": "Staff", "services": ["ops"], "price_cents": 0, "currency": "EUR",
                       "features": [], "limits": {} });
    platform.make(&format!("{base}/plans"), plan).await;
    let bought = json!({ "user": user, "plan": "staff", "status": "active" });
    platform.make(&format!("{base}/subscriptions"), bought).await;
    of_key.expect("service.changed").await;
    let subscribed = of_key.expect("subscription.changed").await;
    assert_eq!(administered(&subscribed.data["state"]["administers"]), both);
    let whole = ops.read(STATE).await;
    assert_eq!(
        (text(&whole["users"][0], "id"), administered(&whole["users"][0]["administers"])),
        (&*user, both.to_vec())
    );

    // Other services learn of no roles.
    let (owner, sketch) = (owner(&server).await, back_end(&server));
    let (ada, subscription) = ada(&owner).await;
    assert_eq!(sketch.read(STATE).await["users"][0]["administers"], json!([]));
    set_plan(&owner, &subscription, "starter").await;
    let first = of_acme.expect("subscription.changed").await;
    assert_eq!((text(&first.data, "user"), &first.data["state"]["administers"]), (&*ada, &json!([])));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ended_before_its_client_was_deleted_is_delivered() {
    let server = TestServer::start().await;
    let (owner, sketch) = (owner(&server).await, back_end(&server));
    let (user, _) = ada(&owner).await;
    for _ in 0..2 {
        tokens(&server, "ada@acme.test", "openid").await;
    }
    let grace = tokens(&server, "grace@acme.test", "openid offline_access").await;
    let sessions = format!("/api/organizations/acme/users/{user}/sessions");
    let listed = owner.read(&sessions).await;
    let first = text(&listed["items"][0], "id").to_owned();
    let cursor = text(&sketch.read(STATE).await, "last_event_id").to_owned();
    owner.change("DELETE", &format!("{sessions}/{first}"), Value::Null).await;
    server.clock.advance(Duration::from_secs(1));
    owner.change("DELETE", &sessions, Value::Null).await;
    let form = [("client_id", server.client("spa")), ("token", &*grace.text("refresh_token"))];
    assert_eq!(server.post("/auth/revoke", &form).send().await.status, 200);
    let spa = format!("/api/organizations/acme/clients/{}", server.client("spa"));
    owner.change("DELETE", &spa, Value::Null).await;

    let mut live = Live::open(&server, &sketch.token, Some(&cursor)).await;
    let one = live.expect("session.revoked").await;
    assert_eq!((text(&one.data, "user"), &one.data["sessions"]), (&*user, &json!([first])));
    let all = live.expect("session.revoked").await;
    assert_eq!(all.data["sessions"].as_array().map(Vec::len), Some(1), "{all:?}");
    let of_grant = live.expect("session.revoked").await;
    assert_eq!(of_grant.data["grants"].as_array().map(Vec::len), Some(1), "{of_grant:?}");
    live.joined().await;
    let state = sketch.read(STATE).await;
    assert_eq!(state["revoked"].as_array().map(Vec::len), Some(3), "{state}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_of_another_instance_comes_within_250_ms() {
    let server = TestServer::start().await;
    let Some(other) = server.another().await else { return server.stop().await };
    let owner = owner(&server).await;
    let (_, subscription) = ada(&owner).await;
    let token = tokens(&server, "ada@acme.test", "openid").await.text("access_token");
    let mut of_user = Live::open(&other, &token, None).await;
    of_user.expect("state").await;
    let mut of_key = Live::open(&other, &server.demo.api_key, None).await;
    of_key.joined().await;
    let mut delays = Vec::new();
    for round in 0..20 {
        let plan = if round % 2 == 0 { "starter" } else { "pro" };
        set_plan(&owner, &subscription, plan).await;
        let acknowledged = Instant::now();
        let event = of_user.expect("subscription.changed").await;
        assert_eq!(text(&event.data["subscription"], "plan"), plan);
        let of_this = acknowledged.elapsed();
        let event = of_key.expect("subscription.changed").await;
        assert_eq!(text(&event.data["state"], "plan"), plan);
        delays.push(of_this.max(acknowledged.elapsed()));
    }
    delays.sort_unstable();
    // A busy machine delays single ones.
    assert!(delays[delays.len() / 2] < Duration::from_millis(250), "{delays:?}");
    println!("median {:?}, longest {:?}", delays[delays.len() / 2], delays.last());
    other.stop().await;
    server.stop().await;
}
