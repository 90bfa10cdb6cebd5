//! The request log: one line a request, with its method, route, status and duration, and never a value of its query.
//!
//! A request writes its line into a buffer in memory. A thread writes the buffer to stderr, so that no request waits for
//! a terminal or a disk. Lines that find the buffer full are dropped and counted. The lines look like those of the log,
//! whose own path costs ten times as much ([0050](../../../../docs/design/0050-the-request-log-writes-its-own-lines.md)).

use http::Method;
use parking_lot::{Condvar, Mutex};
use std::io::Write;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The bytes that wait at most.
const WAITING_MAX: usize = 1024 * 1024;
/// The longest line.
const LINE_MAX: usize = 640;
/// A method of a client may be longer; its rest is cut.
const METHOD_MAX: usize = 20;
/// How long the writer lets lines gather: waking it for each one would cost more than the rest.
const GATHER: Duration = Duration::from_millis(50);

/// How long the end of the log waits for its last lines.
const LAST_LINES: Duration = Duration::from_secs(2);

/// What the lines look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestLogFormat {
    /// `2026-11-23T01:30:00.123Z  INFO request: answered method=GET …`
    Text,
    /// One object a line.
    Json,
}

/// The log, when it is on.
pub struct RequestLog {
    queue: Arc<Queue>,
    format: RequestLogFormat,
    is_started: bool,
}

/// A request that was answered.
pub struct Entry<'a> {
    /// Milliseconds since 1970.
    pub at_ms: i64,
    /// The method of the request.
    pub method: &'a Method,
    /// The pattern of the route.
    pub route: &'static str,
    /// The status of the response.
    pub status: u16,
    /// From the request's head to the response's.
    pub duration: Duration,
    /// Has no characters that need an escape.
    pub request_id: &'a [u8],
    /// The client's address.
    pub address: IpAddr,
    /// The client that it authenticated.
    pub client: Option<&'a str>,
}

struct Queue {
    lines: Mutex<Lines>,
    /// There is a line, or no more will come; or the last one was written.
    filled: Condvar,
    dropped: AtomicU64,
}

struct Lines {
    /// Never grows beyond its capacity, so that no request waits for memory.
    text: Vec<u8>,
    second: Second,
    is_closed: bool,
    is_written: bool,
}

/// The second of the last line, as text: most lines share it with the line before.
#[derive(Default)]
struct Second {
    number: i64,
    text: String,
}

impl RequestLog {
    /// Starts the writer.
    pub fn start(format: RequestLogFormat, to: impl Write + Send + 'static) -> RequestLog {
        let queue = Arc::new(Queue::new());
        let written = queue.clone();
        let writer = std::thread::Builder::new().name("request-log".into()).spawn(move || written.write(to));
        let writer = writer.inspect_err(|error| tracing::error!(%error, "the request log could not start"));
        RequestLog { queue, format, is_started: writer.is_ok() }
    }

    /// Logs a request that was answered.
    pub fn push(&self, entry: &Entry<'_>) {
        self.queue.push(self.format, entry);
    }

    /// Lines that found the buffer full.
    pub fn dropped(&self) -> u64 {
        self.queue.dropped.load(Relaxed)
    }
}

impl Drop for RequestLog {
    fn drop(&mut self) {
        let mut lines = self.queue.lines.lock();
        lines.is_closed = true;
        self.queue.filled.notify_all();
        if self.is_started {
            // If nobody reads a pipe, its last lines must not hold up the end of the process.
            self.queue.filled.wait_while_for(&mut lines, |lines| !lines.is_written, LAST_LINES);
        }
    }
}

impl Queue {
    fn new() -> Queue {
        let text = Vec::with_capacity(WAITING_MAX);
        let lines = Lines { text, second: Second::default(), is_closed: false, is_written: false };
        Queue { lines: Mutex::new(lines), filled: Condvar::new(), dropped: AtomicU64::new(0) }
    }

    fn push(&self, format: RequestLogFormat, entry: &Entry<'_>) {
        let mut lines = self.lines.lock();
        if lines.text.len() + LINE_MAX > WAITING_MAX {
            drop(lines);
            self.dropped.fetch_add(1, Relaxed);
            return;
        }
        let is_first = lines.text.is_empty();
        lines.add(format, entry);
        drop(lines);
        if is_first {
            self.filled.notify_one();
        }
    }

    fn write(&self, mut to: impl Write) {
        let mut batch = Vec::with_capacity(WAITING_MAX);
        loop {
            let mut lines = self.lines.lock();
            self.filled.wait_while(&mut lines, |lines| lines.text.is_empty() && !lines.is_closed);
            self.filled.wait_while_for(&mut lines, |lines| !lines.is_closed, GATHER);
            std::mem::swap(&mut batch, &mut lines.text);
            let is_closed = lines.is_closed;
            drop(lines);
            // Without stderr there is no place to complain about it.
            let _ = to.write_all(&batch);
            batch.clear();
            if is_closed {
                self.lines.lock().is_written = true;
                self.filled.notify_all();
                return;
            }
        }
    }
}

