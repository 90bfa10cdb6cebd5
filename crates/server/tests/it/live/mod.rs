//! `GET /api/live` and `GET /api/service/state`: what changes is on the open stream at once, in its order, and nothing from
//! after the end of a session, a key or an organization.
//!
//! - `of_a_user.rs`, `of_a_service.rs`: what the streams have.
//! - `resuming.rs`: streams that go on from a cursor. `ends.rs`: how streams end, and how many there are.
//! - `state.rs`: the pages of the state.

#![allow(clippy::disallowed_methods, reason = "tests connect to their own server")]

mod ends;
mod of_a_service;
mod of_a_user;
mod resuming;
mod state;

use crate::support::{Admin, text};
use serde_json::{Value, json};
use server::testing::TestServer;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const STATE: &str = "/api/service/state";

/// An event as a client dispatches it. A sign of life has no name.
#[derive(Debug, Clone)]
struct Event {
    name: String,
    id: Option<String>,
    retry: Option<u64>,
    data: Value,
}

/// A client of a stream: HTTP/1.1 and Server-Sent Events, and nothing that hides what came.
struct Live {
    socket: TcpStream,
    buffer: Vec<u8>,
    /// The head of the response.
    head: String,
    /// The decoded body that is not read yet.
    body: String,
    is_over: bool,
}

impl Live {
    /// Opens a stream that may be refused.
    async fn request(server: &TestServer, token: &str, cursor: Option<&str>) -> Live {
        let mut socket = TcpStream::connect(server.address).await.expect("connects");
        let cursor = cursor.map(|cursor| format!("last-event-id: {cursor}\r\n")).unwrap_or_default();
        let request = format!(
            "GET /api/live HTTP/1.1\r\nhost: localhost\r\norigin: https://app.test\r\nauthorization: Bearer {token}\r\n{cursor}\r\n"
        );
        socket.write_all(request.as_bytes()).await.expect("writes");
        let mut live =
            Live { socket, buffer: Vec::new(), head: String::new(), body: String::new(), is_over: false };
        while live.head.is_empty() {
            if let Some(end) = live.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                live.head = String::from_utf8_lossy(&live.buffer[..end]).to_ascii_lowercase();
                live.buffer.drain(..end + 4);
            } else if live.read().await == 0 {
                panic!("no response");
            }
        }
        live
    }

    async fn open(server: &TestServer, token: &str, cursor: Option<&str>) -> Live {
        let live = Live::request(server, token, cursor).await;
        assert!(live.head.starts_with("http/1.1 200"), "{}", live.head);
        for header in
            ["content-type: text/event-stream", "cache-control: no-store", "access-control-allow-origin: *"]
        {
            assert!(live.head.contains(header), "{header} in {}", live.head);
        }
        live
    }

    fn status(&self) -> u16 {
        self.head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
    }

    async fn read(&mut self) -> usize {
        let read = tokio::time::timeout(Duration::from_secs(20), self.socket.read_buf(&mut self.buffer));
        read.await.expect("the stream went on").unwrap_or(0)
    }

    /// Decodes the chunks that are complete.
    fn decode(&mut self) {
        while let Some(line) = self.buffer.windows(2).position(|window| window == b"\r\n") {
            let length = String::from_utf8_lossy(&self.buffer[..line]).into_owned();
            let length = usize::from_str_radix(&length, 16).expect("a chunk");
            if self.buffer.len() < line + 2 + length + 2 {
                return;
            }
            if length == 0 {
                self.is_over = true;
                return;
            }
            self.body += std::str::from_utf8(&self.buffer[line + 2..line + 2 + length]).expect("UTF-8");
            self.buffer.drain(..line + 2 + length + 2);
        }
    }

    /// The next event, or sign of life; `None` at the end of the stream.
    async fn next_or_beat(&mut self) -> Option<Event> {
        loop {
            self.decode();
            if let Some((block, rest)) = self.body.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.body = rest;
                return Some(Event::parse(&block));
            }
            if self.is_over || self.read().await == 0 {
                return None;
            }
        }
    }

    /// The next event; `None` at the end of the stream.
    async fn next(&mut self) -> Option<Event> {
        loop {
            let event = self.next_or_beat().await?;
            if !event.name.is_empty() {
                return Some(event);
            }
        }
    }

    /// The next event, which has this name.
    async fn expect(&mut self, name: &str) -> Event {
        let event = self.next().await.unwrap_or_else(|| panic!("the stream ended before {name}"));
        assert_eq!(event.name, name, "{event:?}");
        event
    }

    /// Waits until the stream has joined the others: its first sign of life has its cursor.
    async fn joined(&mut self) -> String {
        let event = self.next_or_beat().await.expect("a sign of life");
        assert!(event.name.is_empty(), "{event:?}");
        event.id.expect("a cursor")
    }
}

impl Event {
    fn parse(block: &str) -> Event {
        let mut event = Event { name: String::new(), id: None, retry: None, data: Value::Null };
        for line in block.lines() {
            match line.split_once(':').unwrap_or((line, "")) {
                ("event", name) => name.trim().clone_into(&mut event.name),
                ("id", id) => event.id = Some(id.trim().to_owned()),
                ("retry", retry) => event.retry = retry.trim().parse().ok(),
                ("data", data) => event.data = serde_json::from_str(data).expect("JSON"),
                ("", _) => {}
                other => panic!("{other:?}"),
            }
        }
        event
    }
}

/// The back end of the service, and its key.
fn back_end(server: &TestServer) -> Admin<'_> {
    Admin { server, token: server.demo.api_key.clone() }
}

async fn owner(server: &TestServer) -> Admin<'_> {
    Admin::sign_in(server, "admin@acme.test", "org:acme").await
}

/// Ada's id and the path of her subscription.
async fn ada(owner: &Admin<'_>) -> (String, String) {
    let user = owner.read("/api/organizations/acme/users?email=ada@acme.test").await;
    let user = text(&user["items"][0], "id").to_owned();
    let found = owner.read(&format!("/api/organizations/acme/subscriptions?user={user}")).await;
    (user, format!("/api/organizations/acme/subscriptions/{}", text(&found["items"][0], "id")))
}

async fn set_plan(owner: &Admin<'_>, subscription: &str, plan: &str) {
    owner.change("PATCH", subscription, json!({ "plan": plan })).await;
}
