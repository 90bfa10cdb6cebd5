//! Compares the answers that tests get with the description of the API: status, error code and fields. So each test of a
//! route is a test of its description too.

use super::DOCUMENT;
use super::operation::CODES;
use crate::testing::Answer;
use serde_json::{Map, Value};
use std::sync::LazyLock;

static ROUTES: LazyLock<matchit::Router<&'static Value>> = LazyLock::new(|| {
    let mut routes = matchit::Router::new();
    for (path, item) in DOCUMENT["paths"].as_object().into_iter().flatten() {
        // Two that match the same paths stop the server itself.
        let _ = routes.insert(path, item);
    }
    routes
});

/// Panics if the description does not have this answer.
#[expect(clippy::panic, reason = "a test whose answer is not described has failed")]
pub(crate) fn check(method: &str, path: &str, answer: &Answer) {
    let path = path.split('?').next().unwrap_or_default();
    let Ok(found) = ROUTES.at(path) else { return };
    let Some(operation) = found.value.get(method.to_ascii_lowercase()) else { return };
    // Not from a route: a server that stops, or a request that is no HTTP.
    if answer.header("x-request-id").is_empty() {
        return;
    }
    if let Err(complaint) = compare(operation, answer) {
        panic!(
            "{method} {path}: the description of the API does not fit: {complaint}. Mend the body's type or the entry in \
             server/src/openapi/operations.rs. {answer:?}"
        );
    }
}

fn compare(operation: &Value, answer: &Answer) -> Result<(), String> {
    let Some(response) = operation["responses"].get(answer.status.to_string()) else {
        return Err(format!("status {} is not listed", answer.status));
    };
    let content = response["content"].as_object().and_then(|content| content.values().next());
    if let Some(content) = content {
        fits(&content["schema"], &answer.json(), "the body")?;
    } else if !answer.body.is_empty() {
        return Err("there is a body".to_owned());
    }
    let code = answer.text("code");
    let listed = response[CODES].as_array();
    match listed {
        Some(codes) if !codes.iter().any(|known| *known == code) => {
            Err(format!("the code {code:?} is not listed"))
        }
        _ => Ok(()),
    }
}

/// An object's properties and the names of those that it always has, with those of its parts.
fn shape(schema: &Value, properties: &mut Map<String, Value>, required: &mut Vec<String>) {
    let schema = resolved(schema);
    for part in schema["allOf"].as_array().into_iter().flatten() {
        shape(part, properties, required);
    }
    let own = schema["properties"].as_object().into_iter().flatten();
    properties.extend(own.map(|(name, schema)| (name.clone(), schema.clone())));
    let names = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    required.extend(names.map(str::to_owned));
}

/// Whether a value is as its schema says. A field that no schema names is a fault too.
fn fits(schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    let schema = resolved(schema);
    if let Some(choices) = schema["oneOf"].as_array() {
        let is_one = choices.iter().any(|choice| fits(choice, value, at).is_ok());
        return if is_one { Ok(()) } else { Err(format!("{at} is none of what it may be")) };
    }
    if schema.get("allOf").or_else(|| schema.get("properties")).is_some() {
        return object_fits(schema, value, at);
    }
    let types = match &schema["type"] {
        Value::Array(types) => types.clone(),
        one => vec![one.clone()],
    };
    if !types.iter().any(|name| is_a(name, value)) {
        return Err(format!("{at} is no {}", schema["type"]));
    }
    match value {
        Value::String(text) => text_fits(schema, text, at),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .try_for_each(|(index, item)| fits(&schema["items"], item, &format!("{at}[{index}]"))),
        Value::Object(fields) => {
            let inner = &schema["additionalProperties"];
            fields.iter().try_for_each(|(name, value)| fits(inner, value, &format!("{at}.{name}")))
        }
        _ => Ok(()),
    }
}

fn object_fits(schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    shape(schema, &mut properties, &mut required);
    let Value::Object(fields) = value else { return Err(format!("{at} is no object")) };
    if let Some(missing) = required.iter().find(|name| !fields.contains_key(*name)) {
        return Err(format!("{at} has no {missing}"));
    }
    fields.iter().try_for_each(|(name, value)| {
        let at = format!("{at}.{name}");
        let Some(schema) = properties.get(name) else { return Err(format!("{at} is not described")) };
        if value.is_null() && !required.contains(name) {
            return Err(format!("{at} is null, so it is there always: add #[schema(required)]"));
        }
        fits(schema, value, &at)
    })
}

