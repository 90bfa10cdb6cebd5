//! `Idempotency-Key`: a write that is sent again with its key is done once, and gets the first answer again.
//!
//! The answer is made by a pure function beside the command ([`Respond`]) and stored in the command's own transaction
//! (`once.rs`, with the feature `store`): there is no moment at which the write is done and its answer is not kept.
//! An error is not kept: nothing was written, and the same request may be sent again.

#[cfg(feature = "store")]
mod once;
#[cfg(feature = "store")]
pub use once::{Found, Kept, Row, once};

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use serde::Serialize;
use serde_json::Value;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The header with the key.
pub const HEADER: HeaderName = HeaderName::from_static("idempotency-key");
/// The response header that says that this is the stored response to an earlier request.
pub const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// How long a key stands for its first write.
pub const KEPT: Duration = Duration::from_secs(24 * 3600);
const LENGTH_MAX: usize = 255;

/// The key of a request, and the body that came with it. Clones share both: an extractor that reads the body says so to the
/// one that writes.
#[derive(Clone, Debug)]
pub struct SentKey(Arc<Sent>);

#[derive(Debug)]
struct Sent {
    key: String,
    body: OnceLock<Bytes>,
}

/// The header is there, and is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidKey;

impl InvalidKey {
    /// The code of its problem document.
    pub const CODE: &'static str = "invalid_idempotency_key";
}

impl fmt::Display for InvalidKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Idempotency-Key has 1 to {LENGTH_MAX} visible ASCII characters; send it once.")
    }
}

impl SentKey {
    /// The key of a request that may change something.
    pub fn of(method: &Method, headers: &HeaderMap) -> Result<Option<SentKey>, InvalidKey> {
        let mut sent = headers.get_all(HEADER).iter();
        let Some(key) = sent.next().filter(|_| !method.is_safe()) else { return Ok(None) };
        let is_good = |key: &&str| {
            (1..=LENGTH_MAX).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic())
        };
        match (sent.next(), key.to_str().ok().filter(is_good)) {
            (None, Some(key)) => {
                Ok(Some(SentKey(Arc::new(Sent { key: key.to_owned(), body: OnceLock::new() }))))
            }
            _ => Err(InvalidKey),
        }
    }

    /// Notes the body that was read.
    pub fn has_body(&self, body: &Bytes) {
        self.0.body.get_or_init(|| body.clone());
    }

    /// The key.
    pub fn key(&self) -> &str {
        &self.0.key
    }

    /// The body; empty if none was read.
    pub fn body(&self) -> &[u8] {
        self.0.body.get().map_or(&[], |body| body)
    }
}

/// What makes an answer of what a command has returned. It has no effects: it runs before the commit, perhaps twice.
pub trait Respond: Send + 'static {
    /// The answer as it is sent.
    fn respond(&self) -> serde_json::Result<Stored>;
}

/// There is nothing to say.
impl Respond for StatusCode {
    fn respond(&self) -> serde_json::Result<Stored> {
        Ok(Stored { status: *self, body: Vec::new() })
    }
}

/// An answer in JSON, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The HTTP status.
    pub status: StatusCode,
    /// JSON, or nothing.
    pub body: Vec<u8>,
}

impl Stored {
    /// An answer that is a JSON value.
    pub fn json<T: Serialize>(status: StatusCode, value: &T) -> serde_json::Result<Stored> {
        Ok(Stored { status, body: serde_json::to_vec(value)? })
    }

    /// The same without texts that are shown once: members with these names, in any object.
    #[must_use]
    pub fn without(mut self, names: &[&str]) -> Stored {
        if let Ok(mut value) = serde_json::from_slice(&self.body)
            && remove(&mut value, names)
        {
            self.body = value.to_string().into_bytes();
        }
        self
    }
}

/// Returns whether there were any.
fn remove(value: &mut Value, names: &[&str]) -> bool {
    match value {
        Value::Object(fields) => {
            let count = fields.len();
            fields.retain(|name, value| !(value.is_string() && names.contains(&name.as_str())));
            let in_fields = fields.values_mut().fold(false, |any, value| remove(value, names) | any);
            fields.len() < count || in_fields
        }
        Value::Array(items) => items.iter_mut().fold(false, |any, item| remove(item, names) | any),
        _ => false,
    }
}

