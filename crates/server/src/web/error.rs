//! The errors of the API: RFC 9457 problem details with a stable `code`, and `errors` with every wrong field of the
//! request.
//!
//! Policy: an error that the caller can correct has all details; a state of the server (busy, full, stopping) is 503 or
//! 429 with `Retry-After`; a defect is a bare 500 here and an error in the log. No text of a
//! database, no secret and no other tenant's data gets into an answer.

use super::fields::FieldError;
use axum::response::{IntoResponse, Response};
pub(crate) use endpoint::problem::retry_after_value;
use endpoint::problem::{Document, Type};
use endpoint::words::{capitalised, sentence};
use http::header::AUTHORIZATION;
use http::{HeaderMap, StatusCode};
use std::time::{Duration, Instant};
use web::current_request;
use web::host;
use web::log_interval::LogInterval;

/// While the database is away every request fails, and one line a second is enough.
static UNAVAILABLE: LogInterval = LogInterval::second();

/// The result of an API handler.
pub type Result<T> = std::result::Result<T, Problem>;

/// A problem document.
#[derive(Debug, Clone)]
pub struct Problem {
    /// The HTTP status.
    pub status: StatusCode,
    /// Stable, snake_case.
    pub code: &'static str,
    /// The problem, its place and its remedy.
    pub detail: String,
    /// When to retry.
    pub retry_after: Option<Duration>,
    /// The value of `WWW-Authenticate`.
    pub challenge: Option<&'static str>,
    /// The wrong fields of the request.
    pub errors: Vec<FieldError>,
}

impl From<host::Refusal> for Problem {
    fn from(refusal: host::Refusal) -> Problem {
        match refusal {
            host::Refusal::Invalid(detail) => Problem::bad_request("invalid_host", detail),
            host::Refusal::Unknown => {
                let detail = "This server does not answer for the host of this request. Use the host of the issuer, or \
                              add this one to `allowed_hosts`.";
                Problem::new(StatusCode::MISDIRECTED_REQUEST, "unknown_host", detail)
            }
        }
    }
}

impl Problem {
    /// A problem with only status, code and detail.
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Problem {
        Problem {
            status,
            code,
            detail: detail.into(),
            retry_after: None,
            challenge: None,
            errors: Vec::new(),
        }
    }

    /// 400: the request is malformed.
    pub fn bad_request(code: &'static str, detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, code, detail)
    }

    /// 404: it does not exist, or not for this caller.
    pub fn not_found(what: &str) -> Problem {
        Problem::new(StatusCode::NOT_FOUND, "not_found", format!("{} not found.", capitalised(what)))
    }

    /// 403: the caller is authenticated but lacks permission.
    pub fn forbidden(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::FORBIDDEN, "forbidden", detail)
    }

    /// 401 without a token (RFC 6750 section 3.1: no error code then).
    pub fn unauthenticated(headers: &HeaderMap) -> Problem {
        let detail = match headers.contains_key(AUTHORIZATION) {
            true => {
                "The header has no bearer token. Send the access token or API key so: Authorization: Bearer …"
            }
            false => "Send an access token or an API key: Authorization: Bearer …",
        };
        Problem {
            challenge: Some("Bearer"),
            ..Problem::new(StatusCode::UNAUTHORIZED, "unauthenticated", detail)
        }
    }

    /// 401 with a token that is not valid.
    pub fn invalid_token(detail: &str) -> Problem {
        let challenge = Some(r#"Bearer error="invalid_token""#);
        Problem { challenge, ..Problem::new(StatusCode::UNAUTHORIZED, "invalid_token", detail) }
    }

    /// 403 with a token for another audience.
    pub fn insufficient_scope(detail: impl Into<String>) -> Problem {
        let challenge = Some(r#"Bearer error="insufficient_scope""#);
        Problem { challenge, ..Problem::new(StatusCode::FORBIDDEN, "insufficient_scope", detail) }
    }

    /// 500: a defect, which was logged.
    pub fn internal() -> Problem {
        let detail = "Internal server error. It has been logged.";
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
    }

    /// 503: the server cannot do this now. A retry may succeed.
    pub fn unavailable(detail: impl Into<String>, retry_after: Duration) -> Problem {
        let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail);
        Problem { retry_after: Some(retry_after), ..problem }
    }
}

