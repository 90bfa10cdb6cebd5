//! What concerns every answer: CORS where other origins may read (never with credentials), and counting.

use crate::app::App;
use axum::response::{IntoResponse, Response};
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ORIGIN, VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderValue, Method, Request, StatusCode};
use tower::ServiceExt as _;

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
    let mut response = if shared && request.method() == Method::OPTIONS {
        preflight()
    } else {
        match router.oneshot(request.map(axum::body::Body::new)).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    };
    let headers = response.headers_mut();
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

fn preflight() -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    let allowed = "authorization, content-type, idempotency-key, prefer, sarsen-version";
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(allowed));
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, PUT, PATCH, DELETE"));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("7200"));
    response
}
