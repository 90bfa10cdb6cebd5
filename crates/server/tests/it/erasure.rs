//! A deleted administrator is in no table any more: not in sessions, invitations, device authorizations or audit trails.

use crate::deletion::places_of;
use crate::device;
use crate::support::*;
use serde_json::{Value, json};
use server::testing::{Answer, TestBrowser, TestServer};
use std::time::Duration;

const EMAIL: &str = "erika@works.test";
const PASSWORD: &str = "correct horse battery";
const ADDRESS: &str = "203.0.113.77";
const AGENT: &str = "HerBrowser/7";
const OWNERS: &str = "/api/platform/owners";

/// A request with the cookies of a browser, from erika's address and with her user agent.
async fn post(
    server: &TestServer,
    browser: &mut TestBrowser<'_>,
    path: &str,
    fields: &[(&str, &str)],
) -> Answer {
    let request = server.post(path, fields).header("x-forwarded-for", ADDRESS).header("user-agent", AGENT);
    let answer = request.header("cookie", &browser.cookies.header().unwrap_or_default()).send().await;
    browser.cookies.take_from(answer.headers.iter().map(|(name, value)| (name.as_str(), value)));
    answer
}

/// Erika signs a terminal in.
async fn sign_in_terminal(server: &TestServer, browser: &mut TestBrowser<'_>) {
    let fields = [("client_id", "cli"), ("scope", "org:acme")];
    let codes = post(server, &mut server.browser(), "/auth/device/code", &fields).await;
    let page = browser.type_code(&codes.text("user_code")).await;
    let fields = [
        ("csrf", &*page.input("csrf")),
        ("session", &*page.input("session")),
        ("user_code", &*codes.text("user_code")),
        ("password", PASSWORD),
        ("decision", "allow"),
    ];
    assert_eq!(post(server, browser, "/activate", &fields).await.status, 200);
    let redeemed = device::polling(server, &codes.text("device_code"), "cli").send().await;
    assert_eq!(redeemed.status, 200, "{redeemed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_administrator_is_in_no_table() {
    let server = TestServer::start().await;
    let acme = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let platform = Admin::sign_in(&server, "owner@sarsen.test", "platform").await;
    let owner = Admin::sign_in(&server, "owner@sarsen.test", "org:platform").await;

    // A life: an invitation that was revoked, one that was accepted, one that is open; sessions, a terminal, a wrong password.
    acme.invite(EMAIL, "member").await;
    let accepted = acme.invite(EMAIL, "admin").await;
    let mut browser = server.browser();
    let page = open_invitation(&mut browser, &accepted).await;
    let fields = [
        ("csrf", &*page.input("csrf")),
        ("invitation", &*page.input("invitation")),
        ("name", "Erika Mustermann"),
        ("password", PASSWORD),
    ];
    assert_eq!(post(&server, &mut browser, "/invitation", &fields).await.status, 303);
    for (password, status) in [("wrong horse battery", 422), (PASSWORD, 303)] {
        let csrf = browser.get("/login?prompt=login").await.input("csrf");
        let fields = [("csrf", &*csrf), ("email", EMAIL), ("password", password)];
        assert_eq!(post(&server, &mut browser, "/login", &fields).await.status, status);
    }
    sign_in_terminal(&server, &mut browser).await;
    let open = path_of(text(&platform.make(OWNERS, json!({ "email": EMAIL })).await, "url"));
    let users = "/api/organizations/platform/users";
    let found = owner.read(&format!("{users}?email={EMAIL}")).await;
    let user = format!("{users}/{}", text(&found["items"][0], "id"));
    let reason = json!({ "reason": "Erika is on leave" });
    owner.change("PUT", &format!("{user}/suspension"), reason).await;
    server.clock.advance(Duration::from_millis(1));
    for (needle, places) in [
        (EMAIL, &["invitations.email", "users.email"][..]),
        ("Erika Muster", &["customers.name", "users.name"]),
        (AGENT, &["device_authorizations.agent", "sessions.agent"]),
    ] {
        let found = places_of(&server, needle).await;
        assert!(places.iter().all(|place| found.iter().any(|other| other == place)), "{needle}: {found:?}");
    }
    assert_eq!(server.browser().get(&open).await.status, 303, "the invitation is open");

    owner.change("DELETE", &user, Value::Null).await;
    for needle in [EMAIL, "erika@", "Erika Muster"] {
        assert_eq!(places_of(&server, needle).await, [""; 0], "{needle}, at once");
    }
    assert_eq!(server.browser().get(&open).await.status, 404, "the open invitation is void");
    let listed = owner.read("/api/organizations/platform/invitations").await;
    assert_eq!(listed["items"], json!([]));

    assert!(server.tidy().await.expect("erases"));
    assert_eq!(places_of(&server, "Erika is").await, [""; 0]);
    assert_eq!(places_of(&server, ADDRESS).await, ["device_authorizations.address"]);
    assert_eq!(places_of(&server, AGENT).await, ["device_authorizations.agent"]);
    server.clock.advance(Duration::from_secs(3 * 3600));
    assert!(server.tidy().await.expect("deletes"));
    for needle in [ADDRESS, AGENT, "Erika", "erika"] {
        assert_eq!(places_of(&server, needle).await, [""; 0], "{needle}, three hours later");
    }

    let acme = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let trail = acme.read("/api/organizations/acme/audit?limit=200").await;
    let rows = trail["items"].as_array().expect("entries");
    let of_invitations: Vec<&Value> =
        rows.iter().filter(|row| text(row, "action").starts_with("invitation.")).collect();
    assert_eq!(of_invitations.len(), 3, "{trail}");
    assert!(of_invitations.iter().all(|row| row["target_name"] == Value::Null), "{trail}");
    server.stop().await;
}
