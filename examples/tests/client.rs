//! An app that runs for a test, and a client without anything between the test and the socket.

use live::{App, Running, Settings};
use serde_json::Value;
use std::net::SocketAddr;
use std::time::Duration;
use store::testing::TestPlace;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

/// No step of a test takes longer.
const LIMIT: Duration = Duration::from_secs(20);

/// A running app on a database of its own.
pub struct TestApp {
    pub address: SocketAddr,
    running: Running,
    _place: TestPlace,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    head: String,
    pub body: String,
}

/// The events of a stream.
pub struct Events(BufReader<TcpStream>);

impl TestApp {
    /// Serves an app, and checks what its commands and queries declare.
    pub async fn start(app: App) -> TestApp {
        TestApp::start_on(TestPlace::create(), app).await
    }

    /// The same on a database that has been filled.
    pub async fn start_on(place: TestPlace, app: App) -> TestApp {
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let settings = Settings { check: true, ..Settings::new(place.url(), listen) };
        TestApp::start_with(place, app, settings).await
    }

    /// The same with settings of the test's own.
    pub async fn start_with(place: TestPlace, app: App, settings: Settings) -> TestApp {
        let settings = Settings { allowed_hosts: vec!["example.test".to_owned()], ..settings };
        let running = live::serve(app, settings).await.expect("the app is served");
        TestApp { address: running.address, running, _place: place }
    }

    pub async fn stop(self) {
        self.running.stop().await;
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], "").await
    }

    /// Sends a JSON body.
    pub async fn json(&self, method: &str, path: &str, body: &Value) -> Answer {
        self.send(method, path, &[("content-type", "application/json")], &body.to_string()).await
    }

    /// Calls a query or mutation.
    pub async fn call(&self, token: &str, name: &str, args: &Value) -> Answer {
        let authorization = format!("Bearer {token}");
        let mut headers = vec![("content-type", "application/json")];
        if !token.is_empty() {
            headers.push(("authorization", &authorization));
        }
        self.send("POST", &format!("/rpc/{name}"), &headers, &args.to_string()).await
    }

    pub async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let exchange = async {
            let mut connection = self.request(method, path, headers, body).await;
            let mut bytes = Vec::new();
            connection.read_to_end(&mut bytes).await.expect("an answer");
            String::from_utf8(bytes).expect("text")
        };
        let text = tokio::time::timeout(LIMIT, exchange).await.expect("an answer in time");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        Answer { status, head: head.to_owned(), body: body.to_owned() }
    }

    /// Opens a stream.
    pub async fn events(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Events {
        let mut events = Events(BufReader::new(self.request(method, path, headers, body).await));
        let status = events.line().await;
        assert!(status.starts_with("HTTP/1.1 200"), "{status}");
        events
    }

    async fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> TcpStream {
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: example.test\r\nconnection: close\r\n");
        headers.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
        head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
        let mut connection = TcpStream::connect(self.address).await.expect("a connection");
        connection.write_all(format!("{head}{body}").as_bytes()).await.expect("sent");
        connection
    }
}

impl Answer {
    /// A header, or nothing.
    pub fn header(&self, name: &str) -> &str {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines
            .filter(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
            .next()
            .unwrap_or("")
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Status and code of a problem document.
    pub fn problem(&self) -> (u16, String) {
        assert_eq!(self.header("content-type"), "application/problem+json", "{self:?}");
        (self.status, self.json()["code"].as_str().expect("a code").to_owned())
    }
}

impl Events {
    /// The name and the data of the next event.
    pub async fn any(&mut self) -> (String, Value) {
        let mut name = String::new();
        loop {
            let line = self.line().await;
            if let Some(found) = line.strip_prefix("event: ") {
                found.clone_into(&mut name);
            } else if let Some(data) = line.strip_prefix("data: ") {
                return (name, serde_json::from_str(data).expect("JSON"));
            }
        }
    }

    /// The data of the next event with this name.
    pub async fn next(&mut self, name: &str) -> Value {
        loop {
            let (found, data) = self.any().await;
            if found == name {
                return data;
            }
        }
    }

    /// The next value of a live query that satisfies `wanted`.
    pub async fn until(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let value = self.next("value").await["value"].take();
            if wanted(&value) {
                return value;
            }
        }
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        let read = tokio::time::timeout(LIMIT, self.0.read_line(&mut line)).await.expect("an event in time");
        assert_ne!(read.expect("a line"), 0, "the stream ended");
        line.trim_end().to_owned()
    }
}
