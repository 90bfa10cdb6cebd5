//! One operation of the API while it is being described: the types of its handler fill in what they know
//! (`describe.rs`), the table adds the words (`operations.rs`).

use super::codes;
use api::Part;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use utoipa::openapi::extensions::ExtensionsBuilder;
use utoipa::openapi::path::{HttpMethod, OperationBuilder, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::{RequestBody, RequestBodyBuilder};
use utoipa::openapi::response::{Response, ResponseBuilder};
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::openapi::security::SecurityRequirement;
use utoipa::openapi::{ContentBuilder, Ref, RefOr, Required};
use utoipa::{IntoParams, ToSchema};

/// The security scheme of access tokens.
pub(super) const ACCESS_TOKEN: &str = "accessToken";
/// The security scheme of API keys.
pub(super) const API_KEY: &str = "apiKey";
/// The extension of an error's response that lists its codes.
pub(super) const CODES: &str = "x-error-codes";
/// Parameters and headers that several operations share.
pub(super) const IDEMPOTENCY_KEY: &str = "IdempotencyKey";
pub(super) const SARSEN_VERSION: &str = "SarsenVersion";
pub(super) const LIMIT: &str = "Limit";
pub(super) const CURSOR: &str = "Cursor";
pub(super) const RETRY_AFTER: &str = "RetryAfter";
/// The schema of problem documents.
pub(super) const PROBLEM: &str = "Problem";

/// What every route under `/api/` may answer.
const ANY_OF_THE_API: &[&str] = &["invalid_version", "key_in_url"];
/// What every route may answer.
const ANY: &[&str] =
    &["invalid_host", "invalid_path", "unknown_host", "internal", "overloaded", "too_slow", "unavailable"];

/// An operation.
pub(crate) struct Operation {
    method: HttpMethod,
    path: &'static str,
    tag: &'static str,
    id: &'static str,
    summary: &'static str,
    /// Markdown, in paragraphs.
    text: Vec<String>,
    parameters: Vec<RefOr<Parameter>>,
    body: Option<RequestBody>,
    answer: Option<(u16, Response)>,
    security: Vec<SecurityRequirement>,
    codes: BTreeSet<&'static str>,
    schemas: Vec<(String, RefOr<Schema>)>,
}

impl Operation {
    pub(super) fn new(
        method: HttpMethod,
        path: &'static str,
        tag: &'static str,
        id: &'static str,
        summary: &'static str,
    ) -> Operation {
        let mut operation = Operation {
            method,
            path,
            tag,
            id,
            summary,
            text: Vec::new(),
            parameters: path_parameters(path),
            body: None,
            answer: None,
            security: Vec::new(),
            codes: ANY.iter().copied().collect(),
            schemas: Vec::new(),
        };
        if path.starts_with("/api/") {
            operation.parameters.push(shared_parameter(SARSEN_VERSION));
            operation.fails(ANY_OF_THE_API);
            if !operation.reads() {
                operation.fails(&["invalid_idempotency_key", "outcome_unknown"]);
            }
        }
        operation
    }

    /// Whether it changes nothing.
    pub(super) fn reads(&self) -> bool {
        self.method == HttpMethod::Get
    }

    /// The path as it is in the table of routes.
    pub(super) fn path(&self) -> &'static str {
        self.path
    }

    /// Adds a paragraph to its description.
    pub(crate) fn text(&mut self, text: impl Into<String>) -> &mut Operation {
        self.text.push(text.into());
        self
    }

    /// Adds codes of `docs/errors.md` that it may answer with. Those of its handler's arguments are there already.
    pub(crate) fn fails(&mut self, codes: &[&'static str]) -> &mut Operation {
        self.codes.extend(codes);
        self
    }

    /// Callers may use an access token with one of these scopes.
    pub(crate) fn access_token<S: Into<String>>(
        &mut self,
        scopes: impl IntoIterator<Item = S>,
    ) -> &mut Operation {
        self.security.push(SecurityRequirement::new(ACCESS_TOKEN, scopes));
        self.fails(&["unauthenticated", "invalid_token", "insufficient_scope"])
    }

    /// Callers may use an API key with one of these scopes.
    pub(crate) fn api_key<S: Into<String>>(&mut self, scopes: impl IntoIterator<Item = S>) -> &mut Operation {
        self.security.push(SecurityRequirement::new(API_KEY, scopes));
        self.fails(&["unauthenticated", "invalid_token", "insufficient_scope"])
    }

    /// It is a write that accepts `Idempotency-Key`.
    pub(crate) fn keyed(&mut self) -> &mut Operation {
        self.parameters.push(shared_parameter(IDEMPOTENCY_KEY));
        self.fails(&[
            "idempotency_answer_lost",
            "idempotency_in_progress",
            "idempotency_key_reused",
            "too_many_idempotency_keys",
        ])
    }

    /// It takes a JSON object of another program's making.
    pub(crate) fn foreign_body(&mut self, what: &'static str) -> &mut Operation {
        let schema = ObjectBuilder::new().schema_type(Type::Object).description(Some(what)).build();
        let content = ContentBuilder::new().schema(Some(RefOr::T(Schema::Object(schema)))).build();
        let body =
            RequestBodyBuilder::new().required(Some(Required::True)).content("application/json", content);
        self.body = Some(body.build());
        self
    }

    /// It takes a JSON body.
    pub(crate) fn body<T: ToSchema>(&mut self) -> &mut Operation {
        self.body_of(Part::of::<T>())
    }

    /// The same by the part that the type is.
    pub(super) fn body_of(&mut self, part: Part) -> &mut Operation {
        let schema = self.reference(part);
        let content = ContentBuilder::new().schema(Some(schema)).build();
        let body =
            RequestBodyBuilder::new().required(Some(Required::True)).content("application/json", content);
        self.body = Some(body.build());
        self.fails(&["invalid_json", "body_broken", "body_timeout", "body_too_large", "not_json", "invalid"])
    }

    /// It takes a query string.
    pub(crate) fn query<T: IntoParams>(&mut self) -> &mut Operation {
        self.query_of(api::operation::query::<T>())
    }

    /// The same by its parameters.
    pub(super) fn query_of(&mut self, parameters: Vec<Parameter>) -> &mut Operation {
        for parameter in parameters {
            match parameter.name.as_str() {
                "limit" => self.parameters.push(shared_parameter(LIMIT)),
                "cursor" => self.parameters.push(shared_parameter(CURSOR)),
                _ => self.parameters.push(parameter.into()),
            }
        }
        self.fails(&["invalid_query"])
    }

    /// It answers with a page of a list.
    pub(crate) fn pages(&mut self) -> &mut Operation {
        self.parameters.extend([shared_parameter(LIMIT), shared_parameter(CURSOR)]);
        self.fails(&["invalid_query"])
    }

    /// It answers with JSON.
    pub(crate) fn answers<T: ToSchema>(&mut self, status: u16) -> &mut Operation {
        self.answers_part(status, Part::of::<T>())
    }

    /// The same by the part that the type is.
    pub(super) fn answers_part(&mut self, status: u16, part: Part) -> &mut Operation {
        let schema = self.reference(part);
        let content = ContentBuilder::new().schema(Some(schema)).build();
        let description = if status == 201 { "Created." } else { "Done." };
        self.answers_with(
            status,
            ResponseBuilder::new().description(description).content("application/json", content),
        )
    }

    /// It answers with a stream of events.
    pub(crate) fn streams(&mut self) -> &mut Operation {
        let text = ObjectBuilder::new().schema_type(Type::String);
        let content = ContentBuilder::new().schema(Some(text)).build();
        let response = ResponseBuilder::new().description("Server-Sent Events, until the stream ends.");
        self.answers_with(200, response.content("text/event-stream", content))
    }

    /// It answers without a body.
    pub(crate) fn answers_nothing(&mut self) -> &mut Operation {
        self.answers_with(204, ResponseBuilder::new().description("Done. There is no body."))
    }

    fn answers_with(&mut self, status: u16, response: ResponseBuilder) -> &mut Operation {
        let response = match self.path.starts_with("/api/") {
            true => response.header_ref("Sarsen-Version", Ref::new(header(SARSEN_VERSION))),
            false => response,
        };
        self.answer = Some((status, response.build()));
        self
    }

    fn reference(&mut self, part: Part) -> RefOr<Schema> {
        let reference = Ref::from_schema_name(&part.name);
        self.schemas.push((part.name, part.schema));
        self.schemas.extend(part.others);
        reference.into()
    }

    /// Codes that are not in `docs/errors.md`.
    #[cfg(test)]
    pub(super) fn unknown_codes(&self) -> Vec<&'static str> {
        self.codes.iter().copied().filter(|code| codes::statuses(code).next().is_none()).collect()
    }

    /// The path, the method and the finished operation, and the schemas that it needs.
    #[expect(clippy::type_complexity, reason = "taken apart where it is called")]
    pub(super) fn finish(
        self,
    ) -> (&'static str, HttpMethod, utoipa::openapi::path::Operation, Vec<(String, RefOr<Schema>)>) {
        let mut by_status: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
        for code in self.codes {
            codes::statuses(code).for_each(|status| by_status.entry(status).or_default().push(code));
        }
        let mut operation = OperationBuilder::new()
            .tag(self.tag)
            .operation_id(Some(self.id))
            .summary(Some(self.summary))
            .request_body(self.body)
            .securities(Some(self.security));
        if !self.text.is_empty() {
            operation = operation.description(Some(self.text.join("\n\n")));
        }
        let mut operation = operation.build();
        operation.parameters = Some(self.parameters).filter(|parameters| !parameters.is_empty());
        let responses = &mut operation.responses.responses;
        responses.extend(self.answer.map(|(status, response)| (status.to_string(), response.into())));
        responses.extend(
            by_status.into_iter().map(|(status, codes)| (status.to_string(), problem(status, &codes).into())),
        );
        (self.path, self.method, operation, self.schemas)
    }
}

