//! The streams of `GET /api/live`, byte by byte: that of a user, and that of a service.

#![allow(clippy::disallowed_methods, reason = "tests connect to their own server")]

use super::{ACME, People, Recording, call, get, is_recorded, recorded_server};
use crate::support::{Ask, text, tokens, tokens_of};
use serde_json::{Value, json};
use server::testing::{Answer, TestServer};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Longer than everything that is waited for.
const PATIENCE: Duration = Duration::from_secs(20);

/// What comes of an open stream.
pub struct Stream {
    socket: TcpStream,
    buffer: Vec<u8>,
    /// Status and headers.
    pub head: Answer,
    body: String,
    is_over: bool,
}

impl Stream {
    /// Sends a request whose answer does not end, with these lines in its head.
    pub async fn open(address: SocketAddr, first: &str, lines: &str, body: &str) -> Stream {
        let mut socket = TcpStream::connect(address).await.expect("connects");
        let length =
            if body.is_empty() { String::new() } else { format!("content-length: {}\r\n", body.len()) };
        let request = format!("{first} HTTP/1.1\r\nhost: localhost\r\n{lines}{length}\r\n{body}");
        socket.write_all(request.as_bytes()).await.expect("writes");
        let head = Answer { status: 0, headers: Vec::new(), body: String::new() };
        let mut stream = Stream { socket, buffer: Vec::new(), head, body: String::new(), is_over: false };
        while stream.head.status == 0 {
            if let Some(end) = stream.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                stream.head = Answer::parse(&stream.buffer[..end + 4]);
                stream.buffer.drain(..end + 4);
            } else {
                assert!(stream.read().await > 0, "no response");
            }
        }
        stream
    }

    async fn read(&mut self) -> usize {
        let read = tokio::time::timeout(PATIENCE, self.socket.read_buf(&mut self.buffer)).await;
        read.expect("the stream went on").unwrap_or(0)
    }

    fn decode(&mut self) {
        while let Some(line) = self.buffer.windows(2).position(|window| window == b"\r\n") {
            let length = String::from_utf8_lossy(&self.buffer[..line]).into_owned();
            let length = usize::from_str_radix(&length, 16).expect("a chunk");
            if self.buffer.len() < line + 2 + length + 2 {
                return;
            }
            self.is_over = length == 0;
            self.body += std::str::from_utf8(&self.buffer[line + 2..line + 2 + length]).expect("UTF-8");
            self.buffer.drain(..line + 2 + length + 2);
        }
    }

    /// The next block: an event, or a sign of life with a cursor. One without a cursor has its own time.
    async fn block(&mut self) -> String {
        loop {
            self.decode();
            if let Some((block, rest)) = self.body.split_once("\n\n") {
                let (block, rest) = (format!("{block}\n\n"), rest.to_owned());
                self.body = rest;
                if block != ":\n\n" {
                    return block;
                }
                continue;
            }
            assert!(!self.is_over && self.read().await > 0, "the stream ended before: {}", self.body);
        }
    }

    /// The next so many blocks.
    pub async fn blocks(&mut self, count: usize) -> String {
        let mut all = String::new();
        for _ in 0..count {
            all.push_str(&self.block().await);
        }
        all
    }

    /// What comes up to the first sign of life.
    pub async fn until_joined(&mut self) -> String {
        let mut all = String::new();
        loop {
            let block = self.block().await;
            all.push_str(&block);
            if !block.contains("event: ") {
                return all;
            }
        }
    }

    /// Everything that comes until the stream ends.
    pub async fn rest(&mut self) -> String {
        loop {
            self.decode();
            if self.is_over || self.read().await == 0 {
                self.decode();
                let rest = std::mem::take(&mut self.body);
                return rest.split_inclusive("\n\n").filter(|block| *block != ":\n\n").collect();
            }
        }
    }
}

async fn live(server: &TestServer, token: &str, cursor: Option<&str>) -> Stream {
    let cursor = cursor.map(|cursor| format!("last-event-id: {cursor}\r\n")).unwrap_or_default();
    let lines = format!("origin: https://app.test\r\nauthorization: Bearer {token}\r\n{cursor}");
    Stream::open(server.address, "GET /api/live", &lines, "").await
}

