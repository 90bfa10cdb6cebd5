//! What an app's queries and mutations take and answer: their schemas, as utoipa derives them. `typescript.rs` and
//! `openapi.rs` print them.
//!
//! The same app is described in the same way each time, so a program can keep a description in a file and a test can
//! compare both.

#[cfg(test)]
pub(crate) mod samples;

use crate::app::Registry;
use crate::auth::Misconfigured;
use crate::{Caller, Claims};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap, HashSet};
use utoipa::ToSchema;

/// A schema as utoipa makes it, with the name of the type.
type Schema = utoipa::openapi::RefOr<utoipa::openapi::schema::Schema>;

/// What the description of a query or mutation is made from.
pub(crate) struct Described {
    args: Schema,
    value: Schema,
    /// The answer's type in Rust.
    value_type: &'static str,
    /// The types that these name.
    named: Vec<(String, Schema)>,
    /// Callers without a token may call it.
    is_open: bool,
}

pub(crate) fn describe<A: ToSchema, V: ToSchema, C: Claims>() -> Described {
    let mut named = Vec::new();
    A::schemas(&mut named);
    V::schemas(&mut named);
    let is_open = C::of(&Caller::anonymous()).is_ok();
    Described {
        args: A::schema(),
        value: V::schema(),
        value_type: std::any::type_name::<V>(),
        named,
        is_open,
    }
}

/// A query or a mutation.
pub(crate) struct Call {
    pub(crate) name: &'static str,
    /// The JSON Schema of its arguments.
    pub(crate) args: Value,
    /// The JSON Schema of its answer.
    pub(crate) value: Value,
    /// Callers without a token may call it.
    pub(crate) is_open: bool,
}

/// All queries and mutations, by name, and the types that they refer to as `#/components/schemas/{name}`.
pub(crate) struct Api {
    pub(crate) queries: Vec<Call>,
    pub(crate) mutations: Vec<Call>,
    pub(crate) named: BTreeMap<String, Value>,
}

impl Api {
    /// The error says which types need another name, or which one nothing describes.
    pub(crate) fn of(registry: &Registry) -> Result<Api, Misconfigured> {
        let queries = registry.queries.iter().map(|(name, entry)| (*name, (entry.described)()));
        let queries: Vec<_> = queries.collect();
        let mutations = registry.mutations.iter().map(|(name, entry)| (*name, (entry.described)()));
        let mutations: Vec<_> = mutations.collect();
        let mut named = named(queries.iter().chain(&mutations))?;
        let mut types = HashMap::new();
        let mut calls = |entries: Vec<(&'static str, Described)>| -> Vec<Call> {
            let mut call = |(name, described): (&'static str, Described)| {
                types.insert(name, described.value_type);
                let value = by_name(json(&described.value), described.value_type, &mut named);
                Call { name, args: json(&described.args), value, is_open: described.is_open }
            };
            entries.into_iter().map(&mut call).collect()
        };
        let api = Api { queries: calls(queries), mutations: calls(mutations), named };
        for call in api.queries.iter().chain(&api.mutations) {
            let schemas = [&call.args, &call.value];
            if let Some(missing) = schemas.into_iter().find_map(|schema| missing(schema, &api.named)) {
                let (name, value_type) = (call.name, types.get(call.name).copied().unwrap_or_default());
                return Err(Misconfigured(format!(
                    "`{name}` ({value_type}) has the type {missing}, which nothing describes: a generic type does not describe those \
                     that it is given, so write one without parameters, such as struct {missing}Page"
                )));
            }
        }
        Ok(api)
    }
}

/// The types that arguments and answers refer to by name. A reference has nothing but the name, so no two of them may
/// have one.
fn named<'a>(
    entries: impl Iterator<Item = &'a (&'static str, Described)>,
) -> Result<BTreeMap<String, Value>, Misconfigured> {
    let mut users = HashMap::new();
    let mut named = BTreeMap::new();
    for (user, described) in entries {
        let user = format!("`{user}` ({})", described.value_type);
        for (name, schema) in &described.named {
            let schema = json(schema);
            if named.get(name).is_some_and(|known| *known != schema) {
                return Err(Misconfigured(format!(
                    "two types are named {name}: one is in {}, another in {user}; give one of them another name, such \
                     as #[schema(as = Other{name})]",
                    users.get(name).unwrap_or(&user)
                )));
            }
            named.insert(name.clone(), schema);
            users.entry(name.clone()).or_insert_with(|| user.clone());
        }
    }
    Ok(named)
}

/// A type that a schema refers to, or one of the types that it refers to, and that nothing describes.
fn missing<'a>(schema: &'a Value, named: &'a BTreeMap<String, Value>) -> Option<&'a str> {
    let (mut open, mut seen) = (vec![schema], HashSet::new());
    while let Some(schema) = open.pop() {
        match schema {
            Value::Array(parts) => open.extend(parts),
            Value::Object(members) => {
                open.extend(members.values());
                let Some(reference) = members.get("$ref").and_then(Value::as_str) else { continue };
                let name = referred(reference);
                match named.get(name) {
                    None => return Some(name),
                    Some(schema) if seen.insert(name) => open.push(schema),
                    Some(_) => {}
                }
            }
            _ => {}
        }
    }
    None
}

/// The name in a reference.
pub(crate) fn referred(reference: &str) -> &str {
    reference.rsplit('/').next().unwrap_or_default()
}

/// A schema as JSON. What utoipa makes of `()`, which serde writes as null, says nothing of its type.
fn json(schema: &Schema) -> Value {
    let schema = serde_json::to_value(schema).unwrap_or_default();
    if schema == json!({ "default": null }) { json!({ "type": "null" }) } else { schema }
}

/// A schema, replaced by a reference to the type's name. Lists refer to the name of their items.
fn by_name(mut schema: Value, rust: &str, named: &mut BTreeMap<String, Value>) -> Value {
    if let Some(item) = rust.strip_prefix("alloc::vec::Vec<").and_then(|rest| rest.strip_suffix('>')) {
        if let Some(items) = schema.get_mut("items") {
            *items = by_name(items.take(), item, named);
        }
        return schema;
    }
    let is_structure = ["properties", "enum", "oneOf", "allOf"].iter().any(|part| schema.get(part).is_some());
    let name = rust.rsplit("::").next().unwrap_or(rust);
    // Types of two modules may have one name; the second keeps its place in the text.
    let is_other = named.get(name).is_some_and(|known| *known != schema);
    if !is_structure || rust.contains('<') || is_other {
        return schema;
    }
    let reference = json!({ "$ref": format!("#/components/schemas/{name}") });
    named.insert(name.to_owned(), schema);
    reference
}
