//! JSON on the wire: bodies, lists, times.

use crate::web::error::{Problem, Result};
use crate::web::fields::{self, FieldErrors, Rules as _, Validate};
pub use api::List;
pub use api::fields::{nullable, sent};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use endpoint::idempotency::{Respond, SentKey, Stored};
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderValue, StatusCode};
use identity::secrets;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::marker::PhantomData;
use std::str::FromStr;
use std::time::Duration;
use store::Time;
use web::Peer;
use web::body::Failure;
pub use web::body::media_type;
use web::current_request;
use web::json_size::JsonLimits;
use web::percent::is_text;

/// The largest body that is read.
pub const BODY_MAX: usize = 64 * 1024;
/// What a JSON body may have: the largest list of the API, `checks`, has 1,500 values with its fields.
const JSON_MAX: JsonLimits = JsonLimits { values: 2048, depth: 16, text: 8192 };
/// The most bytes of a query string: a hundred ids, encoded, have 3,600.
const QUERY_MAX: usize = 8192;
/// The most parameters of a query string or form, empty ones included.
pub(crate) const PARAMETERS_MAX: usize = 64;

/// Reads a body of at most [`BODY_MAX`] bytes.
pub fn read_body(request: Request) -> impl Future<Output = Result<Bytes>> + Send {
    read_body_up_to(request, BODY_MAX)
}

/// Reads a body within its limits of size and time. The rest of the request is dropped before the wait.
pub fn read_body_up_to(request: Request, most: usize) -> impl Future<Output = Result<Bytes>> + Send {
    let time = request.extensions().get::<Peer>().map_or(Duration::from_secs(10), |peer| peer.body_time);
    collect(request.into_body(), time, most)
}

async fn collect(body: axum::body::Body, time: Duration, most: usize) -> Result<Bytes> {
    web::body::read(body, time, most).await.map_err(|failure| match failure {
        Failure::TooLarge => Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "body_too_large",
            format!("The body may have {most} bytes at most."),
        ),
        Failure::Broken => Problem::bad_request("body_broken", "The body ended before it was complete."),
        Failure::Late => {
            let detail = "The body did not arrive in time.";
            Problem::new(StatusCode::REQUEST_TIMEOUT, "body_timeout", detail)
        }
    })
}

/// A JSON body of a request. The error lists every wrong field.
pub struct Body<T>(pub T);

impl<T: DeserializeOwned + Validate, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Problem;
    async fn from_request(request: Request, _: &S) -> Result<Body<T>> {
        if media_type(request.headers()) != "application/json" {
            let detail = "Send a JSON object with Content-Type: application/json.";
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not_json", detail));
        }
        let key = request.extensions().get::<SentKey>().cloned();
        let bytes = read_body(request).await?;
        if let Some(key) = key {
            key.has_body(&bytes);
        }
        fields::read_body(&bytes, T::validate).map(Body)
    }
}

/// Refuses JSON with more, deeper or longer values than any route takes, before anything is made of them.
pub(super) fn check_size(json: &[u8]) -> Result<()> {
    JSON_MAX.check(json).map_err(too_much)
}

fn too_much(what: String) -> Problem {
    let detail = format!("The body has {what}. No field takes that; send less.");
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", detail)
}

/// Reads a JSON object without rules beyond its type.
#[cfg(feature = "testing")]
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    fields::read_body(bytes, |_, _| {})
}

/// The query string of a request. The error lists every unknown or wrong parameter.
pub struct Params<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Params<T>> {
        let sent = parts.uri.query().unwrap_or_default().as_bytes();
        if sent.len() > QUERY_MAX {
            let detail = format!("The query of the address has more than {QUERY_MAX} bytes.");
            return Err(Problem::bad_request("invalid_query", detail));
        }
        if sent.split(|byte| *byte == b'&').nth(PARAMETERS_MAX).is_some() {
            let detail = format!("The address has more than {PARAMETERS_MAX} parameters.");
            return Err(Problem::bad_request("invalid_query", detail));
        }
        if !is_text(sent) {
            let detail = "The address holds something that is not UTF-8 in percent-encoding, or a NUL.";
            return Err(Problem::bad_request("invalid_query", detail));
        }
        fields::read_query(sent).map(Params)
    }
}

/// `?limit=&cursor=` of a list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PageQuery {
    limit: Option<i64>,
    cursor: Option<String>,
}

const WRONG_CURSOR: &str = "the cursor is not valid for this list; use the `next` value of the previous page";

/// The requested part of a list. `C` is the sort key of its items, an id or [`Slug`].
pub struct Page<C> {
    /// The number of items, 1 to 200.
    pub limit: i64,
    /// The position after which it begins.
    pub cursor: Option<String>,
    /// What its cursors end with, so that they are good for lists with the same filter only.
    tag: String,
    sorted_by: PhantomData<fn() -> C>,
}

/// The cursor of lists that are sorted by slug.
pub struct Slug;

/// The cursor of lists that are sorted by a text that an address cannot hold as it is.
pub struct Encoded(pub String);

impl Encoded {
    /// The cursor of a text.
    pub fn cursor(text: &str) -> String {
        URL_SAFE_NO_PAD.encode(text)
    }
}

impl FromStr for Encoded {
    type Err = identity::Error;
    fn from_str(cursor: &str) -> identity::Result<Encoded> {
        let text = URL_SAFE_NO_PAD.decode(cursor).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        text.map(Encoded).ok_or_else(|| identity::Error::invalid("cursor", WRONG_CURSOR))
    }
}

