//! Each rule bites: a small API, and the changes that break it or do not.

use super::compare::{OPEN, breaks};
use super::rules::{Break, RULES, Rule};
use serde_json::{Value, json};

/// An API of one operation that has everything.
fn api() -> Value {
    json!({
        "paths": { "/api/things/{id}": { "post": {
            "parameters": [
                { "in": "path", "name": "id", "required": true, "schema": { "type": "string" } },
                { "$ref": "#/components/parameters/Limit" },
            ],
            "requestBody": { "required": true, "content": { "application/json": {
                "schema": { "$ref": "#/components/schemas/NewThing" },
            } } },
            "responses": {
                "201": { "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Thing" } } } },
                "404": { "content": {} },
            },
            "security": [{ "token": ["things:read"] }, { "key": ["things:write", "things:read"] }],
        } } },
        "components": {
            "parameters": { "Limit": {
                "in": "query", "name": "limit", "required": false, "schema": { "type": "integer", "maximum": 200 },
            } },
            "schemas": {
                "NewThing": {
                    "type": "object", "additionalProperties": false, "required": ["name"],
                    "properties": {
                        "name": { "type": "string", "maxLength": 100 },
                        "kind": { "type": "string", "enum": ["large", "small"] },
                        "count": { "type": ["integer", "null"], "minimum": 1 },
                        "tags": { "type": "array", "items": { "type": "string" } },
                    },
                },
                "Thing": { "allOf": [
                    { "$ref": "#/components/schemas/Named" },
                    { "type": "object", "required": ["kind", "owner"], "properties": {
                        "kind": { "type": "string", "enum": ["large", "small"] },
                        "owner": { "oneOf": [{ "$ref": "#/components/schemas/Named" }] },
                        "parts": { "type": "array", "items": { "$ref": "#/components/schemas/Thing" } },
                        "made_at": { "type": "string", "format": "date-time" },
                    } },
                ] },
                "Named": { "type": "object", "required": ["name"], "properties": { "name": { "type": "string" } } },
            },
        },
    })
}

const OPERATION: &str = "/paths/~1api~1things~1{id}/post";
const NEW: &str = "/components/schemas/NewThing";
const THING: &str = "/components/schemas/Thing/allOf/1";

