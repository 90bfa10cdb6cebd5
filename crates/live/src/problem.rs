//! Errors as callers see them: problem documents (RFC 9457) with a stable `code`.
//!
//! Policy: an error that the caller can correct says how. A state of the server (busy, stopping) is 503 with
//! `Retry-After`. A defect is a bare 500, and the log has the cause. No text of the database gets into an answer.

use axum::response::{IntoResponse, Response};
use endpoint::fields::{FieldError, Unreadable, summary};
use endpoint::problem::{Document, Type};
use http::StatusCode;
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;
use std::time::{Duration, Instant};
use web::current_request;
use web::log_interval::LogInterval;

/// While the server is full or the database is away every request fails, and one line a second is enough.
static REFUSED: LogInterval = LogInterval::second();

const INVALID_TOKEN: &str = "invalid_token";
const INVALID_ARGUMENTS: &str = "invalid_arguments";

/// An error with an answer.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The HTTP status.
    pub status: StatusCode,
    /// Stable, snake_case.
    pub code: Cow<'static, str>,
    /// What was wrong, and what would be right.
    pub detail: String,
    /// The fields of the request that were wrong.
    pub errors: Vec<FieldError>,
    /// When to try again.
    pub retry_after: Option<Duration>,
    /// The error of the database, if that is the cause: the same request may succeed later.
    pub cause: Option<Box<store::Error>>,
    /// A further member of the document, such as the value that a change would have to begin from.
    pub member: Option<Box<(&'static str, Value)>>,
}

impl Problem {
    /// A problem with a status of its own.
    pub fn new(status: StatusCode, code: impl Into<Cow<'static, str>>, detail: impl Into<String>) -> Problem {
        Problem {
            status,
            code: code.into(),
            detail: detail.into(),
            errors: Vec::new(),
            retry_after: None,
            cause: None,
            member: None,
        }
    }

    /// The same with a further member of the document.
    #[must_use]
    pub fn with(self, name: &'static str, value: impl Into<Value>) -> Problem {
        Problem { member: Some(Box::new((name, value.into()))), ..self }
    }

    /// 400: a field of the request is wrong; `""` if it is not one field.
    pub fn invalid(field: impl Into<String>, detail: impl Into<String>) -> Problem {
        let (field, problem) =
            (field.into(), Problem::new(StatusCode::BAD_REQUEST, INVALID_ARGUMENTS, detail));
        let error = FieldError { field, code: "invalid", detail: problem.detail.clone() };
        Problem { errors: Vec::from_iter(Some(error).filter(|error| !error.field.is_empty())), ..problem }
    }

    /// 400: these fields of the request are wrong.
    pub fn of_fields(mut errors: Vec<FieldError>) -> Problem {
        let detail = summary(&errors);
        // What is wrong with the whole is in the detail.
        errors.retain(|error| !error.field.is_empty());
        Problem { errors, ..Problem::new(StatusCode::BAD_REQUEST, INVALID_ARGUMENTS, detail) }
    }

    /// 400 unless a field is good. `rule` says what it must, such as "be 1 to 500".
    pub fn check(is_good: bool, field: &str, rule: &str) -> Result<(), Problem> {
        if is_good { Ok(()) } else { Err(Problem::invalid(field, format!("`{field}` must {rule}."))) }
    }

    /// 401: there is no token.
    pub fn unauthenticated() -> Problem {
        let detail = "Send a valid access token: Authorization: Bearer …";
        Problem::new(StatusCode::UNAUTHORIZED, "unauthenticated", detail)
    }

    /// 401: the token has expired, was revoked, or is not valid for another reason.
    pub fn invalid_token(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::UNAUTHORIZED, INVALID_TOKEN, detail)
    }

    /// 403: the caller may not do this.
    pub fn forbidden(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::FORBIDDEN, "forbidden", detail)
    }

    /// 404: it does not exist, or not for this caller.
    pub fn not_found(what: &str) -> Problem {
        Problem::new(StatusCode::NOT_FOUND, "not_found", format!("{what} not found."))
    }

    /// 409: the state does not allow it.
    pub fn conflict(code: &'static str, detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::CONFLICT, code, detail)
    }

    /// 429: the caller has reached a limit, which the detail names.
    pub fn limit(detail: impl Into<String>) -> Problem {
        let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "limit_reached", detail);
        Problem { retry_after: Some(Duration::from_secs(1)), ..problem }
    }

    /// 500: a defect, which is logged here in these words. The caller does not get them.
    pub fn defect(error: impl fmt::Display) -> Problem {
        tracing::error!(%error, request_id = current_request::id(), "a defect");
        Problem::internal()
    }

    /// 500: a defect, which whoever returns it has logged. [`Problem::defect`] does both.
    pub fn internal() -> Problem {
        let detail = "Internal server error. It has been logged.";
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
    }

    /// 503: the server cannot do this now.
    pub fn unavailable(detail: impl Into<String>, retry_after: Duration) -> Problem {
        let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail);
        Problem { retry_after: Some(retry_after), ..problem }
    }

    /// For the log: the database's own words, if it has caused the problem. No caller over the network gets them.
    pub(crate) fn words(&self) -> String {
        self.cause.as_ref().map_or_else(|| self.detail.to_string(), ToString::to_string)
    }

    /// Whether the same request may succeed without a change of the data.
    pub(crate) fn is_passing(&self) -> bool {
        self.cause.is_some() || self.status.is_server_error()
    }

    /// The document.
    pub fn document(&self) -> Value {
        self.shown().json()
    }

    fn shown(&self) -> Document<'_> {
        Document {
            of: Type::Blank,
            status: self.status,
            code: &self.code,
            detail: &self.detail,
            errors: &self.errors,
            member: self.member.as_deref(),
        }
    }
}

