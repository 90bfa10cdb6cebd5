//! The keys that sign: renewed with an overlap, then retired.

use super::{Forge, assert_good, assert_refused, with};
use crate::support::*;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use identity::keys::{self, Algorithm};
use serde_json::{Value, json};
use server::testing::{Answer, TestBrowser, TestServer};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_renewed_with_an_overlap_and_then_retired() {
    let server = TestServer::start().await;
    let mut ada = server.browser();
    ada.sign_in("acme", "ada@acme.test").await;
    until_both_keys_sign(&server).await;
    let ask = Ask::of(&server, "spa");
    let old = Forge::of_server(&server, Algorithm::Es256).await;
    let kid = |token: &str| {
        let header = URL_SAFE_NO_PAD.decode(token.split('.').next().expect("a header")).expect("base64url");
        let header: Value = serde_json::from_slice(&header).expect("JSON");
        text(&header, "kid").to_owned()
    };
    let published = async || {
        let jwks = server.get("/.well-known/jwks.json").send().await;
        let max_age =
            jwks.header("cache-control").split_once("max-age=").and_then(|(_, age)| age.parse::<u64>().ok());
        assert!(max_age.is_some_and(|age| (60..=keys::PUBLISH_AHEAD.as_secs()).contains(&age)), "{jwks:?}");
        let keys = jwks.json()["keys"].as_array().cloned().unwrap_or_default();
        for key in &keys {
            for private in ["d", "p", "q", "dp", "dq", "qi", "k", "oth"] {
                assert!(key.get(private).is_none(), "{private} of a key is published");
            }
            assert!(key["use"] == "sig" && (key["alg"] == "ES256" || key["alg"] == "RS256"), "{key}");
        }
        keys.iter().map(|key| text(key, "kid").to_owned()).collect::<Vec<_>>()
    };
    let fresh = async |browser: &mut server::testing::TestBrowser<'_>| {
        tokens_of(&server, browser, &ask).await.text("access_token")
    };

    server.clock.advance(Duration::from_secs(60));
    let now = server.app.now();
    let new =
        keys::generate(Algorithm::Es256, now, &server::SystemRandom, &server.app.secret_key).expect("a key");
    server.app.store.write("key.add", move |tx| keys::add(tx, &new, now)).await.expect("adds");
    let kids = published().await;
    assert_eq!(kids.len(), 3, "published before it signs");
    let before = fresh(&mut ada).await;
    assert_eq!(kid(&before), old.kid, "those who keep jwks.json do not know the new one yet");
    server.clock.advance(keys::PUBLISH_AHEAD - Duration::from_secs(1));
    let before = fresh(&mut ada).await;
    assert_eq!(kid(&before), old.kid);
    server.clock.advance(Duration::from_secs(1));
    let after = fresh(&mut ada).await;
    assert!(kid(&after) != old.kid && kids.contains(&kid(&after)));
    assert_good(&server, &after, "of the new key").await;
    assert_good(&server, &before, "of the old key").await;
    assert_eq!(published().await.len(), 3, "the old one is still published");

    // Longer than any token lives, then it is gone.
    server.clock.advance(Duration::from_secs(23 * 3600));
    let claims_now = |token: &str| {
        let now = server.app.now().seconds();
        with(&claims(token), json!({ "iat": now, "exp": now + 600 }))
    };
    assert_good(&server, &old.jws(&old.header().to_string(), &claims_now(&after)), "not retired yet").await;
    server.clock.advance(Duration::from_secs(3601));
    assert!(!published().await.contains(&old.kid));
    let forged = old.jws(&old.header().to_string(), &claims_now(&after));
    assert_refused(&server, &forged, "signed by a key that was retired").await;
    let fresh = fresh(&mut ada).await;
    assert_good(&server, &fresh, "of the new key").await;
    server.stop().await;
}

/// Replaces the key that signs ID tokens, and lets the old one retire.
async fn retire_the_rsa_key(server: &TestServer) {
    server.clock.advance(Duration::from_secs(60));
    let now = server.app.now();
    let new = tokio::task::spawn_blocking({
        let secret_key = server.app.secret_key.clone();
        move || keys::generate(Algorithm::Rs256, now, &server::SystemRandom, &secret_key).expect("a key")
    });
    let new = new.await.expect("a key");
    server.app.store.write("key.add", move |tx| keys::add(tx, &new, now)).await.expect("adds");
    server.clock.advance(keys::PUBLISH_AHEAD + Duration::from_secs(25 * 3600));
}

fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

