//! What is one organization's is not there for another: things, audiences, sessions, cookies.

use super::{PASSWORD, Things, body, everything, globex, is, organization, problem, routes};
use crate::support::*;
use serde_json::{Value, json};
use server::testing::{Rows, TestServer, at_once};

#[tokio::test(flavor = "multi_thread")]
async fn two_who_change_different_fields_at_once_are_both_obeyed() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let client = format!("/api/organizations/acme/clients/{}", server.client("web"));
    let plan = "/api/organizations/acme/plans/pro".to_owned();
    for round in 0..20 {
        let changes = [
            (&client, json!({ "name": format!("Name {round}") })),
            (&client, json!({ "consent_required": round % 2 == 0 })),
            (&client, json!({ "pkce": if round % 2 == 0 { "required" } else { "optional" } })),
            (&plan, json!({ "name": format!("Plan {round}") })),
            (&plan, json!({ "price_cents": round })),
            (&plan, json!({ "features": [format!("feature {round}")] })),
        ];
        at_once(changes.iter().map(|(path, body)| admin.change("PATCH", path, body.clone()))).await;
        for (path, body) in &changes {
            let now = admin.read(path).await;
            for (name, value) in body.as_object().expect("an object") {
                assert_eq!(&now[name], value, "{path}, round {round}: {now}");
            }
        }
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_belongs_to_another_organization_is_not_there() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let stranger = globex(&server).await;
    admin.invite("somebody@acme.test", "member").await;
    let acme = Things::of_acme(&admin).await;
    let before = everything(&admin, "acme").await;

    let mut tried = 0;
    let mut rows = Rows::new();
    for (method, route) in routes("/api/organizations/{org}") {
        let row = async {
            // Below the own organization, with what is another's.
            if route.matches('{').count() > 1 {
                let path = acme.path("globex", route);
                let answer = stranger.call(method, &path, &body(method, route, &acme)).await;
                assert_eq!(problem(&answer), is(404, "not_found"), "{method} {path}: {answer:?}");
                tried += 1;
            }
            // Below another organization the token is not good.
            let path = acme.path("acme", route);
            let answer = stranger.call(method, &path, &body(method, route, &acme)).await;
            assert_eq!(problem(&answer), is(403, "insufficient_scope"), "{method} {path}: {answer:?}");
            for org in ["nobody", "platform", "ACME", "acme%2f..%2fglobex", "*"] {
                let path = acme.path(org, route);
                let answer = stranger.call(method, &path, &body(method, route, &acme)).await;
                assert_eq!(problem(&answer), is(403, "insufficient_scope"), "{method} {path}: {answer:?}");
            }
        };
        rows.row(format!("{method} {route}"), row).await;
    }
    assert!(tried >= 18, "{tried}");

    // Named in a body or a query.
    for (path, made) in [
        ("subscriptions", json!({ "user": acme.user, "plan": "pro" })),
        ("subscriptions", json!({ "customer": acme.customer, "plan": "pro" })),
        ("clients", json!({ "service": "sketch", "kind": "device", "name": "Theirs" })),
    ] {
        let answer = stranger.call("POST", &format!("/api/organizations/globex/{path}"), &made).await;
        assert_eq!(problem(&answer), is(404, "not_found"), "{path} {made}: {answer:?}");
    }
    let plan =
        json!({ "slug": "x2", "name": "X", "services": ["sketch"], "price_cents": 1, "currency": "EUR" });
    let answer = stranger.call("POST", "/api/organizations/globex/plans", &plan).await;
    assert!(matches!(answer.status, 404 | 422), "{answer:?}");
    for query in [
        format!("subscriptions?user={}", acme.user),
        "subscriptions?plan=pro".to_owned(),
        "users?email=ada@acme.test".to_owned(),
    ] {
        let answer = stranger.call("GET", &format!("/api/organizations/globex/{query}"), &Value::Null).await;
        let found = answer.json()["items"].as_array().map_or(0, Vec::len);
        assert!(answer.status == 404 || (answer.status == 200 && found == 0), "{query}: {answer:?}");
    }
    // A cursor from elsewhere moves within one's own things only.
    let zeros = "0".repeat(26);
    for (list, cursor) in [
        ("services", "aa".to_owned()),
        ("plans", "aa".to_owned()),
        ("clients", format!("client_{zeros}")),
        ("customers", format!("customer_{zeros}")),
        ("users", format!("user_{zeros}")),
        ("audit", format!("audit_7{}", "z".repeat(25))),
    ] {
        let answer = stranger.read(&format!("/api/organizations/globex/{list}?cursor={cursor}")).await;
        assert!(
            !answer.to_string().contains("acme") && !answer.to_string().contains(&acme.user),
            "{list}: {answer}"
        );
    }
    assert_eq!(everything(&admin, "acme").await, before, "and nothing of it left a trace");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_good_only_where_its_audience_says() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let things = Things::of_acme(&admin).await;
    let service = tokens(&server, "ada@acme.test", "openid profile email").await.text("access_token");
    let machine = [
        ("grant_type", "client_credentials"),
        ("client_id", server.client("machine")),
        ("client_secret", server.secret("machine")),
    ];
    let machine = server.post("/auth/token", &machine).send().await.text("access_token");
    let owner = |scope: &'static str| Admin::sign_in(&server, "owner@sarsen.test", scope);
    let insufficient = is(403, "insufficient_scope");

    let no_admins = [
        ("a service's", service),
        ("a program's", machine),
        ("the platform's", owner("platform").await.token),
        ("one that asked for a role it has not", owner("platform org:acme org:*").await.token),
        ("one for the own account", owner("openid").await.token),
    ];
    let mut rows = Rows::new();
    for (method, route) in routes("/api/organizations/{org}") {
        let row = async {
            let path = things.path("acme", route);
            let body = body(method, route, &things);
            for (whose, token) in &no_admins {
                let other = Admin { server: &server, token: token.clone() };
                let answer = other.call(method, &path, &body).await;
                assert_eq!(problem(&answer), insufficient, "{whose} token, {method} {path}: {answer:?}");
                assert_eq!(answer.header("www-authenticate"), challenge(&path, Some("insufficient_scope")));
            }
            let nobody = server.request(method, &path);
            let nobody = if body.is_null() { nobody } else { nobody.json(&body) };
            let answer = nobody.send().await;
            assert_eq!(problem(&answer), is(401, "unauthenticated"), "{method} {path}: {answer:?}");
        };
        rows.row(format!("{method} {route}"), row).await;
    }

    let mut platform_routes = routes("/api/platform/");
    platform_routes.extend([("GET", "/api/organizations"), ("POST", "/api/organizations")]);
    for (method, route) in platform_routes {
        let row = async {
            let path = things.path("acme", route);
            let body = body(method, route, &things);
            let no_owners =
                [&no_admins[0], &no_admins[1], &no_admins[4], &("an organization's", admin.token.clone())];
            for (whose, token) in no_owners {
                let other = Admin { server: &server, token: token.clone() };
                let answer = other.call(method, &path, &body).await;
                assert_eq!(problem(&answer), insufficient, "{whose} token, {method} {path}: {answer:?}");
            }
            assert_eq!(server.request(method, &path).send().await.status, 401, "{method} {path}");
            if route.starts_with("/api/platform/") {
                let user = Admin::sign_in(&server, "admin@acme.test", "platform").await;
                let answer = user.call(method, &path, &body).await;
                assert_eq!(problem(&answer), is(403, "forbidden"), "no owner, {method} {path}: {answer:?}");
            }
        };
        rows.row(format!("{method} {route}"), row).await;
    }

    // Those who administer have no service, and a program has no user.
    for path in ["/api/subscription", "/api/user"] {
        let answer = admin.call("GET", path, &Value::Null).await;
        assert_eq!(problem(&answer), insufficient, "{path}: {answer:?}");
        let answer = server.get(path).bearer(&no_admins[1].1).send().await;
        assert_eq!(problem(&answer), insufficient, "{path}: {answer:?}");
    }
    assert_eq!(server.get("/auth/userinfo").bearer(&no_admins[1].1).send().await.status, 403);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_one_of_its_own_organization_only() {
    let server = TestServer::start().await;
    globex(&server).await;
    let mut mallory = server.browser();
    let csrf = mallory.get("/o/globex/signup").await.input("csrf");
    let fields = [("csrf", &*csrf), ("email", "mallory@globex.test"), ("password", PASSWORD)];
    assert_eq!(mallory.post("/o/globex/signup", &fields).await.status, 303);
    let codes = server.post("/auth/device/code", &[("client_id", server.client("cli"))]).send().await;
    let own = mallory.cookies.get("sarsen_7070_globex").expect("a session").to_owned();
    for name in ["sarsen_7070_acme", "sarsen_7070_platform"] {
        mallory.cookies.set(name, &own);
    }
    let entry = mallory.get(&format!("/activate?user_code={}", codes.text("user_code"))).await;
    let entry = [("csrf", &*entry.input("csrf")), ("user_code", &entry.input("user_code"))];
    let activate = mallory.post("/activate", &entry).await.header("location").to_owned();
    for path in [
        "/o/acme/account",
        "/console",
        &Ask::of(&server, "spa").path(),
        &Ask::by("console", CONSOLE).path(),
        &activate,
    ] {
        let answer = mallory.get(path).await;
        let location = answer.header("location");
        assert!(
            location.starts_with("/o/acme/login?") || location.starts_with("/login?"),
            "{path}: {answer:?}"
        );
    }
    assert_eq!(mallory.get("/o/globex/account").await.status, 200, "at home she is");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_slug_gets_into_the_way_of_another_cookie() {
    let server = TestServer::start().await;
    organization(&server, "browser").await;
    let mut user = server.browser();
    for email in ["one@browser.test", "two@browser.test"] {
        let csrf = user.get("/o/browser/signup").await.input("csrf");
        let fields = [("csrf", &*csrf), ("email", email), ("password", PASSWORD)];
        assert_eq!(user.post("/o/browser/signup", &fields).await.status, 303);
        assert!(user.get("/o/browser/account").await.body.contains(email));
    }
    assert_eq!(user.sign_in("acme", "ada@acme.test").await.status, 303);
    assert_eq!(user.get("/o/browser/account").await.status, 200, "one browser, several organizations");
    server.stop().await;
}
