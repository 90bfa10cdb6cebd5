//! HTTP/1.1: connections that end say so, and a stop loses no request.

use crate::service::{Seen, start, until};
use std::net::SocketAddr;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const CLOSE: &str = "\r\nconnection: close\r\n";

async fn connect(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).await.expect("connects")
}

async fn send(stream: &mut TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).await.expect("sent");
}

/// Reads a response whose content is `ok`.
async fn answer(stream: &mut TcpStream) -> String {
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\nok") {
        let byte = stream.read_u8().await;
        read.push(byte.unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&read))));
    }
    String::from_utf8(read).expect("text")
}

async fn rest(stream: &mut TcpStream) -> String {
    let mut rest = String::new();
    stream.read_to_string(&mut rest).await.expect("an end without a reset");
    rest
}

fn held(seen: &Seen) -> usize {
    seen.held.load(SeqCst)
}

#[tokio::test]
async fn a_response_before_the_end_of_the_body_says_that_the_connection_ends() {
    let (running, address, _) = start(|_| {}).await;
    let mut stream = connect(address).await;
    send(&mut stream, "POST / HTTP/1.1\r\nhost: test\r\ncontent-length: 200000\r\n\r\nbeginning").await;
    let early = answer(&mut stream).await;
    assert!(early.contains(CLOSE), "{early}");
    // The rest may still be sent: the response is not lost by a reset.
    send(&mut stream, &"x".repeat(200_000 - 9)).await;
    assert_eq!(rest(&mut stream).await, "");

    let mut asks = connect(address).await;
    send(&mut asks, "POST / HTTP/1.1\r\nhost: test\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n")
        .await;
    let refused = answer(&mut asks).await;
    assert!(refused.starts_with("HTTP/1.1 200") && refused.contains(CLOSE), "{refused}");
    running.stop().await;
}

#[tokio::test]
async fn a_connection_goes_on_after_a_body_that_was_read_or_has_arrived() {
    let (running, address, seen) = start(|_| {}).await;
    let mut stream = connect(address).await;
    for path in ["/", "/read"] {
        for body in
            ["content-length: 5\r\n\r\nwhole", "transfer-encoding: chunked\r\n\r\n5\r\nwhole\r\n0\r\n\r\n"]
        {
            send(&mut stream, &format!("POST {path} HTTP/1.1\r\nhost: test\r\n{body}")).await;
            let answered = answer(&mut stream).await;
            assert!(!answered.contains("connection:"), "{path} {body}: {answered}");
        }
    }
    send(&mut stream, "POST /read HTTP/1.1\r\nhost: test\r\ncontent-length: 5\r\n\r\n").await;
    until("it is read", || seen.calls.load(SeqCst) == 5).await;
    send(&mut stream, "parts").await;
    assert!(!answer(&mut stream).await.contains("connection:"), "the handler waits for it");
    assert_eq!(seen.counts.open(), 1);
    drop(stream);
    running.stop().await;
}

#[tokio::test]
async fn a_stop_answers_requests_that_are_on_their_way_and_says_that_they_are_the_last() {
    let patient = |limits: &mut web::Limits| limits.last_request_time = Duration::from_secs(20);
    let (running, address, seen) = start(patient).await;
    let (mut idle, mut new, mut busy) =
        (connect(address).await, connect(address).await, connect(address).await);
    send(&mut idle, "GET / HTTP/1.1\r\nhost: test\r\n\r\n").await;
    assert!(!answer(&mut idle).await.contains("connection:"));
    send(&mut busy, "GET /held HTTP/1.1\r\nhost: test\r\n\r\n").await;
    until("it is held", || held(&seen) == 1).await;
    let stops = tokio::spawn(running.stop());
    let released = rest(&mut busy).await;
    assert!(released.contains(CLOSE) && released.ends_with("released"), "{released}");
    for stream in [&mut idle, &mut new] {
        send(stream, "GET / HTTP/1.1\r\nhost: test\r\n\r\n").await;
        let last = answer(stream).await;
        assert!(last.contains(CLOSE), "{last}");
        assert_eq!(rest(stream).await, "");
    }
    stops.await.expect("stops");
    TcpStream::connect(address).await.expect_err("nobody listens");
}