/// A change of the value at a pointer.
fn changed(pointer: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut api = api();
    change(api.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")));
    api
}

fn set(pointer: &str, field: &str, value: Value) -> Value {
    changed(pointer, |at| at[field] = value)
}

fn without(pointer: &str, field: &str) -> Value {
    changed(pointer, |at| drop(at.as_object_mut().expect("an object").remove(field)))
}

/// For each rule, the changes that break it, and where it is found.
fn breaking() -> Vec<(Rule, &'static str, Value)> {
    let security = |value: Value| set(OPERATION, "security", value);
    vec![
        (Rule::OperationGone, "", without("/paths/~1api~1things~1{id}", "post")),
        (Rule::OperationGone, "", without("/paths", "/api/things/{id}")),
        (
            Rule::ParameterGone,
            "query parameter limit",
            changed(&format!("{OPERATION}/parameters"), |all| *all = json!([all[0]])),
        ),
        (Rule::StatusGone, "response 404", without(&format!("{OPERATION}/responses"), "404")),
        (
            Rule::MediaTypeGone,
            "the body: application/json",
            set(&format!("{OPERATION}/requestBody"), "content", json!({ "text/plain": {} })),
        ),
        (Rule::FieldGone, "Thing.kind", without(&format!("{THING}/properties"), "kind")),
        (Rule::FieldGone, "Thing.name", without("/components/schemas/Named/properties", "name")),
        (Rule::InputGone, "NewThing.kind", without(&format!("{NEW}/properties"), "kind")),
        (Rule::InputGone, "the body", without(OPERATION, "requestBody")),
        (Rule::InputRequired, "NewThing.kind", set(NEW, "required", json!(["name", "kind"]))),
        (
            Rule::InputRequired,
            "query parameter limit",
            set("/components/parameters/Limit", "required", json!(true)),
        ),
        (
            Rule::InputNarrower,
            "NewThing.name",
            set(&format!("{NEW}/properties/name"), "maxLength", json!(99)),
        ),
        (
            Rule::InputNarrower,
            "NewThing.name",
            set(&format!("{NEW}/properties/name"), "pattern", json!("^[a-z]+$")),
        ),
        (Rule::InputNarrower, "NewThing.name", set(&format!("{NEW}/properties/name"), "enum", json!(["a"]))),
        (
            Rule::InputNarrower,
            "NewThing.count",
            set(&format!("{NEW}/properties/count"), "type", json!("integer")),
        ),
        (Rule::InputNarrower, "NewThing.count", set(&format!("{NEW}/properties/count"), "minimum", json!(2))),
        (Rule::InputNarrower, "NewThing.tags", set(&format!("{NEW}/properties/tags"), "maxItems", json!(5))),
        (
            Rule::InputNarrower,
            "query parameter limit",
            set("/components/parameters/Limit/schema", "maximum", json!(100)),
        ),
        (Rule::InputNarrower, "NewThing", set(NEW, "not", json!({ "required": ["kind", "count"] }))),
        (
            Rule::InputWordGone,
            "NewThing.kind: small",
            set(&format!("{NEW}/properties/kind"), "enum", json!(["large"])),
        ),
        (
            Rule::OutputNullable,
            "Thing.kind",
            set(&format!("{THING}/properties/kind"), "type", json!(["string", "null"])),
        ),
        (
            Rule::OutputNullable,
            "Thing.owner",
            set(
                &format!("{THING}/properties/owner"),
                "oneOf",
                json!([{ "type": "null" }, { "$ref": "#/components/schemas/Named" }]),
            ),
        ),
        (Rule::OutputOptional, "Thing.kind", set(THING, "required", json!(["owner"]))),
        (
            Rule::OutputWider,
            "Thing.kind",
            set(&format!("{THING}/properties/kind"), "type", json!(["string", "integer"])),
        ),
        (Rule::OutputWider, "Thing.made_at", without(&format!("{THING}/properties/made_at"), "format")),
        (
            Rule::OutputWordNew,
            "Thing.kind: huge",
            set(&format!("{THING}/properties/kind"), "enum", json!(["huge", "large", "small"])),
        ),
        (
            Rule::ScopeNecessary,
            "credentials: token things:read",
            security(json!([{ "token": ["things:write"] }, { "key": ["things:read"] }])),
        ),
        (
            Rule::ScopeNecessary,
            "credentials: key things:read things:write",
            security(json!([{ "token": ["things:read"] }])),
        ),
    ]
}

#[test]
fn each_rule_finds_the_change_that_breaks_it() {
    for (rule, place, new) in breaking() {
        let found = breaks(&api(), &new);
        let expected = Break { rule, operation: "POST /api/things/{id}".to_owned(), place: place.to_owned() };
        assert!(found.contains(&expected), "{rule:?} {place}: {found:?}");
        assert!(found.iter().all(|found| found.rule == rule), "{rule:?} {place}: {found:?}");
    }
    let broken: Vec<Rule> = breaking().into_iter().map(|(rule, ..)| rule).collect();
    let untested: Vec<_> = RULES.iter().filter(|(rule, _)| !broken.contains(rule)).collect();
    assert!(untested.is_empty(), "no change breaks {untested:?}");
}

#[test]
fn what_breaks_nobody_is_found_by_no_rule() {
    let properties = |schema: &str| format!("{schema}/properties");
    for (what, new) in [
        ("nothing", api()),
        ("another operation", set("/paths", "/api/others", json!({ "get": { "responses": {} } }))),
        ("an optional input", set(&properties(NEW), "color", json!({ "type": "string" }))),
        ("an output", set(&properties(THING), "color", json!({ "type": "string" }))),
        (
            "a word of an input",
            set(&format!("{NEW}/properties/kind"), "enum", json!(["huge", "large", "small"])),
        ),
        ("no word of an output", set(&format!("{THING}/properties/kind"), "enum", json!(["large"]))),
        ("an input that may be longer", set(&format!("{NEW}/properties/name"), "maxLength", json!(200))),
        (
            "an input that may be null",
            set(&format!("{NEW}/properties/name"), "type", json!(["string", "null"])),
        ),
        ("an input that is not required", set(NEW, "required", json!([]))),
        ("an output that is always there", set(THING, "required", json!(["kind", "owner", "made_at"]))),
        ("another status", set(&format!("{OPERATION}/responses"), "409", json!({ "content": {} }))),
        ("fewer scopes", set(OPERATION, "security", json!([{ "token": [] }, { "key": ["things:read"] }]))),
        ("other words for people", set(OPERATION, "summary", json!("Make a thing"))),
    ] {
        assert_eq!(breaks(&api(), &new), [], "{what}");
    }
}

#[test]
fn a_list_of_words_that_is_open_may_grow() {
    let open = |words: Value| {
        let kind = json!({ "type": "string", "enum": words, OPEN: true });
        set(&format!("{THING}/properties"), "kind", kind)
    };
    assert_eq!(breaks(&open(json!(["large", "small"])), &open(json!(["huge", "large", "small"]))), []);
}

#[test]
fn a_break_is_named_by_its_operation_or_its_field() {
    let found = breaks(&api(), &without(&format!("{THING}/properties"), "kind"));
    let is_named = |changelog: &str| found.iter().all(|found| found.is_named_in(changelog));
    assert!(
        is_named("- `Thing.kind` is gone.") && is_named("- `POST /api/things/{id}` answers without a kind.")
    );
    assert!(!is_named("- Thing.kind is gone. `Thing` has another form. `GET /api/things/{id}` too."));
}
