//! What a request may say: its client and where it leads, its parameters, its scope.

use super::{ada, assert_shown_here, refusal};
use crate::support::*;
use serde_json::json;
use server::testing::{Rows, TestServer};

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
    let mut rows = Rows::new();
    for ask in &wrong {
        let row = async {
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
        };
        rows.row(ask.query(), row).await;
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
    let mut rows = Rows::new();
    for good in [
        "http://127.0.0.1/callback",
        "http://127.0.0.1:1/callback",
        "http://127.0.0.1:65535/callback",
        "com.example.app:/callback",
    ] {
        let row = async {
            let answer = ada.get(&Ask::by(native, good).path()).await;
            assert_eq!(answer.status, 200, "{good}: it asks for consent: {answer:?}");
            let query = Ask::by(native, good).with("prompt", "none");
            let answer = ada.get(&query.path()).await;
            assert!(
                answer.header("location").starts_with(&format!("{good}?error=consent_required")),
                "{answer:?}"
            );
        };
        rows.row(good, row).await;
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
        let row = async {
            assert_shown_here(&ada.get(&Ask::by(native, wrong).path()).await, wrong);
        };
        rows.row(wrong, row).await;
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
        (ask.clone().with("response_mode", "fragment"), "invalid_request"),
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
        (ask.clone().with("prompt", "none create"), "invalid_request"),
        (ask.clone().with("prompt", "none dance"), "invalid_request"),
        (ask.clone().with("max_age", "-1"), "invalid_request"),
        (ask.clone().with("max_age", "soon"), "invalid_request"),
        (ask.clone().with("max_age", "1.5"), "invalid_request"),
        (ask.clone().with("max_age", "99999999999"), "invalid_request"),
        // Nothing that is known is left of the scope.
        (ask.clone().with("scope", "fly platform org:acme org:*"), "invalid_scope"),
    ];
    let mut rows = Rows::new();
    for (ask, error) in cases {
        let row = async {
            let answer = ada.get(&ask.path()).await;
            assert_eq!(refusal(&answer), error, "{}", ask.query());
            assert_eq!(answer.header("cache-control"), "no-store");
        };
        rows.row(ask.query(), row).await;
    }

    // A client of another kind has no code grant at all; it has no redirect URI either.
    for client in ["cli", "machine"] {
        assert_shown_here(&ada.get(&Ask::of(&server, client).path()).await, client);
    }
    server.stop().await;
}

