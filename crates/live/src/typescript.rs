//! TypeScript types of an app's queries and mutations.

use crate::app::Registry;
use crate::auth::Misconfigured;
use crate::described::{Api, Call, referred};
use serde_json::{Map, Value};
use std::fmt::Write as _;

const HEAD: &str =
    "// Types of the back end's queries and mutations, made by `App::typescript`: do not edit.\n\n";

/// An interface `Api`, and the types that it names. The error says which types need another name.
pub(crate) fn types(registry: &Registry) -> Result<String, Misconfigured> {
    let api = Api::of(registry)?;
    let mut text = format!("{HEAD}export interface Api {{\n");
    for (title, calls) in [("queries", &api.queries), ("mutations", &api.mutations)] {
        let _ = writeln!(text, "  {title}: {{");
        for Call { name, args, value, .. } in calls {
            text.push_str(&comment(args, 4));
            let _ = writeln!(text, "    {}: {{", property(name));
            let _ = writeln!(text, "      args: {};", of_args(args, 6));
            let _ = writeln!(text, "      value: {};\n    }};", of(value, 6));
        }
        text.push_str("  };\n");
    }
    text.push_str("}\n");
    for (name, schema) in &api.named {
        let _ =
            write!(text, "\n{}export type {} = {};\n", comment(schema, 0), type_name(name), of(schema, 0));
    }
    Ok(text)
}

/// The type of arguments: of an object without members nothing may be given.
fn of_args(schema: &Value, indent: usize) -> String {
    match of(schema, indent) {
        any if any == ANY_OBJECT => "Record<string, never>".to_owned(),
        args => args,
    }
}

/// An object of which nothing is known, such as JSON that a client has stored.
const ANY_OBJECT: &str = "Record<string, unknown>";

/// The type for a JSON Schema. Lines after the first are indented by `indent`.
fn of(schema: &Value, indent: usize) -> String {
    if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
        return type_name(referred(name));
    }
    if let Some(value) = schema.get("const") {
        return value.to_string();
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return union(values.iter().map(Value::to_string).collect());
    }
    if let Some(parts) = ["oneOf", "anyOf"].iter().find_map(|name| schema.get(name)?.as_array()) {
        return union(parts.iter().map(|part| of(part, indent)).collect());
    }
    if let Some(parts) = schema.get("allOf").and_then(Value::as_array) {
        return parts.iter().map(|part| grouped(of(part, indent))).collect::<Vec<_>>().join(" & ");
    }
    match schema.get("type") {
        Some(Value::Array(kinds)) => {
            union(kinds.iter().filter_map(Value::as_str).map(|kind| of_kind(kind, schema, indent)).collect())
        }
        Some(Value::String(kind)) => of_kind(kind, schema, indent),
        _ if schema.get("properties").is_some() => object(schema, indent),
        _ => "unknown".to_owned(),
    }
}

fn of_kind(kind: &str, schema: &Value, indent: usize) -> String {
    match kind {
        "string" | "boolean" | "null" => kind.to_owned(),
        "integer" | "number" => "number".to_owned(),
        "array" => array(schema, indent),
        "object" => object(schema, indent),
        _ => "unknown".to_owned(),
    }
}

fn array(schema: &Value, indent: usize) -> String {
    if let Some(items) = schema.get("prefixItems").and_then(Value::as_array) {
        return format!("[{}]", items.iter().map(|item| of(item, indent)).collect::<Vec<_>>().join(", "));
    }
    let item = schema.get("items").map_or_else(|| "unknown".to_owned(), |item| of(item, indent));
    format!("{}[]", grouped(item))
}

