//! What HTTP itself can do to a server: limits, headers, addresses (SECURITY, section 7; PROTOCOL 2, 3).

use crate::device::{administers, codes, error, refusal, signed_in};
use server::testing::{Answer, TestServer};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Status and code of a problem document (RFC 9457) that has all that it should.
fn problem(answer: &Answer) -> (u16, String) {
    assert_eq!(answer.header("content-type"), "application/problem+json", "{answer:?}");
    assert_eq!(answer.header("cache-control"), "no-store", "{answer:?}");
    let body = answer.json();
    let fields: Vec<&str> =
        body.as_object().into_iter().flat_map(|body| body.keys()).map(|name| &**name).collect();
    assert_eq!(fields, ["code", "detail", "status", "title", "type"], "{answer:?}");
    assert_eq!(body["status"], answer.status);
    (answer.status, answer.text("code"))
}

/// Whether this is a page, with the headers that every page has.
fn is_page(answer: &Answer) -> bool {
    let policy = answer.header("content-security-policy");
    let strict = ["default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'"];
    answer.header("content-type") == "text/html; charset=utf-8"
        && strict.iter().all(|rule| policy.contains(rule))
        && !policy.contains("unsafe")
        && !policy.contains("form-action")
        && answer.header("x-frame-options") == "DENY"
        && answer.header("referrer-policy") == "no-referrer"
        && answer.header("cache-control") == "no-store"
        && answer.header("x-content-type-options") == "nosniff"
}

