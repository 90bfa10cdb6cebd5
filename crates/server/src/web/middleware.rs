//! The parts of every response: CORS where other origins may read (never with credentials), the version of the
//! state that it shows, and metrics. A handler that panics has failed for its own request only, with 500.

use crate::app::App;
use crate::oauth::error::OAuthError;
use crate::pages::contact::slug_of;
use crate::pages::language::WantedLanguages;
use crate::pages::respond::{ErrorPage, PageError, section};
use crate::web::error::Problem;
use axum::response::{IntoResponse, Response};
use endpoint::idempotency::SentKey;
use endpoint::routes::{Answer, Matched, Routes};
use http::header::{
    ACCEPT, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ORIGIN, SET_COOKIE, STRICT_TRANSPORT_SECURITY,
    VARY, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri};
use identity::api_keys;
use std::net::IpAddr;
use std::pin::Pin;
use std::time::{Duration, Instant};
use store::Version;
use web::Peer;
use web::asked_headers::asked_headers;
use web::current_request::{self, CurrentRequest};
use web::forwarded::forwarded;
use web::panics::{Panicked, caught_in};
use web::percent::is_text;
use web::request_id::X_REQUEST_ID;
use web::request_log::Entry;

const VERSION: HeaderName = HeaderName::from_static("sarsen-version");

/// The longest path. The longest of a route with ids in it is a tenth of this.
const PATH_MAX: usize = 2048;

/// Where any origin may read responses. The authorization endpoint and the pages are not among them.
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

/// How a request is handled.
enum Answering {
    Plainly(Answer),
    /// With the version that the caller sent back from an earlier response.
    NotBefore(Pin<Box<dyn Future<Output = (Response, Version)> + Send>>),
}

impl Answering {
    fn at_once(response: Response) -> Answering {
        Answering::Plainly(Box::pin(std::future::ready(response)))
    }
}

/// What the request log needs of a request at its end.
struct Started {
    method: Method,
    address: IpAddr,
}

impl Started {
    fn new<B>(app: &App, peer: Peer, request: &Request<B>) -> Started {
        let (trusted, header) = (&app.settings.trusted_proxies, app.settings.client_address_header);
        let address = forwarded(request.headers(), peer.address, trusted, header);
        Started { method: request.method().clone(), address }
    }

    fn log(&self, app: &App, current: &CurrentRequest, route: &'static str, status: u16, duration: Duration) {
        let Some(log) = &app.request_log else { return };
        log.push(&Entry {
            at_ms: app.now().millis(),
            method: &self.method,
            route,
            status,
            duration,
            request_id: current.id.as_bytes(),
            address: self.address,
            client: current.client.get().map(|client| &**client),
        });
    }
}

