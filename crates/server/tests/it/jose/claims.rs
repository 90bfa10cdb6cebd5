//! What a token claims: its kind, its issuer, its audience, its time.

use super::{Forge, ada, assert_good, assert_refused, with};
use crate::support::*;
use identity::keys::Algorithm;
use serde_json::{Value, json};
use server::testing::{Rows, TestServer};

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_another_kind_is_none() {
    let server = TestServer::start().await;
    let (_, access, key) = ada(&server).await;
    let mut ada = server.browser();
    ada.sign_in("acme", "ada@acme.test").await;
    let ask = Ask::of(&server, "spa").with("scope", "openid profile email offline_access");
    let all = tokens_of(&server, &mut ada, &ask).await;
    assert_refused(&server, &all.text("id_token"), "an ID token").await;
    for path in ["/api/subscription", "/auth/userinfo"] {
        let refresh = server.get(path).bearer(&all.text("refresh_token")).send().await;
        assert_eq!(refresh.status, 401, "a refresh token");
    }
    let mut rows = Rows::new();
    for typ in [
        json!(null),
        json!("jwt"),
        json!("AT+JWT"),
        json!("at+jwt "),
        json!("logout+jwt"),
        json!("dpop+jwt"),
        json!("secevent+jwt"),
        json!("oauth-authz-req+jwt"),
        json!("mfa+jwt"),
        json!(["at+jwt"]),
        json!(""),
    ] {
        let token = key.jws(&with(&key.header(), json!({ "typ": typ })), &access.to_string());
        rows.row(&typ, assert_refused(&server, &token, &typ.to_string())).await;
    }
    // The other way: an access token says nothing about who is signed in.
    let rsa = Forge::of_server(&server, Algorithm::Rs256).await;
    let id = claims(&all.text("id_token"));
    let good = rsa.jws(&with(&rsa.header(), json!({ "typ": "JWT" })), &id.to_string());
    let silent = |hint: &str| ask.clone().with("prompt", "none").with("id_token_hint", hint).path();
    assert!(ada.get(&silent(&good)).await.redirect_param("code").is_some());
    let claims_of_id =
        |changed: Value| rsa.jws(&with(&rsa.header(), json!({ "typ": "JWT" })), &with(&id, changed));
    for (what, hint) in [
        ("an access token", all.text("access_token")),
        ("an ID token that calls itself one", rsa.jws(&rsa.header().to_string(), &id.to_string())),
        ("a logout token", rsa.jws(&with(&rsa.header(), json!({ "typ": "logout+jwt" })), &id.to_string())),
        ("no type", rsa.jws(&with(&rsa.header(), json!({ "typ": null })), &id.to_string())),
        ("another issuer's", claims_of_id(json!({ "iss": "https://evil.example" }))),
        ("a trailing slash", claims_of_id(json!({ "iss": format!("{ISSUER}/") }))),
        ("one that begins later", claims_of_id(json!({ "nbf": server.app.now().seconds() + 61 }))),
        ("one that begins at a word", claims_of_id(json!({ "nbf": "now" }))),
        ("another user's", claims_of_id(json!({ "sub": "user_01h00000000000000000000000" }))),
        (
            "another's signature",
            Forge { kid: rsa.kid.clone(), ..Forge::of_mallory() }
                .jws(&with(&rsa.header(), json!({ "typ": "JWT" })), &id.to_string()),
        ),
    ] {
        let row = async {
            let answer = ada.get(&silent(&hint)).await;
            assert_eq!(answer.redirect_param("error").as_deref(), Some("login_required"), "{answer:?}");
            let logout = ada.get(&format!("/auth/logout?id_token_hint={hint}")).await;
            assert!(logout.status != 303 || what == "another user's", "{logout:?}");
        };
        rows.row(what, row).await;
    }
    assert_eq!(ada.get("/o/acme/account").await.status, 200, "still signed in");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_claim_counts() {
    let server = TestServer::start().await;
    let (_, claims, key) = ada(&server).await;
    let header = key.header().to_string();
    let signed = |changed: Value| key.jws(&header, &with(&claims, changed));
    let now = server.app.now().seconds();
    assert_good(&server, &signed(json!({})), "as it is").await;
    assert_good(&server, &signed(json!({ "exp": now + 1 })), "the last second").await;
    assert_good(
        &server,
        &signed(json!({ "iat": now + 60, "exp": now + 600 })),
        "a clock that is a minute ahead",
    )
    .await;
    assert_good(&server, &signed(json!({ "aud": ["service:acme/sketch"] })), "an audience in a list").await;
    for begins in [i64::MIN, 0, now - 1, now, now + 60] {
        assert_good(&server, &signed(json!({ "nbf": begins })), "it has begun").await;
    }

    let mut rows = Rows::new();
    for changed in [
        json!({ "iss": format!("{ISSUER}/") }),
        json!({ "iss": "http://127.0.0.1:7071" }),
        json!({ "iss": "https://127.0.0.1:7070" }),
        json!({ "iss": "HTTP://127.0.0.1:7070" }),
        json!({ "iss": "" }),
        json!({ "iss": [ISSUER] }),
        json!({ "iss": null }),
        json!({ "exp": null }),
        json!({ "exp": now }),
        json!({ "exp": now - 1 }),
        json!({ "exp": 0 }),
        json!({ "exp": -1 }),
        json!({ "exp": i64::MIN }),
        json!({ "exp": (now + 300) as f64 + 0.5 }),
        json!({ "exp": (now + 300) as f64 }),
        json!({ "exp": (now + 300).to_string() }),
        json!({ "exp": [now + 300] }),
        json!({ "exp": true }),
        json!({ "exp": now + 601 }),
        json!({ "exp": now + 86_400 }),
        json!({ "exp": 99_999_999_999_999_i64 }),
        json!({ "exp": i64::MAX }),
        json!({ "exp": u64::MAX }),
        json!({ "exp": i64::MAX, "iat": i64::MIN }),
        json!({ "exp": now + 300, "iat": i64::MIN }),
        json!({ "iat": null }),
        json!({ "iat": now + 61, "exp": now + 300 }),
        json!({ "iat": now + 86_400, "exp": now + 86_700 }),
        json!({ "nbf": now + 61 }),
        json!({ "nbf": now + 86_400 }),
        json!({ "nbf": i64::MAX }),
        json!({ "nbf": u64::MAX }),
        json!({ "nbf": (now - 1).to_string() }),
        json!({ "nbf": (now - 1) as f64 }),
        json!({ "nbf": [now - 1] }),
        json!({ "nbf": true }),
        json!({ "jti": null }),
        json!({ "jti": "grant_01h00000000000000000000000.x" }),
        json!({ "jti": "x", "client_id": "client_01h00000000000000000000000" }),
        json!({ "aud": null }),
        json!({ "aud": 1 }),
        json!({ "client_id": null }),
        json!({ "scope": null }),
        json!({ "scope": ["openid"] }),
        json!({ "sub": null }),
    ] {
        rows.row(&changed, assert_refused(&server, &signed(changed.clone()), &changed.to_string())).await;
    }
    server.stop().await;
}

/// The signature is ours, the token is for another.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_for_somebody_else_opens_nothing_here() {
    let server = TestServer::start().await;
    let (_, claims, key) = ada(&server).await;
    let signed = |changed: Value| key.jws(&key.header().to_string(), &with(&claims, changed));
    let mut rows = Rows::new();
    for audience in [
        json!("service:acme/notes"),
        json!("service:globex/sketch"),
        json!("account"),
        json!("org:acme"),
        json!([]),
        json!(["service:acme/sketch/x", "sketch"]),
        json!("https://api.acme.test"),
    ] {
        for path in ["/api/subscription", "/api/user"] {
            let row = async {
                let answer = server.get(path).bearer(&signed(json!({ "aud": audience }))).send().await;
                let refused = (answer.status, answer.text("code"));
                assert_eq!(refused, (403, "insufficient_scope".to_owned()), "{answer:?}");
            };
            rows.row(format!("{audience} at {path}"), row).await;
        }
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_are_one_object_in_which_each_name_stands_once() {
    let server = TestServer::start().await;
    let (_, claims, key) = ada(&server).await;
    let header = key.header().to_string();
    let now = server.app.now().seconds();
    let mut rows = Rows::new();
    // Twice the same claim, whichever comes first.
    let plain = claims.to_string();
    for (name, value) in [
        ("exp", json!(now + 300)),
        ("iat", json!(now)),
        ("iss", json!(ISSUER)),
        ("sub", json!("user_x")),
        ("aud", json!("platform")),
        ("scope", json!("platform")),
    ] {
        let (first, last) = (
            plain.replacen('{', &format!("{{\"{name}\":{value},"), 1),
            format!("{},\"{name}\":{value}}}", &plain[..plain.len() - 1]),
        );
        for payload in [first, last] {
            rows.row(&payload, assert_refused(&server, &key.jws(&header, &payload), &payload)).await;
        }
    }
    for payload in [
        "",
        "null",
        "[]",
        "\"x\"",
        "{}",
        "{",
        "{\"iss\":",
        &format!("[{plain}]"),
        &format!("{plain}{plain}"),
        &format!("{plain}x"),
    ] {
        rows.row(payload, assert_refused(&server, &key.jws(&header, payload), payload)).await;
    }
    server.stop().await;
}
