//! Connections that are held for nothing: clients that do not read, are silent, or take all places.

#![allow(clippy::disallowed_methods, reason = "tests connect to their own server")]

use crate::device::codes;
use crate::support::metric;
use server::Limits;
use server::testing::TestServer;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

const STALL: Duration = Duration::from_millis(300);
const HEALTH: &[u8] = b"GET /healthz HTTP/1.1\r\nhost: test\r\n\r\n";

/// A connection from an address of this machine, which keeps little of what it does not read. The server may reset it at
/// once.
async fn try_connect(server: &TestServer, from: [u8; 4]) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(4096)?;
    socket.bind(SocketAddr::new(IpAddr::from(from), 0))?;
    socket.connect(server.address).await
}

async fn connect(server: &TestServer, from: [u8; 4]) -> TcpStream {
    try_connect(server, from).await.expect("connects")
}

/// Whether a new connection from this address is accepted and answered.
async fn is_admitted(server: &TestServer, from: [u8; 4]) -> bool {
    match try_connect(server, from).await {
        Ok(mut stream) => is_answered(&mut stream).await,
        Err(_) => false,
    }
}

/// Sends requests whose responses are more than the kernel keeps, until the server takes no more or has them all.
async fn ask_for_megabytes(stream: &mut TcpStream) {
    let requests = b"GET /assets/sarsen.css HTTP/1.1\r\nhost: test\r\n\r\n".repeat(500);
    let _ = tokio::time::timeout(Duration::from_millis(100), stream.write_all(&requests)).await;
}

/// Whether a request on this connection is answered.
async fn is_answered(stream: &mut TcpStream) -> bool {
    let mut answer = [0; 12];
    stream.write_all(HEALTH).await.is_ok()
        && stream.read_exact(&mut answer).await.is_ok()
        && answer == *b"HTTP/1.1 200"
}

/// Waits until only the connection that asks is open.
async fn until_alone(server: &TestServer) {
    let alone = async {
        while metric(server, "sarsen_http_connections").await > 1 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), alone).await.expect("the others are closed");
}

/// Reads until the server closes; whether that was by a reset.
async fn is_reset(mut stream: TcpStream) -> bool {
    let mut rest = Vec::new();
    let end =
        tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut rest)).await.expect("an end");
    end.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_never_reads_is_reset() {
    let server = TestServer::start_with(|_| {}, |limits| limits.pace.stall_max = STALL).await;
    let mut silent = connect(&server, [127, 0, 0, 1]).await;
    let began = Instant::now();
    ask_for_megabytes(&mut silent).await;
    until_alone(&server).await;
    assert!(began.elapsed() >= STALL, "{:?}", began.elapsed());
    assert!(is_reset(silent).await);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_for_which_nothing_is_pending_may_wait() {
    let limit = |limits: &mut Limits| limits.pace.stall_max = Duration::from_millis(50);
    let hold = |settings: &mut server::Settings| settings.hold_max = Duration::from_millis(500);
    let server = TestServer::start_with(hold, limit).await;
    let code = codes(&server).await.text("device_code");
    let grant = "urn:ietf:params:oauth:grant-type:device_code";
    let fields = [("grant_type", grant), ("client_id", server.client("cli")), ("device_code", &code)];
    let began = Instant::now();
    let held = server.post("/auth/token", &fields).header("prefer", "wait=1").send().await;
    assert_eq!(held.error(), (400, "authorization_pending".to_owned()));
    assert!(began.elapsed() >= Duration::from_millis(400), "it was held: {:?}", began.elapsed());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn three_hundred_silent_clients_on_three_hundred_places_do_not_keep_others_out() {
    let limit = |limits: &mut Limits| {
        limits.connections = 300;
        limits.stale_after = Duration::from_millis(200);
    };
    let server = TestServer::start_with(|_| {}, limit).await;
    let mut silent = Vec::new();
    for number in 0..300 {
        let mut stream = connect(&server, [127, 0, 0, 1]).await;
        match number % 3 {
            0 => {}
            1 => assert!(is_answered(&mut stream).await),
            _ => ask_for_megabytes(&mut stream).await,
        }
        silent.push(stream);
    }
    let began = Instant::now();
    for _ in 0..20 {
        assert_eq!(server.get("/healthz").send().await.status, 200);
    }
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_being_handled_keeps_its_place() {
    let limit = |limits: &mut Limits| {
        limits.connections = 1;
        limits.stale_after = Duration::ZERO;
    };
    let server = TestServer::start_with(|_| {}, limit).await;
    let mut busy = TcpStream::connect(server.address).await.expect("connects");
    let form = "POST /auth/token HTTP/1.1\r\nhost: test\r\nexpect: 100-continue\r\ncontent-length: 11\r\n\
                content-type: application/x-www-form-urlencoded\r\n\r\n";
    busy.write_all(form.as_bytes()).await.expect("sent");
    let mut go_on = [0; 25];
    busy.read_exact(&mut go_on).await.expect("the handler waits for the body");
    let next = server.get("/healthz").spawn();
    busy.write_all(b"grant_type=").await.expect("sent");
    let mut answer = [0; 12];
    busy.read_exact(&mut answer).await.expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 400");
    assert_eq!(next.await.expect("an answer").status, 200, "the idle connection made room");
    assert_eq!(busy.read_to_end(&mut Vec::new()).await.map(|_| ()).ok(), Some(()), "closed without a reset");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_network_has_a_share_of_the_places() {
    let limit = |limits: &mut Limits| {
        limits.connections = 20;
        limits.unshared.clear();
        limits.stale_after = Duration::from_secs(3600);
    };
    let server = TestServer::start_with(|settings| settings.trusted_proxies.clear(), limit).await;
    let mut greedy = Vec::new();
    for _ in 0..11 {
        let mut stream = connect(&server, [127, 0, 0, 2]).await;
        assert!(is_answered(&mut stream).await);
        greedy.push(stream);
    }
    assert!(!is_admitted(&server, [127, 0, 0, 2]).await, "half of the places are taken");
    let mut other = [connect(&server, [127, 0, 0, 3]).await, connect(&server, [127, 0, 0, 3]).await];
    for stream in &mut other {
        assert!(is_answered(stream).await, "another network has its tenth");
    }
    assert!(!is_admitted(&server, [127, 0, 0, 3]).await);
    assert_eq!(metric(&server, "sarsen_http_connections_refused_total").await, 2);
    drop(greedy);
    // The server may not have closed them yet.
    while !is_admitted(&server, [127, 0, 0, 3]).await {
        tokio::task::yield_now().await;
    }
    server.stop().await;
}