impl Lines {
    fn add(&mut self, format: RequestLogFormat, entry: &Entry<'_>) {
        match format {
            RequestLogFormat::Text => self.add_text(entry),
            RequestLogFormat::Json => self.add_json(entry),
        }
    }

    fn add_text(&mut self, entry: &Entry<'_>) {
        let out = &mut self.text;
        self.second.add(out, entry.at_ms);
        out.extend_from_slice(b"Z  INFO request: answered method=");
        out.extend_from_slice(method(entry));
        out.extend_from_slice(b" route=\"");
        out.extend_from_slice(entry.route.as_bytes());
        out.extend_from_slice(b"\" status=");
        out.extend_from_slice(&three(entry.status.into()));
        out.extend_from_slice(b" duration_ms=");
        add_millis(out, entry.duration);
        out.extend_from_slice(b" request_id=\"");
        out.extend_from_slice(entry.request_id);
        out.extend_from_slice(b"\" address=");
        add_address(out, entry.address);
        if let Some(client) = entry.client {
            out.extend_from_slice(b" client=\"");
            out.extend_from_slice(client.as_bytes());
            out.push(b'"');
        }
        out.push(b'\n');
    }

    fn add_json(&mut self, entry: &Entry<'_>) {
        let out = &mut self.text;
        out.extend_from_slice(b"{\"timestamp\":\"");
        self.second.add(out, entry.at_ms);
        out.extend_from_slice(b"Z\",\"level\":\"INFO\",\"message\":\"answered\",\"method\":\"");
        out.extend_from_slice(method(entry));
        out.extend_from_slice(b"\",\"route\":\"");
        out.extend_from_slice(entry.route.as_bytes());
        out.extend_from_slice(b"\",\"status\":");
        out.extend_from_slice(&three(entry.status.into()));
        out.extend_from_slice(b",\"duration_ms\":");
        add_millis(out, entry.duration);
        out.extend_from_slice(b",\"request_id\":\"");
        out.extend_from_slice(entry.request_id);
        out.extend_from_slice(b"\",\"address\":\"");
        add_address(out, entry.address);
        if let Some(client) = entry.client {
            out.extend_from_slice(b"\",\"client\":\"");
            out.extend_from_slice(client.as_bytes());
        }
        out.extend_from_slice(b"\",\"target\":\"request\"}\n");
    }
}

fn method<'a>(entry: &Entry<'a>) -> &'a [u8] {
    let method = entry.method.as_str().as_bytes();
    &method[..method.len().min(METHOD_MAX)]
}

impl Second {
    /// Adds `2026-11-23T01:30:00.123`.
    fn add(&mut self, out: &mut Vec<u8>, at_ms: i64) {
        let (number, millis) = (at_ms.div_euclid(1000), at_ms.rem_euclid(1000));
        if self.number != number || self.text.is_empty() {
            let time = jiff::Timestamp::from_second(number).unwrap_or_default();
            self.number = number;
            self.text = time.strftime("%Y-%m-%dT%H:%M:%S.").to_string();
        }
        out.extend_from_slice(self.text.as_bytes());
        out.extend_from_slice(&three(millis.unsigned_abs()));
    }
}

/// A number below 1000 with three digits.
fn three(number: u64) -> [u8; 3] {
    THREE[number as usize % 1000]
}

static THREE: [[u8; 3]; 1000] = THREE_DIGITS;

/// Three digits of each number below 1000.
const THREE_DIGITS: [[u8; 3]; 1000] = {
    let (mut all, mut number) = ([[0; 3]; 1000], 0);
    while number < 1000 {
        let digits = [number / 100, number / 10 % 10, number % 10];
        all[number] = [b'0' + digits[0] as u8, b'0' + digits[1] as u8, b'0' + digits[2] as u8];
        number += 1;
    }
    all
};

/// Adds a number below 1000 without zeros before it.
fn add_short(out: &mut Vec<u8>, number: u64) {
    let [hundreds, tens, ones] = three(number);
    match number {
        100.. => out.extend_from_slice(&[hundreds, tens, ones]),
        10.. => out.extend_from_slice(&[tens, ones]),
        _ => out.push(ones),
    }
}

/// Adds milliseconds with three decimals.
fn add_millis(out: &mut Vec<u8>, duration: Duration) {
    let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    match micros / 1000 {
        millis @ ..1000 => add_short(out, millis),
        // A Vec accepts all that is written to it.
        millis => drop(write!(out, "{millis}")),
    }
    out.push(b'.');
    out.extend_from_slice(&three(micros % 1000));
}

