//! JSON on the wire: bodies, lists, times.

use crate::web::auth::Peer;
use crate::web::error::{Problem, Result};
use crate::web::idempotency::Attempt;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::marker::PhantomData;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use store::Time;

/// The largest body that is read.
pub const BODY_MAX: usize = 64 * 1024;

/// Reads a body within its limits of size and time. The rest of the request is dropped before the wait.
pub fn read_body(request: Request) -> impl Future<Output = Result<Bytes>> + Send {
    let time = request.extensions().get::<Peer>().map_or(Duration::from_secs(10), |peer| peer.body_time);
    collect(request.into_body(), time)
}

async fn collect(body: axum::body::Body, time: Duration) -> Result<Bytes> {
    let too_large = || {
        Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "body_too_large",
            format!("The body may have {BODY_MAX} bytes at most."),
        )
    };
    // A `Content-Length` above the limit is refused before the body is read.
    if body.size_hint().lower() > BODY_MAX as u64 {
        return Err(too_large());
    }
    let body = http_body_util::Limited::new(body, BODY_MAX).collect();
    match tokio::time::timeout(time, body).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(Problem::bad_request("body_broken", "The body ended before it was complete.")),
        Err(_) => {
            let detail = "The body did not arrive in time.";
            Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "body_timeout", detail))
        }
    }
}

/// Whether each `%` in a form or a URL precedes two hexadecimal digits.
pub(crate) fn has_good_percents(bytes: &[u8]) -> bool {
    let digits = |after: &[u8]| after.len() >= 2 && after[..2].iter().all(u8::is_ascii_hexdigit);
    bytes.split(|byte| *byte == b'%').skip(1).all(digits)
}

/// Whether the percent-encoded text is UTF-8 without a NUL, which not every database accepts in text.
pub(crate) fn is_text(encoded: &[u8]) -> bool {
    let readable = |(name, value): (Cow<'_, str>, Cow<'_, str>)| {
        ![name, value].iter().any(|text| text.contains([char::REPLACEMENT_CHARACTER, '\0']))
    };
    has_good_percents(encoded) && form_urlencoded::parse(encoded).all(readable)
}

/// The media type of a request's body, without parameters, in lower case.
pub fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// A JSON body of a request. The error for an unknown field, a wrong type or wrong syntax names its place.
pub struct Body<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Problem;
    async fn from_request(request: Request, _: &S) -> Result<Body<T>> {
        if media_type(request.headers()) != "application/json" {
            let detail = "Send a JSON object with Content-Type: application/json.";
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not_json", detail));
        }
        let attempt = request.extensions().get::<Arc<Attempt>>().cloned();
        let bytes = read_body(request).await?;
        if let Some(attempt) = attempt {
            attempt.has_body(&bytes);
        }
        parse(&bytes).map(Body)
    }
}

/// Whether a string of this JSON contains a NUL, which not every database stores.
fn holds_nul(json: &[u8]) -> bool {
    let mut rest = json;
    while let Some(at) = rest.iter().position(|byte| *byte == b'\\') {
        let escaped = &rest[at + 1..];
        if escaped.starts_with(b"u0000") {
            return true;
        }
        // The escaped byte may be a backslash, which then escapes nothing.
        rest = escaped.get(1..).unwrap_or_default();
    }
    false
}

/// Reads a JSON object; an error names the field.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    // serde would take a list too, with its items as the fields in their order.
    if bytes.trim_ascii_start().first().is_some_and(|first| *first != b'{') {
        return Err(Problem::bad_request("invalid_json", "The body is not a JSON object."));
    }
    if holds_nul(bytes) {
        let detail = "The body holds a NUL (\\u0000), which no text may hold.";
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", detail));
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let parsed = serde_path_to_error::deserialize(&mut json);
    let parsed = parsed.map_err(|error| (error.path().to_string(), error.into_inner()));
    let parsed = parsed.and_then(|body| json.end().map(|()| body).map_err(|error| (String::new(), error)));
    parsed.map_err(|(path, error)| match error.classify() {
        serde_json::error::Category::Data => {
            let place = if matches!(&*path, "" | ".") { String::new() } else { format!(" ({path})") };
            let detail = format!("The body is not valid{place}: {error}.");
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", detail)
        }
        _ => Problem::bad_request("invalid_json", format!("The body is not JSON: {error}.")),
    })
}

/// The query string of a request. The error for an unknown name or a wrong value names it.
pub struct Params<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Params<T>> {
        let sent = parts.uri.query().unwrap_or_default().as_bytes();
        if !is_text(sent) {
            let detail = "The address holds something that is not UTF-8 in percent-encoding, or a NUL.";
            return Err(Problem::bad_request("invalid_query", detail));
        }
        let query = Query::<T>::from_request_parts(parts, state).await;
        let Query(query) = query.map_err(|error| Problem::bad_request("invalid_query", error.body_text()))?;
        Ok(Params(query))
    }
}

