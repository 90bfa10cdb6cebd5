//! The endpoints of every app.

mod calls;
pub(crate) mod canary;
mod explain;
mod health;
mod live;
mod streams;
mod tickets;
mod unread;

pub(crate) use calls::{Command, carry_out};
pub(crate) use streams::{Streams, tick};
pub(crate) use unread::Unread;

use crate::Problem;
use crate::app::Fallback;
use crate::context::Context;
use crate::extract::prefers_html;
use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use endpoint::fields::read_json;
use endpoint::routes::{Routes, get, post};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, VARY};
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body::Body as _;
use store::Version;
use tower::Service as _;
use web::body::media_type;
use web::json_size::JsonLimits;

/// A JSON body may have one value, and a form one field, for so many bytes that it may have.
const VALUE_BYTES: usize = 16;
/// How deep lists and objects of a body may be nested. The parser's own limit is twice as much.
const DEPTH_MAX: usize = 64;

/// The routes that every app has.
pub(crate) fn routes() -> Routes<Context> {
    Routes::new(unknown, refuse_method)
        .route("/rpc/{name}", post(calls::call))
        .route("/live", post(live::open).get(live::open_with_ticket).head(live::head))
        .route("/live/ticket", post(tickets::make))
        .route("/live/poll", get(live::poll_query).post(live::poll).head(live::head))
        .route("/live/explain", get(explain::explain))
        .route("/live/{stream}", post(live::change))
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(health::metrics))
}

/// The same, and an app's own for other paths.
pub(crate) fn routes_of(
    own: Router<Context>,
    fallback: Option<Fallback>,
    context: Context,
) -> Routes<Context> {
    let own = match fallback {
        Some(set) => set(own),
        None => own.fallback(unknown),
    };
    let own = match context.0.problem_page {
        Some(page) => own.layer(from_fn(move |request, next| with_page(page, request, next))),
        None => own,
    };
    let own = own.with_state(context);
    routes().with_unknown(move |request: Request| {
        let mut own = own.clone();
        async move {
            // A router is always ready, and has no errors.
            match own.call(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            }
        }
    })
}

/// Replaces the document of a problem by its page if the client prefers HTML.
async fn with_page(page: fn(&Problem) -> String, request: Request, next: Next) -> Response {
    let is_browser = prefers_html(request.headers());
    paged(page, is_browser, next.run(request).await)
}

/// The same for a response that was made.
pub(crate) fn paged(page: fn(&Problem) -> String, is_browser: bool, mut response: Response) -> Response {
    let problem = response.extensions_mut().remove::<Problem>();
    let Some(problem) = problem.or_else(|| unexplained(&response)) else { return response };
    let headers = response.headers_mut();
    headers.append(VARY, HeaderValue::from_static("accept"));
    if !is_browser {
        return response;
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.remove(CONTENT_LENGTH);
    *response.body_mut() = page(&problem).into();
    response
}

async fn unknown() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "unknown_path", "There is nothing at this path.")
}

/// Gives the router's answer to a wrong method, which has no body, a document. (`Router::method_not_allowed_fallback` would
/// do so inside the layers of the app's own routes, and take them away: one for CORS must see the question of a browser.)
pub(crate) fn explained(response: Response) -> Response {
    let Some(problem) = unexplained(&response) else { return response };
    let mut explained = problem.into_response();
    let headers = response.headers().iter().filter(|(name, _)| **name != CONTENT_LENGTH);
    explained.headers_mut().extend(headers.map(|(name, value)| (name.clone(), value.clone())));
    explained
}

fn unexplained(response: &Response) -> Option<Problem> {
    let is_bare = response.status() == StatusCode::METHOD_NOT_ALLOWED
        && !response.headers().contains_key(CONTENT_TYPE)
        && response.body().size_hint().exact() == Some(0);
    is_bare.then(wrong_method)
}

async fn refuse_method() -> Problem {
    wrong_method()
}

fn wrong_method() -> Problem {
    let detail = "This path does not take this method.";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
}

/// The version in `Sarsen-Version`: the answer must not be older.
fn version_of(headers: &HeaderMap) -> Result<Option<Version>, Problem> {
    let Some(value) = headers.get("sarsen-version") else { return Ok(None) };
    let version = value.to_str().ok().and_then(|text| text.parse().ok());
    version.ok_or_else(invalid_version).map(Some)
}

fn invalid_version() -> Problem {
    let detail = "`Sarsen-Version` has an invalid value. Send the value of an earlier response unchanged, or omit the header.";
    Problem::new(StatusCode::BAD_REQUEST, "invalid_version", detail)
}

/// A JSON object from a body; no body is an object without members.
fn json<T: serde::de::DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    // An array would be taken for the members in their order.
    if body.trim_ascii_start().first() == Some(&b'[') {
        return Err(Problem::invalid("", "The body must be an object, not an array."));
    }
    Ok(read_json(if body.is_empty() { b"{}" } else { body })?)
}

/// Whether a media type is one of JSON.
pub(crate) fn is_json(media_type: &str) -> bool {
    media_type == "application/json" || media_type.ends_with("+json")
}

/// Refuses a text with U+0000, which PostgreSQL does not store.
fn refuse_nul(json: &[u8]) -> Result<(), Problem> {
    match has_nul(json) {
        true => Err(Problem::invalid("", "A text has the character U+0000 (`\\u0000`); remove it.")),
        false => Ok(()),
    }
}

/// Refuses JSON that cannot be stored, and a body that would take many times its size when it is read: a value may be two bytes
/// long, and takes a hundred in memory. `bytes_max`, the limit on the size of bodies, limits the values too. `is_call` says
/// that the body is read as JSON whatever its type.
pub(crate) fn check_body(
    headers: &HeaderMap,
    is_call: bool,
    body: &[u8],
    bytes_max: usize,
) -> Result<(), Problem> {
    let values = bytes_max / VALUE_BYTES;
    let too_much = |what| Problem::invalid("", format!("The body has {what}. Send less at a time."));
    match media_type(headers).as_str() {
        "application/x-www-form-urlencoded" if !is_call => {
            if body.iter().filter(|byte| **byte == b'&').count() >= values {
                return Err(too_much(format!("more than {values} fields")));
            }
            match body.windows(3).any(|part| part == b"%00") {
                true => Err(Problem::invalid("", "A field has the character U+0000 (`%00`); remove it.")),
                false => Ok(()),
            }
        }
        kind if is_call || is_json(kind) => {
            let limits = JsonLimits { values, depth: DEPTH_MAX, text: usize::MAX };
            limits.check(body).map_err(too_much)?;
            refuse_nul(body)
        }
        // What a route of the app makes of another type is not known here.
        _ => Ok(()),
    }
}

fn has_nul(json: &[u8]) -> bool {
    let escape = b"\\u0000";
    let is_escaped = |at: usize| json[..at].iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1;
    let mut places = json.windows(escape.len()).enumerate().filter(|(_, window)| window == escape);
    places.any(|(at, _)| !is_escaped(at))
}

#[cfg(test)]
mod tests {
    use super::has_nul;

    #[test]
    fn only_the_character_itself_is_refused() {
        for (json, expected) in [
            (r#"{"a":"\u0000"}"#, true),
            (r#"{"a":"\\\u0000"}"#, true),
            (r#"{"a":"\\u0000"}"#, false),
            (r#"{"a":"u0000 \u0001"}"#, false),
            ("", false),
        ] {
            assert_eq!(has_nul(json.as_bytes()), expected, "{json}");
        }
    }
}
