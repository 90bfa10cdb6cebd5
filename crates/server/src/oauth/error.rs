//! The errors of OAuth endpoints: RFC 6749 error objects, which are never cached.

use crate::web::error::{Problem, retry_after_value};
use crate::web::json::Json;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde::Serialize;
use std::borrow::Cow;
use std::time::Duration;

/// The result of an OAuth handler.
pub(crate) type Result<T> = std::result::Result<T, OAuthError>;

/// An error object.
#[derive(Debug, Clone)]
pub(crate) struct OAuthError {
    pub status: StatusCode,
    /// The registered error code.
    pub error: &'static str,
    /// The description for developers.
    pub description: Cow<'static, str>,
    pub retry_after: Option<Duration>,
    /// Whether the client used Basic authentication and gets its challenge.
    pub basic: bool,
}

impl OAuthError {
    pub(crate) fn new(error: &'static str, description: impl Into<Cow<'static, str>>) -> OAuthError {
        let description = description.into();
        OAuthError { status: StatusCode::BAD_REQUEST, error, description, retry_after: None, basic: false }
    }

    pub(crate) fn invalid_request(description: impl Into<Cow<'static, str>>) -> OAuthError {
        OAuthError::new("invalid_request", description)
    }

    /// Unknown, expired, used and foreign ones look the same.
    pub(crate) fn invalid_grant() -> OAuthError {
        OAuthError::new(
            "invalid_grant",
            "The code or token is unknown, expired, used, or not for this client.",
        )
    }

    pub(crate) fn invalid_client() -> OAuthError {
        OAuthError {
            status: StatusCode::UNAUTHORIZED,
            ..OAuthError::new("invalid_client", "The client is unknown or did not prove who it is.")
        }
    }
}

impl From<identity::Error> for OAuthError {
    fn from(error: identity::Error) -> OAuthError {
        match error {
            identity::Error::InvalidGrant => OAuthError::invalid_grant(),
            identity::Error::Invalid { field: "scope", problem, .. } => {
                OAuthError::new("invalid_scope", problem)
            }
            identity::Error::Invalid { .. } => OAuthError::invalid_request(error.to_string()),
            other => Problem::from(other).into(),
        }
    }
}

impl From<store::Error> for OAuthError {
    fn from(error: store::Error) -> OAuthError {
        Problem::from(error).into()
    }
}

/// Errors without an OAuth code: the server is busy, is stopping or fails, or the body cannot be read.
impl From<Problem> for OAuthError {
    fn from(problem: Problem) -> OAuthError {
        let error = match problem.status.as_u16() {
            503 | 429 => "temporarily_unavailable",
            500..=599 => "server_error",
            _ => "invalid_request",
        };
        OAuthError {
            status: problem.status,
            error,
            description: problem.detail.into(),
            retry_after: problem.retry_after,
            basic: false,
        }
    }
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    error: &'a str,
    error_description: &'a str,
}

/// Removes characters that a description must not have (RFC 6749 section 5.2); parts of it may be input.
fn plain(letter: char) -> char {
    match letter {
        '"' => '\'',
        '\\' => '/',
        ' '..='~' => letter,
        _ => '?',
    }
}

impl IntoResponse for OAuthError {
    fn into_response(self) -> Response {
        let description = match self.description.chars().all(|letter| plain(letter) == letter) {
            true => self.description,
            false => self.description.chars().map(plain).collect(),
        };
        let body = Json(ErrorBody { error: self.error, error_description: &description });
        let mut response = (self.status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(wait) = self.retry_after {
            headers.insert(RETRY_AFTER, retry_after_value(wait));
        }
        // Only in reply to Basic: stock clients react to any challenge and hide the error behind it.
        if self.basic {
            let challenge = HeaderValue::from_static(r#"Basic realm="sarsen", charset="UTF-8""#);
            headers.insert(WWW_AUTHENTICATE, challenge);
        }
        response
    }
}
