//! Signing in again: the same user keeps the session and the tokens of all products, another user does not.

use super::{ada, sign_in_first};
use crate::support::*;
use serde_json::Value;
use server::testing::{Answer, TestBrowser, TestServer};
use std::time::Duration;

const COOKIE: &str = "sarsen_7070_acme";

fn cookie(browser: &TestBrowser<'_>) -> String {
    browser.cookies.get(COOKIE).unwrap_or_default().to_owned()
}

/// Uses up the refresh token of these tokens.
async fn refresh(server: &TestServer, tokens: &Answer) -> Answer {
    let fields = [
        ("grant_type", "refresh_token"),
        ("client_id", server.client("spa")),
        ("refresh_token", &*tokens.text("refresh_token")),
    ];
    server.post("/auth/token", &fields).send().await
}

/// The status of userinfo and of a refresh with these tokens. The refresh token is used up.
async fn good(server: &TestServer, tokens: &Answer) -> (u16, u16) {
    let userinfo = server.get("/auth/userinfo").bearer(&tokens.text("access_token")).send().await;
    (userinfo.status, refresh(server, tokens).await.status)
}

/// Goes through a request that asks for a new sign-in, as `email`.
async fn sign_in_again(browser: &mut TestBrowser<'_>, ask: &Ask, email: &str, password: &str) -> Answer {
    let asked = browser.get(&ask.path()).await;
    let next = sign_in_first(&asked).unwrap_or_else(|| panic!("a sign-in page: {asked:?}"));
    let page = browser.get(asked.header("location")).await;
    let csrf = page.input("csrf");
    let fields = [("csrf", &*csrf), ("next", &next), ("email", email), ("password", password)];
    let signed_in = browser.post("/o/acme/login", &fields).await;
    assert_eq!((signed_in.status, signed_in.header("location")), (303, &*next), "{signed_in:?}");
    browser.get(&next).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_product_that_asks_for_a_new_sign_in_signs_nobody_out_of_the_others() {
    let server = TestServer::start().await;
    let offline = Ask::of(&server, "spa").with("scope", "openid profile offline_access");
    for (name, value) in [("prompt", "login"), ("max_age", "1")] {
        let mut ada = ada(&server).await;
        let first = tokens_of(&server, &mut ada, &offline).await;
        let before = claims(&first.text("id_token"));
        let old_cookie = cookie(&ada);
        server.clock.advance(Duration::from_secs(60));

        let ask = offline.clone().with(name, value);
        let answer = sign_in_again(&mut ada, &ask, "ada@acme.test", server.password("ada@acme.test")).await;
        let code = answer.redirect_param("code").unwrap_or_else(|| panic!("{name}: {answer:?}"));
        let second = redeem(&server, server.client("spa"), CALLBACK, &code).await;
        let after = claims(&second.text("id_token"));
        assert_eq!(after["sid"], before["sid"], "{name}: the same session");
        let auth_time = |claims: &Value| claims["auth_time"].as_i64().expect("auth_time");
        assert_eq!(auth_time(&after), auth_time(&before) + 60, "{name}");
        // Of each grant, the ID tokens have the time of the sign-in before it (OpenID Connect Core 12.2).
        let refreshed = [refresh(&server, &first).await, refresh(&server, &second).await];
        for (refreshed, original) in refreshed.iter().zip([&before, &after]) {
            let refreshed = claims(&refreshed.text("id_token"));
            for claim in ["iss", "sub", "aud", "sid", "auth_time"] {
                assert_eq!(refreshed[claim], original[claim], "{name}: {claim}");
            }
        }
        let [first, second] = refreshed;
        assert_eq!(good(&server, &first).await, (200, 200), "{name}: tokens from before");
        assert_eq!(good(&server, &second).await, (200, 200), "{name}: tokens from after");

        // The cookie has another secret: a copy from before is void.
        let new_cookie = cookie(&ada);
        assert_ne!(new_cookie, old_cookie);
        assert_eq!(new_cookie.split('.').next(), old_cookie.split('.').next());
        let mut thief = server.browser();
        thief.cookies.set(COOKIE, &old_cookie);
        assert_eq!(thief.get("/o/acme/account").await.status, 303, "{name}");
        assert_eq!(ada.get("/o/acme/account").await.status, 200, "{name}");
    }
    server.stop().await;
}

/// The clock of the instance that signs in is behind that of the one that asks for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_sign_in_counts_although_the_clocks_of_instances_differ() {
    let server = TestServer::start().await;
    let behind = Duration::from_secs(30);
    for (name, value) in [("prompt", "login"), ("prompt", "select_account"), ("max_age", "10")] {
        let mut ada = ada(&server).await;
        server.clock.advance(Duration::from_secs(60));
        let ask = Ask::of(&server, "spa").with(name, value);
        let asked = ada.get(&ask.path()).await;
        let next = sign_in_first(&asked).unwrap_or_else(|| panic!("{name}: {asked:?}"));
        server.clock.set_back(behind);
        assert_eq!(ada.sign_in("acme", "ada@acme.test").await.status, 303);
        server.clock.advance(behind);
        let answer = ada.get(&next).await;
        assert!(answer.redirect_param("code").is_some(), "{name}: {answer:?}");

        // No session from before shows that this sign-in is new, so the user is asked once more, and only once.
        let mut new = server.browser();
        let mut next = sign_in_first(&new.get(&ask.path()).await).expect("asked");
        let mut sign_ins = 0;
        while sign_ins < 3 {
            server.clock.set_back(behind);
            assert_eq!(new.sign_in("acme", "ada@acme.test").await.status, 303);
            server.clock.advance(behind + Duration::from_secs(1));
            sign_ins += 1;
            match sign_in_first(&new.get(&next).await) {
                Some(again) => next = again,
                None => break,
            }
        }
        assert_eq!(sign_ins, 2, "{name}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_note_counts_for_the_session_that_it_was_made_for() {
    let server = TestServer::start().await;
    let mut ada = ada(&server).await;
    let old = cookie(&ada);
    server.clock.advance(Duration::from_secs(60));
    let ask = Ask::of(&server, "spa").with("prompt", "login");
    // Notes for another session, and for a browser without one.
    let mut grace = server.browser();
    grace.sign_in("acme", "grace@acme.test").await;
    server.clock.advance(Duration::from_secs(1));
    for other in [&mut grace, &mut server.browser()] {
        let next = sign_in_first(&other.get(&ask.path()).await).expect("asked");
        ada.cookies.set(COOKIE, &old);
        let answer = ada.get(&next).await;
        assert!(sign_in_first(&answer).is_some(), "{answer:?}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_user_is_another_session_and_ends_the_old_one() {
    let server = TestServer::start().await;
    let offline = Ask::of(&server, "spa").with("scope", "openid offline_access");
    let mut browser = ada(&server).await;
    let of_ada = tokens_of(&server, &mut browser, &offline).await;
    let ask = offline.clone().with("prompt", "select_account");
    server.clock.advance(Duration::from_secs(1));
    let answer =
        sign_in_again(&mut browser, &ask, "grace@acme.test", server.password("grace@acme.test")).await;
    let code = answer.redirect_param("code").expect("a code");
    let of_grace = redeem(&server, server.client("spa"), CALLBACK, &code).await;
    let (ada, grace) = (claims(&of_ada.text("id_token")), claims(&of_grace.text("id_token")));
    assert_ne!(grace["sid"], ada["sid"]);
    assert_eq!(good(&server, &of_ada).await, (401, 400));
    assert_eq!(good(&server, &of_grace).await, (200, 200));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_sign_in_lasts_as_long_as_a_first_one_and_is_in_the_audit_trail() {
    let server = TestServer::start().await;
    let life = server.app.settings.session_life;
    // After the entries of the demo's own data.
    server.clock.advance(Duration::from_secs(1));
    let mut ada = ada(&server).await;
    server.clock.advance(life - Duration::from_secs(60));
    ada.sign_in("acme", "ada@acme.test").await;
    server.clock.advance(life - Duration::from_secs(60));
    assert_eq!(ada.get("/o/acme/account").await.status, 200);
    server.clock.advance(Duration::from_secs(60));
    assert_eq!(ada.get("/o/acme/account").await.status, 303, "it ends all the same");

    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let entries = admin.read("/api/organizations/acme/audit").await;
    let entries = entries["items"].as_array().into_iter().flatten();
    let actions: Vec<&str> = entries.map(|entry| text(entry, "action")).collect();
    assert_eq!(&actions[..2], ["session.renewed", "session.created"], "newest first");
    server.stop().await;
}