/// A request that is taken gets through the sign-in; one that would not is refused before.
#[tokio::test(flavor = "multi_thread")]
async fn the_longest_request_gets_through_the_sign_in() {
    let server = TestServer::start().await;
    let ask = Ask::of(&server, "spa");
    let room = 7680 - ask.clone().with("state", "").query().len();
    for (letter, count, is_taken) in
        [("x", room, true), ("x", room + 1, false), ("%", 2250, true), ("%", 2420, false), ("x", 8100, false)]
    {
        let state = letter.repeat(count);
        let mut browser = server.browser();
        let answer = browser.get(&ask.clone().with("state", &state).path()).await;
        let what = format!("{count} {letter}");
        assert_eq!(answer.status, 303, "{what}: {answer:?}");
        if !is_taken {
            assert_eq!(answer.redirect_param("error").as_deref(), Some("invalid_request"), "{what}");
            assert_eq!(answer.redirect_param("state").as_deref(), Some(&*state), "{what}");
            continue;
        }
        let page = browser.get(answer.header("location")).await;
        let (csrf, next) = (page.input("csrf"), page.input("next"));
        let password = server.password("ada@acme.test");
        let fields = [("csrf", &*csrf), ("next", &*next), ("email", "ada@acme.test"), ("password", password)];
        let action = page.form().expect("a form").action;
        let signed_in = browser.post(&action, &fields).await;
        let back = browser.get(signed_in.header("location")).await;
        assert!(back.redirect_param("code").is_some(), "{what}: {back:?}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_scope_says_why() {
    let server = TestServer::start().await;
    for (scope, why) in [("fly", "no requested scope is known"), (&*"openid ".repeat(65), "too many scopes")]
    {
        let answer = server.get(&Ask::of(&server, "spa").with("scope", scope).path()).send().await;
        assert_eq!(refusal(&answer), "invalid_scope");
        let description = answer.redirect_param("error_description").unwrap_or_default();
        assert!(description.starts_with(why), "{description}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_parameter_is_an_error_and_none_of_its_values_counts() {
    let server = TestServer::start().await;
    let mut ada = ada(&server).await;
    let path = Ask::of(&server, "spa").path();
    let mut rows = Rows::new();
    for twice in [
        "scope=openid",
        "response_type=code",
        "nonce=x",
        "prompt=none",
        "code_challenge_method=S256",
        "x=1&x=2",
    ] {
        let row = async {
            let path = match twice.starts_with("prompt") {
                true => format!("{path}&prompt=login&{twice}"),
                false => format!("{path}&{twice}"),
            };
            assert_eq!(refusal(&ada.get(&path).await), "invalid_request", "{twice}");
        };
        rows.row(twice, row).await;
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
        let row = async {
            assert_shown_here(&ada.get(&format!("{path}&{twice}")).await, &twice);
        };
        rows.row(&twice, row).await;
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
async fn pkce_is_optional_for_confidential_clients_unless_they_require_it() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let mut ada = ada(&server).await;
    let bare = Ask::of(&server, "web").without("code_challenge").without("code_challenge_method");
    let public = Ask::of(&server, "spa").without("code_challenge").without("code_challenge_method");
    assert_eq!(refusal(&ada.get(&public.path()).await), "invalid_request", "a public client requires it");

    let client = |name: &str| format!("/api/organizations/acme/clients/{}", server.client(name));
    let public = admin.call("PATCH", &client("spa"), &json!({ "pkce": "optional" })).await;
    assert_eq!(public.status, 422, "never for a client without a secret: {public:?}");
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
    assert_eq!(refused.error(), (400, "invalid_grant".to_owned()), "a challenge demands its verifier");

    admin.change("PATCH", &client("web"), json!({ "pkce": "required" })).await;
    assert_eq!(refusal(&ada.get(&bare.path()).await), "invalid_request", "required from now on");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scope_is_narrowed_and_what_was_granted_is_told() {
    let server = TestServer::start().await;
    let mut ada = ada(&server).await;
    let mut rows = Rows::new();
    for (asked, granted) in [
        ("openid fly email email", "openid email"),
        ("  openid   profile ", "openid profile"),
        ("openid org:acme platform org:* admin", "openid"),
        ("OPENID email", "email"),
    ] {
        let row = async {
            let tokens = tokens_of(&server, &mut ada, &Ask::of(&server, "spa").with("scope", asked)).await;
            assert_eq!(tokens.text("scope"), granted, "{asked}");
            assert_eq!(claims(&tokens.text("access_token"))["scope"], granted, "{asked}");
            assert_eq!(claims(&tokens.text("access_token"))["aud"], "service:acme/sketch", "{asked}");
            assert_eq!(tokens.json().get("refresh_token"), None, "{asked}: without offline_access");
            assert_eq!(tokens.json().get("id_token").is_some(), granted.contains("openid"), "{asked}");
        };
        rows.row(asked, row).await;
    }
    let tokens = tokens_of(&server, &mut ada, &Ask::of(&server, "spa").without("scope")).await;
    assert_eq!(tokens.text("scope"), "profile email");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn state_comes_back_byte_for_byte() {
    let server = TestServer::start().await;
    let mut ada = ada(&server).await;
    let long = "x".repeat(4000);
    let mut rows = Rows::new();
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
        let row = async {
            for ask in [Ask::of(&server, "spa"), Ask::of(&server, "spa").with("response_type", "token")] {
                let answer = ada.get(&ask.with("state", state).path()).await;
                assert_eq!(answer.status, 303, "{state:?}: {answer:?}");
                assert_eq!(answer.redirect_param("state").as_deref(), Some(state));
                assert_eq!(answer.redirect_param("iss").as_deref(), Some(ISSUER));
                let query = answer.header("location").split_once('?').expect("a query").1;
                let states = form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| name == "state");
                assert_eq!(states.count(), 1, "{state:?}");
            }
        };
        rows.row(format!("{:.60?}", state), row).await;
    }
    let answer = ada.get(&Ask::of(&server, "spa").without("state").path()).await;
    assert_eq!(answer.redirect_param("state"), None);
    let metadata = server.get("/.well-known/openid-configuration").send().await.json();
    assert_eq!(metadata["authorization_response_iss_parameter_supported"], true);
    assert_eq!(metadata["issuer"], ISSUER);
    server.stop().await;
}
