//! An HTTP client for the set-up: convenient, not fast. It obeys 429 and 503 with `Retry-After`.

use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};

use crate::error::Error;
use crate::http::{Connection, RequestDraft, Target};
use crate::measure::Cause;

const TIMEOUT: Duration = Duration::from_secs(30);
/// How long a request is retried after 429 and 503.
const RETRY_TIME_MAX: Duration = Duration::from_secs(180);
/// The shortest and the longest pause before a retry.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(60);
const BODY_SHOWN_MAX: usize = 300;

/// One keep-alive connection, opened on demand.
pub struct Client {
    target: Target,
    /// Numbers the connection, for its source address.
    index: usize,
    connection: Option<Connection>,
}

/// An answer that owns its parts.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, Vec<u8>)>,
    pub body: Vec<u8>,
    /// The request, for messages.
    request: String,
}

impl Client {
    pub fn new(target: Target, index: usize) -> Client {
        Client { target, index, connection: None }
    }

    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Sends `draft`, and again after `Retry-After` on 429 and 503.
    pub async fn send(&mut self, draft: &RequestDraft) -> Result<Reply, Error> {
        let request = draft.encode(&self.target.host);
        let begun = Instant::now();
        loop {
            let (reply, retry_after_s) = self.send_once(draft, &request).await?;
            if !matches!(reply.status, 429 | 503) || begun.elapsed() > RETRY_TIME_MAX {
                return Ok(reply);
            }
            sleep(Duration::from_secs(retry_after_s.unwrap_or(1)).clamp(PAUSE_MIN, PAUSE_MAX)).await;
        }
    }

    /// Sends `draft` and takes any answer.
    pub async fn send_without_patience(&mut self, draft: &RequestDraft) -> Result<Reply, Error> {
        let request = draft.encode(&self.target.host);
        Ok(self.send_once(draft, &request).await?.0)
    }

    async fn send_once(
        &mut self,
        draft: &RequestDraft,
        request: &[u8],
    ) -> Result<(Reply, Option<u64>), Error> {
        let failed = |cause: Cause| Error::set_up(draft.label(), cause.to_string());
        if self.connection.as_ref().is_some_and(Connection::is_closed) {
            self.connection = None;
        }
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => Connection::open(&self.target, self.index, TIMEOUT).await.map_err(failed)?,
        };
        connection.exchange(request, TIMEOUT).await.map_err(failed)?;
        let response = connection.response().ok_or_else(|| failed(Cause::Closed))?;
        let headers =
            response.headers().into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let reply =
            Reply { status: response.status, headers, body: response.body.to_vec(), request: draft.label() };
        let (close, retry_after_s) = (response.close, response.retry_after_s);
        self.connection = (!close).then_some(connection);
        Ok((reply, retry_after_s))
    }
}

impl Reply {
    /// An error with the answer, unless the status is one of `expected`.
    pub fn expect(self, expected: &[u16]) -> Result<Reply, Error> {
        if expected.contains(&self.status) { Ok(self) } else { Err(self.unexpected("unexpected status")) }
    }

    /// The body as JSON.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        // The body may have tokens, so the message does not show it.
        serde_json::from_slice(&self.body).map_err(|error| {
            Error::set_up(self.request.clone(), format!("{}: unexpected JSON: {error}", self.status))
        })
    }

    pub fn header(&self, name: &str) -> Option<String> {
        let (_, value) = self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name))?;
        Some(String::from_utf8_lossy(value).into_owned())
    }

    /// An error with the status and the beginning of the body. For answers without secrets.
    pub fn unexpected(&self, what: &str) -> Error {
        let body: String = String::from_utf8_lossy(&self.body).chars().take(BODY_SHOWN_MAX).collect();
        Error::set_up(self.request.clone(), format!("{what}: {} {}", self.status, body.trim()))
    }
}
