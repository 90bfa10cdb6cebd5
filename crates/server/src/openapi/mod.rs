//! The description of the JSON API (OpenAPI 3.1), at `/api/openapi.json`, and as a page at `/api/docs`.
//!
//! - The operations of the crate `api` describe themselves. `operations.rs`: the other ones, an entry for each route, and the
//!   order of all. `describe.rs`: what the types of a handler add. `operation.rs`: how an operation becomes part of the document.
//! - `words.rs`: fields with a few allowed words. `codes.rs`: error codes. `problem.rs`: the body of errors.
//! - `kept/`: the description that clients know, and what would break them.
//! - The page is `pages/views/api_docs.rs`.
//!
//! Document and page are built when they are first asked for. They change with the program only.

mod codes;
#[cfg(feature = "testing")]
pub(crate) mod contract;
pub(crate) mod describe;
#[cfg(test)]
mod kept;
pub(crate) mod operation;
mod operations;
mod problem;
#[cfg(test)]
mod tests;
pub(crate) mod words;

use crate::pages::respond;
use crate::pages::views;
use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use describe::Described;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, StatusCode};
use maud::html;
use operation::{
    ACCESS_TOKEN, API_KEY, CURSOR, IDEMPOTENCY_KEY, LIMIT, Operation, RETRY_AFTER, SARSEN_VERSION,
};
use serde_json::{Value, json};
use std::sync::LazyLock;
use texts::Languages;
use utoipa::openapi::header::Header;
use utoipa::openapi::path::{HttpMethod, ParameterBuilder, ParameterIn, Paths};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{Components, Info, OpenApi, OpenApiBuilder, Required, Server};
use utoipa::{PartialSchema as _, ToSchema as _};

/// The introduction before the operations, in Markdown.
const ABOUT: &str = include_str!("about.md");

/// The document, for tests.
#[cfg(any(test, feature = "testing"))]
pub(crate) static DOCUMENT: LazyLock<Value> = LazyLock::new(value);

static JSON: LazyLock<Cached> = LazyLock::new(|| Cached::new(value().to_string()));
static PAGE: LazyLock<Cached> = LazyLock::new(|| {
    Cached::new(views::ApiDocs(&value()).markup(Languages::built_in().english()).into_string())
});

/// Bodies that have exactly one of two fields.
const ALTERNATIVES: [(&str, [&str; 2]); 2] =
    [("CreateSubscription", ["user", "customer"]), ("BillingCustomerOf", ["user", "customer"])];

fn value() -> Value {
    let mut document = serde_json::to_value(description()).unwrap_or_default();
    for (name, [one, other]) in ALTERNATIVES {
        // The types of the handlers cannot say this. Not by `oneOf`: generators of clients make a union of it, without the fields.
        if let Some(Value::Object(schema)) = document.pointer_mut(&format!("/components/schemas/{name}")) {
            let neither = json!({ "not": { "anyOf": [{ "required": [one] }, { "required": [other] }] } });
            schema.insert("not".to_owned(), json!({ "anyOf": [{ "required": [one, other] }, neither] }));
        }
    }
    document
}

/// A text that changes with the program only.
struct Cached {
    text: Bytes,
    etag: String,
}

impl Cached {
    fn new(text: String) -> Cached {
        let hash = identity::secrets::hash(text.as_bytes());
        let etag = format!("\"{}\"", URL_SAFE_NO_PAD.encode(hash.get(..16).unwrap_or_default()));
        Cached { text: text.into(), etag }
    }

    /// The response with this text, which caches keep and ask about; 304 if the caller has the text.
    fn respond(&self, request: &HeaderMap, response: Response) -> Response {
        let known = request.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
        let mut known =
            known.flat_map(|value| value.split(',')).map(|tag| tag.trim().trim_start_matches("W/"));
        let mut response = match known.any(|tag| tag == self.etag || tag == "*") {
            true => StatusCode::NOT_MODIFIED.into_response(),
            false => response.map(|_| Body::from(self.text.clone())),
        };
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, no-cache"));
        if let Ok(etag) = HeaderValue::from_str(&self.etag) {
            headers.insert(ETAG, etag);
        }
        response
    }
}

/// `GET /api/openapi.json`
pub(crate) async fn document(headers: HeaderMap) -> Response {
    JSON.respond(&headers, [(CONTENT_TYPE, "application/json")].into_response())
}

/// `GET /api/docs`
pub(crate) async fn docs(headers: HeaderMap) -> Response {
    PAGE.respond(&headers, respond::english_page(html! {}, Vec::new()))
}

/// The API while it is being described.
#[derive(Default)]
struct Description {
    /// Groups of operations, with what they are.
    tags: Vec<(&'static str, &'static str)>,
    operations: Vec<Operation>,
}

impl Description {
    /// Begins a group of operations.
    fn tag(&mut self, name: &'static str, text: &'static str) {
        self.tags.push((name, text));
    }

