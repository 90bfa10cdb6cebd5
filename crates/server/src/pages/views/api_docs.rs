//! `/api/docs`: the description of the API (OpenAPI) as one page. It has no script: the browser's own search finds every
//! route, field and error code.

use super::{SARSEN, wide_shell};
use maud::{Markup, html};
use serde_json::Value;
use std::collections::BTreeSet;
use texts::Language;

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];
const SCHEMAS: &str = "#/components/schemas/";

/// The page of a document.
pub struct ApiDocs<'a>(pub &'a Value);

/// A field of an object.
struct Field<'a> {
    name: &'a str,
    schema: &'a Value,
    is_required: bool,
}

impl<'a> ApiDocs<'a> {
    pub fn markup(&self, language: &Language) -> Markup {
        let info = &self.0["info"];
        let tags = list(&self.0["tags"]);
        let body = html! {
            div.stack {
                h1 { "API" }
                p.lead {
                    "Version " (text(&info["version"])) ". For programs: "
                    a href="/api/openapi.json" { "openapi.json" } " (OpenAPI 3.1). Search this page with your browser."
                }
                (markdown(text(&info["description"])))
                nav.stack aria-label="Operations" {
                    @for tag in tags {
                        p.label { a href={ "#" (anchor(text(&tag["name"]))) } { (text(&tag["name"])) } }
                        ul.index {
                            @for (_, _, operation) in self.operations(text(&tag["name"])) {
                                li { a href={ "#" (text(&operation["operationId"])) } { (text(&operation["summary"])) } }
                            }
                        }
                    }
                    p.label { a href="#objects" { "Objects" } " · " a href="#errors" { "Error codes" } }
                }
                @for tag in tags {
                    section.stack id=(anchor(text(&tag["name"]))) {
                        h2 { (text(&tag["name"])) }
                        p.lead { (text(&tag["description"])) }
                        @for (path, method, operation) in self.operations(text(&tag["name"])) {
                            (self.operation(path, method, operation))
                        }
                    }
                }
                (self.objects())
                section.stack id="errors" {
                    h2 { "Error codes" }
                    p.lead { "The field " code { "code" } " of a problem document." }
                    (self.code_texts())
                }
            }
        };
        wide_shell(language, "API", SARSEN, body)
    }

    /// The operations of a tag: path, method, description.
    fn operations(&self, tag: &str) -> Vec<(&'a str, &'static str, &'a Value)> {
        let paths = self.0["paths"].as_object().into_iter().flatten();
        let all = paths.flat_map(|(path, item)| {
            METHODS.into_iter().filter_map(move |method| Some((path.as_str(), method, item.get(method)?)))
        });
        all.filter(|(_, _, operation)| operation["tags"][0] == tag).collect()
    }

    fn operation(&self, path: &str, method: &str, operation: &'a Value) -> Markup {
        let parameters: Vec<&Value> =
            list(&operation["parameters"]).iter().map(|parameter| self.resolved(parameter)).collect();
        let of =
            |place: &str| parameters.iter().copied().filter(|one| one["in"] == place).collect::<Vec<_>>();
        let headers = of("header");
        html! {
            article.card.stack id=(text(&operation["operationId"])) {
                h3 { (text(&operation["summary"])) }
                p { span.badge { (method.to_uppercase()) } " " code { (path) } }
                (markdown(text(&operation["description"])))
                (credentials(&operation["security"]))
                @for (title, found) in [("In the path", of("path")), ("In the query string", of("query"))] {
                    @if !found.is_empty() {
                        h4 { (title) }
                        dl.fields { @for parameter in found { (self.parameter(parameter)) } }
                    }
                }
                @if let Some(body) = operation.get("requestBody") {
                    h4 { "Body" }
                    (self.fields_of(&body["content"]["application/json"]["schema"]))
                }
                h4 { "Answers" }
                dl.facts {
                    @for (status, response) in operation["responses"].as_object().into_iter().flatten() {
                        dt { (status) }
                        dd { (self.response(response)) }
                    }
                }
                @if !headers.is_empty() {
                    p.small {
                        "Headers that it accepts: "
                        @for (index, header) in headers.iter().enumerate() {
                            @if index > 0 { ", " }
                            code { (text(&header["name"])) }
                        }
                        "."
                    }
                }
            }
        }
    }

