//! What an organization and a client may do against codes that are sent to somebody else (RFC 8628 section 5.4):
//! short codes, no codes, and a trail of who decided what.

use super::{ada_on_a_device, allow, codes, codes_for, error, poll, poll_as, polling, refusal, signed_in};
use crate::support::{Admin, text};
use identity::clients::DEVICE_GRANT;
use serde_json::{Value, json};
use server::testing::{Answer, TestBrowser, TestServer};
use std::time::Duration;

const ACME: &str = "/api/organizations/acme";

async fn set(admin: &Admin<'_>, device_flow: &str) {
    let changed = admin.change("PATCH", ACME, json!({ "device_flow": device_flow })).await;
    assert_eq!(changed.text("device_flow"), device_flow, "{changed:?}");
    assert_eq!(text(&admin.read(ACME).await, "device_flow"), device_flow);
}

async fn asked(server: &TestServer, client: &str) -> Answer {
    server.post("/auth/device/code", &[("client_id", client)]).send().await
}

/// Somebody tries to approve a code that cannot be approved any more.
async fn refused(browser: &mut TestBrowser<'_>, codes: &Answer) {
    let page = browser.decide(&codes.text("user_code"), "allow").await;
    assert_eq!(page.status, 422, "{page:?}");
    assert!(page.body.contains("This code is wrong or has expired."), "{page:?}");
}

