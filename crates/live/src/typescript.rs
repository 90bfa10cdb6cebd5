//! TypeScript types of an app's queries and mutations.

use crate::app::Registry;
use crate::query::{Described, Schema};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// An interface `Api`, and the types that it names.
pub(crate) fn types(registry: &Registry) -> String {
    let mut named = BTreeMap::new();
    let mut text = String::from("// Made by the back end: do not edit.\n\nexport interface Api {\n");
    let mut part = |title: &str, entries: Vec<(&str, &Described)>| {
        let _ = writeln!(text, "  {title}: {{");
        for (name, described) in entries {
            named.extend(described.named.iter().map(|(name, schema)| (name.clone(), json(schema))));
            let (args, value) = (of(&json(&described.args)), of(&json(&described.value)));
            let _ = writeln!(text, "    {name}: {{ args: {args}; value: {value} }};");
        }
        text.push_str("  };\n");
    };
    let queries = registry.queries.iter().filter(|(name, _)| !name.contains('.'));
    part("queries", queries.map(|(name, entry)| (*name, &entry.described)).collect());
    part("mutations", registry.mutations.iter().map(|(name, entry)| (*name, &entry.described)).collect());
    text.push_str("}\n");
    for (name, schema) in named {
        let _ = writeln!(text, "\nexport type {name} = {};", of(&schema));
    }
    text
}

fn json(schema: &Schema) -> Value {
    serde_json::to_value(schema).unwrap_or_default()
}

/// The type for a JSON Schema.
fn of(schema: &Value) -> String {
    if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
        return name.rsplit('/').next().unwrap_or("unknown").to_owned();
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return values.iter().map(Value::to_string).collect::<Vec<_>>().join(" | ");
    }
    for (name, with) in [("oneOf", " | "), ("anyOf", " | "), ("allOf", " & ")] {
        if let Some(parts) = schema.get(name).and_then(Value::as_array) {
            return format!("({})", parts.iter().map(of).collect::<Vec<_>>().join(with));
        }
    }
    match schema.get("type") {
        Some(Value::Array(types)) => {
            let with = |kind: &Value| {
                let mut schema = schema.clone();
                if let Some(object) = schema.as_object_mut() {
                    object.insert("type".to_owned(), kind.clone());
                }
                of(&schema)
            };
            types.iter().map(with).collect::<Vec<_>>().join(" | ")
        }
        Some(Value::String(kind)) => match kind.as_str() {
            "string" => "string".to_owned(),
            "integer" | "number" => "number".to_owned(),
            "boolean" => "boolean".to_owned(),
            "null" => "null".to_owned(),
            "array" => format!("Array<{}>", schema.get("items").map_or("unknown".to_owned(), of)),
            "object" => object(schema),
            _ => "unknown".to_owned(),
        },
        _ => "unknown".to_owned(),
    }
}

fn object(schema: &Value) -> String {
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        let values = schema.get("additionalProperties").map_or("unknown".to_owned(), of);
        return format!("Record<string, {values}>");
    };
    let fields = properties.iter().map(|(name, schema)| {
        let optional = if required.contains(&name.as_str()) { "" } else { "?" };
        format!("{name}{optional}: {}", of(schema))
    });
    format!("{{ {} }}", fields.collect::<Vec<_>>().join("; "))
}
