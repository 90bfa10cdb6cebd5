//! Problem documents (RFC 9457): their form, and the headers that go with them. Which problems there are, their codes and words,
//! is decided in the crate above.

use crate::fields::FieldError;
use axum::response::{IntoResponse as _, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde_json::{Value, json};
use std::time::Duration;

/// The `type` of the documents of an interface.
#[derive(Clone, Copy, Debug)]
pub enum Type {
    /// `about:blank`: the status says all that a type would.
    Blank,
    /// What the code is added to.
    Prefix(&'static str),
}

/// What a document has.
pub struct Document<'a> {
    /// Its type.
    pub of: Type,
    /// The HTTP status.
    pub status: StatusCode,
    /// Stable, snake_case.
    pub code: &'a str,
    /// What was wrong, and what would be right.
    pub detail: &'a str,
    /// The wrong fields of the request.
    pub errors: &'a [FieldError],
    /// A further member.
    pub member: Option<&'a (&'static str, Value)>,
}

impl Document<'_> {
    /// The document.
    pub fn json(&self) -> Value {
        let of = match self.of {
            Type::Blank => "about:blank".to_owned(),
            Type::Prefix(prefix) => format!("{prefix}{}", self.code),
        };
        let mut document = json!({
            "type": of,
            "title": self.status.canonical_reason().unwrap_or("Error"),
            "status": self.status.as_u16(),
            "code": self.code,
            "detail": self.detail,
        });
        if let Some((name, value)) = self.member {
            document[*name] = value.clone();
        }
        if !self.errors.is_empty() {
            document["errors"] = json!(self.errors);
        }
        document
    }

    /// The response. `challenge` is the value of `WWW-Authenticate`.
    pub fn response(&self, retry_after: Option<Duration>, challenge: Option<&'static str>) -> Response {
        let mut response = (self.status, self.json().to_string()).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(wait) = retry_after {
            headers.insert(RETRY_AFTER, retry_after_value(wait));
        }
        if let Some(challenge) = challenge {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        response
    }
}

/// Whole seconds, at least one, for `Retry-After`.
pub fn retry_after_value(wait: Duration) -> HeaderValue {
    let seconds = wait.as_millis().div_ceil(1000).max(1);
    HeaderValue::from(u64::try_from(seconds).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_has_what_its_interface_says() {
        let errors = [FieldError::new("missing", "name", "add it")];
        let document = Document {
            of: Type::Prefix("urn:x:"),
            status: StatusCode::UNPROCESSABLE_ENTITY,
            code: "invalid",
            detail: "Add it.",
            errors: &errors,
            member: None,
        };
        let expected = json!({
            "type": "urn:x:invalid", "title": "Unprocessable Entity", "status": 422, "code": "invalid", "detail": "Add it.",
            "errors": [{"field": "name", "code": "missing", "detail": "Add it."}],
        });
        assert_eq!(document.json(), expected);
        let member = ("from", json!(7));
        let plain = Document { of: Type::Blank, errors: &[], member: Some(&member), ..document };
        let json = plain.json();
        assert_eq!(
            (&json["type"], &json["from"], json.get("errors")),
            (&"about:blank".into(), &7.into(), None)
        );
    }

    #[test]
    fn a_wait_is_told_in_whole_seconds() {
        for (milliseconds, seconds) in [(0, "1"), (1000, "1"), (1001, "2"), (60_000, "60")] {
            assert_eq!(retry_after_value(Duration::from_millis(milliseconds)), seconds);
        }
    }
}