/// Actions of a kind in the trail, the newest first: what was done to what, and more about it.
async fn trail(admin: &Admin<'_>, action: &str) -> Vec<(String, String)> {
    let found = admin.read(&format!("{ACME}/audit?limit=100")).await;
    let entries = found["items"].as_array().expect("a list").iter();
    let wanted = entries.filter(|entry| entry["action"] == action);
    wanted.map(|entry| (text(entry, "target").to_owned(), text(entry, "details").to_owned())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn codes_live_five_minutes_where_an_organization_wants_it_so() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    assert_eq!(text(&admin.read(ACME).await, "device_flow"), "allowed", "as it comes");
    let mut ada = signed_in(&server, "ada@acme.test").await;
    let long = codes(&server).await;
    assert_eq!(long.json()["expires_in"], 900);
    set(&admin, "short").await;
    let [waiting, allowed, redeemed] = [codes(&server).await, codes(&server).await, codes(&server).await];
    for codes in [&waiting, &allowed, &redeemed] {
        assert_eq!(codes.json()["expires_in"], 300, "{codes:?}");
    }
    server.clock.advance(Duration::from_secs(299));
    allow(&mut ada, &allowed).await;
    allow(&mut ada, &redeemed).await;
    assert_eq!(poll(&server, &redeemed).await.status, 200);
    server.clock.advance(Duration::from_secs(1));
    refused(&mut ada, &waiting).await;
    for codes in [&waiting, &allowed] {
        assert_eq!(refusal(&poll(&server, codes).await), error(400, "expired_token"));
    }
    allow(&mut ada, &long).await;
    assert_eq!(poll(&server, &long).await.status, 200, "a code keeps the time that it was given");
    set(&admin, "allowed").await;
    assert_eq!(codes(&server).await.json()["expires_in"], 900);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_organization_without_the_device_flow_gives_no_codes_and_takes_none() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    let before = ada_on_a_device(&server).await;
    let [waiting, shown, allowed] = [codes(&server).await, codes(&server).await, codes(&server).await];
    assert_eq!(refusal(&poll(&server, &waiting).await), error(400, "authorization_pending"));
    let page = ada.type_code(&shown.text("user_code")).await;
    let fields = ["csrf", "session", "user_code"].map(|name| (name, page.input(name)));
    allow(&mut ada, &allowed).await;

    set(&admin, "off").await;
    assert_eq!(refusal(&asked(&server, server.client("cli")).await), error(400, "unauthorized_client"));
    refused(&mut ada, &waiting).await;
    let [csrf, session, code] = fields.each_ref().map(|(name, value)| (*name, value.as_str()));
    let late = ada.post("/activate", &[csrf, session, code, ("decision", "allow")]).await;
    assert_eq!(late.status, 422, "on a page that was open before: {late:?}");
    for codes in [&waiting, &shown, &allowed] {
        for _ in 0..2 {
            assert_eq!(refusal(&poll(&server, codes).await), error(400, "access_denied"));
        }
    }
    let own = codes_for(&server, "cli", Some("org:acme")).await;
    assert_eq!(own.json()["expires_in"], 300, "those who administer it sign in at platform");
    let subscription = server.get("/api/subscription").bearer(&before.text("access_token")).send().await;
    assert_eq!(subscription.status, 200, "who is signed in stays: {subscription:?}");

    set(&admin, "allowed").await;
    server.clock.advance(Duration::from_secs(5));
    for codes in [&waiting, &shown] {
        let answer = polling(&server, &codes.text("device_code"), server.client("cli"));
        let answer = answer.header("prefer", "wait=0").send().await;
        assert_eq!(refusal(&answer), error(400, "authorization_pending"), "nobody has approved it");
    }
    assert_eq!(poll(&server, &allowed).await.status, 200, "nobody has used it");
    ada_on_a_device(&server).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_without_the_device_flow_gets_no_codes_and_uses_none() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    let other = admin.make_client("device", &[]).await;
    let (cli, other) = (server.client("cli"), text(&other, "client_id"));
    let path = format!("{ACME}/clients/{cli}");
    let before = ada_on_a_device(&server).await;
    let [waiting, allowed] = [codes(&server).await, codes(&server).await];
    allow(&mut ada, &allowed).await;
    let was = admin.read(&path).await;
    assert_eq!(was["device_flow"], true);

    let off = admin.change("PATCH", &path, json!({ "device_flow": false })).await.json();
    assert_eq!(off["device_flow"], false);
    let grants = off["grants"].as_array().expect("a list");
    assert!(!grants.is_empty() && !grants.contains(&json!(DEVICE_GRANT)), "{off}");
    assert_eq!(refusal(&asked(&server, cli).await), error(400, "unauthorized_client"));
    refused(&mut ada, &waiting).await;
    for codes in [&waiting, &allowed] {
        assert_eq!(refusal(&poll(&server, codes).await), error(400, "unauthorized_client"));
    }
    let fields = [
        ("grant_type", "refresh_token"),
        ("refresh_token", &*before.text("refresh_token")),
        ("client_id", cli),
    ];
    assert_eq!(server.post("/auth/token", &fields).send().await.status, 200, "who is signed in stays");
    let others = codes_for(&server, other, None).await;
    allow(&mut ada, &others).await;
    assert_eq!(poll_as(&server, &others, other).await.status, 200, "others do not notice");

    let renamed = admin.change("PATCH", &path, json!({ "name": "Renamed" })).await;
    assert_eq!(renamed.json()["device_flow"], false, "what is not named stays");
    let on = admin.change("PATCH", &path, json!({ "device_flow": true })).await.json();
    assert_eq!((&on["device_flow"], &on["grants"]), (&was["device_flow"], &was["grants"]));
    assert_eq!(poll(&server, &allowed).await.status, 200, "nobody has used it");
    ada_on_a_device(&server).await;
    let entries = trail(&admin, "client.changed").await;
    let switched = entries.iter().filter(|entry| **entry == (cli.to_owned(), "device_flow".to_owned()));
    assert_eq!(switched.count(), 2, "{entries:?}");

    for name in ["web", "spa", "machine"] {
        let path = format!("{ACME}/clients/{}", server.client(name));
        assert!(admin.read(&path).await.get("device_flow").is_none(), "{name}");
        for value in [true, false] {
            let answer = admin.call("PATCH", &path, &json!({ "device_flow": value })).await;
            assert_eq!((answer.status, answer.text("code")), (422, "invalid".to_owned()), "{answer:?}");
            let said = format!(
                "device_flow: a {name} client cannot use the device flow; use a native or device client"
            );
            assert!(answer.text("detail").contains(&said), "{answer:?}");
        }
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rule_is_known_without_a_look_at_the_database() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    set(&admin, "short").await;
    codes(&server).await;
    let before = server.app.store.stats().reads;
    for _ in 0..50 {
        assert_eq!(codes(&server).await.json()["expires_in"], 300);
    }
    // The server looks at something by itself now and then.
    let reads = server.app.store.stats().reads - before;
    assert!(reads < 25, "{reads} for 50 codes");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn platform_keeps_the_device_flow_and_other_words_are_refused() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "owner@sarsen.test", "org:platform").await;
    let platform = "/api/organizations/platform";
    let answer = owner.call("PATCH", platform, &json!({ "device_flow": "off", "name": "Gone" })).await;
    assert_eq!((answer.status, answer.text("code")), (409, "platform_stays".to_owned()), "{answer:?}");
    assert!(answer.text("detail").contains("sign-in on the command line"), "{answer:?}");
    let after = owner.read(platform).await;
    assert_eq!((text(&after, "device_flow"), text(&after, "name")), ("allowed", "Sarsen"));
    owner.change("PATCH", platform, json!({ "device_flow": "short" })).await;
    assert_eq!(codes_for(&server, "cli", Some("platform")).await.json()["expires_in"], 300);

    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    for wrong in [json!("OFF"), json!(""), json!("on"), json!(false), json!(5)] {
        let answer = admin.call("PATCH", ACME, &json!({ "device_flow": wrong })).await;
        assert_eq!((answer.status, answer.text("code")), (422, "invalid".to_owned()), "{answer:?}");
    }
    let named = admin.call("PATCH", ACME, &json!({ "device_flow": "on" })).await;
    assert!(named.text("detail").contains("use allowed, short or off"), "{named:?}");
    assert_eq!(text(&admin.read(ACME).await, "device_flow"), "allowed");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_decision_and_each_rule_is_in_the_audit_trail() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let acme = admin.read(ACME).await;
    for rule in ["short", "short", "off", "allowed"] {
        server.clock.advance(Duration::from_millis(1));
        set(&admin, rule).await;
    }
    let changes = ["device_flow: allowed", "device_flow: off", "device_flow: short", "sign_up: true"]
        .map(|change| (text(&acme, "id").to_owned(), change.to_owned()));
    assert_eq!(trail(&admin, "organization.changed").await, changes, "the same again is no change");

    let mut ada = signed_in(&server, "ada@acme.test").await;
    for (decision, action) in [("allow", "device.allowed"), ("deny", "device.denied")] {
        let codes = codes(&server).await;
        ada.decide(&codes.text("user_code"), decision).await;
        // Too late: nobody has decided by that.
        refused(&mut ada, &codes).await;
        let device = codes.text("device_code").split_once('.').expect("two halves").0.to_owned();
        assert_eq!(trail(&admin, action).await, [(device.clone(), server.client("cli").to_owned())]);
        let found = admin.read(&format!("{ACME}/audit?limit=100")).await;
        let entries = found["items"].as_array().expect("a list");
        let entry = entries.iter().find(|entry| entry["target"] == *device).expect("an entry");
        assert_eq!((&entry["action"], &entry["actor_email"]), (&json!(action), &json!("ada@acme.test")));
        assert_eq!(entry["address"], "127.0.0.1");
    }
    server.stop().await;
}

/// A plan is no condition of signing in: what somebody may use is looked up each time, and not frozen into a token.
#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_goes_before_the_tokens_is_told_by_the_subscription() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let before = ada_on_a_device(&server).await;
    let subscription = async |tokens: &Answer| {
        server.get("/api/subscription").bearer(&tokens.text("access_token")).send().await
    };
    assert_eq!(subscription(&before).await.text("plan"), "pro");
    let mut ada = signed_in(&server, "ada@acme.test").await;
    let codes = codes(&server).await;
    allow(&mut ada, &codes).await;
    let list = admin.read(&format!("{ACME}/subscriptions")).await;
    let of_ada = list["items"].as_array().expect("a list").iter();
    for one in of_ada.filter(|one| one["user_email"] == "ada@acme.test") {
        admin.change("DELETE", &format!("{ACME}/subscriptions/{}", text(one, "id")), Value::Null).await;
    }

    let after = poll(&server, &codes).await;
    assert_eq!(after.status, 200, "{after:?}");
    for tokens in [&before, &after] {
        let found = subscription(tokens).await;
        assert_eq!(found.status, 200, "{found:?}");
        let found = found.json();
        assert_eq!((text(&found, "plan"), text(&found, "status")), ("free", "active"));
        assert_eq!((&found["features"], &found["limits"]), (&json!([]), &json!({})));
        assert_eq!(found["current_period_end"], Value::Null);
    }
    server.stop().await;
}
