//! What the user is asked: to allow a client, to sign in again, or nothing at all.

use super::{ada, assert_shown_here, consent, post_consent, refusal, sign_in_first};
use crate::support::*;
use serde_json::json;
use server::testing::TestServer;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn prompt_none_never_shows_a_page() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let silent = Ask::of(&server, "spa").with("prompt", "none");
    let mut nobody = server.browser();
    assert_eq!(refusal(&nobody.get(&silent.path()).await), "login_required");
    let mut ada = ada(&server).await;
    assert!(ada.get(&silent.path()).await.redirect_param("code").is_some());

    let spa = format!("/api/organizations/acme/clients/{}", server.client("spa"));
    admin.change("PATCH", &spa, json!({ "consent_required": true })).await;
    assert_eq!(refusal(&ada.get(&silent.path()).await), "consent_required");
    consent(&mut ada, &Ask::of(&server, "spa"), "allow").await;
    assert!(ada.get(&silent.path()).await.redirect_param("code").is_some(), "agreed once");
    let wider = silent.clone().with("scope", "openid profile email offline_access");
    assert_eq!(refusal(&ada.get(&wider.path()).await), "consent_required", "but not to more");

    server.clock.advance(Duration::from_secs(100));
    assert_eq!(refusal(&ada.get(&silent.clone().with("max_age", "99").path()).await), "login_required");
    assert_eq!(refusal(&ada.get(&silent.with("max_age", "0").path()).await), "login_required");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_sees_what_they_have_allowed_and_withdraws_it() {
    const CONSENTS: &str = "/o/acme/account/consents";
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let spa = server.client("spa").to_owned();
    let path = format!("/api/organizations/acme/clients/{spa}");
    admin.change("PATCH", &path, json!({ "consent_required": true })).await;
    let mut ada = ada(&server).await;
    assert!(!ada.get("/o/acme/account").await.body.contains("What you have allowed"));
    let answer = consent(&mut ada, &Ask::of(&server, "spa"), "allow").await;
    let code = answer.redirect_param("code").expect("a code");
    let tokens = redeem(&server, &spa, CALLBACK, &code).await;
    let reads =
        async || server.get("/api/subscription").bearer(&tokens.text("access_token")).send().await.status;
    assert_eq!(reads().await, 200);
    let page = ada.get("/o/acme/account").await;
    for part in [
        "What you have allowed",
        &*spa,
        "See who you are · See your name · See your e-mail address",
        "allowed just now",
    ] {
        assert!(page.body.contains(part), "{part}: {}", page.body);
    }
    let csrf = page.input("csrf");
    let fields = [("csrf", &*csrf), ("withdraw", &*spa)];
    // Grace cannot withdraw Ada's consent.
    let mut grace = server.browser();
    grace.sign_in("acme", "grace@acme.test").await;
    let other = grace.get("/activate").await.input("csrf");
    assert_eq!(grace.post(CONSENTS, &[("csrf", &other), ("withdraw", &spa)]).await.status, 303);
    assert_eq!(reads().await, 200);
    assert_eq!(ada.post(CONSENTS, &[("csrf", "x"), ("withdraw", &spa)]).await.status, 403);
    assert_eq!(ada.post(CONSENTS, &[("csrf", &csrf), ("withdraw", "spa")]).await.status, 400);
    let unused = ada.get(&Ask::of(&server, "spa").path()).await.redirect_param("code").expect("a code");
    for _ in 0..2 {
        assert_eq!(
            ada.post(CONSENTS, &fields).await.header("location"),
            "/o/acme/account",
            "also a second click"
        );
    }
    assert_eq!(reads().await, 401, "what the client had by it is over");
    let late = redeem(&server, &spa, CALLBACK, &unused).await;
    assert_eq!(late.error(), (400, "invalid_grant".to_owned()), "and what it did not have yet: {late:?}");
    let page = ada.get("/o/acme/account").await;
    assert!(page.body.contains("It may ask you again.") && !page.body.contains(&spa), "{}", page.body);
    let silent = Ask::of(&server, "spa").with("prompt", "none");
    assert_eq!(refusal(&ada.get(&silent.path()).await), "consent_required");
    let trail = admin.read("/api/organizations/acme/audit?action=consent.withdrawn").await;
    assert_eq!(trail["items"].as_array().map(Vec::len), Some(1), "{trail}");
    assert_eq!(text(&trail["items"][0], "target"), spa, "{trail}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_click_on_a_decision_leads_to_the_client_too() {
    let server = TestServer::start().await;
    let mut ada = ada(&server).await;
    let ask = Ask::of(&server, "spa").with("prompt", "consent");
    let page = ada.get(&ask.path()).await;
    for _ in 0..2 {
        let refused = post_consent(&mut ada, &page, &[("decision", "deny")]).await;
        assert_eq!(refusal(&refused), "access_denied");
    }
    for _ in 0..2 {
        let allowed = post_consent(&mut ada, &page, &[("decision", "allow")]).await;
        assert!(allowed.redirect_param("code").is_some(), "{allowed:?}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_sign_in_that_was_asked_for_cannot_be_left_out() {
    let server = TestServer::start().await;
    let mut ada = ada(&server).await;
    // Somebody could have kept this note from before.
    server.clock.advance(Duration::from_secs(1));
    let noted = ada.get(&Ask::of(&server, "spa").with("prompt", "login").with("nonce", "1").path()).await;
    let note_of = |address: &str| {
        address.split_once("&sarsen_asked=").map(|(_, note)| note.to_owned()).expect("a note")
    };
    for changed in [("prompt", "login"), ("prompt", "select_account"), ("max_age", "0"), ("max_age", "30")] {
        server.clock.advance(Duration::from_secs(60));
        let ask = Ask::of(&server, "spa").with(changed.0, changed.1);
        let asked = ada.get(&ask.path()).await;
        let next = sign_in_first(&asked).unwrap_or_else(|| panic!("{changed:?}: {asked:?}"));
        let (request, note) = next.split_once("&sarsen_asked=").expect("a note");
        let (millis, tag) = note.split_once('.').expect("two parts");
        let earlier = millis.parse::<i64>().expect("a time") - 100_000;
        let forged = format!("{}{tag}", if tag.starts_with('A') { "B" } else { "A" });
        for (what, address) in [
            ("the same", next.clone()),
            ("dropped", request.to_owned()),
            ("empty", format!("{request}&sarsen_asked=")),
            ("earlier", format!("{request}&sarsen_asked={earlier}.{tag}")),
            ("forged", format!("{request}&sarsen_asked={millis}.{forged}")),
            ("cut", format!("{request}&sarsen_asked={millis}.{}", &tag[..42])),
            ("no tag", format!("{request}&sarsen_asked={earlier}.")),
            (
                "of another request",
                format!(
                    "{request}&sarsen_asked={}",
                    note_of(&noted.redirect_param("next").unwrap_or_default())
                ),
            ),
            ("in another place", format!("/auth/authorize?sarsen_asked={earlier}.{tag}&{}", &request[16..])),
        ] {
            let answer = ada.get(&address).await;
            assert!(sign_in_first(&answer).is_some(), "{changed:?}, {what}: {answer:?}");
        }
        // A user who signs in continues, also after a late return or from a page without value.
        let worthless = ada.get(&format!("{request}&sarsen_asked={earlier}.{tag}")).await;
        for next in [sign_in_first(&worthless).expect("asked"), next] {
            server.clock.advance(Duration::from_secs(5));
            assert_eq!(ada.sign_in("acme", "ada@acme.test").await.status, 303);
            server.clock.advance(Duration::from_secs(5));
            let answer = ada.get(&next).await;
            let code = answer.redirect_param("code").unwrap_or_else(|| panic!("{changed:?}: {answer:?}"));
            until_both_keys_sign(&server).await;
            let tokens = redeem(&server, server.client("spa"), CALLBACK, &code).await;
            let signed_in_at = server.app.now().seconds() - 5;
            assert_eq!(claims(&tokens.text("id_token"))["auth_time"], signed_in_at, "{changed:?}");
        }
    }
    // Young enough is young enough.
    let asked = ada.get(&Ask::of(&server, "spa").with("max_age", "3600").path()).await;
    assert!(asked.redirect_param("code").is_some(), "{asked:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_takes_his_time_to_sign_in_again_is_asked_once_more_and_then_goes_on() {
    let server = TestServer::start().await;
    let mut ada = ada(&server).await;
    server.clock.advance(Duration::from_secs(60));
    let asked = ada.get(&Ask::of(&server, "spa").with("prompt", "login").path()).await;
    let mut next = sign_in_first(&asked).expect("asked");
    server.clock.advance(Duration::from_secs(1801));
    let mut sign_ins = 0;
    let code = loop {
        assert!(sign_ins < 3, "asked again and again");
        assert_eq!(ada.sign_in("acme", "ada@acme.test").await.status, 303);
        sign_ins += 1;
        server.clock.advance(Duration::from_secs(1));
        let answer = ada.get(&next).await;
        match sign_in_first(&answer) {
            Some(again) => next = again,
            None => break answer.redirect_param("code"),
        }
    };
    assert!(code.is_some());
    assert_eq!(sign_ins, 2, "what was asked for half an hour ago was forgotten");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hint_names_the_user_that_the_client_means() {
    let server = TestServer::start().await;
    let mut ada = ada(&server).await;
    let ask = Ask::of(&server, "spa");
    let own = tokens_of(&server, &mut ada, &ask).await;
    let mut grace = server.browser();
    grace.sign_in("acme", "grace@acme.test").await;
    let other = tokens_of(&server, &mut grace, &ask).await;
    let hinted = |token: &str| ask.clone().with("id_token_hint", token).with("prompt", "none");

    assert!(ada.get(&hinted(&own.text("id_token")).path()).await.redirect_param("code").is_some());
    server.clock.advance(Duration::from_secs(7200));
    let late = ada.get(&hinted(&own.text("id_token")).path()).await;
    assert!(late.redirect_param("code").is_some(), "a hint may have ended: {late:?}");
    let (header, rest) =
        own.text("id_token").split_once('.').map(|(a, b)| (a.to_owned(), b.to_owned())).expect("a JWT");
    for (what, hint) in [
        ("another user", other.text("id_token")),
        ("an access token", own.text("access_token")),
        ("no token", "x.y.z".to_owned()),
        ("without its signature", format!("{header}.{}.", rest.split('.').next().unwrap_or_default())),
    ] {
        assert_eq!(refusal(&ada.get(&hinted(&hint).path()).await), "login_required", "{what}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_says_no_gives_nothing_away() {
    let server = TestServer::start().await;
    let mut ada = ada(&server).await;
    let ask = Ask::of(&server, "spa").with("prompt", "consent");
    assert_eq!(refusal(&consent(&mut ada, &ask, "deny").await), "access_denied");
    let unclear = consent(&mut ada, &ask, "perhaps").await;
    assert_shown_here(&unclear, "neither");
    // Having said no is not having said yes.
    assert_eq!(ada.get(&ask.path()).await.status, 200, "asked again");
    let said_yes = consent(&mut ada, &ask, "allow").await;
    assert!(said_yes.redirect_param("code").is_some(), "{said_yes:?}");
    assert_eq!(ada.get(&ask.path()).await.status, 200, "a later request asks anew");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn consent_takes_a_form_of_our_own_page_from_the_user_who_saw_it() {
    let server = TestServer::start().await;
    let mut ada = ada(&server).await;
    let ask = Ask::of(&server, "spa").with("prompt", "consent");
    let page = ada.get(&ask.path()).await;
    let mut mallory = server.browser();
    mallory.sign_in("acme", "grace@acme.test").await;
    let foreign = mallory.get(&ask.path()).await.input("csrf");
    for csrf in ["", "x", &foreign, &page.input("csrf").to_lowercase()] {
        let answer = post_consent(&mut ada, &page, &[("csrf", csrf), ("decision", "allow")]).await;
        assert_eq!(answer.status, 403, "{csrf:?}: {answer:?}");
        assert_eq!(answer.header("location"), "");
    }
    // The token alone, without the browser that it belongs to.
    let next = page.input("next");
    let fields = [("csrf", &*page.input("csrf")), ("next", &next), ("decision", "allow")];
    assert_eq!(server.post("/consent", &fields).send().await.status, 403);
    assert_eq!(server.get(&format!("/consent?next={next}&decision=allow")).send().await.status, 405);
    let json = server.request("POST", "/consent").json(&json!({ "csrf": page.input("csrf"), "next": next }));
    assert_eq!(json.send().await.status, 400);
    let silent = ask.clone().with("prompt", "none");
    let spa = Ask::of(&server, "spa");
    assert_eq!(ada.get(&ask.path()).await.status, 200, "nothing was agreed to: {:?}", silent.query());

    // Where it goes on is judged again.
    for next in
        ["https://evil.example/", "//evil.example", "/auth/authorize", "", "/auth/authorize?client_id=x"]
    {
        let answer = post_consent(&mut ada, &page, &[("next", next), ("decision", "allow")]).await;
        assert_shown_here(&answer, next);
    }
    let elsewhere = spa.clone().with("redirect_uri", "https://evil.example/").path();
    assert_shown_here(
        &post_consent(&mut ada, &page, &[("next", &elsewhere), ("decision", "deny")]).await,
        "deny",
    );

    // Somebody else signs in before the form is sent: it was not his question.
    let page = ada.get(&ask.path()).await;
    ada.sign_in("acme", "grace@acme.test").await;
    let answer = post_consent(&mut ada, &page, &[("decision", "allow")]).await;
    assert_eq!(answer.status, 200, "asked anew: {answer:?}");
    assert!(answer.body.contains("grace@acme.test"));

    let allowed = post_consent(&mut ada, &answer, &[("decision", "allow")]).await;
    assert!(allowed.redirect_param("code").is_some(), "{allowed:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_native_app_asks_each_time_unless_it_proves_itself_by_an_https_address() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let claimed = "https://app.example/callback";
    let native = admin
        .make_client("native", &["http://127.0.0.1/callback", "com.example.app:/callback", claimed])
        .await;
    let native = text(&native, "client_id");
    let mut ada = ada(&server).await;
    for uri in ["http://127.0.0.1:4711/callback", "com.example.app:/callback"] {
        let ask = Ask::by(native, uri);
        // Any program can fetch the address of a sign-in, with the note that it was asked for.
        let noted = server.get(&ask.path()).send().await.redirect_param("next").expect("a sign-in page");
        server.clock.advance(Duration::from_secs(1));
        for _ in 0..2 {
            let allowed = consent(&mut ada, &ask, "allow").await;
            assert!(allowed.redirect_param("code").is_some(), "{uri}: {allowed:?}");
        }
        let asked = ada.get(&noted).await;
        assert!(asked.status == 200 && asked.body.contains("asks to use your account"), "{uri}: {asked:?}");
        let silent = ada.get(&ask.with("prompt", "none").path()).await;
        assert_eq!(silent.redirect_param("error").as_deref(), Some("consent_required"), "{uri}: {silent:?}");
    }
    let proven = Ask::by(native, claimed);
    for ask in [&proven, &proven.clone().with("prompt", "none")] {
        let answer = ada.get(&ask.path()).await;
        assert!(answer.redirect_param("code").is_some(), "what was allowed counts here: {answer:?}");
    }
    let wider = proven.with("scope", "openid profile email offline_access").with("prompt", "none");
    assert_eq!(ada.get(&wider.path()).await.redirect_param("error").as_deref(), Some("consent_required"));
    server.stop().await;
}