impl FromStr for Slug {
    type Err = identity::Error;
    fn from_str(text: &str) -> identity::Result<Slug> {
        identity::names::slug("cursor", text).map(|_| Slug)
    }
}

impl<C: FromStr> Page<C> {
    /// The page that a query string requests, with other parameters besides these two.
    pub fn new(limit: Option<i64>, cursor: Option<String>) -> Result<Page<C>> {
        Page::filtered(limit, cursor, &[])
    }

    /// The same for a list that has a filter or an order: its parameters, each in its place. A cursor is good only for
    /// the parameters of the list that gave it.
    pub fn filtered(
        limit: Option<i64>,
        cursor: Option<String>,
        parameters: &[Option<&str>],
    ) -> Result<Page<C>> {
        let tag = tag(parameters);
        // Without the tag of these parameters it is the cursor of another list.
        let position = cursor.map(|cursor| cursor.strip_suffix(&tag).map(str::to_owned));
        let limit = limit.unwrap_or(50);
        let mut errors = FieldErrors::default();
        if !(1..=200).contains(&limit) {
            errors.note(
                "out_of_range",
                "limit".to_owned(),
                &format!("{limit} is out of range; use 1 to 200"),
            );
        }
        let is_wrong = |position: &Option<String>| {
            position.as_ref().is_none_or(|position| position.parse::<C>().is_err())
        };
        if position.as_ref().is_some_and(is_wrong) {
            errors.note("invalid", "cursor".to_owned(), WRONG_CURSOR);
        }
        errors.finish_query()?;
        Ok(Page { limit, cursor: position.flatten(), tag, sorted_by: PhantomData })
    }
}

/// The end of the cursors of a list with these parameters. Empty without any.
fn tag(parameters: &[Option<&str>]) -> String {
    if parameters.iter().all(Option::is_none) {
        return String::new();
    }
    let text: Vec<String> = parameters.iter().map(|parameter| format!("{parameter:?}")).collect();
    let hash = secrets::hash(text.join(",").as_bytes());
    format!(".{}", URL_SAFE_NO_PAD.encode(&hash[..6]))
}

impl Page<()> {
    /// For a list so short that it has no pages.
    pub fn whole() -> Page<()> {
        Page { limit: 200, cursor: None, tag: String::new(), sorted_by: PhantomData }
    }
}

impl<C: FromStr> Page<C> {
    /// The cursor in its own type.
    pub fn place(&self) -> Option<C> {
        self.cursor.as_deref().and_then(|cursor| cursor.parse().ok())
    }
}

impl<C> Page<C> {
    /// The number of rows to read: one more than the page, to see whether there is a next page.
    pub fn fetch(&self) -> i64 {
        self.limit + 1
    }

    /// Takes one item more than the page holds, and makes the cursor of the next page from the page's last item.
    pub fn list<S, T>(
        &self,
        mut found: Vec<S>,
        cursor: impl Fn(&S) -> String,
        show: impl Fn(S) -> T,
    ) -> List<T> {
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| more).map(|last| cursor(last) + &self.tag);
        List { items: found.into_iter().map(show).collect(), next }
    }
}

impl<C: FromStr, S: Send + Sync> FromRequestParts<S> for Page<C> {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Page<C>> {
        let Params(query) = Params::<PageQuery>::from_request_parts(parts, state).await?;
        Page::new(query.limit, query.cursor)
    }
}

/// RFC 3339, UTC, with milliseconds if there are any.
pub fn rfc3339(time: Time) -> String {
    jiff::Timestamp::from_millisecond(time.millis())
        .map_or_else(|_| "9999-12-31T23:59:59Z".to_owned(), |time| time.to_string())
}

/// Reads an RFC 3339 time of a field.
pub fn parse_time(field: &'static str, text: &str) -> identity::Result<Time> {
    let parsed: std::result::Result<jiff::Timestamp, _> = text.parse();
    parsed.map(|time| Time::from_millis(time.as_millisecond())).map_err(|_| {
        identity::Error::invalid(
            field,
            format!("{text:?} is not a time; use RFC 3339, like \"2027-01-31T00:00:00Z\""),
        )
    })
}

/// Reads a time or a date of a parameter. A date is its first moment in UTC.
pub fn parse_time_or_date(field: &'static str, text: &str) -> identity::Result<Time> {
    let date: std::result::Result<jiff::civil::Date, _> = text.parse();
    let midnight = date.ok().filter(|_| text.len() == 10);
    match midnight.and_then(|date| date.to_zoned(jiff::tz::TimeZone::UTC).ok()) {
        Some(midnight) => Ok(Time::from_millis(midnight.timestamp().as_millisecond())),
        None => parse_time(field, text),
    }
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
                tracing::error!(%error, request_id = current_request::id(), "an answer could not be written");
                StatusCode::INTERNAL_SERVER_ERROR.into_response()
            }
        }
    }
}

impl<T: Serialize + Send + 'static> Respond for Json<T> {
    fn respond(&self) -> serde_json::Result<Stored> {
        Stored::json(StatusCode::OK, &self.0)
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

impl<T: Serialize + Send + 'static> Respond for Created<T> {
    fn respond(&self) -> serde_json::Result<Stored> {
        Stored::json(StatusCode::CREATED, &self.0)
    }
}