    /// Adds the operations of a noun, which are described by their types.
    fn table(&mut self, table: &api::Table) {
        self.tag(table.name, table.about);
        for entry in table.entries {
            let method = match entry.method {
                api::Method::Get => HttpMethod::Get,
                api::Method::Post => HttpMethod::Post,
                api::Method::Put => HttpMethod::Put,
                api::Method::Patch => HttpMethod::Patch,
                api::Method::Delete => HttpMethod::Delete,
            };
            let mut operation = Operation::new(method, entry.path, table.name, entry.id, entry.summary());
            describe::caller(&mut operation, entry.caller);
            entry.asks.map(|query| operation.query_of(query()));
            entry.takes.map(|body| operation.body_of(body()));
            match entry.status {
                204 => operation.answers_nothing(),
                status => operation.answers_part(status, (entry.gives)()),
            };
            for text in entry.paragraphs() {
                operation.text(text);
            }
            operation.fails(entry.fails);
            self.operations.push(operation);
        }
    }

    /// Adds an operation of a route; its handler's types describe most of it.
    fn add<A, H: Described<A>>(
        &mut self,
        method: HttpMethod,
        path: &'static str,
        _handler: H,
        id: &'static str,
        summary: &'static str,
    ) -> &mut Operation {
        let tag = self.tags.last().map_or("", |(name, _)| name);
        let mut operation = Operation::new(method, path, tag, id, summary);
        H::describe(&mut operation);
        self.operations.push(operation);
        let last = self.operations.len() - 1;
        &mut self.operations[last]
    }
}

/// The whole description.
fn description() -> OpenApi {
    let mut api = Description::default();
    operations::describe(&mut api);
    let mut paths = Paths::new();
    let mut components = shared();
    for operation in api.operations {
        let (path, method, operation, schemas) = operation.finish();
        paths.add_path_operation(path, vec![method], operation);
        components.schemas.extend(schemas);
    }
    let tags = api.tags.into_iter();
    let tags = tags.map(|(name, text)| TagBuilder::new().name(name).description(Some(text)).build());
    let mut info = Info::new("Sarsen", env!("CARGO_PKG_VERSION"));
    info.description = Some(ABOUT.to_owned());
    let document = OpenApiBuilder::new().info(info).servers(Some([Server::new("/")])).tags(Some(tags));
    document.paths(paths).components(Some(components)).build()
}

/// What several operations refer to.
fn shared() -> Components {
    let mut components = Components::new();
    let text = || ObjectBuilder::new().schema_type(Type::String);
    let version = || text().pattern(Some("^[0-9a-f]{16}\\.[0-9a-f]{16}$"));
    let limit = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1)).maximum(Some(200));
    let limit = limit.default(Some(50.into()));
    let key = text().min_length(Some(1)).max_length(Some(255)).pattern(Some("^[!-~]+$"));
    for (id, name, place, schema, what) in [
        (LIMIT, "limit", ParameterIn::Query, limit, "How many items the page may have."),
        (
            CURSOR,
            "cursor",
            ParameterIn::Query,
            text().min_length(Some(1)),
            "The `next` value of the previous page.",
        ),
        (
            IDEMPOTENCY_KEY,
            "Idempotency-Key",
            ParameterIn::Header,
            key,
            "A text that is new for each write. A repeated request with it gets the first answer.",
        ),
        (
            SARSEN_VERSION,
            "Sarsen-Version",
            ParameterIn::Header,
            version(),
            "The value of an earlier answer. The answer shows no older state.",
        ),
    ] {
        let parameter = ParameterBuilder::new().name(name).parameter_in(place);
        let parameter = parameter.required(Required::False).description(Some(what)).schema(Some(schema));
        components.parameters.insert(id.to_owned(), parameter.build().into());
    }
    let seconds = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1));
    for (id, schema, what) in [
        (SARSEN_VERSION, version(), "The version of the state that the answer shows."),
        (RETRY_AFTER, seconds, "In how many seconds to try again."),
    ] {
        let mut header = Header::new(schema);
        header.description = Some(what.to_owned());
        components.headers.insert(id.to_owned(), header.into());
    }
    for (id, format, what) in [
        (
            ACCESS_TOKEN,
            "JWT",
            "An access token of a user or of a machine client. The roles of an operation are the scopes, of which it needs one.",
        ),
        (API_KEY, "sarsen_sk_…", "An API key. The roles of an operation are the scopes that it needs."),
    ] {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).bearer_format(format);
        let scheme = SecurityScheme::Http(scheme.description(Some(what)).build());
        components.add_security_scheme(id, scheme);
    }
    let mut problem = vec![(operation::PROBLEM.to_owned(), problem::Problem::schema())];
    problem::Problem::schemas(&mut problem);
    components.schemas.extend(problem);
    components
}