fn text_fits(schema: &Value, text: &str, at: &str) -> Result<(), String> {
    let words = schema["enum"].as_array();
    if words.is_some_and(|words| !words.iter().any(|word| word == text)) {
        return Err(format!("{at} is {text:?}, which is not among its words"));
    }
    if schema["format"] == "date-time" && text.parse::<jiff::Timestamp>().is_err() {
        return Err(format!("{at} is no time"));
    }
    Ok(())
}

fn is_a(name: &Value, value: &Value) -> bool {
    match name.as_str().unwrap_or_default() {
        "null" => value.is_null(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}

/// Two examples of an object that the description names, for tests above this crate: with all of its fields, and with no
/// more than it always has.
pub fn examples(object: &str) -> [Value; 2] {
    let schema = &DOCUMENT["components"]["schemas"][object];
    [example(schema, true), example(schema, false)]
}

fn example(schema: &Value, is_full: bool) -> Value {
    let schema = resolved(schema);
    let is_null = |choice: &&Value| **choice == "null" || choice["type"] == "null";
    let chosen = |choices: &[Value]| choices.iter().find(|choice| is_null(choice) != is_full).cloned();
    if let Some(choices) = schema["oneOf"].as_array() {
        return chosen(choices).map_or(Value::Null, |choice| example(&choice, is_full));
    }
    if schema.get("allOf").or_else(|| schema.get("properties")).is_some() {
        let (mut properties, mut required) = (Map::new(), Vec::new());
        shape(schema, &mut properties, &mut required);
        let there = properties.into_iter().filter(|(name, _)| is_full || required.contains(name));
        return there.map(|(name, schema)| (name, example(&schema, is_full))).collect::<Map<_, _>>().into();
    }
    let name = match &schema["type"] {
        Value::Array(types) => chosen(types).unwrap_or_default(),
        one => one.clone(),
    };
    match name.as_str().unwrap_or_default() {
        "string" if schema["format"] == "date-time" => "2027-01-15T08:00:00Z".into(),
        "string" => schema["enum"].get(0).cloned().unwrap_or_else(|| "text".into()),
        "boolean" => true.into(),
        "integer" | "number" => 1.into(),
        "array" if is_full => vec![example(&schema["items"], true)].into(),
        "array" => Value::Array(Vec::new()),
        "object" => Value::Object(Map::new()),
        _ => Value::Null,
    }
}

fn resolved(schema: &Value) -> &Value {
    let target = schema["$ref"].as_str().and_then(|target| target.strip_prefix('#'));
    target.and_then(|target| DOCUMENT.pointer(target)).unwrap_or(schema)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn compared(status: u16, body: &Value) -> Result<(), String> {
        let operation = &DOCUMENT["paths"]["/api/organizations/{org}/services/{service}"]["get"];
        compare(operation, &Answer { status, headers: Vec::new(), body: body.to_string() })
    }

    #[test]
    fn an_answer_that_is_not_described_is_found() {
        let [good, _] = examples("Service");
        assert_eq!(compared(200, &good), Ok(()));
        let with = |field: &str, value: Value| {
            let mut changed = good.clone();
            changed[field] = value;
            compared(200, &changed).expect_err("it does not fit")
        };
        assert!(with("slug", json!(1)).contains("slug is no"));
        assert!(with("more", json!(1)).contains("more is not described"));
        assert!(with("created_at", json!("today")).contains("is no time"));
        assert!(compared(200, &json!({})).is_err_and(|text| text.contains("has no id")));
        assert!(compared(418, &good).is_err_and(|text| text.contains("418 is not listed")));
        let problem =
            |code: &str| json!({"type": "urn:x", "title": "x", "status": 404, "detail": "x", "code": code});
        assert_eq!(compared(404, &problem("not_found")), Ok(()));
        assert!(compared(404, &problem("lost")).is_err_and(|text| text.contains("lost")));
    }
}
