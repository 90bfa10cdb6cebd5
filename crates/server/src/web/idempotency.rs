//! `Idempotency-Key`: a write that is sent again with the same key is executed once and gets the first answer.
//!
//! - The middleware puts an [`Attempt`] into the request; the extractors of `administration.rs` pass it to their writes,
//!   where it inserts a row in the write's own transaction, after the authorization.
//! - After the handler, [`Attempt::settle`] stores the response, or replaces it by that of the first request. A
//!   request with a key runs to its end even if its client disconnects, because that client will retry.
//! - An error is not stored: nothing was written, so a retry with the key is a new write.

use crate::app::App;
use crate::web::error::Problem;
use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderName, HeaderValue, Method, Request, StatusCode};
use identity::idempotent_writes::{self, Earlier, KeyedRequest};
use identity::ids::IdempotentWriteId;
use identity::{Error, Time};
use parking_lot::Mutex;
use serde_json::Value;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use store::Tx;
use web::current_request;

const KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Marks the response as that of an earlier request.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
const KEY_LENGTH_MAX: usize = 255;
/// Responses of the API are far smaller.
const ANSWER_MAX: usize = 1024 * 1024;
/// Texts that are shown once, in any object of an answer. The stored response leaves them out.
const SECRETS: &[&str] = &["client_secret", "key", "url"];

/// A request with a key.
pub(crate) struct Attempt {
    id: IdempotentWriteId,
    method: Method,
    path: String,
    query: String,
    key: String,
    body: Mutex<Bytes>,
    state: Mutex<State>,
}

enum State {
    /// No write was begun.
    Untouched,
    /// The first request with this key.
    First,
    /// An earlier request has the key.
    Repeats(Earlier),
    /// The caller sent too many writes with keys.
    TooMany(Duration),
}

impl Attempt {
    /// The attempt of a request, if it may write and has a key.
    pub(crate) fn of<B>(app: &App, request: &Request<B>) -> Result<Option<Arc<Attempt>>, Problem> {
        let method = request.method();
        let mut keys = request.headers().get_all(KEY).iter();
        let Some(key) = keys.next().filter(|_| !method.is_safe() && *method != Method::OPTIONS) else {
            return Ok(None);
        };
        let is_good = |key: &&str| {
            (1..=KEY_LENGTH_MAX).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic())
        };
        let (None, Some(key)) = (keys.next(), key.to_str().ok().filter(is_good)) else {
            let detail =
                format!("Idempotency-Key has 1 to {KEY_LENGTH_MAX} visible ASCII characters; send it once.");
            return Err(Problem::bad_request("invalid_idempotency_key", detail));
        };
        Ok(Some(Arc::new(Attempt {
            id: IdempotentWriteId::new(app.now(), app.random()),
            method: method.clone(),
            path: request.uri().path().to_owned(),
            query: request.uri().query().unwrap_or_default().to_owned(),
            key: key.to_owned(),
            body: Mutex::default(),
            state: Mutex::new(State::Untouched),
        })))
    }

    /// Records the body that an extractor has read.
    pub(crate) fn has_body(&self, body: &Bytes) {
        *self.body.lock() = body.clone();
    }

    /// Counts the request. Fails if its caller has sent too many writes with keys.
    pub(crate) fn admit(&self, app: &App, caller: &str, now: Time) -> identity::Result<()> {
        app.keyed_writes.admit(caller, 1, app.settings.keyed_writes_max, now.millis()).map_err(|wait| {
            *self.state.lock() = State::TooMany(wait);
            not_executed()
        })
    }

    /// Begins the write in its transaction. Fails if an earlier request has begun it.
    pub(crate) fn begin(&self, tx: &mut Tx<'_>, caller: &str, now: Time) -> identity::Result<()> {
        let route = [self.method.as_str(), &self.path, &self.key];
        let request = KeyedRequest::new(self.id.clone(), route, &self.query, &self.body.lock());
        let earlier = idempotent_writes::begin(tx, caller, &request, now)?;
        let is_first = earlier.is_none();
        *self.state.lock() = earlier.map_or(State::First, State::Repeats);
        if is_first { Ok(()) } else { Err(not_executed()) }
    }

    /// Turns the handler's response into the one that is sent.
    pub(crate) async fn settle(&self, app: &App, response: Response) -> Response {
        let state = std::mem::replace(&mut *self.state.lock(), State::Untouched);
        match state {
            State::First if response.status().is_success() => self.store(app, response).await,
            State::Untouched | State::First => response,
            State::Repeats(Earlier::Answered { id, status, answer }) => {
                // Another instance may have written: after a read the version of the response includes that.
                match app.store.read(|_| Ok::<_, Error>(())).await {
                    Ok(()) => replay(app, &id, status, &answer),
                    Err(error) => Problem::from(error).into_response(),
                }
            }
            State::Repeats(Earlier::Running) => Problem {
                retry_after: Some(Duration::from_secs(1)),
                ..conflict(
                    "idempotency_in_progress",
                    "A request with this Idempotency-Key is being answered. Try again.",
                )
            }
            .into_response(),
            State::Repeats(Earlier::Lost) => conflict(
                "idempotency_answer_lost",
                "The write with this Idempotency-Key was done, but its answer was lost. Read the object to see the result.",
            )
            .into_response(),
            State::Repeats(Earlier::Different) => Problem::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "idempotency_key_reused",
                "This Idempotency-Key was sent with another body. Use a new key for each write.",
            )
            .into_response(),
            State::TooMany(wait) => Problem {
                retry_after: Some(wait),
                ..Problem::new(
                    StatusCode::TOO_MANY_REQUESTS,
                    "too_many_idempotency_keys",
                    "You have sent too many writes with an Idempotency-Key. Try again later, or send this one without.",
                )
            }
            .into_response(),
        }
    }

    /// Stores the response and returns it. If that fails, the write is done anyway.
    async fn store(&self, app: &App, response: Response) -> Response {
        let (head, body) = response.into_parts();
        let body = match axum::body::to_bytes(body, ANSWER_MAX).await {
            Ok(body) => body,
            Err(error) => {
                tracing::error!(%error, request_id = current_request::id(), "an answer could not be read to be stored");
                return Problem::internal().into_response();
            }
        };
        let (id, status) = (self.id.clone(), head.status.as_u16());
        let sealed =
            idempotent_writes::seal_answer(&id, &without_secrets(&body), &app.secret_key, app.random());
        let stored = match sealed {
            Ok(sealed) => {
                let set = app.store.write("idempotent_write.answer", move |tx| {
                    idempotent_writes::set_answer(tx, &id, status, &sealed)
                });
                set.await
            }
            Err(error) => Err(error),
        };
        if let Err(error) = stored {
            let request_id = current_request::id();
            tracing::warn!(%error, request_id, "the answer to a write with an Idempotency-Key was not stored");
        }
        Response::from_parts(head, Body::from(body))
    }
}