fn object(schema: &Value, indent: usize) -> String {
    let none = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
    let values = schema.get("additionalProperties").filter(|values| **values != Value::Bool(false));
    if properties.is_empty() {
        return match values {
            // Names of a map's keys are strings in JSON, whatever their type is in Rust.
            Some(values) => format!("{{ [key: string]: {} }}", of(values, indent)),
            None => ANY_OBJECT.to_owned(),
        };
    }
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let inner = indent + 2;
    let mut text = String::from("{\n");
    for (name, schema) in properties {
        let optional = if required.contains(&name.as_str()) { "" } else { "?" };
        let (comment, name, of) = (comment(schema, inner), property(name), of(schema, inner));
        let _ = writeln!(text, "{comment}{:inner$}{name}{optional}: {of};", "");
    }
    let _ = write!(text, "{:indent$}}}", "");
    match values {
        Some(values) => format!("{text} & {{ [key: string]: {} }}", of(values, indent)),
        None => text,
    }
}

/// One of several types: each once, `null` last.
fn union(types: Vec<String>) -> String {
    let mut distinct: Vec<String> = Vec::new();
    for part in types {
        if !distinct.contains(&part) {
            distinct.push(part);
        }
    }
    distinct.sort_by_key(|part| part == "null");
    if distinct.is_empty() { "never".to_owned() } else { distinct.join(" | ") }
}

/// In parentheses where something follows that binds more tightly.
fn grouped(text: String) -> String {
    if text.contains(" | ") || text.contains(" & ") { format!("({text})") } else { text }
}

fn comment(schema: &Value, indent: usize) -> String {
    let Some(text) = schema.get("description").and_then(Value::as_str) else { return String::new() };
    let text = text.replace("*/", "* /");
    let lines: Vec<&str> = text.trim().lines().map(str::trim_end).collect();
    match lines.as_slice() {
        [line] => format!("{:indent$}/** {line} */\n", ""),
        lines => {
            let body: String = lines
                .iter()
                .map(|line| format!("{}\n", format!("{:indent$} * {line}", "").trim_end()))
                .collect();
            format!("{:indent$}/**\n{body}{:indent$} */\n", "", "")
        }
    }
}

fn is_identifier(name: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphabetic() || letter == '_' || letter == '$';
    name.starts_with(is_letter) && name.chars().all(|letter| is_letter(letter) || letter.is_ascii_digit())
}

fn property(name: &str) -> String {
    if is_identifier(name) { name.to_owned() } else { Value::from(name).to_string() }
}