    fn parameter(&self, parameter: &'a Value) -> Markup {
        let schema = &parameter["schema"];
        html! {
            (self.name_and_type(text(&parameter["name"]), schema, parameter["required"] == true))
            dd { (markdown(text(&parameter["description"]))) }
        }
    }

    fn response(&self, response: &'a Value) -> Markup {
        if let Some(codes) = response["x-error-codes"].as_array() {
            return html! {
                @for (index, code) in codes.iter().enumerate() {
                    @if index > 0 { ", " }
                    a href={ "#code-" (text(code)) } { code { (text(code)) } }
                }
            };
        }
        match response["content"].get("application/json") {
            Some(content) => self.type_of(&content["schema"]),
            None => html! { (text(&response["description"])) },
        }
    }

    /// The fields of an object, those of its parts among them.
    fn fields(&self, schema: &'a Value) -> Vec<Field<'a>> {
        let schema = self.resolved(schema);
        let mut fields: Vec<Field<'a>> =
            list(&schema["allOf"]).iter().flat_map(|part| self.fields(part)).collect();
        let required = list(&schema["required"]);
        // Those that are required are in the order of the type, the others in that of the alphabet.
        let place = |name: &str| required.iter().position(|one| one == name);
        let own = schema["properties"].as_object().into_iter().flatten();
        let mut own: Vec<(&String, &Value)> = own.collect();
        own.sort_by_key(|(name, _)| place(name).unwrap_or(usize::MAX));
        let is_required = |name: &str| place(name).is_some();
        fields.extend(own.into_iter().map(|(name, schema)| Field {
            name,
            schema,
            is_required: is_required(name),
        }));
        fields
    }

    fn fields_of(&self, schema: &'a Value) -> Markup {
        html! {
            dl.fields {
                @for field in self.fields(schema) {
                    (self.name_and_type(field.name, field.schema, field.is_required))
                    dd { (markdown(text(&field.schema["description"]))) }
                }
            }
        }
    }

    fn name_and_type(&self, name: &str, schema: &'a Value, is_required: bool) -> Markup {
        html! {
            dt {
                code { (name) } " "
                span.small { (self.type_of(schema)) @if !is_required { ", optional" } }
            }
        }
    }

    /// What a value is, in a few words.
    fn type_of(&self, schema: &'a Value) -> Markup {
        if let Some(name) = named(schema) {
            let items = &self.resolved(schema)["properties"]["items"]["items"];
            return match named(items) {
                Some(item) => html! { "list of " (link(item)) },
                None => link(name),
            };
        }
        if let Some(words) = schema["enum"].as_array() {
            return html! {
                @for (index, word) in words.iter().enumerate() {
                    @if index > 0 { " or " }
                    code { (text(word)) }
                }
            };
        }
        let choices = list(&schema["oneOf"]);
        if !choices.is_empty() {
            return html! {
                @for (index, choice) in choices.iter().rev().enumerate() {
                    @if index > 0 { " or " }
                    (self.type_of(choice))
                }
            };
        }
        match &schema["type"] {
            Value::Array(types) => html! {
                @for (index, name) in types.iter().enumerate() {
                    @if index > 0 { " or " }
                    (plain(text(name), schema))
                }
            },
            name if name == "array" => html! { "list of " (self.type_of(&schema["items"])) },
            name if schema["additionalProperties"].is_object() => {
                html! { (text(name)) " of " (self.type_of(&schema["additionalProperties"])) "s" }
            }
            name => plain(text(name), schema),
        }
    }

    /// The objects that answers hold and that fields refer to. Bodies of requests stand with their operations, and lists are
    /// no objects of their own.
    fn objects(&self) -> Markup {
        let mut shown = BTreeSet::new();
        for path in self.0["paths"].as_object().into_iter().flat_map(|paths| paths.values()) {
            for operation in METHODS.iter().filter_map(|method| path.get(method)) {
                self.note_objects(&operation["responses"], &mut shown);
                let body = &operation["requestBody"]["content"]["application/json"]["schema"];
                self.fields(body).iter().for_each(|field| self.note_objects(field.schema, &mut shown));
            }
        }
        html! {
            section.stack id="objects" {
                h2 { "Objects" }
                @for name in shown {
                    @let schema = &self.0["components"]["schemas"][name];
                    article.card.stack id={ "object-" (name) } {
                        h3 { (name) }
                        (markdown(text(&schema["description"])))
                        (self.fields_of(schema))
                    }
                }
            }
        }
    }

    /// Adds the objects that this part of the document links to.
    fn note_objects(&self, part: &'a Value, shown: &mut BTreeSet<&'a str>) {
        if let Some(name) = named(part) {
            let schema = self.resolved(part);
            let is_list = named(&schema["properties"]["items"]["items"]).is_some();
            if is_list || shown.insert(name) {
                self.fields(part).iter().for_each(|field| self.note_objects(field.schema, shown));
            }
            return;
        }
        match part {
            Value::Array(parts) => parts.iter().for_each(|part| self.note_objects(part, shown)),
            Value::Object(parts) => parts.values().for_each(|part| self.note_objects(part, shown)),
            _ => {}
        }
    }

    /// The text of each code, from the description of the field.
    fn code_texts(&self) -> Markup {
        let all = text(&self.0["components"]["schemas"]["Problem"]["properties"]["code"]["description"]);
        let codes = all.lines().filter_map(|line| {
            let (code, rest) = line.strip_prefix("- `")?.split_once("` (")?;
            let (status, text) = rest.split_once("): ")?;
            Some((code, status, text))
        });
        html! {
            dl.fields {
                @for (code, status, text) in codes {
                    dt id={ "code-" (code) } { code { (code) } " " span.small { (status) } }
                    dd { (markdown(text)) }
                }
            }
        }
    }

    /// What a reference leads to; anything else is itself.
    fn resolved(&self, value: &'a Value) -> &'a Value {
        let target = value["$ref"].as_str().and_then(|target| self.0.pointer(target.strip_prefix('#')?));
        target.unwrap_or(value)
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn anchor(tag: &str) -> String {
    tag.to_lowercase().replace(' ', "-")
}

/// The name of the schema that this refers to.
fn named(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.strip_prefix(SCHEMAS)
}

fn link(name: &str) -> Markup {
    html! { a href={ "#object-" (name) } { (name) } }
}

/// A type with its format.
fn plain(name: &str, schema: &Value) -> Markup {
    match (name, text(&schema["format"])) {
        ("string", "date-time") => html! { "time" },
        ("null", _) => html! { "null" },
        _ => html! { (name) },
    }
}

fn credentials(security: &Value) -> Markup {
    let kinds = list(security).iter().flat_map(|one| one.as_object().into_iter().flatten());
    html! {
        p.small {
            @for (index, (scheme, scopes)) in kinds.enumerate() {
                @if index > 0 { ", or " }
                (if scheme == "apiKey" { "API key" } else { "Access token" })
                @for (index, scope) in list(scopes).iter().enumerate() {
                    (if index > 0 { " or " } else { " with the scope " })
                    code { (text(scope)) }
                }
            }
        }
    }
}

/// Paragraphs, lists and code: all of Markdown that the document uses.
fn markdown(source: &str) -> Markup {
    html! {
        @for block in source.split("\n\n").filter(|block| !block.trim().is_empty()) {
            @if block.starts_with("- ") {
                ul { @for line in block.lines() { li { (inline(line.trim_start_matches("- "))) } } }
            } @else {
                p { (inline(block)) }
            }
        }
    }
}

/// A line with `code` and **strong** words in it.
fn inline(source: &str) -> Markup {
    html! {
        @for (index, part) in source.split('`').enumerate() {
            @if index % 2 == 1 {
                code { (part) }
            } @else {
                @for (index, part) in part.split("**").enumerate() {
                    @if index % 2 == 1 { strong { (part) } } @else { (part) }
                }
            }
        }
    }
}