fn add_address(out: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => {
            let (mut text, mut end) = ([0; 16], 0);
            for octet in address.octets() {
                let (digits, length) = OCTETS[usize::from(octet)];
                text[end..end + 4].copy_from_slice(&digits);
                end += length;
            }
            // Without the dot behind the last one.
            out.extend_from_slice(&text[..end - 1]);
        }
        IpAddr::V6(address) => drop(write!(out, "{address}")),
    }
}

/// The digits of a byte with a dot behind them, and how many bytes these are.
static OCTETS: [([u8; 4], usize); 256] = {
    let (mut all, mut number) = ([([0; 4], 0); 256], 0);
    while number < 256 {
        let [hundreds, tens, ones] = THREE_DIGITS[number];
        all[number] = match number {
            100.. => ([hundreds, tens, ones, b'.'], 4),
            10.. => ([tens, ones, b'.', 0], 3),
            _ => ([ones, b'.', 0, 0], 2),
        };
        number += 1;
    }
    all
};

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    static GET: Method = Method::GET;

    fn entry<'a>() -> Entry<'a> {
        Entry {
            at_ms: 1_800_000_000_007,
            method: &GET,
            route: "/o/{slug}/login",
            status: 200,
            duration: Duration::from_micros(12_045),
            request_id: b"0123456789abcdef",
            address: IpAddr::from([127, 0, 0, 1]),
            client: None,
        }
    }

    fn line(format: RequestLogFormat, entry: &Entry<'_>) -> String {
        let queue = Queue::new();
        queue.push(format, entry);
        String::from_utf8(queue.lines.lock().text.clone()).expect("text")
    }

    #[test]
    fn a_line_looks_like_the_others_of_the_log() {
        assert_eq!(
            line(RequestLogFormat::Text, &entry()),
            "2027-01-15T08:00:00.007Z  INFO request: answered method=GET route=\"/o/{slug}/login\" status=200 \
             duration_ms=12.045 request_id=\"0123456789abcdef\" address=127.0.0.1\n"
        );
        let with_client = line(RequestLogFormat::Text, &Entry { client: Some("cli"), ..entry() });
        assert!(with_client.ends_with(" address=127.0.0.1 client=\"cli\"\n"), "{with_client}");
    }

    #[test]
    fn every_byte_of_an_address_is_written_as_elsewhere() {
        for octet in 0..=255 {
            let address = IpAddr::from([octet, 0, 10, 255 - octet]);
            let line = line(RequestLogFormat::Text, &Entry { address, ..entry() });
            assert!(line.ends_with(&format!(" address={address}\n")), "{line}");
        }
    }

    #[test]
    fn a_line_of_json_is_an_object() {
        let of = |client| -> Value {
            let address = IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1]);
            let entry = Entry { client, address, duration: Duration::from_micros(9), ..entry() };
            let line = line(RequestLogFormat::Json, &entry);
            serde_json::from_str(&line).expect("JSON")
        };
        let expected = json!({
            "timestamp": "2027-01-15T08:00:00.007Z", "level": "INFO", "message": "answered", "method": "GET",
            "route": "/o/{slug}/login", "status": 200, "duration_ms": 0.009, "request_id": "0123456789abcdef",
            "address": "2001:db8::1", "client": "cli", "target": "request",
        });
        assert_eq!(of(Some("cli")), expected);
        assert_eq!(of(None)["client"], Value::Null);
    }

    #[test]
    fn the_longest_line_fits() {
        let method = Method::from_bytes(&[b'M'; 500]).expect("a method");
        let (id, client) = ("a".repeat(128), format!("client_{}", "0".repeat(26)));
        let entry = Entry {
            method: &method,
            route: "/api/organizations/{org}/clients/{client}/secrets/{secret}/of/a/route/that/is/even/longer",
            duration: Duration::MAX,
            request_id: id.as_bytes(),
            address: IpAddr::from([0xffff; 8]),
            client: Some(&client),
            ..entry()
        };
        let line = line(RequestLogFormat::Json, &entry);
        assert!(line.len() <= LINE_MAX, "{}: {line}", line.len());
    }

    #[test]
    fn a_full_buffer_drops_and_counts() {
        let queue = Queue::new();
        let mut pushed = 0;
        while queue.dropped.load(Relaxed) < 3 {
            queue.push(RequestLogFormat::Text, &entry());
            pushed += 1;
        }
        let capacity = queue.lines.lock().text.capacity();
        assert!(capacity == WAITING_MAX, "{capacity}");
        queue.lines.lock().is_closed = true;
        let mut written = Vec::new();
        queue.write(&mut written);
        let lines = written.iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(lines, pushed - 3, "the rest is written at the end");
    }
}
