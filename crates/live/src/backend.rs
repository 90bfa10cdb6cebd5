//! What a listener serves: the routes of an app, and what all of them have in common.

use crate::Problem;
use crate::background::RunningWork;
use crate::context::Context;
use crate::extract::{prefers_html, refuse_sites_elsewhere};
use crate::given::random;
use crate::http::{explained, paged, routes};
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Request};
use axum::response::{IntoResponse as _, Response};
use endpoint::idempotency::SentKey;
use endpoint::routes::Routes;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, AUTHORIZATION, CONTENT_SECURITY_POLICY,
    CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use metrics::{Page, Requests};
use parking_lot::Mutex;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use web::asked_headers::asked_headers;
use web::body::Failure;
use web::current_request;
use web::forwarded::{forwarded, is_for_others, is_of_proxy};
use web::host::Hosts;
use web::panics::{Panicked, caught_in};
use web::percent::is_text;
use web::request_id::{RequestIds, X_REQUEST_ID};
use web::request_log::Entry;
use web::{AddressHeader, Cidr, ConnectionCounts, Peer, RequestBody, RequestLog, Tls};

/// The address of the client of a request, as an extension: that of the connection, or the one that a trusted proxy
/// names.
#[derive(Clone, Copy, Debug)]
pub struct ClientAddress(pub IpAddr);

/// Whether a request comes from this machine itself, without a proxy in between.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IsLocal(pub(crate) bool);

/// See the module.
pub(crate) struct Backend(Arc<Parts>);

struct Parts {
    context: Context,
    routes: Routes<Context>,
    hosts: Hosts,
    trusted_proxies: Vec<Cidr>,
    address_header: AddressHeader,
    request_log: Option<RequestLog>,
    request_ids: RequestIds,
    /// Its stop ends the other jobs too.
    work: Mutex<Option<RunningWork>>,
    jobs: Mutex<Vec<JoinHandle<()>>>,
}

impl Backend {
    pub(crate) fn new(
        context: Context,
        routes: Routes<Context>,
        hosts: Hosts,
        (trusted_proxies, address_header): (Vec<Cidr>, AddressHeader),
        request_log: Option<RequestLog>,
        work: RunningWork,
        jobs: Vec<JoinHandle<()>>,
    ) -> Backend {
        let seed = random().first_chunk().copied().unwrap_or_default();
        Backend(Arc::new(Parts {
            context,
            routes,
            hosts,
            trusted_proxies,
            address_header,
            request_log,
            request_ids: RequestIds::new(seed),
            work: Mutex::new(Some(work)),
            jobs: Mutex::new(jobs),
        }))
    }
}

impl web::Service for Backend {
    type Body = Body;

    fn call(
        &self,
        peer: Peer,
        request: http::Request<RequestBody>,
    ) -> impl Future<Output = Response> + Send + use<> {
        // Boxed: each connection reserves the space of the future.
        Box::pin(answer(self.0.clone(), peer, request))
    }

    fn refuse_head(&self, head: &http::Request<()>) -> Response {
        let parts = &self.0.context.0;
        let detail = "The head of the request is too large, or has more than 100 headers. Send a shorter address, and fewer or \
                      shorter headers and cookies.";
        let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        let problem = Problem::new(status, "head_too_large", detail.to_owned()).into_response();
        let route = self.0.routes.find(head.uri().path());
        let mut response = match parts.problem_page.filter(|_| route.is_none()) {
            Some(page) => paged(page, prefers_html(head.headers()), problem),
            None => problem,
        };
        response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        forbid_frames(response.headers_mut());
        parts.requests.answered(route, status.as_u16(), Duration::ZERO);
        response
    }

    fn counts(&self) -> &ConnectionCounts {
        &self.0.context.0.requests.connections
    }

    fn release(&self) {
        if let Some(work) = &*self.0.work.lock() {
            work.begin_stop();
        }
        let parts = &self.0.context.0;
        parts.streams.close(parts.limits.return_time);
    }