/// `?limit=&cursor=` of a list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PageQuery {
    limit: Option<i64>,
    cursor: Option<String>,
}

/// The requested part of a list. `C` is the sort key of its items, an id or [`Slug`].
pub struct Page<C> {
    /// The number of items, 1 to 200.
    pub limit: i64,
    /// The position after which it begins.
    pub cursor: Option<String>,
    sorted_by: PhantomData<fn() -> C>,
}

/// The cursor of lists that are sorted by slug.
pub struct Slug;

impl FromStr for Slug {
    type Err = identity::Error;
    fn from_str(text: &str) -> identity::Result<Slug> {
        identity::names::slug("cursor", text).map(|_| Slug)
    }
}

impl<C: FromStr> Page<C> {
    /// The page that a query string requests, with other parameters besides these two.
    pub fn new(limit: Option<i64>, cursor: Option<String>) -> Result<Page<C>> {
        let limit = limit.unwrap_or(50);
        if !(1..=200).contains(&limit) {
            return Err(Problem::bad_request("invalid_query", format!("limit is {limit}; use 1 to 200.")));
        }
        if cursor.as_ref().is_some_and(|cursor| cursor.parse::<C>().is_err()) {
            let detail = "cursor is not valid. Use the `next` value of the previous page.";
            return Err(Problem::bad_request("invalid_query", detail));
        }
        Ok(Page { limit, cursor, sorted_by: PhantomData })
    }
}

impl Page<()> {
    /// For a list so short that it has no pages.
    pub fn whole() -> Page<()> {
        Page { limit: 200, cursor: None, sorted_by: PhantomData }
    }
}

impl<C> Page<C> {
    /// The number of rows to read: one more than the page, to see whether there is a next page.
    pub fn fetch(&self) -> i64 {
        self.limit + 1
    }
}

impl<C: FromStr, S: Send + Sync> FromRequestParts<S> for Page<C> {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Page<C>> {
        let Params(query) = Params::<PageQuery>::from_request_parts(parts, state).await?;
        Page::new(query.limit, query.cursor)
    }
}

/// A part of a list in a response.
#[derive(Serialize)]
pub struct List<T> {
    items: Vec<T>,
    next: Option<String>,
}

impl<T> List<T> {
    /// Takes one item more than the page holds, and makes the cursor of the next page from the page's last item.
    pub fn new<S, C>(
        mut found: Vec<S>,
        page: &Page<C>,
        cursor: impl Fn(&S) -> String,
        show: impl Fn(S) -> T,
    ) -> List<T> {
        let limit = usize::try_from(page.limit).unwrap_or(usize::MAX);
        let more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| more).map(cursor);
        List { items: found.into_iter().map(show).collect(), next }
    }
}

/// RFC 3339, UTC, with milliseconds if there are any.
pub fn rfc3339(time: Time) -> String {
    jiff::Timestamp::from_millisecond(time.millis())
        .map_or_else(|_| "9999-12-31T23:59:59Z".to_owned(), |time| time.to_string())
}

/// Reads an RFC 3339 time of a field.
pub fn parse_time(field: &'static str, text: &str) -> Result<Time> {
    let parsed: std::result::Result<jiff::Timestamp, _> = text.parse();
    parsed.map(|time| Time::from_millis(time.as_millisecond())).map_err(|_| {
        identity::Error::invalid(
            field,
            format!("{text:?} is not a time; expected RFC 3339, like \"2027-01-31T00:00:00Z\""),
        )
        .into()
    })
}

/// Reads a field that may be `null`: with `#[serde(default)]`, a missing field (`None`, no change) differs from a
/// `null` (`Some(None)`, remove the value).
pub fn nullable<'de, T, D>(deserializer: D) -> std::result::Result<Option<Option<T>>, D::Error>
where
    T: Deserialize<'de>,
    D: serde::Deserializer<'de>,
{
    Option::<T>::deserialize(deserializer).map(Some)
}

/// The most bytes of the responses on the hot path.
const USUAL_ANSWER: usize = 512;

/// A JSON answer.
pub struct Json<T>(pub T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        let mut body = Vec::with_capacity(USUAL_ANSWER);
        match serde_json::to_writer(&mut body, &self.0) {
            Ok(()) => json(body.into()),
            Err(error) => {
                tracing::error!(%error, "an answer could not be written");
                StatusCode::INTERNAL_SERVER_ERROR.into_response()
            }
        }
    }
}

/// A JSON response that is already encoded.
pub struct Written(pub String);

impl IntoResponse for Written {
    fn into_response(self) -> Response {
        json(self.0.into())
    }
}

fn json(body: axum::body::Body) -> Response {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A 201 answer.
pub struct Created<T>(pub T);

impl<T: Serialize> IntoResponse for Created<T> {
    fn into_response(self) -> Response {
        (StatusCode::CREATED, Json(self.0)).into_response()
    }
}