/// The error of a write that is not executed; [`Attempt::settle`] replaces it.
fn not_executed() -> Error {
    Error::refused(
        "idempotency_in_progress",
        "a request with this Idempotency-Key is being answered; try again",
    )
}

fn conflict(code: &'static str, detail: &str) -> Problem {
    Problem::new(StatusCode::CONFLICT, code, detail)
}

/// A JSON body without the texts that are shown once.
fn without_secrets(body: &Bytes) -> Vec<u8> {
    let Ok(mut value) = serde_json::from_slice(body) else { return body.to_vec() };
    if remove_secrets(&mut value) { value.to_string().into_bytes() } else { body.to_vec() }
}

/// Returns whether there were any.
fn remove_secrets(value: &mut Value) -> bool {
    match value {
        Value::Object(fields) => {
            let count = fields.len();
            fields.retain(|name, value| !(value.is_string() && SECRETS.contains(&name.as_str())));
            let in_fields = fields.values_mut().fold(false, |any, value| remove_secrets(value) | any);
            fields.len() < count || in_fields
        }
        Value::Array(items) => items.iter_mut().fold(false, |any, item| remove_secrets(item) | any),
        _ => false,
    }
}

/// The response to the first request.
fn replay(app: &App, id: &IdempotentWriteId, status: u16, sealed: &[u8]) -> Response {
    let opened = idempotent_writes::open_answer(id, sealed, &app.secret_key);
    let (Ok(body), Ok(status)) = (opened, StatusCode::from_u16(status)) else {
        let request_id = current_request::id();
        tracing::error!(write = %id, request_id, "a stored answer cannot be opened with this secret_key");
        return Problem::internal().into_response();
    };
    let has_body = !body.is_empty();
    let mut response = (status, Body::from(body)).into_response();
    if has_body {
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    } else {
        response.headers_mut().remove(CONTENT_TYPE);
    }
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    response
}

/// Runs a future to its end even if its caller is dropped.
pub(crate) fn detached<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> Pin<Box<dyn Future<Output = T> + Send>> {
    Box::pin(async move {
        match current_request::spawn(future).await {
            Ok(output) => output,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime is shutting down.
                Err(_) => std::future::pending().await,
            },
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_once_is_not_stored() {
        let stored = |body: &'static str| {
            String::from_utf8(without_secrets(&Bytes::from_static(body.as_bytes()))).expect("text")
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
}
