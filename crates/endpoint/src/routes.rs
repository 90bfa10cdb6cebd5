//! Finds the handler of a request: by its path in a tree, then by its method. All routes go this way.
//!
//! Handlers and extractors are axum's. Its router is not used: between a request and its handler it puts boxes and
//! copies that cost a fifth of what `GET /api/subscription` takes.

use crate::path::PathParameters;
use axum::body::{Body, HttpBody as _};
use axum::extract::Request;
use axum::handler::Handler;
use axum::response::{IntoResponse as _, Response};
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_LENGTH};
use http::{HeaderValue, Method};
use std::pin::Pin;
use std::sync::Arc;
use web::percent;

/// A response in the making: the future that axum makes of a handler.
pub type Answer = Pin<Box<dyn Future<Output = Response> + Send>>;

type Endpoint<S> = Box<dyn Fn(Request, S) -> Answer + Send + Sync>;

/// The routes, and the handler of a request that matches none.
pub struct Routes<S> {
    tree: matchit::Router<Methods<S>>,
    listed: Vec<(Method, &'static str)>,
    unknown: Endpoint<S>,
    wrong_method: Endpoint<S>,
}

/// What a request has matched.
#[derive(Clone, Copy, Debug)]
pub struct Matched {
    /// The path as it is in the table of routes; `-` for none.
    pub route: &'static str,
    /// Its place in [`Routes::listed`]; none if no route has this path and method.
    pub place: Option<usize>,
}

impl Matched {
    /// No route has this path.
    pub const NOTHING: Matched = Matched { route: "-", place: None };
}

/// The handlers of one path.
pub struct Methods<S> {
    /// The path as it is in the table of routes, such as `/o/{slug}/login`.
    route: &'static str,
    /// Each with its place in the list of all.
    endpoints: Vec<(Method, Endpoint<S>, usize)>,
    /// The handler for HEAD, where it is not that for GET.
    head: Option<Endpoint<S>>,
}

impl<S> Default for Methods<S> {
    fn default() -> Methods<S> {
        Methods { route: "", endpoints: Vec::new(), head: None }
    }
}

/// A handler for GET and HEAD.
pub fn get<H: Handler<T, S, Future = Answer>, T: 'static, S: 'static>(handler: H) -> Methods<S> {
    Methods::default().get(handler)
}

/// A handler for a GET that changes something or keeps a place, such as a stream. HEAD does neither: its response is empty
/// and comes at once.
pub fn acting_get<H: Handler<T, S, Future = Answer>, T: 'static, S: 'static>(handler: H) -> Methods<S> {
    let empty = || ([(CACHE_CONTROL, HeaderValue::from_static("no-store"))], ()).into_response();
    let head: Endpoint<S> = Box::new(move |_, _| Box::pin(std::future::ready(empty())));
    Methods { head: Some(head), ..get(handler) }
}

/// A handler for POST.
pub fn post<H: Handler<T, S, Future = Answer>, T: 'static, S: 'static>(handler: H) -> Methods<S> {
    Methods::default().post(handler)
}

/// A handler for PUT.
pub fn put<H: Handler<T, S, Future = Answer>, T: 'static, S: 'static>(handler: H) -> Methods<S> {
    Methods::default().put(handler)
}

/// A handler for PATCH.
pub fn patch<H: Handler<T, S, Future = Answer>, T: 'static, S: 'static>(handler: H) -> Methods<S> {
    Methods::default().patch(handler)
}

/// A handler for DELETE.
pub fn delete<H: Handler<T, S, Future = Answer>, T: 'static, S: 'static>(handler: H) -> Methods<S> {
    Methods::default().delete(handler)
}

impl<S: 'static> Methods<S> {
    fn on<H: Handler<T, S, Future = Answer>, T: 'static>(mut self, method: Method, handler: H) -> Methods<S> {
        let endpoint: Endpoint<S> = Box::new(move |request, state| handler.clone().call(request, state));
        self.endpoints.push((method, endpoint, 0));
        self
    }

    /// A further handler, for GET and HEAD.
    pub fn get<H: Handler<T, S, Future = Answer>, T: 'static>(self, handler: H) -> Methods<S> {
        self.on(Method::GET, handler)
    }

    /// A further handler, for POST.
    pub fn post<H: Handler<T, S, Future = Answer>, T: 'static>(self, handler: H) -> Methods<S> {
        self.on(Method::POST, handler)
    }

    /// A further handler, for PATCH.
    pub fn patch<H: Handler<T, S, Future = Answer>, T: 'static>(self, handler: H) -> Methods<S> {
        self.on(Method::PATCH, handler)
    }

    /// A further handler, for PUT.
    pub fn put<H: Handler<T, S, Future = Answer>, T: 'static>(self, handler: H) -> Methods<S> {
        self.on(Method::PUT, handler)
    }

    /// The handler for HEAD, instead of that for GET.
    pub fn head<H: Handler<T, S, Future = Answer>, T: 'static>(self, handler: H) -> Methods<S> {
        Methods { head: Some(Box::new(move |request, state| handler.clone().call(request, state))), ..self }
    }

    /// A further handler, for DELETE.
    pub fn delete<H: Handler<T, S, Future = Answer>, T: 'static>(self, handler: H) -> Methods<S> {
        self.on(Method::DELETE, handler)
    }

    /// The handler of a method, and its place in the list of all.
    fn of(&self, method: &Method) -> Option<(&Endpoint<S>, usize)> {
        let is_head = method == Method::HEAD;
        let wanted = if is_head { &Method::GET } else { method };
        let (_, endpoint, place) = self.endpoints.iter().find(|(known, ..)| known == wanted)?;
        let own = self.head.as_ref().filter(|_| is_head);
        Some((own.unwrap_or(endpoint), *place))
    }

    /// `GET,HEAD,POST`, for the Allow header.
    fn allowed(&self) -> String {
        let names = self.endpoints.iter().map(|(method, ..)| method.as_str());
        let names: Vec<&str> =
            names.flat_map(|name| if name == "GET" { vec!["GET", "HEAD"] } else { vec![name] }).collect();
        names.join(",")
    }
}