/// The answer to an earlier request, given again.
impl IntoResponse for Stored {
    fn into_response(self) -> Response {
        let has_body = !self.body.is_empty();
        let mut response = Response::new(Body::from(self.body));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        if has_body {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
        response
    }
}

/// What a write has come to.
#[derive(Debug)]
pub enum Outcome<T> {
    /// It was done now.
    Done(T),
    /// It was done by an earlier request with the same key.
    Repeated(Stored),
}

impl<T: IntoResponse> IntoResponse for Outcome<T> {
    fn into_response(self) -> Response {
        match self {
            Outcome::Done(answer) => answer.into_response(),
            Outcome::Repeated(answer) => answer.into_response(),
        }
    }
}

/// Why a write with a key was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The key was sent with another body.
    Reused,
    /// An instance of an earlier release has done the write, and may be about to store the answer.
    InProgress,
    /// It was done; its answer cannot be opened any more.
    Lost,
    /// The answer cannot be written or sealed: a defect, in these words.
    Defect(String),
}

impl Refused {
    /// Status, code and detail of its problem document. A defect has none: it goes to the log.
    pub fn problem(&self) -> Option<(StatusCode, &'static str, &'static str)> {
        match self {
            Refused::Reused => Some((
                StatusCode::UNPROCESSABLE_ENTITY,
                "idempotency_key_reused",
                "This Idempotency-Key was sent with another body. Use a new key for each write.",
            )),
            Refused::InProgress => Some((
                StatusCode::CONFLICT,
                "idempotency_in_progress",
                "A request with this Idempotency-Key is being answered. Try again.",
            )),
            Refused::Lost => Some((
                StatusCode::CONFLICT,
                "idempotency_answer_lost",
                "The write with this Idempotency-Key was done, but its answer was lost. Read the object to see the result.",
            )),
            Refused::Defect(_) => None,
        }
    }

    /// When the request may be sent again.
    pub fn retry_after(&self) -> Option<Duration> {
        matches!(self, Refused::InProgress).then_some(Duration::from_secs(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(method: Method, keys: &[&str]) -> Result<Option<String>, InvalidKey> {
        let mut headers = HeaderMap::new();
        for key in keys {
            headers.append(HEADER, HeaderValue::from_bytes(key.as_bytes()).expect("a value"));
        }
        SentKey::of(&method, &headers).map(|key| key.map(|key| key.key().to_owned()))
    }

    #[test]
    fn a_key_is_1_to_255_visible_characters_sent_once() {
        let long = "x".repeat(LENGTH_MAX);
        for key in ["k", "0190b5c2-6a58-7e0e-8b0c-3a2f1d9e4c11", "!~", &long] {
            assert_eq!(sent(Method::POST, &[key]), Ok(Some(key.to_owned())));
        }
        for key in ["", " ", "two words", "a\tb", "caf\u{e9}", &"x".repeat(LENGTH_MAX + 1)] {
            assert_eq!(sent(Method::PATCH, &[key]), Err(InvalidKey), "{key:?}");
        }
        assert_eq!(sent(Method::DELETE, &["a", "a"]), Err(InvalidKey));
        assert_eq!(sent(Method::POST, &[]), Ok(None));
        assert_eq!(sent(Method::GET, &["two words"]), Ok(None), "a read does not look at it");
    }

    #[test]
    fn what_is_shown_once_is_not_stored() {
        let stored = |body: &str| {
            let stored = Stored { status: StatusCode::CREATED, body: body.as_bytes().to_vec() };
            String::from_utf8(stored.without(&["client_secret", "key", "url"]).body).expect("text")
        };
        for (body, expected) in [
            (r#"{"id":"apikey_1","key":"sarsen_sk_x"}"#, r#"{"id":"apikey_1"}"#),
            (r#"{"client_secret":"x"}"#, "{}"),
            (r#"{"url":"https://x","expires_at":"y"}"#, r#"{"expires_at":"y"}"#),
            (r#"{"a":{"url":"https://x","id":1},"b":[{"key":"x"},2]}"#, r#"{"a":{"id":1},"b":[{},2]}"#),
            (r#"{"limits": {"url": 3}}"#, r#"{"limits": {"url": 3}}"#),
            (r#"{"b": 1, "a": 2}"#, r#"{"b": 1, "a": 2}"#),
            ("", ""),
        ] {
            assert_eq!(stored(body), expected);
        }
    }

    #[test]
    fn an_answer_that_is_given_again_says_so() {
        let response = Stored::json(StatusCode::CREATED, &7).expect("JSON").into_response();
        assert_eq!(
            (response.status().as_u16(), &response.headers()[REPLAYED]),
            (201, &"true".parse().expect("a value"))
        );
        assert_eq!(response.headers()[CONTENT_TYPE], "application/json");
        let nothing = StatusCode::NO_CONTENT.respond().expect("nothing").into_response();
        assert_eq!((nothing.status().as_u16(), nothing.headers().get(CONTENT_TYPE)), (204, None));
    }
}
