//! What the server and a live back end answer, recorded over HTTP: every route, and every kind of error that one request can
//! get. A change of the inside leaves these files as they are; whoever changes one of them changes what clients see, and
//! names it in CHANGELOG.
//!
//! - `masks.rs`: placeholders for ids, secrets and tokens. `shown.rs`: how an answer is written down.
//! - `server_wide.rs`, `refusals.rs`: what all routes have in common. Most other files are areas, each a
//!   snapshot.
//! - `back_end.rs` records `notes.rs`, a back end on the crate `live`.
//! - `complete.rs`: no route and no error code is left out.
//!
//! A request is recorded as `METHOD path`, with who sends it and its other headers; `>` begins a line of its body, `<` the
//! head of the answer. The clock stands still. What a page looks like in HTML is in the snapshots of `pages.rs`, and what
//! each route says of wrong fields is in those of `http/field_errors.rs`: neither is repeated here.
//!
//! Recorded on SQLite only: what differs between databases is in the tests of each story.

mod administration;
mod back_end;
mod billing;
mod catalog;
mod complete;
mod mail;
mod masks;
mod notes;
mod oauth;
mod page_flows;
mod platform;
mod programs;
mod refusals;
mod server_wide;
mod shown;
mod streams;
mod users;

use crate::support::{Admin, VERIFIER, admin_token};
use browser::Cookies;
use identity::secrets::Random;
use identity::secrets::testing::Seeded;
use masks::Masks;
use serde_json::Value;
use server::Settings;
use server::testing::{Answer, Kind, TestServer, kind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub const ACME: &str = "/api/organizations/acme";
/// A longer body is named by its size.
const BODY_MAX: usize = 1000;

/// Whether this run records: see the module.
pub fn is_recorded() -> bool {
    kind() == Kind::Sqlite
}

/// Random bytes of a seed. Ids sort in the order in which they were made, also those of one millisecond, so that lists have
/// an order that does not depend on how many bytes something else has drawn.
struct Ordered {
    seeded: Seeded,
    ids: AtomicU64,
}

/// The random part of an id.
const ID_BYTES: usize = 10;

impl Random for Ordered {
    fn fill(&self, bytes: &mut [u8]) {
        self.seeded.fill(bytes);
        if bytes.len() == ID_BYTES {
            // Of the first three bytes an id keeps 4, 8 and 6 bits.
            let number = self.ids.fetch_add(1, Ordering::Relaxed);
            bytes[0] = (number >> 14) as u8;
            bytes[1] = (number >> 6) as u8;
            bytes[2] = (number & 0x3f) as u8;
        }
    }
}

/// A server to record. Nothing that it sends depends on the wall clock.
pub async fn recorded_server(change: impl FnOnce(&mut Settings), with_demo: bool) -> TestServer {
    let random = Ordered { seeded: Seeded::new(40), ids: AtomicU64::new(0) };
    let settings = |settings: &mut Settings| {
        settings.stream_heartbeat = Duration::from_secs(3600);
        settings.hold_max = Duration::ZERO;
        change(settings);
    };
    TestServer::start_drawing(Arc::new(random), settings, with_demo).await
}

/// A request to record.
#[derive(Clone)]
pub struct Call {
    method: String,
    path: String,
    /// How the recording names who sends it, and the token.
    by: Option<(String, String)>,
    headers: Vec<(String, String)>,
    unseen: Vec<(String, String)>,
    body: Vec<u8>,
}

pub fn call(method: &str, path: impl Into<String>) -> Call {
    Call {
        method: method.to_owned(),
        path: path.into(),
        by: None,
        headers: Vec::new(),
        unseen: Vec::new(),
        body: Vec::new(),
    }
}

pub fn get(path: impl Into<String>) -> Call {
    call("GET", path)
}

pub fn post(path: impl Into<String>) -> Call {
    call("POST", path)
}

impl Call {
    /// With a bearer token.
    pub fn by(mut self, name: &str, token: &str) -> Call {
        self.by = Some((name.to_owned(), token.to_owned()));
        self
    }

    pub fn header(mut self, name: &str, value: &str) -> Call {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With a header that the recording does not have.
    pub fn secretly(mut self, name: &str, value: &str) -> Call {
        self.unseen.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn body(mut self, media_type: &str, body: impl Into<Vec<u8>>) -> Call {
        self.body = body.into();
        self.header("content-type", media_type)
    }

    pub fn json(self, value: &Value) -> Call {
        self.body("application/json", value.to_string())
    }

    /// The request as it is sent, but for a test server, which has its own way.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\nconnection: close\r\n", self.method, self.path);
        let tokens = self.by.iter().filter(|(_, token)| !token.is_empty());
        tokens.for_each(|(_, token)| head.push_str(&format!("authorization: Bearer {token}\r\n")));
        for (name, value) in self.headers.iter().chain(&self.unseen) {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !self.headers.iter().any(|(name, _)| name == "host") {
            head.push_str("host: localhost\r\n");
        }
        if !self.body.is_empty() || self.method == "POST" {
            head.push_str(&format!("content-length: {}\r\n", self.body.len()));
        }
        [head.as_bytes(), b"\r\n", &self.body].concat()
    }

    pub fn form(self, fields: &[(&str, &str)]) -> Call {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        self.body("application/x-www-form-urlencoded", body)
    }
}

/// A recording that is being made.
pub struct Recording {
    masks: Masks,
    text: String,
    /// The requests by now.
    pub count: usize,
}

impl Recording {
    /// Nothing yet. The secrets of the demo have names.
    pub fn of(server: &TestServer) -> Recording {
        let mut masks = Masks::default();
        let demo = &server.demo;
        for login in demo.users.iter().chain([&demo.owner, &demo.organization.admin]) {
            masks.learn(&login.password, &format!("<password_of_{}>", login.email));
        }
        for (name, client) in &demo.clients {
            masks.learn(&client.client_id, &format!("<client_{name}>"));
            masks.learn(client.client_secret.as_deref().unwrap_or_default(), &format!("<secret_of_{name}>"));
        }
        masks.learn(VERIFIER, "<verifier>");
        masks.learn(&demo.api_key, "<key_of_sketch>");
        Recording { masks, text: String::new(), count: 0 }
    }

    /// Without a demo.
    pub fn bare() -> Recording {
        Recording { masks: Masks::default(), text: String::new(), count: 0 }
    }

    /// The placeholder of a text from here on.
    pub fn learn(&mut self, text: &str, placeholder: &str) {
        self.masks.learn(text, placeholder);
    }

    pub fn section(&mut self, title: &str) {
        self.text.push_str(&format!("\n==== {title} ====\n"));
    }

    /// Sends a request and records it with its answer.
    pub async fn send(&mut self, server: &TestServer, what: &str, call: Call) -> Answer {
        let answer = self.silently(server, &call).await;
        self.record(what, &call, &answer);
        answer
    }

    /// Sends a request without recording it.
    pub async fn silently(&self, server: &TestServer, call: &Call) -> Answer {
        let request = server.request(&call.method, &call.path);
        let tokens = call.by.iter().filter(|(_, token)| !token.is_empty());
        let request = tokens.fold(request, |request, (_, token)| request.bearer(token));
        let headers = call.headers.iter().chain(&call.unseen).filter(|(name, _)| name != "content-type");
        let request = headers.fold(request, |request, (name, value)| request.header(name, value));
        let media_type = call.headers.iter().find(|(name, _)| name == "content-type");
        match media_type {
            Some((_, media_type)) => request.body(media_type, call.body.clone()).send().await,
            None => request.send().await,
        }
    }

    /// The same in a browser.
    pub async fn browse(
        &mut self,
        server: &TestServer,
        cookies: &mut Cookies,
        what: &str,
        call: Call,
    ) -> Answer {
        let call = match cookies.header() {
            Some(header) => call.header("cookie", &header),
            None => call,
        };
        let answer = self.send(server, what, call).await;
        cookies.take_from(answer.headers.iter().map(|(name, value)| (name.as_str(), value)));
        answer
    }

    /// Writes a request and its answer down.
    pub fn record(&mut self, what: &str, call: &Call, answer: &Answer) {
        self.count += 1;
        shown::learn(&mut self.masks, &answer.json());
        let asked = self.asked(call);
        let shown = self.shown(answer);
        self.text.push_str(&format!("\n# {what}\n{asked}{shown}"));
    }

    /// An answer as it is written down.
    pub fn shown(&mut self, answer: &Answer) -> String {
        let head = shown::head(&mut self.masks, answer);
        head + &shown::body(&mut self.masks, answer)
    }

    fn asked(&mut self, call: &Call) -> String {
        let path = match call.path.len() > 2 * BODY_MAX {
            true => format!("{}… ({} bytes)", &call.path[..40], call.path.len()),
            false => self.masks.mask(&call.path),
        };
        let mut text = format!("{} {path}", call.method);
        if let Some((name, _)) = &call.by {
            text.push_str(&format!("  by {name}"));
        }
        text.push('\n');
        for (name, value) in &call.headers {
            let is_usual = name == "content-type" && value == "application/json";
            // It changes with everything that is signed.
            let value = match value.split_once("v1=").filter(|_| name == "stripe-signature") {
                Some((time, _)) => format!("{time}v1=<signature>"),
                None => value.clone(),
            };
            if !is_usual && value.len() <= BODY_MAX {
                text.push_str(&format!("{name}: {}\n", self.masks.mask(&value)));
            }
        }
        match std::str::from_utf8(&call.body) {
            Ok("") => {}
            Ok(body) if body.len() <= BODY_MAX => text.push_str(&format!("> {}\n", self.masks.mask(body))),
            Ok(_) => text.push_str(&format!("> {} bytes\n", call.body.len())),
            Err(_) => text.push_str(&format!("> {:?}\n", String::from_utf8_lossy(&call.body))),
        }
        text
    }

    /// Adds a text that is not an answer, such as the bytes of a stream.
    pub fn add(&mut self, what: &str, text: &str) {
        let text = self.masks.mask(text);
        self.text.push_str(&format!("\n# {what}\n{text}"));
    }

    /// Adds what came of a stream (Server-Sent Events).
    pub fn add_stream(&mut self, what: &str, text: &str) {
        let mut shown = String::new();
        for line in text.lines() {
            match line.split_once(": ") {
                // A pause is drawn.
                Some(("retry", _)) => shown.push_str("retry: <ms>"),
                Some(("id", id)) => {
                    if !id.contains('.') {
                        self.masks.learn_next(id, "cursor");
                    }
                    shown.push_str(line);
                }
                Some(("data", data)) => {
                    shown::learn(&mut self.masks, &serde_json::from_str(data).unwrap_or_default());
                    shown.push_str(line);
                }
                _ => shown.push_str(line),
            }
            shown.push('\n');
        }
        self.add(what, &shown);
    }

    /// The whole text.
    pub fn finish(&self) -> String {
        let glossary = self.masks.glossary();
        let explained =
            if glossary.is_empty() { String::new() } else { format!("\n==== Placeholders ====\n{glossary}") };
        format!("{} requests\n{}{explained}", self.count, self.text)
    }
}

/// Those who administer, as a recording names them.
pub struct People<'s> {
    pub server: &'s TestServer,
    /// The owner of acme.
    pub admin: String,
    /// The owner of the server, with a token for the platform.
    pub owner: String,
}

impl<'s> People<'s> {
    pub async fn of(server: &'s TestServer) -> People<'s> {
        People {
            server,
            admin: admin_token(server, "admin@acme.test", "org:acme platform").await,
            owner: admin_token(server, "owner@sarsen.test", "platform org:platform").await,
        }
    }

    /// For the words of other tests.
    pub fn as_admin(&self) -> Admin<'s> {
        Admin { server: self.server, token: self.admin.clone() }
    }

    /// Sends a request of acme's owner.
    pub async fn admin(&self, to: &mut Recording, what: &str, call: Call) -> Answer {
        to.send(self.server, what, call.by("admin", &self.admin)).await
    }

    /// Sends a request of the owner of the server.
    pub async fn owner(&self, to: &mut Recording, what: &str, call: Call) -> Answer {
        to.send(self.server, what, call.by("owner", &self.owner)).await
    }
}
