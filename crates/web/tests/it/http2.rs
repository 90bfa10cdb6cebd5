//! HTTP/2 on the port of HTTP/1.1, with the same limits for each stream.

use crate::frames::{
    Client, END_HEADERS, END_STREAM, GOAWAY, HEADERS, RST_STREAM, WINDOW_UPDATE, frame, get, get_fields, head,
};
use crate::service::{start, until};
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const INITIAL_WINDOW: u16 = 4;
const STALL: Duration = Duration::from_millis(300);
const CANCEL: u32 = 8;
const REFUSED: u32 = 7;

fn code(frame: &crate::frames::Frame) -> u32 {
    u32::from_be_bytes(frame.payload[frame.payload.len() - 4..].try_into().expect("a code"))
}

#[tokio::test]
async fn one_port_speaks_both() {
    let (running, address, seen) = start(|_| {}).await;
    let mut plain = TcpStream::connect(address).await.expect("connects");
    plain.write_all(b"GET / HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n").await.expect("sent");
    let mut answer = String::new();
    plain.read_to_string(&mut answer).await.expect("read");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nok"), "{answer}");
    let mut client = Client::connect(address, &[]).await;
    for stream in [1, 3, 5] {
        client.send(&get(stream, "/")).await.expect("sent");
        assert_eq!(client.answer(stream).await, (b"ok".to_vec(), true));
    }
    assert_eq!(seen.counts.open(), 1);
    drop(client);
    running.stop().await;
    assert_eq!((seen.counts.open(), seen.is_finished.load(SeqCst)), (0, 1));
}

#[tokio::test]
async fn a_body_larger_than_all_windows_arrives_as_they_open() {
    let (running, address, _) = start(|_| {}).await;
    let mut client = Client::connect(address, &[(INITIAL_WINDOW, 0x7fff_ffff)]).await;
    client.send(&frame(WINDOW_UPDATE, 0, 0, &0x7000_0000_u32.to_be_bytes())).await.expect("sent");
    client.send(&get(1, "/much")).await.expect("sent");
    let (content, is_whole) = client.answer(1).await;
    assert_eq!((content.len(), is_whole), (4 * 1024 * 1024, true));
    drop(client);
    running.stop().await;
}

#[tokio::test]
async fn requests_at_once_are_bounded() {
    let (running, address, seen) = start(|_| {}).await;
    let mut client = Client::connect(address, &[]).await;
    let held: Vec<u8> = (0..200).flat_map(|number| get(2 * number + 1, "/held")).collect();
    client.send(&held).await.expect("sent");
    for _ in 128..200 {
        let refused = client.next().await.expect("a frame");
        assert_eq!((refused.kind, code(&refused)), (RST_STREAM, REFUSED));
        assert!(refused.stream > 256, "{}", refused.stream);
    }
    until("the others are held", || seen.held.load(SeqCst) == 128).await;
    assert_eq!(seen.held_max.load(SeqCst), 128);
    drop(client);
    until("none is held for a client that is gone", || seen.held.load(SeqCst) == 0).await;
    running.stop().await;
}

#[tokio::test]
async fn requests_beyond_the_share_of_a_network_are_refused() {
    let limit = |limits: &mut web::Limits| {
        limits.unshared = Vec::new();
        limits.connections_per_network = 20;
    };
    let (running, address, seen) = start(limit).await;
    let mut client = Client::connect(address, &[(INITIAL_WINDOW, 0)]).await;
    let held: Vec<u8> = (0..40).flat_map(|number| get(2 * number + 1, "/held")).collect();
    client.send(&held).await.expect("sent");
    // The connection weighs two.
    for stream in (18..40).map(|number| 2 * number + 1) {
        let refused = client.next().await.expect("a frame");
        assert_eq!((refused.kind, refused.stream, code(&refused)), (RST_STREAM, stream, CANCEL));
    }
    until("the others are held", || seen.held.load(SeqCst) == 18).await;
    assert_eq!(seen.counts.refused_streams(), 22);
    let mut beyond = TcpStream::connect(address).await.expect("the kernel connects");
    assert!(matches!(beyond.read(&mut [0]).await, Err(_) | Ok(0)), "no room for HTTP/1.1 either");
    assert_eq!(seen.counts.refused(), 1);
    drop(client);
    until("they are gone", || seen.held.load(SeqCst) == 0 && seen.counts.open() == 0).await;
    let mut next = Client::connect(address, &[]).await;
    next.send(&get(1, "/")).await.expect("sent");
    assert_eq!(next.answer(1).await, (b"ok".to_vec(), true), "there is room again");
    drop(next);
    running.stop().await;
}