/// Serves one request from `peer`. Futures that wait are boxed, because each connection reserves their
/// space all the time.
pub(crate) fn serve<B>(
    app: &App,
    routes: &Routes<App>,
    peer: Peer,
    request: Request<B>,
) -> impl Future<Output = Response> + Send + use<B>
where
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<axum::BoxError>,
{
    let began = Instant::now();
    let id = app.request_ids.id(request.headers());
    let started = app.request_log.is_some().then(|| Started::new(app, peer, &request));
    let path = request.uri().path();
    let refusal = refusal(path);
    let shareable = is_shared(path);
    let versioned = path.starts_with("/api/");
    let shared = shareable && request.headers().contains_key(ORIGIN);
    let about: Option<Box<str>> = slug_of(path).map(Box::from);
    // What programs call has no pages, and many of these requests.
    let wanted = (!shareable).then(|| WantedLanguages::of(request.uri(), request.headers()));
    let asks_first = shared && request.method() == Method::OPTIONS;
    let is_head = request.method() == Method::HEAD;
    let accepted =
        app.hosts.check(&request).map_err(Problem::from).and_then(|()| check_path(path)).and_then(|()| {
            match versioned {
                true => check_no_key(request.uri()).and_then(|()| carried(request.headers())),
                false => Ok(None),
            }
        });
    let (answering, matched) = match accepted {
        Err(problem) => (Answering::at_once(refusal(problem)), Matched::NOTHING),
        Ok(_) if asks_first => (Answering::at_once(preflight(request.headers())), Matched::NOTHING),
        Ok(carried) => match sent_key(&request, versioned) {
            Ok(key) => answering(app, routes, peer, request, carried, key, wanted.clone()),
            Err(problem) => (Answering::at_once(problem.into_response()), Matched::NOTHING),
        },
    };
    let app = app.clone();
    async move {
        let answered = async {
            // The version is read after the data, so the data may be older than the version, never newer.
            match answering {
                Answering::Plainly(answer) => (answer.await, app.store.shown()),
                Answering::NotBefore(answer) => answer.await,
            }
        };
        let (current, answered) = current_request::scope(id, caught_in(answered)).await;
        let (mut response, version) =
            answered.unwrap_or_else(|Panicked| (refusal(Problem::internal()), app.store.shown()));
        if let Some(page) = response.extensions_mut().remove::<ErrorPage>() {
            let wanted = wanted.unwrap_or_default();
            Box::pin(page.complete(&app, wanted.language(&app), about.as_deref(), &mut response)).await;
        }
        let is_refused = matches!(response.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        let headers = response.headers_mut();
        if is_head {
            // HEAD changes nothing, not in the browser either.
            headers.remove(SET_COOKIE);
        }
        if versioned {
            if let Ok(version) = HeaderValue::try_from(version.to_string()) {
                headers.insert(VERSION, version);
            }
            if is_refused {
                name_metadata(&app, headers);
            }
        }
        secure(&app, headers);
        if shareable {
            // A cache must not give a response without CORS headers to a caller that needs them.
            headers.append(VARY, HeaderValue::from_static("origin"));
        }
        if shared {
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
            headers.insert(
                ACCESS_CONTROL_EXPOSE_HEADERS,
                HeaderValue::from_static(
                    "idempotency-replayed, retry-after, sarsen-version, www-authenticate, x-request-id",
                ),
            );
        }
        let status = response.status().as_u16();
        let took = began.elapsed();
        app.metrics.answered(matched.place, status, took);
        if let Some(current) = current {
            if status == 500 {
                tracing::error!(request_id = ?current.id, route = matched.route, "a request failed");
            }
            if let Some(started) = started {
                started.log(&app, &current, matched.route, status, took);
            }
            response.headers_mut().insert(X_REQUEST_ID, current.id);
        }
        response
    }
}

/// Answers a request whose head is too large: a page for browsers, as far as the head tells. It may end in the address,
/// before the header `Accept`; then the path decides.
pub(crate) fn refuse_head(app: &App, head: &Request<()>) -> Response {
    const STATUS: StatusCode = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
    let path = head.uri().path();
    let is_page = match head.headers().get(ACCEPT).and_then(|accept| accept.to_str().ok()) {
        Some(accept) => accept.contains("text/html"),
        None => !is_shared(path) && !path.starts_with("/webhooks/"),
    };
    let mut response = match is_page {
        true => {
            let mut response = PageError::new(STATUS, section!("problem.too_large")).into_response();
            if let Some(page) = response.extensions_mut().remove::<ErrorPage>() {
                let wanted = WantedLanguages::of(head.uri(), head.headers());
                page.write(wanted.language(app), None, &mut response);
            }
            response
        }
        false => {
            let detail = "The head of the request is larger than 16 KiB, or has more than 100 headers. Send a shorter address \
                          (a shorter `state`, or a form with POST), and fewer or shorter headers and cookies.";
            Problem::new(STATUS, "head_too_large", detail).into_response()
        }
    };
    secure(app, response.headers_mut());
    app.metrics.answered(None, STATUS.as_u16(), Duration::ZERO);
    response
}

/// The headers of every response that protect its reader.
fn secure(app: &App, headers: &mut HeaderMap) {
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if app.settings.issuer.starts_with("https:") {
        // Subdomains may belong to others.
        headers.insert(STRICT_TRANSPORT_SECURITY, HeaderValue::from_static("max-age=31536000"));
    }
}

/// Adds to a challenge of the API where the metadata of the API is (RFC 9728 section 5.1), from which a client learns
/// where it gets tokens.
fn name_metadata(app: &App, headers: &mut HeaderMap) {
    let Some(challenge) = headers.get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok()) else { return };
    let joint = if challenge.contains(' ') { ", " } else { " " };
    let metadata = app.url("/.well-known/oauth-protected-resource/api");
    if let Ok(value) = HeaderValue::try_from(format!("{challenge}{joint}resource_metadata=\"{metadata}\"")) {
        headers.insert(WWW_AUTHENTICATE, value);
    }
}

