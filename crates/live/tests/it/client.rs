//! A client over a bare socket: calls, and streams of events.

use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Longer than everything that a test waits for.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Clone, Copy)]
pub struct Client<'a> {
    pub address: SocketAddr,
    pub token: Option<&'a str>,
}

pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    /// The value of a header. Names and values are in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(found, _)| *found == name).map(|(_, value)| value).next()
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("not JSON: {}", self.body))
    }
}

impl<'a> Client<'a> {
    pub fn new(address: SocketAddr, token: &'a str) -> Client<'a> {
        Client { address, token: Some(token).filter(|token| !token.is_empty()) }
    }

    pub fn call(&self, name: &str, args: Value) -> Answer {
        self.send("POST", &format!("/rpc/{name}"), &[], &args.to_string())
    }

    /// Calls, and fails unless the answer is 200. Returns the value.
    pub fn value(&self, name: &str, args: Value) -> Value {
        let answer = self.call(name, args);
        assert_eq!(answer.status, 200, "{name}: {}", answer.body);
        answer.json()["value"].clone()
    }

    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut reader = self.request(method, path, headers, body, "close");
        let (status, head) = read_head(&mut reader);
        let mut bytes = Vec::new();
        let _ = reader.read_to_end(&mut bytes);
        let body = String::from_utf8(bytes).expect("UTF-8");
        let body = if head.contains("chunked") { unchunk(&body) } else { body };
        Answer { status, head, body }
    }

    /// The status of a request, whose connection stays open.
    pub fn send_open(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> (u16, BufReader<TcpStream>) {
        let mut reader = self.request(method, path, headers, body, "keep-alive");
        (read_head(&mut reader).0, reader)
    }

    fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
        connection: &str,
    ) -> BufReader<TcpStream> {
        let mut socket = TcpStream::connect(self.address).expect("the server listens");
        socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: {connection}\r\n");
        if let Some(token) = self.token {
            head += &format!("Authorization: Bearer {token}\r\n");
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += &format!("Content-Length: {}\r\n\r\n", body.len());
        socket.write_all((head + body).as_bytes()).expect("the server reads");
        BufReader::new(socket)
    }

    /// Opens a stream with these subscriptions.
    pub fn live(&self, subscriptions: Value) -> Events {
        let body = json!({ "subscriptions": subscriptions }).to_string();
        self.events("POST", "/live", &body)
    }

    pub fn events(&self, method: &str, path: &str, body: &str) -> Events {
        let mut reader = self.request(method, path, &[], body, "keep-alive");
        let (status, head) = read_head(&mut reader);
        assert_eq!(status, 200, "{head}");
        assert!(head.contains("text/event-stream") && head.contains("chunked"), "{head}");
        Events { reader, buffer: String::new(), ready: VecDeque::new(), bytes: 0 }
    }
}

fn read_head(reader: &mut BufReader<TcpStream>) -> (u16, String) {
    let mut head = String::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a head");
        if line == "\r\n" || line.is_empty() {
            break;
        }
        head += &line.to_lowercase();
    }
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    (status, head)
}

fn unchunk(mut text: &str) -> String {
    let mut all = String::new();
    while let Some((size, rest)) = text.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).expect("a size");
        if size == 0 {
            break;
        }
        all += &rest[..size];
        text = &rest[size + 2..];
    }
    all
}

/// An event of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub name: String,
    pub id: String,
    pub data: Value,
    pub retry: Option<u64>,
}

impl Event {
    pub fn value(&self) -> &Value {
        &self.data["value"]
    }
}

pub struct Events {
    reader: BufReader<TcpStream>,
    buffer: String,
    ready: VecDeque<Event>,
    /// Received so far, without framing.
    pub bytes: usize,
}

impl Events {
    /// The next event; `None` at the end of the stream. Comments are passed over.
    pub fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if !self.read_chunk() {
                return None;
            }
        }
    }

    /// Reads what has come. False at the end of the stream.
    fn read_chunk(&mut self) -> bool {
        let mut size = String::new();
        self.reader.read_line(&mut size).expect("the next chunk in time");
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        let mut chunk = vec![0; size + 2];
        if size == 0 || self.reader.read_exact(&mut chunk).is_err() {
            return false;
        }
        self.bytes += size;
        self.buffer += std::str::from_utf8(&chunk[..size]).expect("UTF-8");
        while let Some((text, rest)) = self.buffer.split_once("\n\n") {
            let event = parse(text);
            self.buffer = rest.to_owned();
            self.ready.extend(event);
        }
        true
    }

    /// Reads a comment, which must come before any event.
    pub fn expect_comment(&mut self) {
        let (bytes, before) = (self.bytes, self.ready.len());
        assert_eq!(before, 0, "{:?}", self.ready);
        while self.bytes == bytes {
            self.read_chunk().then_some(()).expect("the stream goes on");
        }
        assert!(self.ready.is_empty(), "{:?}", self.ready);
    }

    /// The next event, which must have this name.
    pub fn expect(&mut self, name: &str) -> Event {
        let event = self.next().unwrap_or_else(|| panic!("the stream ended; expected {name}"));
        assert_eq!(event.name, name, "{event:?}");
        event
    }

    /// Reads values until one is as wanted.
    pub fn until(&mut self, wanted: impl Fn(&Value) -> bool) -> Event {
        loop {
            let event = self.next().expect("the stream goes on");
            if event.name == "value" && wanted(event.value()) {
                return event;
            }
        }
    }
}

fn parse(text: &str) -> Option<Event> {
    let mut event = Event { name: String::new(), id: String::new(), data: Value::Null, retry: None };
    for line in text.lines() {
        match line.split_once(": ").unwrap_or((line, "")) {
            ("event", name) => event.name = name.to_owned(),
            ("id", id) => event.id = id.to_owned(),
            ("data", data) => event.data = serde_json::from_str(data).expect("JSON"),
            ("retry", retry) => event.retry = retry.parse().ok(),
            _ => {}
        }
    }
    (!event.name.is_empty()).then_some(event)
}