#[tokio::test]
async fn a_response_that_the_client_does_not_take_weighs_until_it_ends() {
    let limit = |limits: &mut web::Limits| {
        limits.unshared = Vec::new();
        limits.connections_per_network = 10;
        limits.pace.stall_max = STALL;
    };
    let (running, address, seen) = start(limit).await;
    let mut client = Client::connect(address, &[(INITIAL_WINDOW, 0)]).await;
    let unread: Vec<u8> = (0..8).flat_map(|number| get(2 * number + 1, "/much")).collect();
    client.send(&unread).await.expect("sent");
    until("all are answered", || seen.calls.load(SeqCst) == 8).await;
    client.send(&get(17, "/")).await.expect("sent");
    until("the next one is refused", || seen.counts.refused_streams() == 1).await;
    for _ in 0..2 {
        let mut beyond = TcpStream::connect(address).await.expect("the kernel connects");
        assert!(matches!(beyond.read(&mut [0]).await, Err(_) | Ok(0)), "no connection either");
    }
    let mut resets = 0;
    while resets < 9 {
        let frame = client.next().await.expect("the connection stays");
        resets += usize::from(frame.kind == RST_STREAM);
    }
    client.send(&get(19, "/")).await.expect("sent");
    until("there is room again", || seen.calls.load(SeqCst) == 9).await;
    drop(client);
    running.stop().await;
}

#[tokio::test]
async fn a_connection_that_turns_out_to_be_http_2_weighs_two() {
    let limit = |limits: &mut web::Limits| {
        limits.unshared = Vec::new();
        limits.connections_per_network = 1;
    };
    let (running, address, seen) = start(limit).await;
    let mut client = Client::connect(address, &[]).await;
    assert!(
        client.0.read_to_end(&mut Vec::new()).await.is_ok_and(|read| read == 0) || seen.counts.refused() == 1
    );
    until("it is refused", || seen.counts.refused() == 1 && seen.counts.open() == 0).await;
    let mut plain = TcpStream::connect(address).await.expect("connects");
    plain.write_all(b"GET / HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n").await.expect("sent");
    let mut answer = String::new();
    plain.read_to_string(&mut answer).await.expect("read");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    running.stop().await;
}

#[tokio::test]
async fn the_answer_to_head_ends_with_its_head() {
    let (running, address, _) = start(|_| {}).await;
    let mut client = Client::connect(address, &[(INITIAL_WINDOW, 0)]).await;
    for (stream, path) in [(1, "/much"), (3, "/stream"), (5, "/")] {
        client.send(&head(stream, path)).await.expect("sent");
        let answer = client.next().await.expect("a frame");
        assert_eq!((answer.kind, answer.stream), (HEADERS, stream), "{path}");
        assert!(answer.flags & END_STREAM != 0, "{path}");
    }
    drop(client);
    running.stop().await;
}

#[tokio::test]
async fn a_stream_without_a_window_is_reset_and_the_others_go_on() {
    let (running, address, _) = start(|limits| limits.pace.stall_max = STALL).await;
    let mut client = Client::connect(address, &[(INITIAL_WINDOW, 0)]).await;
    let began = Instant::now();
    client.send(&[get(1, "/much"), get(3, "/held")].concat()).await.expect("sent");
    assert_eq!(client.next().await.map(|frame| (frame.kind, frame.stream)), Some((HEADERS, 1)));
    let reset = client.next().await.expect("a frame");
    assert_eq!((reset.kind, reset.stream, code(&reset)), (RST_STREAM, 1, CANCEL));
    assert!(began.elapsed() >= STALL, "{:?}", began.elapsed());
    client.send(&get(5, "/")).await.expect("sent");
    client.send(&frame(WINDOW_UPDATE, 0, 5, &9_u32.to_be_bytes())).await.expect("sent");
    assert_eq!(client.answer(5).await, (b"ok".to_vec(), true));
    drop(client);
    running.stop().await;
}

#[tokio::test]
async fn a_stream_with_nothing_to_send_may_wait() {
    let (running, address, _) = start(|limits| limits.pace.stall_max = STALL / 6).await;
    let mut client = Client::connect(address, &[]).await;
    client.send(&get(1, "/stream")).await.expect("sent");
    assert_eq!(client.next().await.map(|frame| frame.kind), Some(HEADERS));
    assert_eq!(client.next().await.map(|frame| frame.payload), Some(b"first".to_vec()));
    let silent = tokio::time::timeout(STALL, client.next()).await;
    assert!(silent.is_err(), "{silent:?}");
    client.send(&get(3, "/")).await.expect("sent");
    assert_eq!(client.answer(3).await, (b"ok".to_vec(), true));
    drop(client);
    running.stop().await;
}