impl From<Vec<FieldError>> for Problem {
    fn from(errors: Vec<FieldError>) -> Problem {
        Problem::of_fields(errors)
    }
}

impl From<Unreadable> for Problem {
    fn from(unreadable: Unreadable) -> Problem {
        match unreadable {
            Unreadable::Syntax(detail) => Problem::invalid("", detail),
            Unreadable::Fields(errors) => Problem::of_fields(errors),
        }
    }
}

impl From<web::host::Refusal> for Problem {
    fn from(refusal: web::host::Refusal) -> Problem {
        match refusal {
            web::host::Refusal::Invalid(detail) => {
                Problem::new(StatusCode::BAD_REQUEST, "invalid_host", detail)
            }
            web::host::Refusal::Unknown => {
                let detail = "This server does not answer for the host of this request. If it is a name of this server, \
                              start it with `--allowed-hosts NAME` (`Settings::allowed_hosts`).";
                Problem::new(StatusCode::MISDIRECTED_REQUEST, "unknown_host", detail)
            }
        }
    }
}

impl From<store::Error> for Problem {
    fn from(error: store::Error) -> Problem {
        let second = Duration::from_secs(1);
        let problem = match &error {
            store::Error::Overloaded { retry_after } => Problem {
                retry_after: Some(*retry_after),
                ..Problem::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "overloaded",
                    "The server is busy. Nothing was done; try again.",
                )
            },
            store::Error::Stopped => Problem::unavailable("The server is stopping. Try again.", second),
            store::Error::Unavailable { .. } => {
                Problem::unavailable("The database is not available. Try again.", second)
            }
            store::Error::TooSlow { limit } => Problem {
                retry_after: Some(second),
                ..Problem::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "too_slow",
                    format!(
                        "It took longer than {} ms and was stopped. Nothing was done.",
                        limit.as_millis()
                    ),
                )
            },
            store::Error::OutcomeUnknown => Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "outcome_unknown",
                "The connection to the database failed during the commit. Read the data before you try again.",
            ),
            store::Error::Conflict { .. } => {
                Problem::conflict("conflict", "Another object has this value already. Choose another value.")
            }
            // Only in tests, where nobody may see the log.
            store::Error::Undeclared { .. } | store::Error::StaleCache { .. } => {
                Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", error.to_string())
            }
            _ => Problem::internal(),
        };
        let is_decided = matches!(error, store::Error::Conflict { .. });
        Problem { cause: (!is_decided).then(|| Box::new(error)), ..problem }
    }
}

fn log_failure(error: &store::Error, code: &str) {
    use store::Error::{Overloaded, Stopped, Unavailable};
    if !matches!(error, Overloaded { .. } | Stopped | Unavailable { .. }) {
        tracing::error!(%error, code, request_id = current_request::id(), "a request failed");
    } else if let Some(requests) = REFUSED.due(Instant::now()) {
        tracing::error!(%error, code, requests, "requests were refused");
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        // Logged here and not where it arises: the store repeats commands that fail for a passing reason.
        if let Some(error) = self.cause.as_deref().filter(|_| self.status.is_server_error()) {
            log_failure(error, &self.code);
        }
        // RFC 6750, section 3.1: a request without a token gets no error code.
        let challenge = match &*self.code {
            _ if self.status != StatusCode::UNAUTHORIZED => None,
            INVALID_TOKEN => Some(r#"Bearer error="invalid_token""#),
            _ => Some("Bearer"),
        };
        let mut response = self.shown().response(self.retry_after, challenge);
        // For the page of an app.
        response.extensions_mut().insert(self);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;
    use std::sync::Arc;

    /// The lines in the log about a hundred requests that fail like this.
    fn lines(error: impl Fn() -> store::Error) -> usize {
        let written = Arc::new(Mutex::new(Vec::new()));
        let log = tracing_subscriber::fmt().with_writer(Lines(written.clone())).finish();
        tracing::subscriber::with_default(log, || {
            (0..100).for_each(|_| drop(Problem::from(error()).into_response()));
        });
        let written = written.lock();
        written.iter().filter(|byte| **byte == b'\n').count()
    }

    #[derive(Clone)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl tracing_subscriber::fmt::MakeWriter<'_> for Lines {
        type Writer = Lines;
        fn make_writer(&self) -> Lines {
            self.clone()
        }
    }

    #[test]
    fn a_state_in_which_every_request_fails_does_not_fill_the_log() {
        let full = || store::Error::Overloaded { retry_after: Duration::from_secs(1) };
        let (before, most) = (Instant::now(), lines(full));
        let seconds = before.elapsed().as_secs() as usize + 1;
        assert!(most <= seconds, "{most} lines");
        assert_eq!(lines(|| store::Error::OutcomeUnknown), 100, "each is one that somebody must look at");
    }
}
