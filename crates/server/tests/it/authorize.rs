//! The authorization endpoint: the story, and every attack on it (RFC 6749 section 4.1, RFC 9700, OpenID Connect).

use crate::support::*;
use serde_json::json;
use server::testing::{Answer, TestBrowser, TestServer};
use std::time::Duration;

/// What a redirect to the client says was wrong; checked to be a whole answer of its kind.
fn refusal(answer: &Answer) -> String {
    assert_eq!(answer.status, 303, "{answer:?}");
    let location = answer.header("location");
    assert!(location.starts_with(&format!("{CALLBACK}?error=")), "{location}");
    assert_eq!(answer.redirect_param("state").as_deref(), Some("the-state"), "{location}");
    assert_eq!(answer.redirect_param("iss").as_deref(), Some(ISSUER), "{location}");
    assert_eq!(answer.redirect_param("code"), None, "{location}");
    answer.redirect_param("error").unwrap_or_default()
}

/// A page that says what is wrong, and leads nowhere.
fn assert_shown_here(answer: &Answer, what: &str) {
    assert_eq!(answer.status, 400, "{what}: {answer:?}");
    assert!(answer.header("content-type").starts_with("text/html"), "{what}: {answer:?}");
    assert_eq!(answer.header("location"), "", "{what}");
    assert!(!answer.body.contains("evil.example"), "{what}: nothing of the request is shown");
}

/// Whether the answer sends the user to sign in, and where he then comes back to.
fn sign_in_first(answer: &Answer) -> Option<String> {
    answer.header("location").starts_with("/o/acme/login?").then(|| answer.redirect_param("next"))?
}