#[tokio::test]
async fn the_end_of_a_response_that_cannot_be_sent_ends_the_connection() {
    let (running, address, seen) = start(|limits| limits.pace.stall_max = STALL).await;
    let mut client = Client::connect(address, &[(INITIAL_WINDOW, 1)]).await;
    client.send(&get(1, "/")).await.expect("sent");
    assert_eq!(client.answer(1).await, (b"o".to_vec(), false));
    until("it is closed", || seen.counts.open() == 0).await;
    running.stop().await;
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_reset() {
    let (running, address, seen) = start(|limits| limits.pace.stall_max = STALL).await;
    let mut client = Client::connect(address, &[(INITIAL_WINDOW, 0x7fff_ffff)]).await;
    client.send(&frame(WINDOW_UPDATE, 0, 0, &0x7000_0000_u32.to_be_bytes())).await.expect("sent");
    client.send(&get(1, "/much")).await.expect("sent");
    until("it is open", || seen.counts.open() == 1).await;
    until("it is closed", || seen.counts.open() == 0).await;
    let end = client.0.read_to_end(&mut Vec::new()).await;
    assert_eq!(end.map_err(|error| error.kind()).err(), Some(std::io::ErrorKind::ConnectionReset));
    running.stop().await;
}

#[tokio::test]
async fn a_connection_without_requests_ends_after_the_time_for_an_idle_one() {
    let (running, address, seen) = start(|limits| limits.header_time = STALL).await;
    let mut client = Client::connect(address, &[]).await;
    let mut half = TcpStream::connect(address).await.expect("connects");
    half.write_all(b"PRI * HTTP/2.0\r\n").await.expect("sent");
    let mut open = Client::connect(address, &[]).await;
    let headers = frame(HEADERS, 0, 1, &get_fields("/"));
    open.send(&headers).await.expect("sent");
    let mut busy = Client::connect(address, &[]).await;
    busy.send(&get(1, "/held")).await.expect("sent");
    assert_eq!(client.next().await.map(|frame| frame.kind), Some(GOAWAY));
    half.read_to_end(&mut Vec::new()).await.expect("closed");
    assert_eq!(open.next().await.map(|frame| frame.kind), Some(GOAWAY), "a head that does not end");
    drop((client, open));
    until("only the busy one is open", || seen.counts.open() == 1).await;
    busy.send(&get(3, "/")).await.expect("sent");
    assert_eq!(busy.answer(3).await, (b"ok".to_vec(), true));
    drop(busy);
    running.stop().await;
}

#[tokio::test]
async fn a_stop_finishes_open_requests() {
    let (running, address, seen) = start(|_| {}).await;
    let mut client = Client::connect(address, &[]).await;
    client.send(&get(1, "/held")).await.expect("sent");
    until("it is held", || seen.held.load(SeqCst) == 1).await;
    let stops = tokio::spawn(running.stop());
    assert_eq!(client.answer(1).await, (b"released".to_vec(), true));
    drop(client);
    stops.await.expect("stops");
    assert_eq!(seen.is_finished.load(SeqCst), 1);
}

#[tokio::test]
async fn a_head_that_is_too_large_gets_an_answer_of_the_service() {
    let (running, address, seen) = start(|_| {}).await;
    let mut client = Client::connect(address, &[]).await;
    // A field of 4,000 bytes that is kept, and references to it.
    let kept = [&[0x40, 1, b'a', 0x7f, 0xa1, 0x1e][..], &[b'b'; 4000]].concat();
    let large = |references| [get_fields("/page"), kept.clone(), vec![0xbe; references]].concat();
    client.send(&frame(HEADERS, END_STREAM | END_HEADERS, 1, &large(4))).await.expect("sent");
    let head = client.next().await.expect("a frame");
    assert!(head.kind == HEADERS && head.payload[0] != 0x88, "not 200: {head:?}");
    let text = client.next().await.expect("a frame");
    assert_eq!(text.payload, b"/page is too large for nothing", "20 KB");
    client.send(&get(3, "/")).await.expect("sent");
    assert_eq!(client.answer(3).await, (b"ok".to_vec(), true));
    assert_eq!(seen.calls.load(SeqCst), 1);
    drop(client);
    running.stop().await;
}
