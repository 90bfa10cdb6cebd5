//! Limits: sizes, times and connections, for who sends too much, too slowly or not at all.

#![allow(clippy::disallowed_methods, reason = "tests connect to their own server")]

use super::{is_page, problem};
use crate::device::{administers, error, refusal};
use server::testing::{Answer, TestServer};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

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

    // A proxy sends the whole body before it reads the answer, and uses the connection again.
    let mut stream = TcpStream::connect(server.address).await.expect("connects");
    let head = "POST /auth/token HTTP/1.1\r\nhost: test\r\ncontent-length: 300000\r\n\r\n";
    let next = "GET /healthz HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n";
    for part in [head, &"x".repeat(300_000), next] {
        stream.write_all(part.as_bytes()).await.expect("the server reads");
    }
    let mut answers = String::new();
    stream.read_to_string(&mut answers).await.expect("two answers");
    let second = answers.split("HTTP/1.1 ").nth(2).expect("two answers");
    assert!(answers.starts_with("HTTP/1.1 413 ") && second.starts_with("200 "), "{answers}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_with_too_many_cookies_gets_a_page_and_a_program_a_problem() {
    let server = TestServer::start().await;
    let send = async |target: &str, accept: &str| {
        let cookies = "a=b; ".repeat(4_000);
        let head = format!("GET {target} HTTP/1.1\r\nhost: test\r\n{accept}cookie: {cookies}\r\n\r\n");
        Answer::parse(&server.raw(head.as_bytes()).await)
    };
    let html = "accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n";
    for target in ["/o/acme/login", "/auth/authorize?client_id=x"] {
        let answer = send(target, html).await;
        assert!(answer.status == 431 && is_page(&answer), "{answer:?}");
        assert_eq!(answer.header("connection"), "close");
    }
    let long = format!("/auth/authorize?state={}", "x".repeat(20_000));
    let answer = send(&long, html).await;
    assert!(answer.status == 431 && is_page(&answer), "the address alone is too large: {answer:?}");
    for target in ["/api/user", "/o/acme/login"] {
        let answer = send(target, "accept: application/json\r\n").await;
        assert_eq!(problem(&answer), (431, "head_too_large".to_owned()), "{target}");
    }
    assert_eq!(problem(&send(&format!("/api/user?{}", "x".repeat(20_000)), html).await).0, 431);
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
    let fine = head(&format!("x-a: {}\r\n", "b".repeat(15_000)));
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
async fn connections_are_bounded_and_a_full_server_stops() {
    let limit = |limits: &mut server::Limits| {
        limits.connections = 1;
        limits.stale_after = Duration::from_secs(3600);
    };
    let server = TestServer::start_with(|_| {}, limit).await;
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