impl<S: 'static> Routes<S> {
    /// No routes yet; `unknown` handles requests whose path has none, `wrong_method` those whose method has none.
    pub fn new<U, V, T: 'static, W: 'static>(unknown: U, wrong_method: V) -> Routes<S>
    where
        U: Handler<T, S, Future = Answer>,
        V: Handler<W, S, Future = Answer>,
    {
        Routes {
            tree: matchit::Router::new(),
            listed: Vec::new(),
            unknown: Box::new(move |request, state| unknown.clone().call(request, state)),
            wrong_method: Box::new(move |request, state| wrong_method.clone().call(request, state)),
        }
    }

    /// Adds a route, such as `/o/{slug}/login`. Panics if another one matches the same paths: this is a defect of
    /// the program, and appears at its start.
    #[expect(clippy::panic, reason = "the table of routes is made once, at the start")]
    pub fn route(mut self, path: &'static str, methods: Methods<S>) -> Routes<S> {
        let mut methods = Methods { route: path, ..methods };
        for (method, _, place) in &mut methods.endpoints {
            *place = self.listed.len();
            self.listed.push((method.clone(), path));
        }
        match self.tree.insert(path, methods) {
            Ok(()) => self,
            Err(error) => panic!("route {path}: {error}"),
        }
    }

    /// Adds a method of a path, which may have others already.
    pub fn on<H, T>(mut self, method: Method, path: &'static str, handler: H) -> Routes<S>
    where
        H: Handler<T, S, Future = Answer>,
        T: 'static,
    {
        let place = self.listed.len();
        match self.tree.at_mut(path) {
            Ok(found) if found.value.route == path => {
                self.listed.push((method.clone(), path));
                let endpoint: Endpoint<S> =
                    Box::new(move |request, state| handler.clone().call(request, state));
                found.value.endpoints.push((method, endpoint, place));
                self
            }
            _ => self.route(path, Methods::default().on(method, handler)),
        }
    }

    /// The same with another handler of requests whose path has no route.
    pub fn with_unknown<U: Handler<T, S, Future = Answer>, T: 'static>(self, unknown: U) -> Routes<S> {
        Routes { unknown: Box::new(move |request, state| unknown.clone().call(request, state)), ..self }
    }

    /// The route of a path, as it is in the table.
    pub fn find(&self, path: &str) -> Option<&'static str> {
        self.tree.at(path).ok().map(|found| found.value.route)
    }

    /// Every route by method and path, in the order of the table.
    pub fn listed(&self) -> &[(Method, &'static str)] {
        &self.listed
    }

    /// Handles a request. Returns what it has matched with the response.
    pub fn answer(&self, state: S, mut request: Request) -> (Answer, Matched) {
        let Ok(found) = self.tree.at(request.uri().path()) else {
            return ((self.unknown)(request, state), Matched::NOTHING);
        };
        let methods = found.value;
        if !found.params.is_empty() {
            // The middleware has already refused paths that cannot be decoded.
            let decoded = |text: &str| percent::decode(text.as_bytes()).unwrap_or_default();
            let parameters: Arc<[_]> =
                found.params.iter().map(|(name, text)| (name.to_owned(), decoded(text))).collect();
            request.extensions_mut().insert(PathParameters(parameters));
        }
        if let Some((endpoint, place)) = methods.of(request.method()) {
            let is_head = request.method() == Method::HEAD && methods.head.is_none();
            let answer = endpoint(request, state);
            let answer: Answer =
                if is_head { Box::pin(async move { without_body(answer.await) }) } else { answer };
            return (answer, Matched { route: methods.route, place: Some(place) });
        }
        let (answer, allowed) = ((self.wrong_method)(request, state), methods.allowed());
        let answer = Box::pin(async move {
            let mut response = answer.await;
            if let Ok(allowed) = HeaderValue::from_str(&allowed) {
                response.headers_mut().insert(ALLOW, allowed);
            }
            response
        });
        (answer, Matched { route: methods.route, place: None })
    }
}