/// A name for an exported type: utoipa's, without what TypeScript does not allow.
fn type_name(name: &str) -> String {
    let mut name: String =
        name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' }).collect();
    if !is_identifier(&name) {
        name.insert(0, '_');
    }
    if ["Api", "Record"].contains(&name.as_str()) {
        name.push('_');
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::described::samples::{Clear, Line, ListOrders};
    use crate::{Anyone, App, Problem, Query};
    use serde::{Deserialize, Serialize};
    use serde_json::json;
    use store::Snapshot;
    use utoipa::ToSchema;

    #[test]
    fn an_app_is_described_with_its_types() {
        let text = App::new().query::<ListOrders>().mutation::<Clear>().typescript().expect("types");
        assert_eq!(text, include_str!("typescript_expected.ts"), "\n{text}");
    }

    /// Types of another module, one of which has the name of one above.
    mod invoices {
        use super::*;

        #[derive(Serialize, ToSchema)]
        struct Line {
            text: String,
        }

        #[derive(Serialize, ToSchema)]
        #[schema(as = ReceiptLine)]
        struct Renamed {
            text: String,
        }

        #[derive(Serialize, ToSchema)]
        pub(super) struct Invoice {
            lines: Vec<Line>,
        }

        #[derive(Serialize, ToSchema)]
        pub(super) struct Receipt {
            lines: Vec<Renamed>,
        }

        #[derive(Deserialize, ToSchema)]
        pub(super) struct GetInvoice {}

        #[derive(Deserialize, ToSchema)]
        pub(super) struct GetReceipt {}

        impl Query for GetInvoice {
            const NAME: &'static str = "get_invoice";
            type Claims = Anyone;
            type Value = Invoice;
            fn run(&self, _: &mut Snapshot<'_>, _: &Anyone) -> Result<Invoice, Problem> {
                Ok(Invoice { lines: Vec::new() })
            }
        }

        impl Query for GetReceipt {
            const NAME: &'static str = "get_receipt";
            type Claims = Anyone;
            type Value = Receipt;
            fn run(&self, _: &mut Snapshot<'_>, _: &Anyone) -> Result<Receipt, Problem> {
                Ok(Receipt { lines: Vec::new() })
            }
        }
    }

    #[test]
    fn two_types_with_one_name_are_refused_until_one_has_another() {
        let app = App::new().query::<ListOrders>().query::<invoices::GetReceipt>();
        let text = app.typescript().expect("each type has a name");
        for part in
            ["type Line = {\n  price: number;", "type ReceiptLine = {\n  text: string;", "ReceiptLine[]"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        let refused = app.query::<invoices::GetInvoice>().typescript().expect_err("two types").to_string();
        for part in
            ["named Line", "`get_invoice`", "invoices::Invoice", "`list_orders`", "schema(as = OtherLine)"]
        {
            assert!(refused.contains(part), "{part}: {refused}");
        }
    }

    #[derive(Serialize, ToSchema)]
    struct Page<T> {
        items: Vec<T>,
    }

    #[derive(Deserialize, ToSchema)]
    struct PageOfLines {}

    impl Query for PageOfLines {
        const NAME: &'static str = "page_of_lines";
        type Claims = Anyone;
        type Value = Page<Line>;
        fn run(&self, _: &mut Snapshot<'_>, _: &Anyone) -> Result<Page<Line>, Problem> {
            Ok(Page { items: Vec::new() })
        }
    }

    #[test]
    fn a_type_that_nothing_describes_is_refused() {
        let app = App::new().query::<PageOfLines>();
        let refused = app.typescript().expect_err("a generic type").to_string();
        for part in ["`page_of_lines`", "the type Line", "nothing describes", "struct LinePage"] {
            assert!(refused.contains(part), "{part}: {refused}");
        }
        // Where another answer describes it, nothing is missing.
        let text = app.query::<ListOrders>().typescript().expect("each type is described");
        assert!(text.contains("items: Line[]"), "{text}");
    }

    #[test]
    fn schemas_become_types() {
        for (schema, expected) in [
            (json!({"type": ["string", "null"]}), "string | null"),
            (json!({"oneOf": [{"type": "null"}, {"$ref": "#/components/schemas/Line"}]}), "Line | null"),
            (json!({"type": "array", "items": {"enum": ["a", "b"]}}), "(\"a\" | \"b\")[]"),
            (
                json!({"type": "object", "additionalProperties": {"type": "integer"}}),
                "{ [key: string]: number }",
            ),
            (json!({"type": "object"}), "Record<string, unknown>"),
            (
                json!({"allOf": [{"$ref": "#/x/A"}, {"oneOf": [{"$ref": "#/x/B"}, {"const": 1}]}]}),
                "A & (B | 1)",
            ),
            (
                json!({"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}]}),
                "[string, number]",
            ),
            (json!({"type": "null"}), "null"),
            (json!({}), "unknown"),
            (json!({"$ref": "#/components/schemas/Page_Order.v1"}), "Page_Order_v1"),
            (json!({"$ref": "#/components/schemas/Api"}), "Api_"),
            (
                json!({"type": "object", "properties": {"a-b": {"type": "string"}}}),
                "{\n  \"a-b\"?: string;\n}",
            ),
        ] {
            assert_eq!(of(&schema, 0), expected, "{schema}");
        }
    }

    #[test]
    fn a_comment_cannot_end_early() {
        assert_eq!(comment(&json!({"description": "a */ b"}), 2), "  /** a * / b */\n");
    }
}