#[tokio::test]
async fn connections_that_the_kernel_has_accepted_are_answered_at_a_stop() {
    let patient = |limits: &mut web::Limits| limits.last_request_time = Duration::from_secs(20);
    let (running, address, seen) = start(patient).await;
    // This test has the only thread of the runtime: nothing is accepted until it waits.
    let queued: Vec<_> = (0..20)
        .map(|_| {
            let mut stream = std::net::TcpStream::connect(address).expect("the kernel connects");
            std::io::Write::write_all(&mut stream, b"GET / HTTP/1.1\r\nhost: test\r\n\r\n").expect("sent");
            stream.set_nonblocking(true).expect("set");
            TcpStream::from_std(stream).expect("a stream")
        })
        .collect();
    let stops = tokio::spawn(running.stop());
    for mut stream in queued {
        let last = answer(&mut stream).await;
        assert!(last.contains(CLOSE), "{last}");
    }
    stops.await.expect("stops");
    assert_eq!(seen.calls.load(SeqCst), 20);
}

#[tokio::test]
async fn idle_connections_do_not_hold_up_a_stop() {
    let (running, address, seen) = start(|limits| limits.drain_time = Duration::from_secs(600)).await;
    let mut idle = connect(address).await;
    send(&mut idle, "GET / HTTP/1.1\r\nhost: test\r\n\r\n").await;
    answer(&mut idle).await;
    tokio::time::timeout(Duration::from_secs(30), running.stop()).await.expect("it ends by itself");
    assert_eq!((rest(&mut idle).await.as_str(), seen.counts.open()), ("", 0));
}

#[tokio::test]
async fn a_head_that_is_too_large_gets_an_answer_of_the_service() {
    let (running, address, seen) = start(|_| {}).await;
    for size in [17_000, 40_000, 300_000] {
        let mut stream = connect(address).await;
        send(&mut stream, "GET / HTTP/1.1\r\nhost: test\r\n\r\n").await;
        answer(&mut stream).await;
        let cookie = "x".repeat(size);
        send(
            &mut stream,
            &format!("GET /page?a=1 HTTP/1.1\r\naccept: text/html\r\ncookie: {cookie}\r\n\r\n"),
        )
        .await;
        let refused = rest(&mut stream).await;
        assert!(refused.starts_with("HTTP/1.1 431 Request Header Fields Too Large\r\n"), "{refused}");
        assert!(
            refused.contains(CLOSE) && refused.ends_with("\r\n\r\n/page is too large for text/html"),
            "{refused}"
        );
    }
    let mut long = connect(address).await;
    send(&mut long, &format!("GET /page?{} HTTP/1.1\r\naccept: text/html\r\n\r\n", "x".repeat(20_000))).await;
    let refused = rest(&mut long).await;
    assert!(refused.ends_with("/page is too large for nothing"), "what was not read is not known: {refused}");
    let mut broken = connect(address).await;
    send(&mut broken, "GET / HTTP/1.1\r\nhost : test\r\n\r\n").await;
    let refused = rest(&mut broken).await;
    assert!(refused.starts_with("HTTP/1.1 400 Bad Request\r\n") && refused.contains(CLOSE), "{refused}");
    assert_eq!(seen.calls.load(SeqCst), 3);
    running.stop().await;
}

#[tokio::test]
async fn the_body_of_a_request_weighs_while_it_arrives_and_waits_for_room() {
    const SIZE: usize = 200_000;
    let limit = |limits: &mut web::Limits| {
        limits.unshared = Vec::new();
        // A connection with a body of this size weighs 7.
        limits.connections_per_network = 8;
    };
    let (running, address, seen) = start(limit).await;
    let mut idle = Vec::new();
    for _ in 0..5 {
        let mut stream = connect(address).await;
        send(&mut stream, "GET / HTTP/1.1\r\nhost: test\r\n\r\n").await;
        answer(&mut stream).await;
        idle.push(stream);
    }
    let mut large = connect(address).await;
    let sends = async {
        let head = format!("POST /read HTTP/1.1\r\nhost: test\r\ncontent-length: {SIZE}\r\n\r\n");
        send(&mut large, &head).await;
        send(&mut large, &"x".repeat(SIZE)).await;
        answer(&mut large).await
    };
    let mut sends = std::pin::pin!(sends);
    let early = tokio::time::timeout(Duration::from_millis(300), sends.as_mut()).await;
    assert!(early.is_err(), "it waits for room: {early:?}");
    let mut beyond = connect(address).await;
    assert!(matches!(beyond.read(&mut [0]).await, Err(_) | Ok(0)), "no room for a connection either");
    assert_eq!(seen.counts.refused(), 1);
    drop(idle);
    assert!(sends.await.starts_with("HTTP/1.1 200"));
    running.stop().await;
}
