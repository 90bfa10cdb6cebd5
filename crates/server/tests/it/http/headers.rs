//! Headers: which the server sends so that browsers keep to them, and which it believes.

use super::is_page;
use crate::device::{codes, signed_in};
use server::testing::{Rows, TestServer};
use std::collections::BTreeSet;

#[tokio::test(flavor = "multi_thread")]
async fn other_origins_read_what_is_meant_for_them_and_never_with_credentials() {
    let server = TestServer::start().await;
    let ada = signed_in(&server, "ada@acme.test").await;
    let cookie = ada.cookies.header().expect("a session");
    let origin = ("origin", "https://app.example");
    let shared = [
        ("GET", "/.well-known/openid-configuration"),
        ("GET", "/.well-known/oauth-authorization-server"),
        ("GET", "/.well-known/oauth-protected-resource"),
        ("GET", "/.well-known/jwks.json"),
        ("POST", "/auth/token"),
        ("POST", "/auth/revoke"),
        ("POST", "/auth/device/code"),
        ("GET", "/auth/userinfo"),
        ("GET", "/api/subscription"),
        ("GET", "/api/nothing"),
    ];
    let own = [
        ("GET", "/"),
        ("GET", "/auth/authorize?client_id=x"),
        ("POST", "/auth/authorize"),
        ("POST", "/auth/introspect"),
        ("GET", "/auth/logout"),
        ("GET", "/activate"),
        ("POST", "/activate"),
        ("POST", "/consent"),
        ("GET", "/console"),
        ("GET", "/login"),
        ("GET", "/setup"),
        ("GET", "/o/acme/login"),
        ("POST", "/o/acme/login"),
        ("GET", "/o/acme/account"),
        ("GET", "/demo/sketch"),
        ("GET", "/healthz"),
        ("GET", "/metrics"),
        ("GET", "/nothing"),
    ];
    let mut rows = Rows::new();
    for (method, path) in shared {
        let row = async {
            let answer = server.request(method, path).header(origin.0, origin.1).send().await;
            assert_eq!(answer.header("access-control-allow-origin"), "*", "{method} {path}");
            let same = server.request(method, path).send().await;
            assert_eq!((same.header("vary"), answer.header("vary")), ("origin", "origin"), "{method} {path}");
            let preflight = server.request("OPTIONS", path).header(origin.0, origin.1);
            let preflight = preflight.header("access-control-request-method", method).send().await;
            assert_eq!(preflight.status, 204, "{method} {path}");
            assert_eq!(preflight.header("access-control-allow-origin"), "*", "{method} {path}");
            assert!(preflight.header("access-control-allow-methods").contains(method), "{method} {path}");
            assert_eq!(
                preflight.header("access-control-allow-headers"),
                "authorization, content-type, idempotency-key, last-event-id, prefer, sarsen-version, x-request-id",
                "{method} {path}: those that count for something"
            );
        };
        rows.row(format!("{method} {path}"), row).await;
    }
    for (method, path) in own {
        let row = async {
            let answer = server.request(method, path).header(origin.0, origin.1).header("cookie", &cookie);
            let answer = answer.send().await;
            let preflight = server.request("OPTIONS", path).header(origin.0, origin.1);
            let preflight = preflight.header("access-control-request-method", method).send().await;
            for answer in [answer, preflight] {
                assert!(
                    !answer.headers.iter().any(|(name, _)| name.starts_with("access-control")),
                    "{path}: {answer:?}"
                );
            }
        };
        rows.row(format!("{method} {path}"), row).await;
    }
    for (method, path) in shared.into_iter().chain(own) {
        let row = async {
            for method in [method, "OPTIONS"] {
                let answer =
                    server.request(method, path).header(origin.0, origin.1).header("cookie", &cookie);
                let answer = answer.send().await;
                assert_eq!(answer.header("access-control-allow-credentials"), "", "{method} {path}");
                assert_eq!(answer.header("x-content-type-options"), "nosniff", "{method} {path}");
            }
        };
        rows.row(format!("{method} {path}"), row).await;
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_another_origin_may_send_the_headers_that_it_asks_for() {
    let server = TestServer::start().await;
    let asked = async |names: &str| {
        let request = server.request("OPTIONS", "/auth/token").header("origin", "https://app.example");
        let request = request.header("access-control-request-method", "POST");
        let answer = request.header("access-control-request-headers", names).send().await;
        assert_eq!((answer.status, answer.header("access-control-allow-origin")), (204, "*"), "{names}");
        assert_eq!(answer.header("access-control-allow-credentials"), "", "{names}");
        answer.header("access-control-allow-headers").to_owned()
    };
    let many = |count: usize| (0..count).map(|number| format!("x-{number}")).collect::<Vec<_>>().join(",");
    for good in [
        "x-requested-with",
        "authorization,traceparent,tracestate,dpop,mcp-protocol-version",
        "Content-Type, X-Anything",
        &many(32),
    ] {
        assert_eq!(asked(good).await, good);
    }
    let long = format!("x-{}", "y".repeat(1023));
    for wrong in ["", ",", "a,,b", "a b", "x:y", "x;y", "(x)", "\u{e4}", &many(33), &long] {
        let allowed = asked(wrong).await;
        assert!(allowed.starts_with("authorization, content-type, "), "{wrong}: {allowed}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_is_kept_by_nobody_framed_by_nobody_and_loads_nothing_foreign() {
    let server = TestServer::start().await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    let code = codes(&server).await.text("user_code");
    let pages = [
        "/",
        "/activate",
        "/activate?user_code=BBBB-BBBB",
        &format!("/activate?user_code={code}"),
        "/login",
        "/setup?token=x",
        "/o/acme/login?prompt=login",
        "/o/acme/signup",
        "/o/acme/link?token=x",
        "/o/acme/account",
        "/o/acme/logout",
        "/o/nobody/login",
        "/auth/authorize",
        "/auth/logout?post_logout_redirect_uri=https://evil.example/",
        &format!("/auth/logout?client_id={}", server.client("spa")),
        "/demo/sketch",
        "/nothing",
    ];
    let mut rows = Rows::new();
    for path in pages {
        let row = async {
            let answer = ada.get(path).await;
            assert!(is_page(&answer), "{path}: {answer:?}");
            let foreign = ["src=\"http", "href=\"//", "src=\"//", "<script", " style=\"", " onclick="];
            assert!(!foreign.iter().any(|sign| answer.body.contains(sign)), "{path}: {}", answer.body);
        };
        rows.row(path, row).await;
    }
    for path in ["/console", "/o/platform/account", "/o/acme/login"] {
        let answer = ada.get(path).await;
        assert_eq!(answer.status, 303, "{path}");
        assert_eq!(
            (answer.header("cache-control"), answer.header("referrer-policy")),
            ("no-store", "no-referrer")
        );
    }
    let cookies: Vec<String> = ada
        .get("/activate")
        .await
        .headers
        .into_iter()
        .filter(|(name, _)| name == "set-cookie")
        .map(|(_, line)| line)
        .collect();
    assert!(cookies.is_empty(), "a known browser gets no new cookie: {cookies:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stylesheet_and_logo_are_cached_by_their_content() {
    let server = TestServer::start().await;
    let page = server.get("/o/acme/login").send().await.body;
    for (path, media_type) in
        [("/assets/sarsen.css", "text/css; charset=utf-8"), ("/assets/logo.svg", "image/svg+xml")]
    {
        let (_, after) = page.split_once(&format!("\"{path}?v=")).expect("a version in the page");
        let version = after.split('"').next().unwrap_or_default();
        assert!(!page.contains(&format!("\"{path}\"")), "{page}");
        let mut contents = BTreeSet::new();
        for (query, cached) in [
            (format!("?v={version}"), "public, max-age=31536000, immutable"),
            // What an instance of another version has in its pages.
            ("?v=AAAAAAAAAAAA".to_owned(), "no-store"),
            (String::new(), "public, max-age=3600"),
        ] {
            let answer = server.get(&format!("{path}{query}")).send().await;
            assert_eq!((answer.status, answer.header("content-type")), (200, media_type), "{query}");
            assert_eq!(answer.header("cache-control"), cached, "{query}");
            contents.insert(answer.body);
        }
        assert_eq!(contents.len(), 1);
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cookies_are_for_this_host_only() {
    for (issuer, prefix, secure) in
        [("https://id.example", "__Host-sarsen_", true), ("http://127.0.0.1:7070", "sarsen_7070_", false)]
    {
        let server = TestServer::start_with(|settings| settings.issuer = issuer.to_owned(), |_| {}).await;
        let mut ada = server.browser();
        let page = ada.get("/o/acme/login").await;
        let signed_in = ada.sign_in("acme", "ada@acme.test").await;
        assert_eq!(signed_in.status, 303);
        let lines = page.headers.iter().chain(&signed_in.headers).filter(|(name, _)| name == "set-cookie");
        let lines: Vec<&String> = lines.map(|(_, line)| line).collect();
        assert_eq!(lines.len(), 3, "{lines:?}");
        for line in lines {
            let parts: BTreeSet<&str> = line.split("; ").skip(1).collect();
            assert!(line.starts_with(prefix), "{line}");
            assert!(parts.is_superset(&BTreeSet::from(["Path=/", "HttpOnly", "SameSite=Lax"])), "{line}");
            assert_eq!(parts.contains("Secure"), secure, "{line}");
            assert!(!line.contains("Domain"), "{line}");
        }
        server.stop().await;
    }
}

/// From where a request is said to come, on the page that shows it.
async fn shown_requester(server: &TestServer, forwarded: &[&str]) -> String {
    let headers: Vec<_> = forwarded.iter().map(|line| ("x-forwarded-for", *line)).collect();
    shown_requester_of(server, &headers).await
}

async fn shown_requester_of(server: &TestServer, headers: &[(&str, &str)]) -> String {
    let request = server.post("/auth/device/code", &[("client_id", server.client("cli"))]);
    let codes = headers.iter().fold(request, |request, (name, line)| request.header(name, line)).send().await;
    let mut ada = signed_in(server, "ada@acme.test").await;
    let page = ada.open_code(&codes.text("user_code")).await.body;
    let (_, after) = page.split_once("<dt>From</dt><dd><bdi>").expect("the page says from where");
    after.split('<').next().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn forwarded_is_read_where_it_is_set_and_then_alone() {
    let set = |settings: &mut server::Settings| {
        settings.client_address_header = server::AddressHeader::Forwarded;
    };
    let (server, plain) = (TestServer::start_with(set, |_| {}).await, TestServer::start().await);
    let (old, new) = ("x-forwarded-for", "forwarded");
    for (headers, address) in [
        (&[(new, "for=203.0.113.9;proto=https;host=id.example.com")][..], "203.0.113.9"),
        (&[(new, "for=6.6.6.6"), (new, "for=\"[2001:db8::9]:4711\"")], "2001:db8::9"),
        (&[(new, "for=\"6.6.6.6, for=203.0.113.9")], "203.0.113.9"),
        (&[(new, "for=203.0.113.9, for=127.0.0.1")], "203.0.113.9"),
        (&[(new, "for=6.6.6.6, for=_hidden"), (old, "6.6.6.6")], "127.0.0.1"),
        (&[(old, "6.6.6.6")], "127.0.0.1"),
    ] {
        assert_eq!(shown_requester_of(&server, headers).await, address, "{headers:?}");
    }
    let both = [(new, "for=6.6.6.6"), (old, "203.0.113.9")];
    assert_eq!(shown_requester_of(&plain, &both).await, "203.0.113.9", "it is not read by default");
    server.stop().await;
    plain.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_listed_peers_say_where_a_request_comes_from() {
    let server = TestServer::start().await;
    let mut rows = Rows::new();
    for (forwarded, address) in [
        (&[][..], "127.0.0.1"),
        (&["203.0.113.9"], "203.0.113.9"),
        (&["6.6.6.6, 203.0.113.9"], "203.0.113.9"),
        (&["6.6.6.6", "203.0.113.9"], "203.0.113.9"),
        (&["203.0.113.9, 127.0.0.1"], "203.0.113.9"),
        (&["::ffff:203.0.113.9"], "203.0.113.9"),
        (&["2001:db8::9"], "2001:db8::9"),
        (&["6.6.6.6, rubbish"], "127.0.0.1"),
        (&["<script>"], "127.0.0.1"),
        (&[""], "127.0.0.1"),
    ] {
        let row = async {
            assert_eq!(shown_requester(&server, forwarded).await, address, "{forwarded:?}");
        };
        rows.row(format!("{forwarded:?}"), row).await;
    }
    server.stop().await;

    let strangers = |settings: &mut server::Settings| settings.trusted_proxies.clear();
    let server = TestServer::start_with(strangers, |_| {}).await;
    assert_eq!(shown_requester(&server, &["203.0.113.9"]).await, "127.0.0.1");
    server.stop().await;
}