/// Refuses a URL that contains something like an API key.
fn check_no_key(uri: &Uri) -> Result<(), Problem> {
    if !uri.path_and_query().is_some_and(|address| address.as_str().contains(api_keys::PREFIX)) {
        return Ok(());
    }
    let detail = "The address contains an API key. Proxies log addresses: revoke this key, and send the next one in the \
                  header Authorization.";
    Err(Problem::bad_request("key_in_url", detail))
}

fn check_path(path: &str) -> Result<(), Problem> {
    if path.len() > PATH_MAX {
        let detail = format!("The path has more than {PATH_MAX} bytes.");
        return Err(Problem::bad_request("invalid_path", detail));
    }
    if !path.contains('%') || is_text(path.as_bytes()) {
        return Ok(());
    }
    let detail = "The path contains something that is not UTF-8 in percent-encoding, or a NUL.";
    Err(Problem::bad_request("invalid_path", detail))
}

/// What makes a response of a problem, in the format of this path.
fn refusal(path: &str) -> fn(Problem) -> Response {
    match path {
        path if path.starts_with("/api/") || path.starts_with("/webhooks/") => Problem::into_response,
        path if path.starts_with("/auth/") => |problem| OAuthError::from(problem).into_response(),
        _ => |problem| PageError::from(problem).into_response(),
    }
}

/// The `Idempotency-Key`, on the routes that accept one.
fn sent_key<B>(request: &Request<B>, versioned: bool) -> Result<Option<SentKey>, Problem> {
    if versioned { Ok(SentKey::of(request.method(), request.headers())?) } else { Ok(None) }
}

fn answering<B>(
    app: &App,
    routes: &Routes<App>,
    peer: Peer,
    request: Request<B>,
    carried: Option<Version>,
    key: Option<SentKey>,
    wanted: Option<WantedLanguages>,
) -> (Answering, Matched)
where
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<axum::BoxError>,
{
    let mut request = request.map(axum::body::Body::new);
    request.extensions_mut().insert(peer);
    if let Some(wanted) = wanted {
        request.extensions_mut().insert(wanted);
    }
    if let Some(key) = key {
        request.extensions_mut().insert(key);
    }
    let (answer, matched) = routes.answer(app.clone(), request);
    let Some(version) = carried else { return (Answering::Plainly(answer), matched) };
    let app = app.clone();
    let answer = async move { (answer.await, app.store.version_token()) };
    (Answering::NotBefore(Box::pin(store::not_before(version, answer))), matched)
}

/// The version that the caller sent back from an earlier response, of this instance or another one.
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

/// Lets a page send the headers that it asks for: without cookies, none of them gives it a right.
fn preflight(asked: &HeaderMap) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    let allowed = asked_headers(asked).cloned().unwrap_or_else(|| {
        HeaderValue::from_static(
            "authorization, content-type, idempotency-key, last-event-id, prefer, sarsen-version, x-request-id",
        )
    });
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, allowed);
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, PUT, PATCH, DELETE"));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("7200"));
    response
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use super::*;
    use crate::testing::TestServer;
    use axum::body::{Body, to_bytes};
    use endpoint::routes::{get, post};

    async fn nothing() -> Response {
        StatusCode::NOT_FOUND.into_response()
    }

    async fn panics() -> Response {
        tokio::task::yield_now().await;
        panic!("for the test")
    }

    #[tokio::test]
    async fn a_handler_that_panics_has_failed_for_its_request() {
        let server = TestServer::start().await;
        let routes = Routes::new(nothing, nothing)
            .route("/api/panic", get(panics).post(panics))
            .route("/auth/panic", post(panics))
            .route("/panic", get(panics));
        let peer = Peer { address: [127, 0, 0, 1].into(), body_time: Duration::from_secs(1) };
        let sent = [
            (Method::GET, "/api/panic", r#""code":"internal""#),
            (Method::POST, "/api/panic", r#""code":"internal""#),
            (Method::POST, "/auth/panic", r#""error":"server_error""#),
            (Method::GET, "/panic", "<h1>"),
        ];
        for (method, path, shown) in sent {
            let request = Request::builder().method(&method).uri(path).header("host", "127.0.0.1:7070");
            let request = request.header("idempotency-key", "a-write-that-panics").body(Body::empty());
            let response = serve(&server.app, &routes, peer, request.expect("a request")).await;
            assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR, "{method} {path}");
            assert!(response.headers().contains_key(X_REQUEST_ID));
            let body = to_bytes(response.into_body(), 1 << 20).await.expect("a body");
            let body = String::from_utf8_lossy(&body);
            assert!(body.contains(shown), "{method} {path}: {body}");
        }
        server.stop().await;
    }
}