/// The response to HEAD: that to GET without its body. HTTP/2 would send it.
fn without_body(mut response: Response) -> Response {
    if let Some(length) = response.body().size_hint().exact() {
        response.headers_mut().entry(CONTENT_LENGTH).or_insert_with(|| length.into());
    }
    *response.body_mut() = Body::empty();
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::Path;
    use axum::extract::State;
    use http::StatusCode;

    async fn unknown() -> StatusCode {
        StatusCode::NOT_FOUND
    }

    async fn wrong_method() -> StatusCode {
        StatusCode::METHOD_NOT_ALLOWED
    }

    async fn hello(State(greeting): State<&'static str>, Path(name): Path<String>) -> String {
        format!("{greeting} {name}")
    }

    async fn note(Path(_): Path<(String, String)>) -> StatusCode {
        StatusCode::NO_CONTENT
    }

    /// Status, Allow, Content-Length and body.
    async fn sent(method: &str, path: &str) -> (u16, String, String, String) {
        let routes = Routes::new(unknown, wrong_method);
        let routes = routes.on(Method::GET, "/hello/{name}", hello).on(Method::POST, "/hello/{name}", note);
        assert_eq!(routes.find("/hello/a"), Some("/hello/{name}"));
        let request =
            http::Request::builder().method(method).uri(path).body(Body::empty()).expect("a request");
        let response = routes.answer("Hello", request).0.await;
        let header = |name| {
            let value =
                response.headers().get(name).map(|value: &HeaderValue| value.to_str().expect("a text"));
            value.unwrap_or_default().to_owned()
        };
        let (status, allow, length) = (response.status().as_u16(), header(ALLOW), header(CONTENT_LENGTH));
        let body = axum::body::to_bytes(response.into_body(), 100).await.expect("a body");
        (status, allow, length, String::from_utf8(body.to_vec()).expect("text"))
    }

    #[tokio::test]
    async fn a_request_finds_its_handler_by_path_and_method() {
        let [none, allow] = [String::new(), "GET,HEAD,POST".to_owned()];
        assert_eq!(sent("GET", "/hello/a%20b").await, (200, none.clone(), none.clone(), "Hello a b".into()));
        assert_eq!(sent("GET", "/hello").await, (404, none.clone(), none.clone(), none.clone()));
        assert_eq!(sent("PUT", "/hello/a").await, (405, allow, none.clone(), none.clone()));
        // The route has another number of parameters than its handler.
        assert_eq!(sent("POST", "/hello/a").await, (500, none.clone(), none.clone(), none));
    }

    #[tokio::test]
    async fn the_response_to_head_has_the_length_of_a_body_and_no_body() {
        assert_eq!(sent("HEAD", "/hello/a").await, (200, String::new(), "7".into(), String::new()));
    }
}