/// The answer of a status with problem documents.
fn problem(status: u16, codes: &[&str]) -> Response {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(PROBLEM))).build();
    let listed: Vec<String> = codes.iter().map(|code| format!("`{code}`")).collect();
    let list = Value::from_iter(codes.iter().copied());
    let mut response = ResponseBuilder::new()
        .description(format!("Codes: {}.", listed.join(", ")))
        .content("application/problem+json", content)
        .extensions(Some(ExtensionsBuilder::new().add(CODES, list).build()));
    if matches!(status, 409 | 429 | 503) {
        response = response.header_ref("Retry-After", Ref::new(header(RETRY_AFTER)));
    }
    response.build()
}

fn header(name: &str) -> String {
    format!("#/components/headers/{name}")
}

fn shared_parameter(name: &str) -> RefOr<Parameter> {
    RefOr::Ref(Ref::new(format!("#/components/parameters/{name}")))
}

/// The parameters in `{}` of a route.
fn path_parameters(path: &str) -> Vec<RefOr<Parameter>> {
    let names = path.split('{').skip(1).filter_map(|rest| rest.split('}').next());
    let described = names.map(|name| {
        let what = match name {
            "org" | "service" | "plan" => "The slug of the",
            _ => "The id of the",
        };
        let what = format!("{what} {}.", if name == "org" { "organization" } else { name });
        let text = ObjectBuilder::new().schema_type(Type::String);
        let parameter = ParameterBuilder::new().name(name).parameter_in(ParameterIn::Path);
        parameter.required(Required::True).description(Some(what)).schema(Some(text)).build().into()
    });
    described.collect()
}