    async fn finish(&self) {
        let jobs = std::mem::take(&mut *self.0.jobs.lock());
        jobs.into_iter().for_each(|job| job.abort());
        let work = self.0.work.lock().take();
        if let Some(work) = work {
            work.stop().await;
        }
        self.0.context.0.engine.stop();
        let store = self.0.context.0.store.clone();
        if tokio::task::spawn_blocking(move || store.close()).await.is_err() {
            tracing::error!("the database was not closed cleanly");
        }
    }
}

async fn answer(parts: Arc<Parts>, peer: Peer, request: http::Request<RequestBody>) -> Response {
    let started = Instant::now();
    let id = parts.request_ids.id(request.headers());
    let address = forwarded(request.headers(), peer.address, &parts.trusted_proxies, parts.address_header);
    let is_local = peer.address.is_loopback()
        && !is_for_others(request.headers())
        && web::host::is_for_loopback(request.uri(), request.headers());
    let (method, path) = (request.method().clone(), request.uri().path());
    let route = parts.routes.find(path);
    let is_shared = route.is_some() && !matches!(path, "/metrics" | "/live/explain");
    let answering = async {
        if let Err(refusal) = parts.hosts.check(&request) {
            return Problem::from(refusal).into_response();
        }
        if is_shared && method == Method::OPTIONS {
            return preflight(request.headers());
        }
        if is_shared
            && is_for_its_place(&request, parts.context.0.registry.authenticator.is_some())
            && !parts.hosts.is_named(&request)
            && let Err(problem) = refuse_sites_elsewhere(request.uri(), request.headers())
        {
            return problem.into_response();
        }
        let is_browser = prefers_html(request.headers());
        match whole(&parts, peer, request, route.is_some()).await {
            Err(problem) => match parts.context.0.problem_page.filter(|_| route.is_none()) {
                Some(page) => paged(page, is_browser, problem.into_response()),
                None => problem.into_response(),
            },
            Ok(mut request) => {
                request.extensions_mut().insert(ClientAddress(address));
                request.extensions_mut().insert(IsLocal(is_local));
                // The body has been read within its limit.
                DefaultBodyLimit::disable().apply(&mut request);
                let (answer, _) = parts.routes.answer(parts.context.clone(), request);
                match caught_in(answer).await {
                    Ok(response) => explained(response),
                    Err(Panicked) => {
                        tracing::error!(
                            route = route.unwrap_or(OWN),
                            request_id = current_request::id(),
                            "a handler panicked"
                        );
                        Problem::internal().into_response()
                    }
                }
            }
        }
    };
    let (_, mut response) = current_request::scope(id.clone(), answering).await;
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    forbid_frames(headers);
    if is_shared {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        // A stream has none of them but its id. A seventh header would double the map, which lasts as long as the stream.
        if headers.get(CONTENT_TYPE).is_none_or(|kind| kind != "text/event-stream") {
            let exposed =
                HeaderValue::from_static("retry-after, sarsen-version, www-authenticate, x-request-id");
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
        }
    }
    headers.insert(X_REQUEST_ID, id.clone());
    let (status, duration) = (response.status().as_u16(), started.elapsed());
    parts.context.0.requests.answered(route, status, duration);
    if let Some(log) = &parts.request_log {
        log.push(&Entry {
            at_ms: parts.context.now().millis(),
            method: &method,
            route: route.unwrap_or(OWN),
            status,
            duration,
            request_id: id.as_bytes(),
            address,
            client: None,
        });
    }
    response
}

/// Whether nothing says who calls, and no proxy is in between: then the place of the caller in the network may be all that allows the
/// request, and a page of any site would have the place of its reader. A token counts where the app reads tokens, and a ticket
/// where it is verified.
fn is_for_its_place<B>(request: &http::Request<B>, has_tokens: bool) -> bool {
    let is_ticket = request.uri().path() == "/live"
        && request.method() == Method::GET
        && request.uri().query().is_some_and(|query| query.contains("ticket="));
    let has_token = has_tokens && request.headers().contains_key(AUTHORIZATION);
    !has_token && !is_ticket && !is_of_proxy(request.headers())
}