impl From<store::Error> for Problem {
    fn from(error: store::Error) -> Problem {
        match &error {
            store::Error::Overloaded { retry_after } => Problem {
                retry_after: Some(*retry_after),
                ..Problem::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "overloaded",
                    "The server is busy. Nothing was done; try again.",
                )
            },
            store::Error::Stopped => {
                Problem::unavailable("The server is stopping. Try again.", Duration::from_secs(1))
            }
            // Errors of the database and its driver contain users and addresses, so only the log gets them.
            store::Error::Unavailable { .. } => {
                if let Some(requests) = UNAVAILABLE.due(Instant::now()) {
                    tracing::error!(%error, requests, "the database is not available");
                }
                let text = "The database cannot do this now. Nothing was changed; try again.";
                Problem::unavailable(text, Duration::from_secs(5))
            }
            store::Error::TooSlow { .. } => {
                tracing::warn!(%error, request_id = current_request::id(), "a request was stopped");
                Problem {
                    retry_after: Some(Duration::from_secs(5)),
                    ..Problem::new(
                        StatusCode::SERVICE_UNAVAILABLE,
                        "too_slow",
                        "This took too long and was stopped. Nothing was changed; narrow the list, or try again.",
                    )
                }
            }
            store::Error::OutcomeUnknown => {
                tracing::error!(%error, request_id = current_request::id(), "the outcome of a write is unknown");
                Problem::new(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "outcome_unknown",
                    "The connection to the database was lost; whether the change was made is unknown. Look before you try again.",
                )
            }
            _ => {
                tracing::error!(%error, request_id = current_request::id(), "a database operation failed");
                Problem::internal()
            }
        }
    }
}

impl From<identity::Error> for Problem {
    fn from(error: identity::Error) -> Problem {
        use identity::Error;
        match error {
            Error::NotFound { what } => Problem::not_found(what),
            // The field that names an object has the name of its kind.
            Error::Unknown { what, name, rule } => {
                let problem = format!("{} {name:?} not found; {rule}", capitalised(what));
                Problem {
                    errors: vec![FieldError::new("not_found", what, &problem)],
                    ..Problem::new(StatusCode::NOT_FOUND, "not_found", sentence(&problem))
                }
            }
            Error::Invalid { field, code, problem, .. } => {
                let errors = vec![FieldError::new(code, field, &problem)];
                Problem::of_fields(StatusCode::UNPROCESSABLE_ENTITY, "invalid", errors)
            }
            Error::Forbidden { problem } => Problem::forbidden(problem),
            Error::Taken { field, value } => {
                let errors =
                    vec![FieldError::new("taken", field, &format!("{value:?} is taken; choose another"))];
                Problem::of_fields(StatusCode::CONFLICT, "taken", errors)
            }
            Error::Refused { code, problem } => Problem::new(StatusCode::CONFLICT, code, sentence(&problem)),
            Error::InvalidGrant => Problem::invalid_token("The grant is invalid or has expired."),
            Error::Store(error) => error.into(),
            Error::Internal(what) => {
                tracing::error!(%what, request_id = current_request::id(), "something is broken");
                Problem::internal()
            }
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let document = Document {
            of: Type::Prefix("urn:sarsen:problem:"),
            status: self.status,
            code: self.code,
            detail: &self.detail,
            errors: &self.errors,
            member: None,
        };
        document.response(self.retry_after, self.challenge)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oauth::error::OAuthError;
    use crate::pages::respond::PageError;
    use http::header::RETRY_AFTER;

    #[test]
    fn what_was_stopped_because_it_took_too_long_is_no_defect() {
        let error = store::Error::TooSlow { limit: Duration::from_secs(5) };
        let problem = Problem::from(error.clone());
        assert_eq!((problem.status.as_u16(), problem.code), (503, "too_slow"));
        let (of_oauth, of_page) = (OAuthError::from(error.clone()), PageError::from(error));
        assert_eq!(of_oauth.error, "temporarily_unavailable");
        for response in [problem.into_response(), of_oauth.into_response(), of_page.into_response()] {
            assert_eq!((response.status().as_u16(), &response.headers()[RETRY_AFTER]), (503, &5.into()));
        }
    }
}