async fn log_out(browser: &mut TestBrowser<'_>, hint: &str) -> Answer {
    browser.get(&format!("/auth/logout?id_token_hint={hint}")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hint_outlives_the_key_that_signed_it() {
    let server = TestServer::start().await;
    let mut ada = server.browser();
    ada.sign_in("acme", "ada@acme.test").await;
    let mut grace = server.browser();
    grace.sign_in("acme", "grace@acme.test").await;
    let ask = Ask::of(&server, "spa");
    let of_ada = tokens_of(&server, &mut ada, &ask).await.text("id_token");
    let of_grace = tokens_of(&server, &mut grace, &ask).await.text("id_token");
    let old = Forge::of_server(&server, Algorithm::Rs256).await;
    retire_the_rsa_key(&server).await;
    let jwks = server.get("/.well-known/jwks.json").send().await;
    assert!(!jwks.body.contains(&old.kid), "{jwks:?}");

    for prompt in ["", "none"] {
        let hinted = |hint: &str| {
            let ask = ask.clone().with("id_token_hint", hint);
            if prompt.is_empty() { ask } else { ask.with("prompt", prompt) }.path()
        };
        let own = ada.get(&hinted(&of_ada)).await;
        assert!(own.redirect_param("code").is_some(), "{prompt}: {own:?}");
        let other = ada.get(&hinted(&of_grace)).await;
        assert_eq!(other.redirect_param("error").as_deref(), Some("login_required"), "{prompt}: {other:?}");
    }
    let left = log_out(&mut ada, &of_ada).await;
    assert_eq!((left.status, left.header("location")), (303, "/o/acme/login"), "{left:?}");
    assert_eq!(ada.get("/o/acme/account").await.status, 303, "signed out");
    let asked = log_out(&mut grace, &of_ada).await;
    assert!(asked.status == 200 && asked.body.contains("Sign out?"), "another session: {asked:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hint_that_cannot_be_verified_proves_nothing() {
    let server = TestServer::start().await;
    let mut ada = server.browser();
    ada.sign_in("acme", "ada@acme.test").await;
    let ask = Ask::of(&server, "spa");
    let of_ada = tokens_of(&server, &mut ada, &ask).await.text("id_token");
    retire_the_rsa_key(&server).await;
    // Longer than any session lives.
    server.clock.advance(Duration::from_secs(400 * 24 * 3600));
    ada.sign_in("acme", "ada@acme.test").await;
    let forged = Forge::of_mallory();
    let header = json!({ "typ": "JWT", "alg": "ES256", "kid": forged.kid });
    let forged = forged.jws(&header.to_string(), &claims(&of_ada).to_string());
    for hint in [&of_ada, &forged] {
        let hinted = ask.clone().with("id_token_hint", hint);
        let answer = ada.get(&hinted.path()).await;
        assert!(answer.redirect_param("code").is_some(), "{answer:?}");
        let silent = ada.get(&hinted.with("prompt", "none").path()).await;
        assert_eq!(silent.redirect_param("error").as_deref(), Some("login_required"), "{silent:?}");

        // With a client's name and its own address beside it, too.
        let beside = [
            String::new(),
            format!("&client_id={}&post_logout_redirect_uri={}", server.client("spa"), encoded(CALLBACK)),
            format!("&post_logout_redirect_uri={}", encoded(CALLBACK)),
        ];
        for beside in beside {
            let stranger = log_out(&mut server.browser(), &format!("{hint}{beside}")).await;
            assert_eq!((stranger.status, stranger.header("location")), (400, ""), "{stranger:?}");
            assert!(stranger.body.contains("id_token_hint is not a valid ID token"), "{stranger:?}");

            let asked = log_out(&mut ada, &format!("{hint}{beside}")).await;
            assert!(asked.status == 200 && asked.body.contains("Sign out?"), "{asked:?}");
            assert!(asked.body.contains("id_token_hint is not a valid ID token"), "{asked:?}");
            assert_eq!(ada.get("/o/acme/account").await.status, 200, "still signed in");
            let form = asked.form().expect("a form");
            let fields = form.fields.iter().filter(|field| !field.is_button);
            let fields: Vec<(&str, &str)> = fields.map(|field| (&*field.name, &*field.value)).collect();
            let left = ada.post(&form.action, &fields).await;
            assert!(!left.header("location").contains("9999"), "stays here: {left:?}");
            assert_eq!(ada.get("/o/acme/account").await.status, 303, "signed out");
            ada.sign_in("acme", "ada@acme.test").await;
        }
    }
    server.stop().await;
}
