//! Clients of HTTP/2 that flood the server: their connection is closed, and little is done for them.

use crate::frames::{
    CONTINUATION, Client, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, PRIORITY, RST_STREAM,
    SETTINGS, WINDOW_UPDATE, frame, get, get_fields,
};
use crate::service::{start, until};
use std::sync::atomic::Ordering::SeqCst;

#[tokio::test]
async fn frames_that_ask_for_nothing_end_the_connection() {
    let (running, address, seen) = start(|_| {}).await;
    let floods = [
        ("PING", frame(PING, 0, 0, &[7; 8])),
        ("SETTINGS", frame(SETTINGS, 0, 0, &[])),
        ("PRIORITY", frame(PRIORITY, 0, 1, &[0, 0, 0, 0, 1])),
        ("WINDOW_UPDATE", frame(WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes())),
        ("an unknown frame", frame(0xee, 0, 0, &[])),
    ];
    for (name, flood) in floods {
        let sent = Client::connect(address, &[]).await.flood(&flood, 1_000_000).await;
        assert!(sent < 100_000, "{name}: {sent}");
    }
    let mut client = Client::connect(address, &[]).await;
    client.send(&frame(HEADERS, END_HEADERS, 1, &get_fields("/held"))).await.expect("sent");
    let sent = client.flood(&frame(DATA, 0, 1, &[]), 1_000_000).await;
    assert!(sent < 100_000, "empty DATA: {sent}");
    until("all are closed", || seen.counts.open() == 0).await;
    assert_eq!((seen.calls.load(SeqCst), seen.counts.floods()), (1, 6));
    running.stop().await;
}

#[tokio::test]
async fn rapid_resets_end_the_connection() {
    let (running, address, seen) = start(|_| {}).await;
    let mut client = Client::connect(address, &[]).await;
    let cancel = |stream| frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes());
    let flood: Vec<u8> = (0..50_000)
        .flat_map(|number| [get(2 * number + 1, "/held"), cancel(2 * number + 1)].concat())
        .collect();
    client.flood(&flood, 2).await;
    until("it is closed", || seen.counts.open() == 0).await;
    until("none is held", || seen.held.load(SeqCst) == 0).await;
    let calls = seen.calls.load(SeqCst);
    assert!(calls <= 1_500, "{calls} of 50,000 were begun");
    assert_eq!(seen.counts.floods(), 1);
    running.stop().await;
}

#[tokio::test]
async fn an_endless_head_ends_the_connection() {
    let (running, address, seen) = start(|_| {}).await;
    for part in [&[][..], &[0x00, 1, b'a', 1, b'b'].repeat(1000)] {
        let mut client = Client::connect(address, &[]).await;
        client.send(&frame(HEADERS, END_STREAM, 1, &get_fields("/"))).await.expect("sent");
        let sent = client.flood(&frame(CONTINUATION, 0, 1, part), 1_000_000).await;
        assert!(sent < 100_000, "{sent}");
    }
    until("all are closed", || seen.counts.open() == 0).await;
    assert_eq!(seen.calls.load(SeqCst), 0);
    running.stop().await;
}

#[tokio::test]
async fn a_head_that_grows_when_it_is_unpacked_is_refused() {
    let (running, address, seen) = start(|_| {}).await;
    let mut client = Client::connect(address, &[]).await;
    // A field of 4 KB that is kept, and references to it of a byte each.
    let kept = [&[0x40, 1, b'a', 0x7f, 0xa1, 0x1e][..], &[b'b'; 4000]].concat();
    let bomb = |stream, references| {
        let fields = [get_fields("/"), kept.clone(), vec![0xbe; references]].concat();
        frame(HEADERS, END_STREAM | END_HEADERS, stream, &fields)
    };
    client.send(&bomb(1, 10)).await.expect("sent");
    let answer = client.next().await.expect("an answer");
    assert_eq!((answer.kind, answer.stream), (HEADERS, 1), "40 KB");
    assert!(answer.payload.len() < 100 && !answer.payload.starts_with(&[0x88]), "431: {:?}", answer.payload);
    // The connection is as good as before.
    client.send(&get(3, "/")).await.expect("sent");
    assert_eq!(client.answer(3).await, (b"ok".to_vec(), true));
    client.send(&bomb(5, 8000)).await.expect("sent");
    assert_eq!(client.next().await.map(|frame| frame.kind), Some(GOAWAY), "32 MB");
    assert!(client.next().await.is_none());
    assert_eq!(seen.calls.load(SeqCst), 1);
    running.stop().await;
}