/// Forbids other pages to show a page in a frame, where its user would click on what they do not see. A page that may be
/// shown has one of these headers.
fn forbid_frames(headers: &mut HeaderMap) {
    let is_page = headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"));
    if is_page && !headers.contains_key(CONTENT_SECURITY_POLICY) && !headers.contains_key(X_FRAME_OPTIONS) {
        headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("frame-ancestors 'none'"));
    }
}

/// Reads the body within its limits of size and time. `is_call` says that the request is for a route that every app has.
async fn whole(
    parts: &Parts,
    peer: Peer,
    request: http::Request<RequestBody>,
    is_call: bool,
) -> Result<Request, Problem> {
    let (mut head, body) = request.into_parts();
    let most = parts.context.0.limits.body_bytes_max;
    let refuse = |status: StatusCode, code: &'static str, detail: String| Problem::new(status, code, detail);
    // PostgreSQL stores no U+0000.
    if head.uri.path_and_query().is_some_and(|uri| uri.as_str().contains("%00")) {
        return Err(Problem::invalid("", "The address has the character U+0000 (`%00`); remove it."));
    }
    if is_call && !is_text(head.uri.path().as_bytes()) {
        return Err(Problem::invalid("", "The path is not UTF-8 in percent-encoding."));
    }
    let key = SentKey::of(&head.method, &head.headers)?;
    match web::body::read(body, peer.body_time, most).await {
        Ok(bytes) => {
            crate::http::check_body(&head.headers, is_call, &bytes, most)?;
            if let Some(key) = key {
                key.has_body(&bytes);
                head.extensions.insert(key);
            }
            Ok(Request::from_parts(head, Body::from(bytes)))
        }
        Err(Failure::TooLarge) => {
            let detail = format!("The body has more than {most} bytes, which is the limit.");
            Err(refuse(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", detail))
        }
        Err(Failure::Broken) => {
            let detail = "The body ended before it was complete.".to_owned();
            Err(refuse(StatusCode::BAD_REQUEST, "incomplete_body", detail))
        }
        Err(Failure::Late) => {
            let detail = format!("The body did not arrive within {} s.", peer.body_time.as_secs());
            Err(refuse(StatusCode::REQUEST_TIMEOUT, "slow_body", detail))
        }
    }
}

/// The route of requests for paths of the app itself, where requests are logged and measured.
const OWN: &str = "app";

/// What is measured of connections and requests.
pub(crate) struct RequestMetrics {
    connections: ConnectionCounts,
    /// By route; those for the app's own paths first.
    routes: Vec<(&'static str, Requests)>,
    tls: Option<Tls>,
}

impl RequestMetrics {
    pub(crate) fn new(tls: Option<Tls>) -> RequestMetrics {
        let mut paths = vec![OWN];
        paths.extend(routes().listed().iter().map(|(_, path)| *path));
        paths.dedup();
        let of = |route: &'static str| (route, Requests::of(vec![("route", route.to_owned())]));
        let routes = paths.into_iter().map(of).collect();
        RequestMetrics { connections: ConnectionCounts::default(), routes, tls }
    }

    fn answered(&self, route: Option<&'static str>, status: u16, took: Duration) {
        let route = route.unwrap_or(OWN);
        if let Some((_, requests)) = self.routes.iter().find(|(known, _)| *known == route) {
            requests.answered(status, took);
        }
    }

    /// Adds them to a page.
    pub(crate) fn show(&self, page: &mut Page) {
        Requests::show(page, self.routes.iter().map(|(_, requests)| requests));
        self.connections.show(page);
        Tls::show(self.tls.as_ref(), page);
    }
}

/// The answer to a browser that asks whether a page of another origin may send the request. Tokens are no cookies, so
/// every origin may.
fn preflight(asked: &HeaderMap) -> Response {
    let usual = HeaderValue::from_static(
        "authorization, content-type, idempotency-key, last-event-id, sarsen-version",
    );
    let headers = [
        (ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST")),
        (ACCESS_CONTROL_ALLOW_HEADERS, asked_headers(asked).cloned().unwrap_or(usual)),
        (ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("7200")),
    ];
    (StatusCode::NO_CONTENT, headers).into_response()
}
