//! Finds the handler of a request: by its path in a tree, then by its method. All routes go this way.
//!
//! Handlers and extractors are axum's. Its router is not used: between a request and its handler it puts boxes and
//! copies that cost a fifth of what `GET /api/subscription` takes.

use crate::app::App;
use axum::extract::Request;
use axum::handler::Handler;
use axum::response::{IntoResponse as _, Response};
use http::header::{ALLOW, CACHE_CONTROL};
use http::{HeaderValue, Method};
use std::pin::Pin;
use std::sync::Arc;
use web::percent;

/// A response in the making: the future that axum makes of a handler.
pub type Answer = Pin<Box<dyn Future<Output = Response> + Send>>;

type Endpoint = Box<dyn Fn(Request, App) -> Answer + Send + Sync>;

/// The routes, and the handler of a request that matches none.
pub struct Routes {
    tree: matchit::Router<Methods>,
    listed: Vec<(Method, &'static str)>,
    unknown: Endpoint,
    wrong_method: Endpoint,
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
    pub(super) const NOTHING: Matched = Matched { route: "-", place: None };
}

/// The handlers of one path.
#[derive(Default)]
pub struct Methods {
    /// The path as it is in the table of routes, such as `/o/{slug}/login`.
    route: &'static str,
    endpoints: Vec<(Method, Endpoint)>,
    /// The handler for HEAD, where it is not that for GET.
    head: Option<Endpoint>,
    /// The place of the first of them in the list of all.
    first: usize,
}

/// The parameters of a route, by name; an extension of requests whose route has any.
#[derive(Clone)]
pub(super) struct PathParameters(pub(super) Arc<[(String, String)]>);

/// A handler for GET and HEAD.
pub fn get<H: Handler<T, App, Future = Answer>, T: 'static>(handler: H) -> Methods {
    Methods::default().get(handler)
}

/// A handler for a GET that changes something or keeps a place, such as a stream. HEAD does neither: its response is empty
/// and comes at once.
pub fn acting_get<H: Handler<T, App, Future = Answer>, T: 'static>(handler: H) -> Methods {
    let empty = || ([(CACHE_CONTROL, HeaderValue::from_static("no-store"))], ()).into_response();
    let head: Endpoint = Box::new(move |_, _| Box::pin(std::future::ready(empty())));
    Methods { head: Some(head), ..get(handler) }
}

/// A handler for POST.
pub fn post<H: Handler<T, App, Future = Answer>, T: 'static>(handler: H) -> Methods {
    Methods::default().post(handler)
}

/// A handler for PUT.
pub fn put<H: Handler<T, App, Future = Answer>, T: 'static>(handler: H) -> Methods {
    Methods::default().put(handler)
}

/// A handler for PATCH.
pub fn patch<H: Handler<T, App, Future = Answer>, T: 'static>(handler: H) -> Methods {
    Methods::default().patch(handler)
}

/// A handler for DELETE.
pub fn delete<H: Handler<T, App, Future = Answer>, T: 'static>(handler: H) -> Methods {
    Methods::default().delete(handler)
}

impl Methods {
    fn on<H: Handler<T, App, Future = Answer>, T: 'static>(mut self, method: Method, handler: H) -> Methods {
        let endpoint: Endpoint = Box::new(move |request, app| handler.clone().call(request, app));
        self.endpoints.push((method, endpoint));
        self
    }

    /// A further handler, for GET and HEAD.
    pub fn get<H: Handler<T, App, Future = Answer>, T: 'static>(self, handler: H) -> Methods {
        self.on(Method::GET, handler)
    }

    /// A further handler, for POST.
    pub fn post<H: Handler<T, App, Future = Answer>, T: 'static>(self, handler: H) -> Methods {
        self.on(Method::POST, handler)
    }

    /// A further handler, for PATCH.
    pub fn patch<H: Handler<T, App, Future = Answer>, T: 'static>(self, handler: H) -> Methods {
        self.on(Method::PATCH, handler)
    }

    /// A further handler, for PUT.
    pub fn put<H: Handler<T, App, Future = Answer>, T: 'static>(self, handler: H) -> Methods {
        self.on(Method::PUT, handler)
    }

    /// A further handler, for DELETE.
    pub fn delete<H: Handler<T, App, Future = Answer>, T: 'static>(self, handler: H) -> Methods {
        self.on(Method::DELETE, handler)
    }

    /// The handler of a method, and its place in the list of all.
    fn of(&self, method: &Method) -> Option<(&Endpoint, usize)> {
        let is_head = method == Method::HEAD;
        let wanted = if is_head { &Method::GET } else { method };
        let place = self.endpoints.iter().position(|(known, _)| known == wanted)?;
        let (_, endpoint) = self.endpoints.get(place)?;
        let own = self.head.as_ref().filter(|_| is_head);
        Some((own.unwrap_or(endpoint), self.first + place))
    }

    /// `GET,HEAD,POST`, for the Allow header.
    fn allowed(&self) -> String {
        let names = self.endpoints.iter().map(|(method, _)| method.as_str());
        let names: Vec<&str> =
            names.flat_map(|name| if name == "GET" { vec!["GET", "HEAD"] } else { vec![name] }).collect();
        names.join(",")
    }
}

impl Routes {
    /// No routes yet; `unmatched` handles requests whose path or method has none.
    pub fn new<U, V, T: 'static, S: 'static>(unknown: U, wrong_method: V) -> Routes
    where
        U: Handler<T, App, Future = Answer>,
        V: Handler<S, App, Future = Answer>,
    {
        Routes {
            tree: matchit::Router::new(),
            listed: Vec::new(),
            unknown: Box::new(move |request, app| unknown.clone().call(request, app)),
            wrong_method: Box::new(move |request, app| wrong_method.clone().call(request, app)),
        }
    }

    /// Adds a route, such as `/o/{slug}/login`. Panics if another one matches the same paths: this is a defect of
    /// the program, and appears at its start.
    #[expect(clippy::panic, reason = "the table of routes is made once, at the start")]
    pub fn route(mut self, path: &'static str, methods: Methods) -> Routes {
        let methods = Methods { route: path, first: self.listed.len(), ..methods };
        self.listed.extend(methods.endpoints.iter().map(|(method, _)| (method.clone(), path)));
        match self.tree.insert(path, methods) {
            Ok(()) => self,
            Err(error) => panic!("route {path}: {error}"),
        }
    }

    /// Every route by method and path, in the order of the table.
    pub fn listed(&self) -> &[(Method, &'static str)] {
        &self.listed
    }

    /// Handles a request. Returns what it has matched with the response.
    pub fn answer(&self, app: App, mut request: Request) -> (Answer, Matched) {
        let Ok(found) = self.tree.at(request.uri().path()) else {
            return ((self.unknown)(request, app), Matched::NOTHING);
        };
        let methods = found.value;
        if !found.params.is_empty() {
            // The middleware has refused paths that cannot be decoded.
            let decoded = |text: &str| percent::decode(text.as_bytes()).unwrap_or_default();
            let parameters: Arc<[_]> =
                found.params.iter().map(|(name, text)| (name.to_owned(), decoded(text))).collect();
            request.extensions_mut().insert(PathParameters(parameters));
        }
        if let Some((endpoint, place)) = methods.of(request.method()) {
            return (endpoint(request, app), Matched { route: methods.route, place: Some(place) });
        }
        let (answer, allowed) = ((self.wrong_method)(request, app), methods.allowed());
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
