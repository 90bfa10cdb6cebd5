//! A description of an app's queries and mutations for clients in other languages and for API gateways: OpenAPI 3.1, one
//! operation for each `POST /rpc/{name}`. Streams of Server-Sent Events are not in it, because OpenAPI has no words for
//! them: `docs/extend/wire.md` describes them.

use crate::app::Registry;
use crate::auth::Misconfigured;
use crate::described::{Api, Call};
use serde_json::{Map, Value, json};

const QUERIES: &str = "queries";
const MUTATIONS: &str = "mutations";
/// The name of the schema of problem documents, and of the response that has one.
const PROBLEM: &str = "Problem";
const TOKEN: &str = "token";

/// The document. The error says which types need another name.
pub(crate) fn document(registry: &Registry, title: &str, version: &str) -> Result<Value, Misconfigured> {
    let Api { queries, mutations, mut named } = Api::of(registry)?;
    // The authenticator may be missing: a program adds it when it serves.
    let has_tokens = queries.iter().chain(&mutations).any(|call| !call.is_open);
    let calls = queries.iter().map(|call| (QUERIES, call));
    let calls = calls.chain(mutations.iter().map(|call| (MUTATIONS, call)));
    let paths: Map<String, Value> = calls
        .map(|(kind, call)| {
            (format!("/rpc/{}", call.name), json!({ "post": operation(kind, call, has_tokens) }))
        })
        .collect();
    if named.insert(PROBLEM.to_owned(), problem()).is_some() {
        return Err(Misconfigured(format!(
            "a type is named {PROBLEM}, as the answers of errors are; give it another name, such as #[schema(as = Other{PROBLEM})]"
        )));
    }
    let mut components = json!({
        "schemas": named,
        "responses": { PROBLEM: {
            "description": "An error. `code` says which one, and `detail` what would be right.",
            "headers": { "Retry-After": {
                "description": "Seconds after which to send the same request again.",
                "schema": { "type": "integer" },
            } },
            "content": { "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } },
        } },
    });
    if has_tokens {
        components["securitySchemes"] = json!({ TOKEN: { "type": "http", "scheme": "bearer" } });
    }
    Ok(json!({
        "openapi": "3.1.0",
        "info": { "title": title, "version": version },
        "tags": [
            { "name": QUERIES, "description": "They read. Each of them can be subscribed to at `POST /live`." },
            { "name": MUTATIONS, "description": "They change, in one transaction, and answer when it is on disk." },
        ],
        "paths": paths,
        "components": components,
    }))
}

fn operation(kind: &str, call: &Call, has_tokens: bool) -> Value {
    let mut args = call.args.clone();
    let about = args.as_object_mut().and_then(|args| args.remove("description"));
    // Of alternatives, one has members at least.
    let has_members = ["required", "oneOf", "anyOf", "allOf"]
        .iter()
        .any(|name| args.get(name).and_then(Value::as_array).is_some_and(|parts| !parts.is_empty()));
    let answer = json!({
        "type": "object",
        "properties": {
            "value": call.value,
            "version": { "type": "string", "description": "The state of the database that the answer has." },
            "settled": {
                "type": "string",
                "description": "The version before which the answer has every commit, if it is not `version`.",
            },
        },
        "required": ["value", "version"],
    });
    let version = |description: &str| json!({ "description": description, "schema": { "type": "string" } });
    let mut parameters = Vec::new();
    if kind == QUERIES {
        let about = "The answer must not be older than this version, which another answer had.";
        parameters.push(json!({ "name": "Sarsen-Version", "in": "header", "description": about, "schema": { "type": "string" } }));
    } else {
        let about = "Chosen at random for each change. A call with the same key and body gets the first answer again, for 24 hours.";
        // Callers without a token share their keys.
        let schema =
            json!({ "type": "string", "minLength": if call.is_open { 22 } else { 1 }, "maxLength": 255 });
        parameters.push(
            json!({ "name": "Idempotency-Key", "in": "header", "description": about, "schema": schema }),
        );
    }
    let mut operation = json!({
        "operationId": call.name,
        "tags": [kind],
        "parameters": parameters,
        "requestBody": {
            "required": has_members,
            "content": { "application/json": { "schema": args } },
        },
        "responses": {
            "200": {
                "description": "The answer.",
                "headers": { "Sarsen-Version": version("`version` of the answer.") },
                "content": { "application/json": { "schema": answer } },
            },
            "default": { "$ref": format!("#/components/responses/{PROBLEM}") },
        },
    });
    if let Some(Value::String(about)) = about {
        operation["summary"] = about.lines().next().unwrap_or_default().into();
        if about.lines().nth(1).is_some() {
            operation["description"] = about.into();
        }
    }
    if has_tokens {
        operation["security"] = match call.is_open {
            true => json!([{}, { TOKEN: [] }]),
            false => json!([{ TOKEN: [] }]),
        };
    }
    operation
}

/// What [`crate::Problem`] looks like outside.
fn problem() -> Value {
    let text = |description: &str| json!({ "type": "string", "description": description });
    json!({
        "type": "object",
        "description": "An error (RFC 9457).",
        "properties": {
            "type": { "type": "string" },
            "title": text("The meaning of the status."),
            "status": { "type": "integer", "description": "The HTTP status." },
            "code": text("Which error it is. It does not change."),
            "detail": text("What was wrong, and what would be right, for people."),
            "errors": {
                "type": "array",
                "description": "The fields of the request that were wrong.",
                "items": {
                    "type": "object",
                    "properties": {
                        "field": text("Its path, such as `rows[0].name`."),
                        "code": text("What is wrong with it. It does not change."),
                        "detail": text("What is wrong with it, for people."),
                    },
                    "required": ["field", "code", "detail"],
                },
            },
        },
        "required": ["type", "title", "status", "code", "detail"],
    })
}

#[cfg(test)]
mod tests {
    use crate::App;
    use crate::described::samples::{Clear, ListOrders, Restock};
    use serde_json::Value;

    #[test]
    fn an_app_is_described_as_openapi() {
        let app = App::new().query::<ListOrders>().mutation::<Clear>().mutation::<Restock>();
        let text = app.openapi("orders", "1.2.0").expect("a document");
        assert_eq!(text, include_str!("openapi_expected.json"), "\n{text}");
    }

    #[test]
    fn where_everybody_may_call_everything_there_are_no_tokens() {
        let text = App::new().mutation::<Clear>().openapi("orders", "1").expect("a document");
        let document: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(document.pointer("/paths/~1rpc~1clear/post/security"), None);
        assert_eq!(document.pointer("/components/securitySchemes"), None);
    }
}
