//! What concerns every answer: CORS where other origins may read (never with credentials), the version of the
//! state that it shows, and counting.

use crate::app::App;
use crate::error::Problem;
use crate::pages::respond::PageError;
use crate::wire;
use axum::response::{IntoResponse, Response};
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ORIGIN, VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use store::Version;
use tower::Service as _;

const VERSION: HeaderName = HeaderName::from_static("sarsen-version");

/// Where any origin may read answers. Not here: the authorization endpoint and the pages.
fn is_shared(path: &str) -> bool {
    const SHARED: &[&str] = &[
        "/.well-known/",
        "/auth/token",
        "/auth/userinfo",
        "/auth/revoke",
        "/auth/device/",
        "/auth/par",
        "/api/",
    ];
    SHARED.iter().any(|prefix| path.starts_with(prefix))
}

/// Serves one request.
pub(crate) async fn serve<B>(app: &App, router: axum::Router, request: Request<B>) -> Response
where
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<axum::BoxError>,
{
    let shareable = is_shared(request.uri().path());
    let shared = shareable && request.headers().contains_key(ORIGIN);
    let asks_first = shared && request.method() == Method::OPTIONS;
    let versioned = request.uri().path().starts_with("/api/");
    let carried = match request.uri().path() {
        path if path.contains('%') && !wire::is_text(path.as_bytes()) => {
            let detail = "The address holds something that is not UTF-8 in percent-encoding, or a NUL.";
            Err(Problem::bad_request("invalid_path", detail))
        }
        _ if versioned => carried(request.headers()),
        _ => Ok(None),
    };
    let (mut response, version) = match carried {
        _ if asks_first => (preflight(), app.store.shown()),
        Ok(None) => answer(app, router, request).await,
        // In a box, because it is rare: every connection has room for the others all the time.
        Ok(Some(version)) => Box::pin(store::not_before(version, answer(app, router, request))).await,
        Err(problem) if versioned => (problem.into_response(), app.store.shown()),
        Err(problem) => (PageError::from(problem).into_response(), app.store.shown()),
    };
    let headers = response.headers_mut();
    if versioned {
        headers.insert(VERSION, HeaderValue::from(version));
    }
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if shareable {
        // A cache that keeps an answer without CORS headers must not give it to who needs them.
        headers.insert(VARY, HeaderValue::from_static("origin"));
    }
    if shared {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        headers.insert(
            ACCESS_CONTROL_EXPOSE_HEADERS,
            HeaderValue::from_static("retry-after, sarsen-version, www-authenticate"),
        );
    }
    app.metrics.answered(response.status().as_u16());
    response
}

/// The answer, and the version that it shows.
async fn answer<B>(app: &App, mut router: axum::Router, request: Request<B>) -> (Response, Version)
where
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<axum::BoxError>,
{
    // A router is always ready.
    let response = match router.call(request.map(axum::body::Body::new)).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    // Read after the data: they may be older than it says, never newer.
    (response, app.store.carried_on())
}

/// The version that the caller has from an earlier answer, of this instance or another one.
pub(crate) fn carried(headers: &HeaderMap) -> Result<Option<Version>, Problem> {
    let Some(value) = headers.get(VERSION) else { return Ok(None) };
    let version = value.to_str().ok().and_then(|text| text.parse().ok());
    version.map(Some).ok_or_else(|| {
        Problem::bad_request(
            "invalid_version",
            "Sarsen-Version is not one that an answer has carried; send back what you got, or nothing.",
        )
    })
}

fn preflight() -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    let allowed = "authorization, content-type, prefer, sarsen-version";
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(allowed));
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, PUT, PATCH, DELETE"));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("7200"));
    response
}
