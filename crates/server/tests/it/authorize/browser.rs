//! What a browser is told: where a sign-in and a sign-out lead, which cookies count, who may frame a page.

use super::{ada, assert_shown_here, consent};
use crate::support::*;
use server::testing::{Answer, Rows, TestBrowser, TestServer};

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
        assert!(!page.body.contains("='"), "attributes are in double quotes: {page:?}");
        let attributes = page.body.split("=\"").skip(1).filter_map(|rest| rest.split('"').next());
        let elsewhere = attributes.filter(|value| value.contains("//"));
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
    let mut rows = Rows::new();
    for next in evil {
        let row = async {
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
            let fields =
                [("csrf", &*csrf), ("next", next), ("email", "ada@acme.test"), ("password", password)];
            own(&ada.post("/o/acme/login", &fields).await);
            let page = ada.get(&format!("/o/acme/logout?{query}")).await;
            assert_eq!(page.status, 200, "a link does not sign out");
            own(&ada.post("/o/acme/logout", &[("csrf", &csrf), ("next", next)]).await);
            own(&ada.get(&format!("/o/acme/logout?{query}")).await);
        };
        rows.row(format!("{next:?}"), row).await;
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
        let code = consent(&mut ada, &ask, "allow").await.redirect_param("code").expect("a code");
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
            "http://127.0.0.1:9999/",
            "http://127.0.0.1:9999/callback/",
            "http://127.0.0.1:9999/callback?x",
            "http://127.0.0.1:9999/CALLBACK",
            "com.example.app:/other",
            "http://localhost:9999/callback",
            "https://127.0.0.1:9999/callback",
            "com.evil.app:/callback",
            "evil",
            "http:evil.example",
        ] {
            let mut query = form_urlencoded::Serializer::new(String::new());
            query.append_pair("id_token_hint", hint).append_pair("post_logout_redirect_uri", evil);
            let query = query.finish();
            let asked = ada.get(&format!("/auth/logout?{query}")).await;
            assert_asks_with_a_fault(&asked, evil);
            let posted = [("id_token_hint", hint.as_str()), ("post_logout_redirect_uri", evil)];
            let posted = ada.post("/auth/logout", &posted).await;
            assert_asks_with_a_fault(&ada.get(posted.header("location")).await, evil);
            let stranger = server.browser().get(&format!("/auth/logout?{query}")).await;
            assert_shown_here(&stranger, evil);
        }
        let csrf = ada.get("/o/acme/account").await.input("csrf");
        let evil = ("post_logout_redirect_uri", "https://evil.example/");
        let confirmed = [("csrf", &*csrf), ("id_token_hint", hint.as_str()), evil];
        let left = ada.post("/auth/logout", &confirmed).await;
        assert_eq!((left.status, left.header("location")), (303, "/o/acme/login"), "{left:?}");
        assert_eq!(ada.sign_in("acme", "ada@acme.test").await.status, 303);
    }
    let spa = tokens_of(&server, &mut ada, &Ask::of(&server, "spa")).await.text("id_token");

    // Somebody else's hint asks first, with a token against forgery.
    let mut grace = server.browser();
    grace.sign_in("acme", "grace@acme.test").await;
    let page = grace.get(&format!("/auth/logout?id_token_hint={spa}")).await;
    assert_eq!(page.status, 200);
    assert_eq!(grace.post("/o/acme/logout", &[("next", "/o/acme/login")]).await.status, 403);
    assert_eq!(grace.post("/auth/logout", &[("csrf", "x"), ("client_id", "console")]).await.status, 403);
    assert_eq!(grace.get("/o/acme/account").await.status, 200, "still signed in");

    let back = "http%3A%2F%2F127.0.0.1%3A9999%2Fcallback";
    let path = format!("/auth/logout?id_token_hint={spa}&post_logout_redirect_uri={back}&state=a%26b");
    let done = ada.get(&path).await;
    assert_eq!((done.status, done.header("location")), (303, "http://127.0.0.1:9999/callback?state=a%26b"));
    assert_eq!(ada.get("/o/acme/account").await.status, 303, "signed out");
    server.stop().await;
}

/// A page that asks, says that the request has a fault, and has nothing of the address in it.
fn assert_asks_with_a_fault(answer: &Answer, what: &str) {
    assert_eq!((answer.status, answer.header("location")), (200, ""), "{what}: {answer:?}");
    assert!(
        answer.body.contains("Sign out?") && answer.body.contains("made a mistake"),
        "{what}: {answer:?}"
    );
    assert!(!answer.body.contains("evil"), "{what}: {answer:?}");
    let form = answer.form().expect("a form");
    assert!(form.fields.iter().all(|field| field.name != "post_logout_redirect_uri"), "{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cookie_that_was_set_before_is_not_adopted() {
    let server = TestServer::start().await;
    // Mallory is signed in, and puts her cookies into the victim's browser.
    let mut mallory = server.browser();
    mallory.sign_in("acme", "grace@acme.test").await;
    let session = |browser: &TestBrowser<'_>| browser.cookies.get("sarsen_7070_acme").map(str::to_owned);
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
    let mut rows = Rows::new();
    for value in [
        before.clone(),
        id.to_owned(),
        format!("{id}."),
        format!("{id}.x"),
        "x".to_owned(),
        format!("{before}x"),
    ] {
        let row = async {
            let mut browser = server.browser();
            browser.cookies.set("sarsen_7070_acme", &value);
            assert_eq!(browser.get("/o/acme/account").await.status, 303, "{value}");
            browser.cookies.set("sarsen_7070_acme", &value);
            browser.sign_in("acme", "ada@acme.test").await;
            assert!(session(&browser).is_some_and(|own| own.len() > 60 && own != before));
        };
        rows.row(&value, row).await;
    }
    // Signing out ends the session itself, not only the cookie.
    let kept = session(&victim).expect("a session");
    let csrf = victim.get("/o/acme/logout").await.input("csrf");
    let left = victim.post("/o/acme/logout", &[("csrf", &csrf)]).await;
    assert_eq!((left.status, session(&victim)), (303, None));
    victim.cookies.set("sarsen_7070_acme", &kept);
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
async fn cookies_of_other_sites_with_any_bytes_do_not_hide_our_own() {
    let server = TestServer::start().await;
    let mut ada = ada(&server).await;
    let own = ada.cookies.header().expect("cookies");
    let foreign = "theme=Zo\u{eb}";
    for (what, all) in [
        ("before", format!("{foreign}; {own}")),
        ("after", format!("{own}; {foreign}")),
        ("around", { format!("{foreign};{own} ; {foreign}") }),
    ] {
        let account = server.get("/o/acme/account").header("cookie", &all).send().await;
        assert_eq!(account.status, 200, "{what}: {account:?}");
        assert_eq!(account.header("set-cookie"), "", "{what}: the browser keeps its own cookie");
        let fields = [("csrf", &*account.input("csrf")), ("end", "others")];
        let sent = server.post("/o/acme/account/sessions", &fields).header("cookie", &all).send().await;
        assert_eq!((sent.status, sent.header("location")), (303, "/o/acme/account"), "{what}: {sent:?}");
    }
    // A cookie of ours with such bytes is none of those that the server has set.
    ada.cookies.set("sarsen_7070_acme", "Zo\u{eb}");
    assert_eq!(ada.get("/o/acme/account").await.status, 303);
    server.stop().await;
}