/// Sends what there is of a request, waits for the server to answer or to hang up, and says how long that took.
async fn unfinished(server: &TestServer, bytes: &[u8]) -> (Answer, Duration) {
    let mut stream = TcpStream::connect(server.address).await.expect("connects");
    stream.write_all(bytes).await.expect("sent");
    let sent_at = Instant::now();
    let mut answer = Vec::new();
    let _ =
        tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut answer)).await.expect("an end");
    (Answer::parse(&answer), sent_at.elapsed())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_a_page_or_a_problem() {
    let server = TestServer::start().await;
    for path in
        ["/nothing", "/auth/nothing", "/o/acme/nothing", "/api", "/%2e%2e/etc/passwd", "//", "/activate/"]
    {
        let answer = server.get(path).send().await;
        assert_eq!((answer.status, is_page(&answer)), (404, true), "{path}: {answer:?}");
    }
    for path in ["/api/nothing", "/api/", "/api/organizations/acme/nothing"] {
        assert_eq!(problem(&server.get(path).send().await), (404, "not_found".to_owned()), "{path}");
    }
    let nothing = server.get("/api/nothing").send().await;
    insta::assert_snapshot!(nothing.body, @r#"{"code":"not_found","detail":"There is no route like this here.","status":404,"title":"Not Found","type":"urn:sarsen:problem:not_found"}"#);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_method_is_told_the_right_ones() {
    let server = TestServer::start().await;
    for (method, path, allowed) in [
        ("POST", "/api/subscription", "GET,HEAD"),
        ("DELETE", "/api/organizations", "GET,HEAD,POST"),
        ("PUT", "/activate", "GET,HEAD,POST"),
        ("GET", "/consent", "POST"),
        ("TRACE", "/", "GET,HEAD"),
        ("OPTIONS", "/activate", "GET,HEAD,POST"),
    ] {
        let answer = server.request(method, path).send().await;
        assert_eq!(problem(&answer), (405, "method_not_allowed".to_owned()), "{method} {path}");
        assert_eq!(answer.header("allow"), allowed, "{method} {path}");
    }
    for path in ["/auth/token", "/auth/device/code", "/auth/revoke", "/auth/introspect"] {
        for method in ["GET", "PUT", "PATCH", "DELETE"] {
            let answer = server.request(method, path).send().await;
            assert_eq!(refusal(&answer), error(405, "invalid_request"), "{method} {path}");
            assert_eq!(answer.header("allow"), "POST", "{method} {path}");
        }
    }
    let head = server.request("HEAD", "/healthz").send().await;
    assert_eq!((head.status, &*head.body), (200, ""));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_has_64_kib_at_most() {
    let server = TestServer::start().await;
    let admin = administers(&server, "admin@acme.test", "org:acme").await.text("access_token");
    let form = "application/x-www-form-urlencoded";
    for (path, media_type) in
        [("/auth/token", form), ("/activate", form), ("/api/organizations/acme/services", "application/json")]
    {
        for (size, chunked) in
            [(65_536, false), (65_537, false), (65_536, true), (65_537, true), (1_000_000, true)]
        {
            let body = vec![b'x'; size];
            let answer = if chunked {
                let mut bytes = format!(
                    "POST {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\nauthorization: Bearer {admin}\r\n\
                     content-type: {media_type}\r\ntransfer-encoding: chunked\r\n\r\n"
                );
                for part in body.chunks(10_000) {
                    bytes.push_str(&format!("{:x}\r\n{}\r\n", part.len(), "x".repeat(part.len())));
                }
                bytes.push_str("0\r\n\r\n");
                Answer::parse(&server.raw(bytes.as_bytes()).await)
            } else {
                server.request("POST", path).bearer(&admin).body(media_type, body).send().await
            };
            assert_eq!(answer.status == 413, size > 65_536, "{path} {size} {chunked}: {answer:?}");
            if answer.status != 413 {
                continue;
            }
            match path {
                "/auth/token" => assert_eq!(refusal(&answer), error(413, "invalid_request")),
                "/activate" => assert!(is_page(&answer), "{answer:?}"),
                _ => assert_eq!(problem(&answer), (413, "body_too_large".to_owned())),
            }
        }
    }
    let announced = b"POST /auth/token HTTP/1.1\r\nhost: test\r\ncontent-length: 1000000000000\r\n\r\n";
    let (answer, took) = unfinished(&server, announced).await;
    assert_eq!(refusal(&answer), error(413, "invalid_request"));
    assert!(took < Duration::from_secs(5), "nobody waits for it");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_headers_is_cut() {
    let server = TestServer::start().await;
    let head =
        |lines: &str| format!("GET /healthz HTTP/1.1\r\nhost: test\r\nconnection: close\r\n{lines}\r\n");
    let floods = [
        "x-a: b\r\n".repeat(200),
        format!("x-a: {}\r\n", "b".repeat(100_000)),
        format!("cookie: {}\r\n", "a=b; ".repeat(20_000)),
        format!("x-a: {}", "b".repeat(10_000_000)),
    ];
    for flood in floods {
        let answer = Answer::parse(&server.raw(head(&flood).as_bytes()).await);
        assert_eq!(answer.status, 431, "{} bytes: {answer:?}", flood.len());
    }
    let long = format!("GET /healthz?{} HTTP/1.1\r\nhost: test\r\n\r\n", "x".repeat(70_000));
    let answer = Answer::parse(&server.raw(long.as_bytes()).await);
    assert!(matches!(answer.status, 414 | 431), "{answer:?}");
    let fine = head(&format!("x-a: {}\r\n", "b".repeat(20_000)));
    assert_eq!(Answer::parse(&server.raw(fine.as_bytes()).await).status, 200);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_slow_is_cut() {
    let limit = |limits: &mut server::Limits| {
        limits.body_time = Duration::from_millis(200);
        limits.header_time = Duration::from_millis(200);
    };
    let server = TestServer::start_with(|_| {}, limit).await;
    let in_time = |took: Duration| took >= Duration::from_millis(150) && took < Duration::from_secs(5);
    let form = "content-type: application/x-www-form-urlencoded\r\ncontent-length: 100\r\n\r\ngrant_type=";
    let json = "content-type: application/json\r\ncontent-length: 100\r\n\r\n{";
    let admin = administers(&server, "admin@acme.test", "org:acme").await.text("access_token");
    let slow = format!("POST /auth/token HTTP/1.1\r\nhost: test\r\n{form}");
    let (answer, took) = unfinished(&server, slow.as_bytes()).await;
    assert_eq!(refusal(&answer), error(408, "invalid_request"));
    assert!(in_time(took), "{took:?}");
    let slow = format!("POST /activate HTTP/1.1\r\nhost: test\r\n{form}");
    let (answer, took) = unfinished(&server, slow.as_bytes()).await;
    assert!(answer.status == 408 && is_page(&answer) && in_time(took), "{took:?} {answer:?}");
    let slow = format!(
        "POST /api/organizations/acme/services HTTP/1.1\r\nhost: test\r\nauthorization: Bearer {admin}\r\n{json}"
    );
    let (answer, took) = unfinished(&server, slow.as_bytes()).await;
    assert_eq!(problem(&answer), (408, "body_timeout".to_owned()));
    assert!(in_time(took), "{took:?}");

    // Half a head, and a connection on which nothing more comes, are closed without a word.
    for head in ["GET /healthz HTTP/1.1\r\nhost: te", "G", ""] {
        let (answer, took) = unfinished(&server, head.as_bytes()).await;
        assert!(matches!(answer.status, 0 | 408) && in_time(took), "{head:?} {took:?} {answer:?}");
    }
    let (answer, took) = unfinished(&server, b"GET /healthz HTTP/1.1\r\nhost: test\r\n\r\n").await;
    assert_eq!(answer.status, 200);
    assert!(in_time(took), "an idle connection: {took:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_waits_for_who_is_busy_but_not_for_ever() {
    let limit = |limits: &mut server::Limits| limits.drain_time = Duration::from_millis(200);
    let server = TestServer::start_with(|_| {}, limit).await;
    let mut stream = TcpStream::connect(server.address).await.expect("connects");
    let head = "POST /auth/token HTTP/1.1\r\nhost: test\r\nexpect: 100-continue\r\ncontent-length: 10\r\n\
                content-type: application/x-www-form-urlencoded\r\n\r\n";
    stream.write_all(head.as_bytes()).await.expect("sent");
    let mut go_on = [0; 12];
    stream.read_exact(&mut go_on).await.expect("the server waits for the body");
    assert_eq!(&go_on, b"HTTP/1.1 100");
    let began = std::time::Instant::now();
    server.stop().await;
    assert!(began.elapsed() >= Duration::from_millis(200) && began.elapsed() < Duration::from_secs(5));
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    assert!(!String::from_utf8_lossy(&rest).contains("200 OK"), "it is cut");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_breaks_off_is_told_so() {
    let server = TestServer::start().await;
    let mut stream = TcpStream::connect(server.address).await.expect("connects");
    let head = "POST /auth/token HTTP/1.1\r\nhost: test\r\ntransfer-encoding: chunked\r\n\
                content-type: application/x-www-form-urlencoded\r\n\r\n4\r\ngran\r\nrubbish\r\n";
    stream.write_all(head.as_bytes()).await.expect("sent");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert_eq!(refusal(&Answer::parse(&answer)), error(400, "invalid_request"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_with_two_meanings_are_refused() {
    let server = TestServer::start().await;
    let form = "content-type: application/x-www-form-urlencoded\r\nconnection: close\r\n";
    for (lines, body) in [
        ("content-length: 3\r\ncontent-length: 4\r\n", "a=bc"),
        ("content-length: x\r\n", "a=b"),
        ("content-length: -1\r\n", "a=b"),
        ("transfer-encoding: gzip\r\n", "a=b"),
        ("x-a : b\r\ncontent-length: 3\r\n", "a=b"),
    ] {
        let request = format!("POST /auth/token HTTP/1.1\r\nhost: test\r\n{form}{lines}\r\n{body}");
        assert_eq!(Answer::parse(&server.raw(request.as_bytes()).await).status, 400, "{lines:?}");
    }
    for line in ["GET /healthz HTTP/3.0", "GET /health z HTTP/1.1", "\0\0\0\0 HTTP/1.1"] {
        let request = format!("{line}\r\nhost: test\r\nconnection: close\r\n\r\n");
        assert_eq!(Answer::parse(&server.raw(request.as_bytes()).await).status, 400, "{line:?}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_utf8_in_percent_encoding_is_refused() {
    let server = TestServer::start().await;
    let admin = administers(&server, "admin@acme.test", "org:acme").await.text("access_token");
    for wrong in ["%ff", "%c3%28", "%zz", "%", "%f", "%ed%a0%80"] {
        for path in [
            "/activate?user_code=",
            "/o/acme/login?next=",
            "/auth/authorize?client_id=",
            "/auth/logout?state=",
        ] {
            let answer = server.get(&format!("{path}{wrong}")).send().await;
            assert_eq!((answer.status, is_page(&answer)), (400, true), "{path}{wrong}: {answer:?}");
        }
        for query in ["cursor", "email"] {
            let path = format!("/api/organizations/acme/users?{query}={wrong}");
            let answer = server.get(&path).bearer(&admin).send().await;
            assert_eq!(problem(&answer), (400, "invalid_query".to_owned()), "{path}");
        }
        let body = format!("grant_type=refresh_token&refresh_token={wrong}").into_bytes();
        let answer = server.request("POST", "/auth/token").body("application/x-www-form-urlencoded", body);
        assert_eq!(refusal(&answer.send().await), error(400, "invalid_request"), "{wrong}");
    }
    for path in ["/o/%ff/login", "/o/%c3%28/account", "/demo/%ff"] {
        assert_eq!(server.get(path).send().await.status, 400, "{path}");
    }
    for path in ["/api/organizations/%ff", "/api/organizations/acme/services/%ff"] {
        assert_eq!(server.get(path).bearer(&admin).send().await.status, 400, "{path}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_says_which_field_is_wrong() {
    let server = TestServer::start().await;
    let admin = administers(&server, "admin@acme.test", "org:acme").await.text("access_token");
    let send = async |media_type: &str, body: &str| {
        let request = server.request("POST", "/api/organizations/acme/plans").bearer(&admin);
        request.body(media_type, body.as_bytes().to_vec()).send().await
    };
    let mut told = String::new();
    for body in [
        "",
        "{",
        "[]",
        "1",
        "null",
        r#"["gold", "Gold", ["cli"], 1, "EUR", [], {}, null]"#,
        r#"{"slug":"gold","name":"Gold","services":["cli"],"price_cents":1,"currency":"EUR"} {}"#,
        r#"{"slug":"gold"}"#,
        r#"{"slug":"gold","name":1,"services":[],"price_cents":1,"currency":"EUR"}"#,
        r#"{"slug":"gold","name":"Gold","services":["cli",2],"price_cents":1,"currency":"EUR"}"#,
        r#"{"slug":"gold","name":"Gold","services":["cli"],"price_cents":"1","currency":"EUR"}"#,
        r#"{"slug":"gold","name":"Gold","services":["cli"],"price_cents":1,"currency":"EUR","colour":"red"}"#,
        r#"{"slug":"gold","slug":"gold","name":"Gold","services":["cli"],"price_cents":1,"currency":"EUR"}"#,
        r#"{"slug":"Gold","name":"Gold","services":["cli"],"price_cents":1,"currency":"EUR"}"#,
    ] {
        let answer = send("application/json", body).await;
        let (status, code) = problem(&answer);
        told.push_str(&format!("{status} {code}: {}\n", answer.text("detail")));
    }
    insta::assert_snapshot!(told, @r#"
    400 invalid_json: The body is not JSON: EOF while parsing a value at line 1 column 0.
    400 invalid_json: The body is not JSON: EOF while parsing an object at line 1 column 1.
    400 invalid_json: The body is not a JSON object.
    400 invalid_json: The body is not a JSON object.
    400 invalid_json: The body is not a JSON object.
    400 invalid_json: The body is not a JSON object.
    400 invalid_json: The body is not JSON: trailing characters at line 1 column 83.
    422 invalid: The body does not fit: missing field `name` at line 1 column 15.
    422 invalid: The body does not fit (name): invalid type: integer `1`, expected a string at line 1 column 23.
    422 invalid: The body does not fit (services[1]): invalid type: integer `2`, expected a string at line 1 column 48.
    422 invalid: The body does not fit (price_cents): invalid type: string "1", expected i64 at line 1 column 65.
    422 invalid: The body does not fit (colour): unknown field `colour`, expected one of `slug`, `name`, `services`, `price_cents`, `currency`, `features`, `limits`, `seats` at line 1 column 89.
    422 invalid: The body does not fit: duplicate field `slug` at line 1 column 21.
    422 invalid: slug: "Gold" is not a slug; use 2 to 50 of a-z, 0-9 and -, beginning with a letter, like "acme".
    "#);
    for media_type in ["", "text/plain", "application/x-www-form-urlencoded", "application/json5"] {
        assert_eq!(problem(&send(media_type, "{}").await), (415, "not_json".to_owned()), "{media_type}");
    }
    for (query, status) in
        [("limit=0", 400), ("limit=201", 400), ("limit=x", 400), ("limits=1", 400), ("limit=1", 200)]
    {
        let answer =
            server.get(&format!("/api/organizations/acme/plans?{query}")).bearer(&admin).send().await;
        assert_eq!(answer.status, status, "{query}: {answer:?}");
        if status == 400 {
            assert_eq!(problem(&answer).1, "invalid_query");
            assert!(answer.text("detail").contains("limit"), "{answer:?}");
        }
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_origins_read_what_is_meant_for_them_and_never_with_credentials() {
    let server = TestServer::start().await;
    let ada = signed_in(&server, "ada@acme.test").await;
    let cookie: Vec<String> = ada.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
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
    for (method, path) in shared {
        let answer = server.request(method, path).header(origin.0, origin.1).send().await;
        assert_eq!(answer.header("access-control-allow-origin"), "*", "{method} {path}");
        let same = server.request(method, path).send().await;
        assert_eq!((same.header("vary"), answer.header("vary")), ("origin", "origin"), "{method} {path}");
        let preflight = server.request("OPTIONS", path).header(origin.0, origin.1);
        let preflight = preflight.header("access-control-request-method", method).send().await;
        assert_eq!(preflight.status, 204, "{method} {path}");
        assert_eq!(preflight.header("access-control-allow-origin"), "*", "{method} {path}");
        assert!(preflight.header("access-control-allow-methods").contains(method), "{method} {path}");
        assert!(
            preflight.header("access-control-allow-headers").contains("authorization"),
            "{method} {path}"
        );
    }
    for (method, path) in own {
        let answer =
            server.request(method, path).header(origin.0, origin.1).header("cookie", &cookie.join("; "));
        let answer = answer.send().await;
        let preflight = server.request("OPTIONS", path).header(origin.0, origin.1);
        let preflight = preflight.header("access-control-request-method", method).send().await;
        for answer in [answer, preflight] {
            assert!(
                !answer.headers.iter().any(|(name, _)| name.starts_with("access-control")),
                "{path}: {answer:?}"
            );
        }
    }
    for (method, path) in shared.into_iter().chain(own) {
        for method in [method, "OPTIONS"] {
            let answer =
                server.request(method, path).header(origin.0, origin.1).header("cookie", &cookie.join("; "));
            let answer = answer.send().await;
            assert_eq!(answer.header("access-control-allow-credentials"), "", "{method} {path}");
            assert_eq!(answer.header("x-content-type-options"), "nosniff", "{method} {path}");
        }
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
        "/o/acme/login",
        "/o/acme/signup",
        "/o/acme/link?token=x",
        "/o/acme/account",
        "/o/acme/logout",
        "/o/nobody/login",
        "/auth/authorize",
        "/auth/logout",
        "/demo/sketch",
        "/nothing",
    ];
    for path in pages {
        let answer = ada.get(path).await;
        assert!(is_page(&answer), "{path}: {answer:?}");
        let foreign = ["src=\"http", "href=\"//", "src=\"//", "<script", " style=\"", " onclick="];
        assert!(!foreign.iter().any(|sign| answer.body.contains(sign)), "{path}: {}", answer.body);
    }
    for path in ["/console", "/o/platform/account"] {
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
        assert_eq!(lines.len(), 2, "{lines:?}");
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

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_not_public() {
    let server = TestServer::start().await;
    assert_eq!(server.get("/metrics").send().await.status, 200, "this machine may read them");
    for header in ["x-forwarded-for", "forwarded"] {
        let proxied = server.get("/metrics").header(header, "127.0.0.1").send().await;
        assert_eq!(problem(&proxied).0, 404, "{header}");
    }
    server.stop().await;

    let token = |settings: &mut server::Settings| settings.metrics_token = Some("a-long-token".to_owned());
    let server = TestServer::start_with(token, |_| {}).await;
    let read = async |token: Option<&str>| {
        let request = server.get("/metrics").header("x-forwarded-for", "203.0.113.9");
        token
            .into_iter()
            .fold(request, |request, token| request.header("authorization", token))
            .send()
            .await
            .status
    };
    assert_eq!(server.get("/metrics").send().await.status, 404, "this machine needs it too");
    assert_eq!(read(None).await, 404);
    for wrong in [
        "",
        "Bearer",
        "Bearer ",
        "Bearer a-long-toke",
        "Bearer a-long-token2",
        "a-long-token",
        "Basic a-long-token",
    ] {
        assert_eq!(read(Some(wrong)).await, 404, "{wrong:?}");
    }
    assert_eq!(read(Some("Bearer a-long-token")).await, 200);
    server.stop().await;
}

/// From where a request is said to come, on the page that shows it.
async fn shown_requester(server: &TestServer, forwarded: &[&str]) -> String {
    let request = server.post("/auth/device/code", &[("client_id", server.client("cli"))]);
    let codes =
        forwarded.iter().fold(request, |request, line| request.header("x-forwarded-for", line)).send().await;
    let mut ada = signed_in(server, "ada@acme.test").await;
    let page = ada.get(&format!("/activate?user_code={}", codes.text("user_code"))).await.body;
    let (_, after) = page.split_once("<dt>From</dt><dd><bdi>").expect("the page says from where");
    after.split('<').next().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn only_listed_peers_say_where_a_request_comes_from() {
    let server = TestServer::start().await;
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
        assert_eq!(shown_requester(&server, forwarded).await, address, "{forwarded:?}");
    }
    server.stop().await;

    let strangers = |settings: &mut server::Settings| settings.trusted_proxies.clear();
    let server = TestServer::start_with(strangers, |_| {}).await;
    assert_eq!(shown_requester(&server, &["203.0.113.9"]).await, "127.0.0.1");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_bounded_and_a_full_server_stops() {
    let server = TestServer::start_with(|_| {}, |limits| limits.connections = 1).await;
    let mut only = TcpStream::connect(server.address).await.expect("connects");
    only.write_all(b"GET /healthz HTTP/1.1\r\nhost: test\r\n\r\n").await.expect("sent");
    let mut answer = [0; 12];
    only.read_exact(&mut answer).await.expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 200");
    let next = server.get("/healthz").spawn();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!next.is_finished(), "one at a time");
    drop(only);
    assert_eq!(next.await.expect("an answer").status, 200);

    let mut idle = TcpStream::connect(server.address).await.expect("connects");
    idle.write_all(b"GET /healthz HTTP/1.1\r\nhost: test\r\n\r\n").await.expect("sent");
    idle.read_exact(&mut answer).await.expect("an answer");
    let stopped_at = Instant::now();
    server.stop().await;
    assert!(stopped_at.elapsed() < Duration::from_secs(5), "{:?}", stopped_at.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn health_and_discovery_are_plain() {
    let server = TestServer::start().await;
    assert_eq!(server.get("/healthz").send().await.body, "ok");
    assert_eq!(server.get("/readyz").send().await.body, "ready");
    let configuration = server.get("/.well-known/openid-configuration").send().await;
    assert_eq!(configuration.header("cache-control"), "public, max-age=300");
    assert_eq!(configuration.text("issuer"), "http://127.0.0.1:7070");
    server.stop().await;
}
