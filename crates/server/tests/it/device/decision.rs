//! The page on which a user decides: what it says, and that only he decides, on it, knowing what he does.

use super::{administers, codes, codes_for, error, poll, poll_as, polling, refusal, signed_in};
use server::testing::{TestServer, at_once};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn opening_a_link_approves_nothing() {
    let server = TestServer::start().await;
    let codes = codes(&server).await;
    let link = codes.text("verification_uri_complete").replace("http://127.0.0.1:7070", "");
    let mut ada = server.browser();
    let shown = ada.get(&link).await;
    assert!(shown.body.contains("Does your device show this code?"), "{shown:?}");
    let entered = [("csrf", &*shown.input("csrf")), ("user_code", &shown.input("user_code")), ("link", "1")];
    let entered = ada.post("/activate", &entered).await;
    let link = entered.header("location").to_owned();
    let to_sign_in = ada.get(&link).await;
    assert_eq!(to_sign_in.status, 303);
    let page = ada.get(to_sign_in.header("location")).await;
    let (csrf, next) = (page.input("csrf"), page.input("next"));
    assert_eq!(next, link);
    let fields = [
        ("csrf", &*csrf),
        ("next", &next),
        ("email", "ada@acme.test"),
        ("password", server.password("ada@acme.test")),
    ];
    let back = ada.post("/o/acme/login", &fields).await;
    assert_eq!((back.status, back.header("location")), (303, &*link));
    for path in [link.clone(), format!("{link}&decision=allow"), format!("{link}&decision=allow&csrf={csrf}")]
    {
        let page = ada.get(&path).await;
        assert_eq!(page.status, 200);
        assert!(
            page.body.contains("Is this your device?") && page.body.contains(&codes.text("user_code")),
            "{page:?}"
        );
        server.clock.advance(Duration::from_secs(5));
        let answer =
            polling(&server, &codes.text("device_code"), server.client("cli")).header("prefer", "wait=0");
        assert_eq!(refusal(&answer.send().await), error(400, "authorization_pending"), "{path}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_writes_nothing_on_the_page_of_an_administrator() {
    let server = TestServer::start().await;
    let mut owner = server.browser();
    owner.sign_in("platform", "owner@sarsen.test").await;
    let long = "x".repeat(8000);
    for text in ["Your\u{a0}session\u{a0}has\u{a0}expired,\u{a0}allow", "\u{202e}emca", &long, "ACME", "a"] {
        let scope = format!("openid org:{text}");
        let asked = [("client_id", "cli"), ("scope", &*scope)];
        let codes = server.post("/auth/device/code", &asked).send().await;
        let page = owner.type_code(&codes.text("user_code")).await;
        assert!(page.body.contains("data-scope=\"openid\""), "{page:?}");
        assert!(!page.body.contains("Administer the organization"), "{page:?}");
        assert!(!page.body.contains(text) || text == "a", "{page:?}");
        let asked = [("client_id", "cli"), ("scope", &scope["openid ".len()..])];
        let refused = server.post("/auth/device/code", &asked).send().await;
        assert_eq!(refused.error(), (400, "invalid_scope".to_owned()), "{refused:?}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_that_is_not_ours_does_nothing() {
    let server = TestServer::start().await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    let mut grace = signed_in(&server, "grace@acme.test").await;
    let codes = codes(&server).await;
    let code = codes.text("user_code");
    let page = ada.open_code(&code).await;
    let (csrf, session) = (page.input("csrf"), page.input("session"));
    let foreign = grace.get("/activate").await.input("csrf");
    let decision =
        |csrf| [("user_code", &*code), ("session", &*session), ("decision", "allow"), ("csrf", csrf)];
    // A cross-site form comes without cookies (SameSite=Lax), whatever token it knows.
    assert_eq!(server.post("/activate", &decision(&csrf)).send().await.status, 403);
    for wrong in ["", "x", &foreign, &session] {
        let refused = ada.post("/activate", &decision(wrong)).await;
        assert_eq!(refused.status, 403, "{wrong:?}");
        assert!(refused.body.contains("Nothing was changed"), "{refused:?}");
    }
    let without = [("user_code", &*code), ("session", &session), ("decision", "allow")];
    assert_eq!(ada.post("/activate", &without).await.status, 403);
    let typed = [("user_code", &*code)];
    assert_eq!(ada.post("/activate", &typed).await.status, 403, "not even a look");
    assert_eq!(refusal(&poll(&server, &codes).await), error(400, "authorization_pending"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_user_who_signs_in_meanwhile_is_asked_anew() {
    let server = TestServer::start().await;
    let codes = codes(&server).await;
    let code = codes.text("user_code");
    let mut browser = signed_in(&server, "ada@acme.test").await;
    let page = browser.open_code(&code).await;
    assert!(page.body.contains("ada@acme.test"));
    let (csrf, session_of_ada) = (page.input("csrf"), page.input("session"));
    browser.sign_in("acme", "grace@acme.test").await;

    let decision =
        |session| [("csrf", &*csrf), ("session", session), ("user_code", &*code), ("decision", "allow")];
    let asked = browser.post("/activate", &decision(&session_of_ada)).await;
    assert_eq!(asked.status, 200);
    assert!(
        asked.body.contains("Is this your device?") && asked.body.contains("grace@acme.test"),
        "{asked:?}"
    );
    assert_eq!(refusal(&poll(&server, &codes).await), error(400, "authorization_pending"));

    let session_of_grace = asked.input("session");
    browser.post("/activate", &decision(&session_of_grace)).await;
    let tokens = poll(&server, &codes).await;
    let user = server.get("/api/user").bearer(&tokens.text("access_token")).send().await;
    assert_eq!(user.text("email"), "grace@acme.test", "{user:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_that_is_sent_again_is_shown_again() {
    let server = TestServer::start().await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    let mut grace = signed_in(&server, "grace@acme.test").await;
    for (decision, other, shown, changed) in [
        ("allow", "deny", "Your device is signed in", "You allowed this before."),
        ("deny", "allow", "Nothing was allowed", "You denied this before."),
    ] {
        let codes = codes(&server).await;
        let code = codes.text("user_code");
        let csrf = ada.get("/activate").await.input("csrf");
        let typed = ada.post("/activate", &[("csrf", &*csrf), ("user_code", &code)]).await;
        let link = typed.header("location").to_owned();
        let session = ada.get(&link).await.input("session");
        let fields = |decision| {
            [("csrf", &*csrf), ("session", &session), ("user_code", &code), ("decision", decision)]
        };
        let clicks = (0..2).map(|_| {
            let cookie = ada.cookies.header().expect("a session");
            server.post("/activate", &fields(decision)).header("cookie", &cookie).send()
        });
        let clicks = at_once(clicks).await;
        let done = &clicks[0];
        assert!(done.status == 200 && done.body.contains(shown), "{done:?}");
        assert_eq!(clicks[1].body, done.body, "two clicks at the same time");
        if decision == "allow" {
            assert_eq!(poll(&server, &codes).await.status, 200);
        }
        // More often than wrong codes are allowed, and after the device has its tokens.
        for _ in 0..12 {
            let again = ada.post("/activate", &fields(decision)).await;
            assert_eq!((again.status, &again.body), (200, &done.body));
        }
        assert_eq!(ada.get(&link).await.body, done.body, "back, and loaded again");
        let otherwise = ada.post("/activate", &fields(other)).await;
        assert!(otherwise.body.contains(shown) && otherwise.body.contains(changed), "{otherwise:?}");

        // It is shown to the session that decided, and to nobody else.
        let refused = grace.type_code(&code).await;
        assert!(refused.status == 422 && refused.body.contains("wrong or has expired"), "{refused:?}");
        let refused = server.browser().type_code(&code).await;
        assert_eq!(refused.status, 422, "{refused:?}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_says_who_asks_for_what_from_where_and_when() {
    let server = TestServer::start().await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    let fields = [("client_id", server.client("cli")), ("scope", "openid email offline_access")];
    let codes = server
        .post("/auth/device/code", &fields)
        .header("x-forwarded-for", "6.6.6.6, 203.0.113.9")
        .header("user-agent", "acme/1.0 <script>alert(1)</script>")
        .send()
        .await;
    server.clock.advance(Duration::from_secs(130));
    let page = ada.open_code(&codes.text("user_code")).await;
    assert_eq!(page.status, 200);
    let said = [
        "Acme command line",
        "Acme CLI",
        "<bdi>Acme</bdi>",
        &codes.text("user_code"),
        "data-scope=\"openid\"",
        "data-scope=\"email\"",
        "Stay signed in until you sign out",
        "203.0.113.9",
        "2 minutes ago",
        "acme/1.0 &lt;script&gt;",
        "ada@acme.test",
        "If somebody sent you the code or a link to this page, deny.",
        "value=\"allow\"",
        "value=\"deny\"",
    ];
    for said in said {
        assert!(page.body.contains(said), "{said}: {}", page.body);
    }
    assert!(!page.body.contains("6.6.6.6"), "what nobody vouches for is not shown");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_administers_types_the_code_soon_and_proves_himself_again() {
    let server = TestServer::start().await;
    let codes = codes_for(&server, "cli", Some("org:acme")).await;
    assert_eq!(codes.json()["expires_in"], 300);
    assert!(codes.json().get("verification_uri_complete").is_none(), "{codes:?}");
    let code = codes.text("user_code");
    let mut admin = server.browser();
    admin.sign_in("platform", "admin@acme.test").await;
    let csrf = admin.get("/activate").await.input("csrf");
    let typed = admin.post("/activate", &[("csrf", &*csrf), ("user_code", &code)]).await;
    let own = typed.header("location").to_owned();
    let mut victim = server.browser();
    victim.sign_in("platform", "owner@sarsen.test").await;
    for link in [&format!("/activate?user_code={code}"), &format!("/activate?user_code={code}&typed=x"), &own]
    {
        let shown = victim.get(link).await;
        let fields = [("csrf", &*shown.input("csrf")), ("user_code", &code), ("link", &shown.input("link"))];
        let page = victim.post("/activate", &fields).await;
        assert!(page.body.contains("A link is not enough") && !page.body.contains(&code), "{link}: {page:?}");
    }
    let page = admin.type_code(&code).await;
    assert!(
        page.body.contains("type=\"password\"") && page.body.contains("Administer the organization acme"),
        "{page:?}"
    );
    let (csrf, session) = (page.input("csrf"), page.input("session"));
    for wrong in ["", "wrong", server.password("ada@acme.test")] {
        let fields = [
            ("csrf", &*csrf),
            ("session", &session),
            ("user_code", &code),
            ("decision", "allow"),
            ("password", wrong),
        ];
        let refused = admin.post("/activate", &fields).await;
        assert_eq!(refused.status, 422);
        assert!(refused.body.contains("The password is wrong."), "{refused:?}");
    }
    assert_eq!(refusal(&poll_as(&server, &codes, "cli").await), error(400, "authorization_pending"));
    server.clock.advance(Duration::from_secs(300));
    assert_eq!(refusal(&poll_as(&server, &codes, "cli").await), error(400, "expired_token"));

    let tokens = administers(&server, "admin@acme.test", "org:acme platform").await;
    let services = server.get("/api/organizations/acme/services").bearer(&tokens.text("access_token"));
    assert_eq!(services.send().await.status, 200);
    server.stop().await;
}