#[tokio::test(flavor = "multi_thread")]
async fn streams() {
    if !is_recorded() {
        return;
    }
    let server = recorded_server(|settings| settings.streams_per_caller_max = 2, true).await;
    let people = People::of(&server).await;
    let to = &mut Recording::of(&server);
    let admin = people.as_admin();
    let found = admin.read(&format!("{ACME}/users?email=ada@acme.test")).await;
    let user = format!("{ACME}/users/{}", text(&found["items"][0], "id"));
    let found = admin.read(&format!("{ACME}/subscriptions")).await;
    let subscription = format!("{ACME}/subscriptions/{}", text(&found["items"][0], "id"));
    let mut browser = server.browser();
    browser.sign_in("acme", "ada@acme.test").await;
    let given =
        tokens_of(&server, &mut browser, &Ask::of(&server, "spa").with("scope", "openid profile")).await;
    let key = server.demo.api_key.clone();
    let state = to.send(&server, "the state of the service", get("/api/service/state").by("key", &key)).await;
    let cursor = state.text("last_event_id");

    to.section("Two streams and what changes them");
    let mut of_user = live(&server, &given.text("access_token"), None).await;
    let mut of_key = live(&server, &key, Some(&cursor)).await;
    for (what, stream) in [("of a user", &mut of_user), ("of a service", &mut of_key)] {
        let call = get("/api/live").by(what, "").header("origin", "https://app.test");
        to.record(what, &call, &stream.head);
        let first = stream.blocks(1).await;
        to.add_stream("its first event", &first);
    }
    let sessions = admin.read(&format!("{user}/sessions")).await;
    let session = text(&sessions["items"][0], "id").to_owned();
    for (what, method, path, body) in [
        ("another plan", "PATCH", subscription.clone(), json!({ "plan": "starter" })),
        (
            "past due",
            "PATCH",
            subscription.clone(),
            json!({ "status": "past_due", "current_period_end": "2027-02-01T00:00:00Z" }),
        ),
        (
            "the plan has other features",
            "PATCH",
            format!("{ACME}/plans/starter"),
            json!({ "features": ["teleport"] }),
        ),
        ("another name", "PATCH", user.clone(), json!({ "name": "Countess" })),
        (
            "another name of the service",
            "PATCH",
            format!("{ACME}/services/sketch"),
            json!({ "name": "Sketchbook" }),
        ),
    ] {
        admin.change(method, &path, body).await;
        let (one, other) = (of_user.blocks(1).await, of_key.blocks(1).await);
        to.add_stream(&format!("{what}: the user"), &one);
        to.add_stream(&format!("{what}: the service"), &other);
    }
    admin.change("DELETE", &format!("{user}/sessions/{session}"), Value::Null).await;
    let (last, ended) = (of_user.rest().await, of_key.blocks(1).await);
    to.add_stream("the session ends: the user, to the end", &last);
    to.add_stream("the session ends: the service", &ended);

    to.section("How streams begin");
    let mut again = live(&server, &key, Some(&cursor)).await;
    let resumed = again.until_joined().await;
    to.add_stream("resumed from the state", &resumed);
    to.send(&server, "one stream too many", get("/api/live").by("key", &key)).await;
    drop(again);
    let admin_key = json!({ "name": "Copy", "service": "sketch" });
    let made = admin.make(&format!("{ACME}/keys"), admin_key).await;
    let mut lost = live(&server, text(&made, "key"), Some("7")).await;
    let reset = lost.rest().await;
    to.add_stream("from a cursor that is none, to the end", &reset);
    let mut ends = live(&server, text(&made, "key"), None).await;
    let joined = ends.blocks(1).await;
    to.add_stream("without a cursor", &joined);
    let key = format!("{ACME}/keys/{}", text(&made, "id"));
    admin.change("DELETE", &key, Value::Null).await;
    let bye = ends.rest().await;
    to.add_stream("its key is revoked, to the end", &bye);
    to.send(&server, "with the key that was revoked", get("/api/live").by("copy", text(&made, "key"))).await;
    to.send(&server, "with a token of those who administer", get("/api/live").by("admin", &people.admin))
        .await;
    to.send(&server, "HEAD", call("HEAD", "/api/live")).await;

    let grace = tokens(&server, "grace@acme.test", "openid").await.text("access_token");
    let mut stopped = live(&server, &grace, None).await;
    let first = stopped.blocks(1).await;
    to.add_stream("of a user without a subscription", &first);
    let stopping = tokio::spawn(async move { stopped.rest().await });
    server.stop().await;
    to.add_stream("the server stops: a user, to the end", &stopping.await.expect("ends"));
    let bye = of_key.rest().await;
    to.add_stream("the server stops: the service, to the end", &bye);
    insta::assert_snapshot!("streams", to.finish());
}
