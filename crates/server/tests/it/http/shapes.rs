//! No request is expensive by its shape: what a body or an address may hold is bounded on every route. What requests
//! within these bounds cost is measured by `tests/cost`.

use super::problem;
use crate::support::*;
use crate::tenancy::{Things, body, routes};
use serde_json::Value;
use server::testing::{Rows, TestServer};

/// As many parameters as are one too many, or just not.
fn parameters(count: usize) -> String {
    (0..count).map(|number| format!("p{number}=x")).collect::<Vec<_>>().join("&")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_or_a_query_has_64_parameters_at_most() {
    let server = TestServer::start().await;
    let mut rows = Rows::new();
    for path in [
        "/auth/device/code",
        "/auth/token",
        "/auth/revoke",
        "/auth/introspect",
        "/auth/authorize",
        "/auth/logout",
        "/activate",
        "/consent",
        "/invitation",
        "/login",
        "/password",
        "/setup",
        "/o/acme/login",
        "/o/acme/signup",
        "/o/acme/link",
        "/o/acme/account/sessions",
        "/o/acme/account/consents",
        "/o/acme/account/password",
        "/o/acme/logout",
    ] {
        let row = async {
            for (count, is_refused) in [(64, false), (65, true)] {
                let form = parameters(count).into_bytes();
                let request = server.request("POST", path).body("application/x-www-form-urlencoded", form);
                let answer = request.send().await;
                assert!((300..500).contains(&answer.status), "{answer:?}");
                assert_eq!(answer.body.contains("64 parameters"), is_refused, "{count}: {answer:?}");
            }
        };
        rows.row(path, row).await;
    }
    let answer = server.get(&format!("/auth/authorize?{}", parameters(65))).send().await;
    assert!(answer.status == 400 && answer.body.contains("64 parameters"), "{answer:?}");
    let fields: Vec<String> = (0..65).map(|number| format!("\"p{number}\":\"x\"")).collect();
    let json = format!("{{{}}}", fields.join(",")).into_bytes();
    let answer = server.request("POST", "/auth/token").body("application/json", json).send().await;
    assert!(answer.status == 400 && answer.body.contains("64 parameters"), "{answer:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_take_64_parameters_at_most() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme platform").await;
    let owner = Admin::sign_in(&server, "owner@sarsen.test", "platform").await;
    let things = Things::of_acme(&admin).await;
    let (mut rows, mut refused) = (Rows::new(), 0);
    for (method, route) in routes("/api/organizations").into_iter().chain(routes("/api/platform/")) {
        let caller = if route.starts_with("/api/platform/") { &owner } else { &admin };
        let is_list = async || {
            let answer = caller.call("GET", &things.path("acme", route), &Value::Null).await;
            !answer.json()["items"].is_null()
        };
        if method != "GET" || !is_list().await {
            continue;
        }
        let row = async {
            let path = format!("{}?limit=1{}", things.path("acme", route), "&".repeat(64));
            let answer = caller.request("GET", &path).send().await;
            // A list without pages has no parameters to read.
            if !answer.json()["items"].is_null() {
                return;
            }
            assert_eq!(problem(&answer), (400, "invalid_query".to_owned()));
            assert!(answer.text("detail").contains("64 parameters"), "{answer:?}");
            refused += 1;
        };
        rows.row(route, row).await;
    }
    assert!(refused >= 8, "{refused}");
    let answer = server
        .get(&format!("/api/service/users?{}", parameters(65)))
        .bearer(&server.demo.api_key)
        .send()
        .await;
    assert_eq!(problem(&answer), (400, "invalid_query".to_owned()));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_has_bounded_lists_and_levels() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme platform").await;
    let owner = Admin::sign_in(&server, "owner@sarsen.test", "platform").await;
    let things = Things::of_acme(&admin).await;
    let many = format!("{{\"a\":[{}]}}", vec!["0"; 2047].join(","));
    let deep = format!("{}{}", "{\"a\":".repeat(17), "}".repeat(16));
    let long = format!("{{\"a\":\"{}\"}}", "\\n".repeat(4097));
    let allowed = format!(
        "{{\"a\":[{}],\"b\":\"[[[[[[[[[[[[[[[[[{}\\\"[\"}}",
        vec!["0"; 2043].join(","),
        ",".repeat(3000)
    );
    let mut rows = Rows::new();
    for (method, route) in routes("/api/") {
        // A route that takes no body reads none.
        let takes_body = route.starts_with("/api/service") || !body(method, route, &things).is_null();
        if matches!(method, "GET" | "DELETE") || !takes_body {
            continue;
        }
        let row = async {
            let token = match route.split('/').nth(2) {
                Some("service") => &server.demo.api_key,
                Some("platform") => &owner.token,
                _ => &admin.token,
            };
            let path = things.path("acme", route);
            for (document, is_refused) in [(&many, true), (&deep, true), (&long, true), (&allowed, false)] {
                let request = server.request(method, &path).bearer(token);
                let answer = request.body("application/json", document.clone().into_bytes()).send().await;
                assert_eq!(problem(&answer), (422, "invalid".to_owned()));
                assert_eq!(answer.text("detail").contains("send less"), is_refused, "{answer:?}");
            }
        };
        rows.row(format!("{method} {route}"), row).await;
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scope_has_64_words_at_most() {
    let server = TestServer::start().await;
    let tokens = tokens(&server, "ada@acme.test", "openid offline_access").await;
    let scope =
        format!("openid {}", (0..64).map(|number| format!("s{number}")).collect::<Vec<_>>().join(" "));
    let (cli, spa) = (server.client("cli"), server.client("spa"));
    let refresh = [
        ("grant_type", "refresh_token"),
        ("client_id", spa),
        ("refresh_token", &*tokens.text("refresh_token")),
        ("scope", &scope),
    ];
    for (path, fields) in
        [("/auth/device/code", &[("client_id", cli), ("scope", &scope)][..]), ("/auth/token", &refresh[..])]
    {
        let answer = server.post(path, fields).send().await;
        assert_eq!(answer.error(), (400, "invalid_scope".to_owned()), "{path}: {answer:?}");
    }
    let answer = server.get(&Ask::of(&server, "spa").with("scope", &scope).path()).send().await;
    assert_eq!(answer.redirect_param("error").as_deref(), Some("invalid_scope"), "{answer:?}");
    server.stop().await;
}