async fn ada(server: &TestServer) -> TestBrowser<'_> {
    let mut ada = server.browser();
    assert_eq!(ada.sign_in("acme", "ada@acme.test").await.status, 303);
    ada
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_signs_in_for_a_client_and_the_client_gets_tokens() {
    let server = TestServer::start().await;
    until_both_keys_sign(&server).await;
    let ask = Ask::of(&server, "spa").with("scope", "openid email offline_access");
    let mut ada = server.browser();
    let asked = ada.get(&ask.path()).await;
    assert_eq!(asked.status, 303);
    let next = sign_in_first(&asked).expect("nobody is signed in");
    let page = ada.get(asked.header("location")).await;
    let fields = [
        ("csrf", &*page.input("csrf")),
        ("next", &page.input("next")),
        ("email", "ada@acme.test"),
        ("password", server.password("ada@acme.test")),
    ];
    let signed_in = ada.post("/o/acme/login", &fields).await;
    assert_eq!(
        (signed_in.status, signed_in.header("location")),
        (303, &*next),
        "303: never repeats the POST"
    );

    let answer = ada.get(&next).await;
    assert_eq!(answer.status, 303);
    assert_eq!(answer.header("cache-control"), "no-store");
    assert_eq!(answer.header("referrer-policy"), "no-referrer");
    assert_eq!(answer.redirect_param("state").as_deref(), Some("the-state"));
    assert_eq!(answer.redirect_param("iss").as_deref(), Some(ISSUER));
    let code = answer.redirect_param("code").expect("a code");
    let tokens = redeem(&server, server.client("spa"), CALLBACK, &code).await;
    assert_eq!(tokens.status, 200, "{tokens:?}");
    assert_eq!(tokens.text("scope"), "openid email offline_access");
    assert!(!tokens.text("refresh_token").is_empty());
    let id = claims(&tokens.text("id_token"));
    assert_eq!(id["nonce"], "the-nonce");
    assert_eq!(id["auth_time"], 1_800_000_000);
    assert_eq!(id["aud"], server.client("spa"));
    assert_eq!(id["iss"], ISSUER);
    assert_eq!(id["email"], "ada@acme.test");
    assert_eq!(id["sub"], claims(&tokens.text("access_token"))["sub"]);

    // Signed in once is signed in for the other products too.
    let other = ada.get(&Ask::of(&server, "web").path()).await;
    assert!(other.redirect_param("code").is_some(), "{other:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_client_or_redirect_uri_is_told_here_and_leads_nowhere() {
    let server = TestServer::start().await;
    let mut ada = ada(&server).await;
    let ask = Ask::of(&server, "spa");
    let mut wrong = vec![
        ask.clone().without("client_id"),
        ask.clone().with("client_id", "client_01h00000000000000000000000"),
        ask.clone().with("client_id", "' OR 1=1 --"),
        ask.clone().with("client_id", &server.client("spa").to_uppercase()),
        ask.clone().without("redirect_uri"),
        ask.clone().with("redirect_uri", ""),
    ];
    for uri in [
        "http://127.0.0.1:9999/Callback",
        "HTTP://127.0.0.1:9999/callback",
        "http://127.0.0.1:9999/callback/",
        "http://127.0.0.1:9999/callback?x=1",
        "http://127.0.0.1:9999/callback?",
        "http://127.0.0.1:9999/callback#",
        "http://127.0.0.1:9999/callback#here",
        "http://127.0.0.1:9999/callback ",
        " http://127.0.0.1:9999/callback",
        "http://127.0.0.1:9999/callback\0",
        "http://127.0.0.1:9999/callback\r\nset-cookie: a=b",
        "http://127.0.0.1:9999/x/../callback",
        "http://127.0.0.1:9999/./callback",
        "http://127.0.0.1:9999/%63allback",
        "http://127.0.0.1:9999/callback%2e",
        "http://127.0.0.1:9999/callback/../../evil.example",
        "http://127.0.0.1:9999//callback",
        "http://127.0.0.1:9999\\callback",
        "http://127.0.0.1:9999/\\evil.example",
        "http://127.0.0.1:9999@evil.example/callback",
        "http://ada@127.0.0.1:9999/callback",
        "http://127.0.0.1:9999.evil.example/callback",
        "http://evil.example/http://127.0.0.1:9999/callback",
        "http://evil.example/callback?http://127.0.0.1:9999/callback",
        "http://127.0.0.1:9998/callback",
        "http://127.0.0.1/callback",
        "http://localhost:9999/callback",
        "http://[::1]:9999/callback",
        "http://127.1:9999/callback",
        "http://2130706433:9999/callback",
        "https://127.0.0.1:9999/callback",
        "http://127.0.0.1:9999/callbac",
        "http://127.0.0.1:9999/callback2",
        "//evil.example/callback",
        "/callback",
        "javascript:alert(1)",
        "data:text/html,x",
        // Another client's own.
        "http://127.0.0.1:7070/console",
    ] {
        wrong.push(ask.clone().with("redirect_uri", uri));
    }
    for ask in &wrong {
        for ask in
            [ask.clone(), ask.clone().with("response_type", "token"), ask.clone().with("prompt", "none")]
        {
            assert_shown_here(&ada.get(&ask.path()).await, &ask.query());
        }
        let mut posted = ada.post("/auth/authorize", &ask.fields()).await;
        if posted.status == 303 {
            assert!(posted.header("location").starts_with("/auth/authorize?"), "{posted:?}");
            posted = ada.get(posted.header("location")).await;
        }
        assert_shown_here(&posted, &ask.query());
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_native_apps_choose_their_port_and_only_on_loopback() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let native =
        admin.make_client("native", &["http://127.0.0.1/callback", "com.example.app:/callback"]).await;
    let native = text(&native, "client_id");
    let mut ada = ada(&server).await;
    for good in [
        "http://127.0.0.1/callback",
        "http://127.0.0.1:1/callback",
        "http://127.0.0.1:65535/callback",
        "com.example.app:/callback",
    ] {
        let answer = ada.get(&Ask::by(native, good).path()).await;
        assert_eq!(answer.status, 200, "{good}: it asks for consent: {answer:?}");
        let query = Ask::by(native, good).with("prompt", "none");
        let answer = ada.get(&query.path()).await;
        assert!(
            answer.header("location").starts_with(&format!("{good}?error=consent_required")),
            "{answer:?}"
        );
    }
    for wrong in [
        "http://127.0.0.1:/callback",
        "http://127.0.0.1:+80/callback",
        "http://127.0.0.1:123456/callback",
        "http://127.0.0.1:80/callback/",
        "http://127.0.0.1:80/Callback",
        "http://127.0.0.1:80@evil.example/callback",
        "http://127.0.0.1:80\\@evil.example/callback",
        "http://127.0.0.1.evil.example/callback",
        "http://127.0.0.2:80/callback",
        "http://localhost:80/callback",
        "http://[::1]:80/callback",
        "https://127.0.0.1:80/callback",
        "com.example.app:80/callback",
        "com.example.app://evil.example/callback",
    ] {
        assert_shown_here(&ada.get(&Ask::by(native, wrong).path()).await, wrong);
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_else_is_wrong_is_told_to_the_client() {
    let server = TestServer::start().await;
    let mut ada = ada(&server).await;
    let ask = Ask::of(&server, "spa");
    let short = "x".repeat(42);
    let long = "x".repeat(129);
    let cases = [
        (ask.clone().without("response_type"), "invalid_request"),
        (ask.clone().with("response_type", "token"), "unsupported_response_type"),
        (ask.clone().with("response_type", "id_token"), "unsupported_response_type"),
        (ask.clone().with("response_type", "code token"), "unsupported_response_type"),
        (ask.clone().with("response_type", "code id_token"), "unsupported_response_type"),
        (ask.clone().with("response_type", "none"), "unsupported_response_type"),
        (ask.clone().with("response_type", "CODE"), "unsupported_response_type"),
        (ask.clone().with("response_mode", "fragment"), "invalid_request"),
        (ask.clone().with("response_mode", "form_post"), "invalid_request"),
        // PKCE (RFC 7636 section 4.4.1).
        (ask.clone().without("code_challenge").without("code_challenge_method"), "invalid_request"),
        (ask.clone().without("code_challenge"), "invalid_request"),
        (ask.clone().without("code_challenge_method"), "invalid_request"),
        (ask.clone().with("code_challenge_method", "plain"), "invalid_request"),
        (ask.clone().with("code_challenge_method", "s256"), "invalid_request"),
        (ask.clone().with("code_challenge_method", "S512"), "invalid_request"),
        (ask.clone().with("code_challenge", &short), "invalid_request"),
        (ask.clone().with("code_challenge", &long), "invalid_request"),
        (ask.clone().with("code_challenge", &format!("{short}=")), "invalid_request"),
        (ask.clone().with("code_challenge", &format!("{short} ")), "invalid_request"),
        (ask.clone().with("code_challenge", &format!("{short}ä")), "invalid_request"),
        // What does not exist here.
        (ask.clone().with("request", "eyJhbGciOiJub25lIn0.e30."), "request_not_supported"),
        (ask.clone().with("request_uri", "https://evil.example/request"), "request_uri_not_supported"),
        (ask.clone().with("request_uri", "urn:ietf:params:oauth:other"), "request_uri_not_supported"),
        (ask.clone().with("registration", "{}"), "registration_not_supported"),
        // Prompts and ages.
        (ask.clone().with("prompt", "none login"), "invalid_request"),
        (ask.clone().with("prompt", "consent none"), "invalid_request"),
        (ask.clone().with("prompt", "dance"), "invalid_request"),
        (ask.clone().with("prompt", "LOGIN"), "invalid_request"),
        (ask.clone().with("max_age", "-1"), "invalid_request"),
        (ask.clone().with("max_age", "soon"), "invalid_request"),
        (ask.clone().with("max_age", "1.5"), "invalid_request"),
        (ask.clone().with("max_age", "99999999999"), "invalid_request"),
        // Nothing that is known is left of the scope.
        (ask.clone().with("scope", "fly platform org:acme org:*"), "invalid_scope"),
    ];
    for (ask, error) in cases {
        let answer = ada.get(&ask.path()).await;
        assert_eq!(refusal(&answer), error, "{}", ask.query());
        assert_eq!(answer.header("cache-control"), "no-store");
    }

    // A client of another kind has no code grant at all; it has no redirect URI either.
    for client in ["cli", "machine"] {
        assert_shown_here(&ada.get(&Ask::of(&server, client).path()).await, client);
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_parameter_is_an_error_and_none_of_its_values_counts() {
    let server = TestServer::start().await;
    let mut ada = ada(&server).await;
    let path = Ask::of(&server, "spa").path();
    for twice in [
        "scope=openid",
        "response_type=code",
        "nonce=x",
        "prompt=none",
        "code_challenge_method=S256",
        "x=1&x=2",
    ] {
        let path = match twice.starts_with("prompt") {
            true => format!("{path}&prompt=login&{twice}"),
            false => format!("{path}&{twice}"),
        };
        assert_eq!(refusal(&ada.get(&path).await), "invalid_request", "{twice}");
    }
    let twice = ada.get(&format!("{path}&state=other")).await;
    assert_eq!(twice.redirect_param("error").as_deref(), Some("invalid_request"), "{twice:?}");
    assert_eq!(twice.redirect_param("state"), None, "which one?");
    // Whom to tell is not known.
    let spa = server.client("spa");
    for twice in [
        format!("client_id={spa}"),
        "redirect_uri=http%3A%2F%2F127.0.0.1%3A9999%2Fcallback".to_owned(),
        "redirect_uri=https%3A%2F%2Fevil.example".to_owned(),
        "redirect%5Furi=https%3A%2F%2Fevil.example".to_owned(),
    ] {
        assert_shown_here(&ada.get(&format!("{path}&{twice}")).await, &twice);
    }
    let body = format!("{}&scope=openid", Ask::of(&server, "spa").query());
    let posted = server
        .request("POST", "/auth/authorize")
        .body("application/x-www-form-urlencoded", body.into_bytes())
        .send()
        .await;
    assert_shown_here(&posted, "POST");
    // What is not UTF-8 is no text, and cannot be given back byte for byte.
    let foreign = ada.get(&path.replace("state=the-state", "state=%ff%fe")).await;
    assert_eq!(foreign.redirect_param("error").as_deref(), Some("invalid_request"), "{foreign:?}");
    assert_eq!(foreign.redirect_param("state"), None);
    assert_shown_here(&ada.get(&path.replace("callback", "callback%ff")).await, "not UTF-8");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pkce_is_required_unless_a_confidential_client_may_do_without() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let mut ada = ada(&server).await;
    let bare = Ask::of(&server, "web").without("code_challenge").without("code_challenge_method");
    assert_eq!(refusal(&ada.get(&bare.path()).await), "invalid_request", "required by default");

    let client = |name: &str| format!("/api/organizations/acme/clients/{}", server.client(name));
    let public = admin.call("PATCH", &client("spa"), &json!({ "pkce_required": false })).await;
    assert_eq!(public.status, 422, "never for a client without a secret: {public:?}");
    admin.change("PATCH", &client("web"), json!({ "pkce_required": false })).await;

    let redeem = async |code: &str, verifier: Option<&str>| {
        let mut fields = vec![
            ("grant_type", "authorization_code"),
            ("client_id", server.client("web")),
            ("client_secret", server.secret("web")),
            ("redirect_uri", CALLBACK),
            ("code", code),
        ];
        fields.extend(verifier.map(|verifier| ("code_verifier", verifier)));
        server.post("/auth/token", &fields).send().await
    };
    let granted = code(&mut ada, &bare).await;
    assert_eq!(redeem(&granted, None).await.status, 200);
    let downgraded = code(&mut ada, &bare).await;
    let refused = redeem(&downgraded, Some(VERIFIER)).await;
    assert_eq!(refused.error(), (400, "invalid_grant".to_owned()), "a verifier without a challenge");
    // What is sent is checked all the same.
    let plain = bare.clone().with("code_challenge", VERIFIER).with("code_challenge_method", "plain");
    assert_eq!(refusal(&ada.get(&plain.path()).await), "invalid_request");
    let with_challenge = code(&mut ada, &Ask::of(&server, "web")).await;
    let refused = redeem(&with_challenge, None).await;
    assert_eq!(refused.error(), (400, "invalid_grant".to_owned()), "a challenge wants its verifier");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scope_is_narrowed_and_what_was_granted_is_told() {
    let server = TestServer::start().await;
    let mut ada = ada(&server).await;
    for (asked, granted) in [
        ("openid fly email email", "openid email"),
        ("  openid   profile ", "openid profile"),
        ("openid org:acme platform org:* admin", "openid"),
        ("OPENID email", "email"),
    ] {
        let tokens = tokens_of(&server, &mut ada, &Ask::of(&server, "spa").with("scope", asked)).await;
        assert_eq!(tokens.text("scope"), granted, "{asked}");
        assert_eq!(claims(&tokens.text("access_token"))["scope"], granted, "{asked}");
        assert_eq!(claims(&tokens.text("access_token"))["aud"], "service:acme/sketch", "{asked}");
        assert_eq!(tokens.json().get("refresh_token"), None, "{asked}: without offline_access");
        assert_eq!(tokens.json().get("id_token").is_some(), granted.contains("openid"), "{asked}");
    }
    let tokens = tokens_of(&server, &mut ada, &Ask::of(&server, "spa").without("scope")).await;
    assert_eq!(tokens.text("scope"), "profile email");
    server.stop().await;
}

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

/// Opens a request that asks for consent, and decides.
async fn consent(browser: &mut TestBrowser<'_>, ask: &Ask, decision: &str) -> Answer {
    let page = browser.get(&ask.path()).await;
    assert_eq!(page.status, 200, "{page:?}");
    post_consent(browser, &page, &[("decision", decision)]).await
}

/// Sends the form of a consent page, with other values for some of its fields.
async fn post_consent(browser: &mut TestBrowser<'_>, page: &Answer, changed: &[(&str, &str)]) -> Answer {
    let own = ["csrf", "next", "session"].map(|name| (name, page.input(name)));
    let kept = own.iter().filter(|(name, _)| !changed.iter().any(|(other, _)| other == name));
    let mut fields: Vec<(&str, &str)> = kept.map(|(name, value)| (*name, value.as_str())).collect();
    fields.extend(changed);
    browser.post("/consent", &fields).await
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
        // Whoever signs in goes on, also if he comes back from a worthless note, or late.
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
    assert_eq!(said_yes.status, 303);
    let answer = ada.get(said_yes.header("location")).await;
    assert!(answer.redirect_param("code").is_some(), "{answer:?}");
    // A later request asks anew.
    server.clock.advance(Duration::from_secs(1));
    assert_eq!(ada.get(&ask.path()).await.status, 200, "asked again");
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

    // Twice the same form: the answer is the same redirect, never a code.
    let page = answer;
    for _ in 0..2 {
        let answer = post_consent(&mut ada, &page, &[("decision", "allow")]).await;
        assert_eq!(answer.status, 303);
        assert!(answer.header("location").starts_with("/auth/authorize?"), "{answer:?}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn overload_is_told_to_the_client_with_state_and_issuer() {
    let server = TestServer::start().await;
    let mut ada = ada(&server).await;
    // A command on each writer that does not end: those that come after them cannot start in time.
    let writers = match store::testing::kind() {
        store::testing::Kind::Sqlite => 1,
        _ => store::Options::new("", &[]).writers,
    };
    let mut blockers = Vec::new();
    for _ in 0..writers {
        let (release, blocked) = std::sync::mpsc::channel::<()>();
        let store = server.app.store.clone();
        let (started, running) = std::sync::mpsc::channel::<()>();
        let blocker = tokio::spawn(async move {
            let blocked = std::sync::Mutex::new(blocked);
            store
                .write("test.block", move |_| {
                    let _ = started.send(());
                    let _ = blocked.lock().expect("one holds it").recv();
                    Ok::<_, server::StoreError>(())
                })
                .await
        });
        tokio::task::spawn_blocking(move || running.recv()).await.expect("joins").expect("runs");
        blockers.push((release, blocker));
    }
    let answer = ada.get(&Ask::of(&server, "spa").path()).await;
    assert_eq!(refusal(&answer), "temporarily_unavailable", "{answer:?}");
    let device = server.post("/auth/device/code", &[("client_id", server.client("cli"))]).send().await;
    assert_eq!((device.status, device.header("retry-after").is_empty()), (503, false), "only at authorize");
    for (release, blocker) in blockers {
        drop(release);
        blocker.await.expect("joins").expect("ends");
    }
    assert!(ada.get(&Ask::of(&server, "spa").path()).await.redirect_param("code").is_some());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn state_comes_back_byte_for_byte() {
    let server = TestServer::start().await;
    let mut ada = ada(&server).await;
    let long = "x".repeat(4000);
    for state in [
        "a b+c%20d&e=f#g?h/i:j;k,l@m$n!o'p(q)r*s~t",
        "\"<script>alert(1)</script>",
        "\r\nlocation: https://evil.example\r\n\r\n",
        "ä日本😀e\u{301}",
        "\0",
        " ",
        "&code=stolen&state=other&iss=https://evil.example",
        &long,
    ] {
        for ask in [Ask::of(&server, "spa"), Ask::of(&server, "spa").with("response_type", "token")] {
            let answer = ada.get(&ask.with("state", state).path()).await;
            assert_eq!(answer.status, 303, "{state:?}: {answer:?}");
            assert_eq!(answer.redirect_param("state").as_deref(), Some(state));
            assert_eq!(answer.redirect_param("iss").as_deref(), Some(ISSUER));
            let query = answer.header("location").split_once('?').expect("a query").1;
            let states = form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| name == "state");
            assert_eq!(states.count(), 1, "{state:?}");
        }
    }
    let answer = ada.get(&Ask::of(&server, "spa").without("state").path()).await;
    assert_eq!(answer.redirect_param("state"), None);
    let metadata = server.get("/.well-known/openid-configuration").send().await.json();
    assert_eq!(metadata["authorization_response_iss_parameter_supported"], true);
    assert_eq!(metadata["issuer"], ISSUER);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_cannot_be_framed_shared_or_leaked() {
    let server = TestServer::start().await;
    let mut ada = ada(&server).await;
    let consent = Ask::of(&server, "spa").with("prompt", "consent");
    let wrong = Ask::of(&server, "spa").with("redirect_uri", "https://evil.example/");
    let mut pages = vec![
        server.get("/o/acme/login").send().await,
        server.get("/activate").send().await,
        server.get("/o/nobody/login").send().await,
        server.get("/no/such/page").send().await,
        ada.get(&consent.path()).await,
        ada.get(&wrong.path()).await,
        ada.get("/o/acme/account").await,
        ada.get("/o/acme/logout").await,
    ];
    pages.push(ada.post("/o/acme/login", &[("email", "a"), ("password", "b")]).await);
    for page in &pages {
        let policy = page.header("content-security-policy");
        for rule in ["default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'"] {
            assert!(policy.contains(rule), "{policy}: {page:?}");
        }
        assert!(!policy.contains("form-action") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(page.header("x-frame-options"), "DENY");
        assert_eq!(page.header("referrer-policy"), "no-referrer");
        assert_eq!(page.header("cache-control"), "no-store");
        assert_eq!(page.header("x-content-type-options"), "nosniff");
        let elsewhere = page.body.split(['"', '\'']).filter(|text| text.contains("//"));
        assert_eq!(elsewhere.collect::<Vec<_>>(), [""; 0], "nothing comes from elsewhere");
    }
    let ask = Ask::of(&server, "spa");
    for path in [
        &*ask.path(),
        &wrong.path(),
        "/o/acme/login",
        "/activate",
        "/consent",
        "/auth/logout",
        "/console",
        "/setup",
    ] {
        for method in ["GET", "POST", "OPTIONS"] {
            let request = server.request(method, path).header("origin", "https://evil.example");
            let answer = request.header("access-control-request-method", "POST").send().await;
            let cors = answer.headers.iter().filter(|(name, _)| name.starts_with("access-control-"));
            assert_eq!(cors.count(), 0, "{method} {path}");
            assert!(answer.status >= 300 || method == "GET", "{method} {path}: {answer:?}");
        }
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sign_in_leads_to_our_own_pages_only() {
    let server = TestServer::start().await;
    let evil = [
        "https://evil.example/",
        "//evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "/\t/evil.example",
        "/o/\r\nlocation:https://evil.example",
        "javascript:alert(1)",
        "/auth/token",
        "/auth/logout?post_logout_redirect_uri=https://evil.example",
        "http:evil.example",
        "///evil.example",
        "/%2fevil.example/../..",
        "/.evil.example",
        "@evil.example",
        "evil.example",
        "/activate@evil.example/",
    ];
    for next in evil {
        // It may be ignored; wherever it leads is a path of our own.
        let own = |answer: &Answer| {
            let location = answer.header("location");
            assert_eq!(answer.status, 303, "{next:?}: {answer:?}");
            let path = location.strip_prefix('/').is_some_and(|rest| !rest.starts_with(['/', '\\']));
            let known = ["/o/acme/", "/console", "/activate"].iter().any(|own| location.starts_with(own));
            assert!(path && known && !location.contains(['\\', '\t', '\r']), "{next:?}: {location}");
        };
        let mut ada = server.browser();
        let mut query = form_urlencoded::Serializer::new(String::new());
        let query = query.append_pair("next", next).finish();
        let page = ada.get(&format!("/o/acme/login?{query}")).await;
        let (csrf, password) = (page.input("csrf"), server.password("ada@acme.test"));
        let fields = [("csrf", &*csrf), ("next", next), ("email", "ada@acme.test"), ("password", password)];
        own(&ada.post("/o/acme/login", &fields).await);
        let page = ada.get(&format!("/o/acme/logout?{query}")).await;
        assert_eq!(page.status, 200, "a link does not sign out");
        own(&ada.post("/o/acme/logout", &[("csrf", &csrf), ("next", next)]).await);
        own(&ada.get(&format!("/o/acme/logout?{query}")).await);
    }
    let mut new = server.browser();
    for (index, next) in evil.into_iter().enumerate().take(4) {
        let csrf = new.get("/o/acme/signup").await.input("csrf");
        let email = format!("new{index}@acme.test");
        let fields = [("csrf", &*csrf), ("next", next), ("email", &email), ("password", "correct horse")];
        let answer = new.post("/o/acme/signup", &fields).await;
        assert_eq!(answer.header("location"), "/o/acme/account", "{next:?}: {answer:?}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sign_out_leads_to_addresses_of_its_client_only() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let native = admin.make_client("native", &["com.example.app:/callback"]).await;
    let mut ada = ada(&server).await;
    let spa = tokens_of(&server, &mut ada, &Ask::of(&server, "spa")).await.text("id_token");
    let app = {
        let ask = Ask::by(text(&native, "client_id"), "com.example.app:/callback");
        let allowed = consent(&mut ada, &ask, "allow").await;
        let code = ada.get(allowed.header("location")).await.redirect_param("code").expect("a code");
        let client_id = text(&native, "client_id");
        redeem(&server, client_id, "com.example.app:/callback", &code).await.text("id_token")
    };
    for hint in [&spa, &app] {
        for evil in [
            "https://evil.example/",
            "//evil.example/",
            "/\\evil.example",
            "javascript:alert(1)",
            "data:text/html,x",
            "https:/\\evil.example",
            "https:\\\\evil.example",
            "https://127.0.0.1:9999@evil.example/",
            "http://127.0.0.1:9999@evil.example/",
            "http://127.0.0.1:9999\\@evil.example/",
            "http://127.0.0.1:9999.evil.example/",
            "http://127.0.0.1:99990/callback",
            "http://localhost:9999/callback",
            "https://127.0.0.1:9999/callback",
            "com.evil.app:/callback",
            "evil",
            "http:evil.example",
        ] {
            let mut query = form_urlencoded::Serializer::new(String::new());
            query.append_pair("id_token_hint", hint).append_pair("post_logout_redirect_uri", evil);
            let query = query.finish();
            assert_shown_here(&ada.get(&format!("/auth/logout?{query}")).await, evil);
            let fields = [("id_token_hint", hint.as_str()), ("post_logout_redirect_uri", evil)];
            assert_shown_here(&ada.post("/auth/logout", &fields).await, evil);
        }
    }
    assert_shown_here(&ada.get("/auth/logout").await, "without a hint");
    assert_shown_here(
        &ada.get("/auth/logout?post_logout_redirect_uri=https://evil.example/").await,
        "without a hint",
    );
    assert_eq!(ada.get("/o/acme/account").await.status, 200, "still signed in");

    // Somebody else's hint asks first, with a token against forgery.
    let mut grace = server.browser();
    grace.sign_in("acme", "grace@acme.test").await;
    let page = grace.get(&format!("/auth/logout?id_token_hint={spa}")).await;
    assert_eq!(page.status, 200);
    assert_eq!(grace.post("/o/acme/logout", &[("next", "/o/acme/login")]).await.status, 403);
    assert_eq!(grace.get("/o/acme/account").await.status, 200, "still signed in");

    let back = "http%3A%2F%2F127.0.0.1%3A9999%2Fcallback";
    let path = format!("/auth/logout?id_token_hint={spa}&post_logout_redirect_uri={back}&state=a%26b");
    let done = ada.get(&path).await;
    assert_eq!((done.status, done.header("location")), (303, "http://127.0.0.1:9999/callback?state=a%26b"));
    assert_eq!(ada.get("/o/acme/account").await.status, 303, "signed out");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cookie_that_was_set_before_is_not_adopted() {
    let server = TestServer::start().await;
    // Mallory is signed in, and puts her cookies into the victim's browser.
    let mut mallory = server.browser();
    mallory.sign_in("acme", "grace@acme.test").await;
    let session = |browser: &TestBrowser<'_>| {
        browser.cookies.iter().find(|(name, _)| name == "sarsen_7070_acme").map(|(_, value)| value.clone())
    };
    let planted = session(&mallory).expect("a session");
    let mut victim = server.browser();
    victim.cookies = mallory.cookies.clone();
    assert_eq!(victim.sign_in("acme", "ada@acme.test").await.status, 303);
    let own = session(&victim).expect("a session");
    assert_ne!(own, planted);
    assert_ne!(own.split('.').next(), planted.split('.').next(), "a new id");
    assert_eq!(mallory.get("/o/acme/account").await.status, 303, "the old session ended");
    assert!(victim.get("/o/acme/account").await.body.contains("ada@acme.test"));

    // Made up, or of a user who has signed in again since.
    let before = own;
    victim.sign_in("acme", "ada@acme.test").await;
    let (id, _) = before.split_once('.').expect("two parts");
    for value in [
        before.clone(),
        id.to_owned(),
        format!("{id}."),
        format!("{id}.x"),
        "x".to_owned(),
        format!("{before}x"),
    ] {
        let mut browser = server.browser();
        browser.cookies = vec![("sarsen_7070_acme".to_owned(), value.clone())];
        assert_eq!(browser.get("/o/acme/account").await.status, 303, "{value}");
        browser.cookies = vec![("sarsen_7070_acme".to_owned(), value)];
        browser.sign_in("acme", "ada@acme.test").await;
        assert!(session(&browser).is_some_and(|own| own.len() > 60 && own != before));
    }
    // Signing out ends the session itself, not only the cookie.
    let kept = session(&victim).expect("a session");
    let csrf = victim.get("/o/acme/logout").await.input("csrf");
    let left = victim.post("/o/acme/logout", &[("csrf", &csrf)]).await;
    assert_eq!((left.status, session(&victim)), (303, None));
    victim.cookies.push(("sarsen_7070_acme".to_owned(), kept));
    assert_eq!(victim.get("/o/acme/account").await.status, 303);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cookies_are_for_this_host_and_secure_where_they_can_be() {
    let plain = TestServer::start().await;
    let secure =
        TestServer::start_with(|settings| settings.issuer = "https://id.example".to_owned(), |_| {}).await;
    for (server, begins, ends) in
        [(&plain, "sarsen_7070_", "SameSite=Lax"), (&secure, "__Host-sarsen_", "SameSite=Lax; Secure")]
    {
        let mut ada = server.browser();
        let page = ada.get("/o/acme/login").await;
        let signed_in = ada.sign_in("acme", "ada@acme.test").await;
        for answer in [&page, &signed_in] {
            let cookie = answer.header("set-cookie");
            assert!(cookie.starts_with(begins) && cookie.ends_with(ends), "{cookie}");
            assert!(cookie.contains("; HttpOnly;") && cookie.contains("; Path=/;"), "{cookie}");
            assert!(!cookie.to_lowercase().contains("domain="), "{cookie}");
        }
    }
    plain.stop().await;
    secure.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_code_is_used_once_soon_and_by_its_own_client() {
    let server = TestServer::start().await;
    until_both_keys_sign(&server).await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let other = admin.make_client("spa", &[CALLBACK, "http://127.0.0.1:9999/other"]).await;
    let other = text(&other, "client_id").to_owned();
    let mut ada = ada(&server).await;
    let ask = Ask::of(&server, "spa");
    let spa = server.client("spa");
    let refused = (400, "invalid_grant".to_owned());

    let granted = code(&mut ada, &ask).await;
    let wrong_verifiers = [&VERIFIER[1..], "", "a-verifier-that-is-long-enough-for-RFC-7637", "short"];
    let mut bodies = Vec::new();
    for verifier in wrong_verifiers {
        let fields = [
            ("grant_type", "authorization_code"),
            ("client_id", spa),
            ("redirect_uri", CALLBACK),
            ("code", &granted),
            ("code_verifier", verifier),
        ];
        bodies.push(server.post("/auth/token", &fields).send().await);
    }
    bodies.push(redeem(&server, &other, CALLBACK, &granted).await);
    for uri in
        ["http://127.0.0.1:9999/other", "http://127.0.0.1:9999/callback/", "http://127.0.0.1:9998/callback"]
    {
        bodies.push(redeem(&server, spa, uri, &granted).await);
    }
    for garbage in
        ["x", "code_01h00000000000000000000000.x", &granted[..granted.len() - 1], &format!("{granted}x")]
    {
        bodies.push(redeem(&server, spa, CALLBACK, garbage).await);
    }
    for answer in &bodies {
        assert_eq!(answer.error(), refused, "{answer:?}");
        assert_eq!((&answer.body, answer.header("cache-control")), (&bodies[0].body, "no-store"));
    }
    let first = redeem(&server, spa, CALLBACK, &granted).await;
    assert_eq!(first.status, 200, "wrong tries cost nothing: {first:?}");
    assert_eq!(claims(&first.text("id_token"))["nonce"], "the-nonce");
    assert_eq!(server.get("/api/user").bearer(&first.text("access_token")).send().await.status, 200);
    assert_eq!(redeem(&server, spa, CALLBACK, &granted).await.error(), refused);
    let robbed = server.get("/api/user").bearer(&first.text("access_token")).send().await;
    assert_eq!(robbed.status, 401, "a code that comes back takes its tokens with it");

    let granted = code(&mut ada, &ask.clone().with("nonce", "another")).await;
    server.clock.advance(Duration::from_secs(59));
    let fresh = redeem(&server, spa, CALLBACK, &granted).await;
    assert_eq!(claims(&fresh.text("id_token"))["nonce"], "another");
    let granted = code(&mut ada, &ask).await;
    server.clock.advance(Duration::from_secs(60));
    assert_eq!(redeem(&server, spa, CALLBACK, &granted).await.error(), refused, "a minute is over");

    // It ends with the session that it came from.
    let granted = code(&mut ada, &ask).await;
    let csrf = ada.get("/o/acme/logout").await.input("csrf");
    ada.post("/o/acme/logout", &[("csrf", &csrf)]).await;
    assert_eq!(redeem(&server, spa, CALLBACK, &granted).await.error(), refused, "signed out");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn posted_requests_are_bounded_in_length_and_number() {
    let server = TestServer::start_with(|settings| settings.posted_requests_max = 2, |_| {}).await;
    let ask = Ask::of(&server, "spa");
    let long = "x".repeat(9000);
    let refused = server.post("/auth/authorize", &ask.clone().with("nonce", &long).fields()).send().await;
    assert!(refused.status == 400 && refused.body.contains("too long"), "{refused:?}");
    for _ in 0..2 {
        assert_eq!(server.post("/auth/authorize", &ask.fields()).send().await.status, 303);
    }
    let full = server.post("/auth/authorize", &ask.fields()).send().await;
    assert_eq!((full.status, full.header("retry-after")), (429, "60"), "{full:?}");
    let other = server.post("/auth/authorize", &Ask::of(&server, "web").fields()).send().await;
    assert_eq!(other.status, 303, "another client's requests are its own");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_posted_request_goes_on_with_a_get() {
    let server = TestServer::start().await;
    let mut ada = ada(&server).await;
    let ask = Ask::of(&server, "spa").with("prompt", "consent");
    let posted = server.post("/auth/authorize", &ask.fields()).send().await;
    assert_eq!(posted.status, 303, "{posted:?}");
    let address = posted.header("location").to_owned();
    assert!(address.starts_with("/auth/authorize?client_id=") && !address.contains("the-state"), "{address}");
    let page = ada.get(&address).await;
    assert_eq!(page.status, 200, "{page:?}");
    let allowed = post_consent(&mut ada, &page, &[("decision", "allow")]).await;
    let answer = ada.get(allowed.header("location")).await;
    assert!(answer.redirect_param("code").is_some(), "{answer:?}");
    assert_eq!(answer.redirect_param("state").as_deref(), Some("the-state"));

    // Only what was stored counts, for the client that stored it.
    server.clock.advance(Duration::from_secs(1));
    let mixed = ada.get(&format!("{address}&redirect_uri=https%3A%2F%2Fevil.example&scope=openid")).await;
    assert_eq!(mixed.status, 200, "{mixed:?}");
    assert!(mixed.input("next").contains("127.0.0.1"), "{mixed:?}");
    assert_shown_here(
        &ada.get(&address.replace(server.client("spa"), server.client("web"))).await,
        "foreign",
    );
    assert_shown_here(&ada.get(&address[..address.len() - 3]).await, "cut");
    let in_query = server.post(&ask.path(), &[]).send().await;
    assert_shown_here(&in_query, "parameters in the address of a POST");
    server.clock.advance(Duration::from_secs(1801));
    let late = ada.get(&address).await;
    assert_eq!((late.status, late.header("location")), (404, ""), "{late:?}");
    let nested = server
        .post("/auth/authorize", &ask.with("request_uri", "urn:ietf:params:oauth:request_uri:x").fields());
    let nested = nested.send().await;
    assert_eq!(refusal(&ada.get(nested.header("location")).await), "request_uri_not_supported");
    server.stop().await;
}
