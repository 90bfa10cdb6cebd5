//! Suspension: an organization or a user that is stopped loses everything at once.

use super::{Things, body, is, problem, routes};
use crate::support::*;
use identity::clients::DEVICE_GRANT;
use serde_json::{Value, json};
use server::testing::{Answer, TestBrowser, TestServer, at_once};

/// A user with everything that can be taken from him: a browser, tokens that were used, and a device that
/// he has just allowed.
struct SignedIn<'s> {
    server: &'s TestServer,
    browser: TestBrowser<'s>,
    access: String,
    refresh: String,
    device: String,
}

impl<'s> SignedIn<'s> {
    async fn ada(server: &'s TestServer) -> SignedIn<'s> {
        let mut browser = server.browser();
        browser.sign_in("acme", "ada@acme.test").await;
        let ask = Ask::of(server, "spa").with("scope", "openid offline_access");
        let tokens = tokens_of(server, &mut browser, &ask).await;
        let codes = server.post("/auth/device/code", &[("client_id", server.client("cli"))]).send().await;
        let allowed = browser.decide(&codes.text("user_code"), "allow").await;
        assert!(allowed.body.contains("signed in"), "{allowed:?}");
        let (access, refresh) = (tokens.text("access_token"), tokens.text("refresh_token"));
        SignedIn { server, browser, access, refresh, device: codes.text("device_code") }
    }

    async fn call(&self, path: &str) -> u16 {
        self.server.get(path).bearer(&self.access).send().await.status
    }

    async fn refresh(&self) -> Answer {
        let fields = [
            ("grant_type", "refresh_token"),
            ("client_id", self.server.client("spa")),
            ("refresh_token", &self.refresh),
        ];
        self.server.post("/auth/token", &fields).send().await
    }

    async fn poll(&self) -> Answer {
        let fields = [
            ("grant_type", DEVICE_GRANT),
            ("client_id", self.server.client("cli")),
            ("device_code", &self.device),
        ];
        self.server.post("/auth/token", &fields).send().await
    }

    async fn introspect(&self, token: &str) -> Answer {
        let fields = [
            ("client_id", self.server.client("web")),
            ("client_secret", self.server.secret("web")),
            ("token", token),
        ];
        self.server.post("/auth/introspect", &fields).send().await
    }

    /// Everything works, and the answers are in the caches.
    async fn assert_in(&self) {
        for path in ["/api/subscription", "/api/user", "/auth/userinfo"] {
            assert_eq!(self.call(path).await, 200, "{path}");
        }
        assert_eq!(self.introspect(&self.access).await.json()["active"], true);
    }

    /// Nothing works, and the clock has not moved.
    async fn assert_out(&self) {
        for path in ["/api/subscription", "/api/user", "/auth/userinfo"] {
            assert_eq!(self.call(path).await, 401, "{path}");
        }
        assert_eq!(self.refresh().await.error(), (400, "invalid_grant".to_owned()));
        let polled = self.poll().await.error();
        assert!(polled.0 == 400 && ["invalid_grant", "access_denied"].contains(&&*polled.1), "{polled:?}");
        for token in [&self.access, &self.refresh] {
            let inactive = self.introspect(token).await;
            assert!(inactive.status == 401 || inactive.json() == json!({ "active": false }), "{inactive:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_organization_loses_everything_at_once() {
    let server = TestServer::start().await;
    let platform = Admin::sign_in(&server, "owner@sarsen.test", "platform").await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let mut ada = SignedIn::ada(&server).await;
    ada.assert_in().await;
    let credentials = [
        ("grant_type", "client_credentials"),
        ("client_id", server.client("machine")),
        ("client_secret", server.secret("machine")),
    ];
    let machine = server.post("/auth/token", &credentials).send().await.text("access_token");
    let program = async || {
        let token = machine.as_str();
        let fields = [
            ("client_id", server.client("machine")),
            ("client_secret", server.secret("machine")),
            ("token", token),
        ];
        server.post("/auth/introspect", &fields).send().await.json()["active"].clone()
    };
    assert_eq!(program().await, true);
    let code = code(&mut ada.browser, &Ask::of(&server, "spa")).await;
    let pending = server.post("/auth/device/code", &[("client_id", server.client("cli"))]).send().await;

    super::connection(&owner).await;
    platform.change("PUT", "/api/platform/organizations/acme/suspension", json!({ "reason": "rent" })).await;
    ada.assert_out().await;
    assert_eq!(program().await, false);
    assert_ne!(server.post("/auth/token", &credentials).send().await.status, 200);
    let redeemed = redeem(&server, server.client("spa"), CALLBACK, &code).await;
    assert_eq!(redeemed.error(), (400, "invalid_grant".to_owned()));
    let asked = ada.browser.get(&Ask::of(&server, "spa").path()).await;
    assert_eq!(asked.redirect_param("error").as_deref(), Some("access_denied"), "{asked:?}");
    ada.browser.decide(&pending.text("user_code"), "allow").await;
    let late = SignedIn { device: pending.text("device_code"), ..ada };
    assert_ne!(late.poll().await.status, 200, "allowed after the suspension");
    for page in ["/o/acme/login", "/o/acme/signup", "/o/acme/link?token=x"] {
        assert_eq!(server.get(page).send().await.status, 403, "{page}");
    }
    let mut nobody = server.browser();
    let csrf = nobody.get("/activate").await.input("csrf");
    let password = server.password("ada@acme.test");
    let fields = [("csrf", &*csrf), ("email", "ada@acme.test"), ("password", password)];
    assert_eq!(nobody.post("/o/acme/login", &fields).await.status, 403);

    // Its administrators may look, and change nothing.
    let things = Things::of_acme(&owner).await;
    for (method, route) in routes("/api/organizations/{org}") {
        // An administrator may leave at any time.
        if (method, route) == ("DELETE", "/api/organizations/{org}/administrators/{user}") {
            continue;
        }
        let answer = owner.call(method, &things.path("acme", route), &body(method, route, &things)).await;
        // A suspension is no deletion.
        let code = if route.ends_with("/deletion") { "not_restorable" } else { "organization_not_active" };
        match method {
            "GET" => assert_eq!(answer.status, 200, "{route}: {answer:?}"),
            _ => assert_eq!(problem(&answer), is(409, code), "{method} {route}: {answer:?}"),
        }
    }
    // Others do not notice.
    assert_eq!(owner.call("GET", "/api/organizations/acme", &Value::Null).await.text("status"), "suspended");
    assert_eq!(platform.call("GET", "/api/platform/organizations", &Value::Null).await.status, 200);

    let activated =
        platform.change("DELETE", "/api/platform/organizations/acme/suspension", Value::Null).await;
    assert_eq!(activated.json()["status"], "active", "{activated:?}");
    late.assert_in().await;
    assert_eq!(program().await, true);
    assert_eq!(late.refresh().await.status, 200);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_suspended_while_the_password_is_checked_does_not_get_in() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let user = Things::of_acme(&admin).await.user;
    let email = text(&admin.read(&format!("/api/organizations/acme/users/{user}")).await, "email").to_owned();
    let suspension = format!("/api/organizations/acme/users/{user}/suspension");
    for _ in 0..3 {
        let sign_in = async |()| {
            let mut browser = server.browser();
            browser.sign_in("acme", &email).await;
            browser
        };
        let (browsers, _) =
            tokio::join!(at_once([(); 8].map(sign_in)), admin.change("PUT", &suspension, json!({})),);
        for mut browser in browsers {
            assert_eq!(browser.get("/o/acme/account").await.status, 303, "he is not in");
        }
        admin.change("DELETE", &suspension, Value::Null).await;
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_user_and_one_who_was_signed_out_lose_everything_at_once() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let things = Things::of_acme(&admin).await;
    let user = format!("/api/organizations/acme/users/{}", things.user);
    for (what, method, path) in [("suspension", "PUT", "suspension"), ("signing out", "DELETE", "sessions")] {
        let mut ada = SignedIn::ada(&server).await;
        let mut grace = server.browser();
        grace.sign_in("acme", "grace@acme.test").await;
        let code = code(&mut ada.browser, &Ask::of(&server, "spa")).await;
        ada.assert_in().await;
        let body = if method == "PUT" { json!({}) } else { Value::Null };
        admin.change(method, &format!("{user}/{path}"), body).await;
        ada.assert_out().await;
        assert_eq!(ada.browser.get("/o/acme/account").await.status, 303, "{what}: the browser is signed out");
        let redeemed = redeem(&server, server.client("spa"), CALLBACK, &code).await;
        assert_eq!(redeemed.error(), (400, "invalid_grant".to_owned()), "{what}");
        assert_eq!(grace.get("/o/acme/account").await.status, 200, "{what}: others stay");
        if method == "PUT" {
            assert_eq!(ada.browser.sign_in("acme", "ada@acme.test").await.status, 422);
            admin.change("DELETE", &format!("{user}/suspension"), Value::Null).await;
            ada.assert_out().await;
        }
        assert_eq!(ada.browser.sign_in("acme", "ada@acme.test").await.status, 303, "{what}");
    }
    // An administrator can be suspended too.
    let mut browser = server.browser();
    browser.sign_in("platform", "admin@acme.test").await;
    let store = &server.app.store;
    let sub = identity::ids::UserId::parse(text(&claims(&admin.token), "sub")).expect("a user");
    let actor = server.app.system();
    let suspended = store.write("test.suspend", move |tx| {
        let user = identity::users::get(tx.snapshot(), &sub)?;
        identity::user_suspensions::suspend(tx, &user, None, &actor)
    });
    suspended.await.expect("suspends");
    assert_eq!(admin.call("GET", "/api/organizations/acme", &Value::Null).await.status, 401);
    assert_eq!(browser.get("/console").await.status, 303);
    server.stop().await;
}
