//! The document is complete and consistent. What a change of it does to clients is judged in `kept/`.

use super::codes::CODES as KNOWN;
use super::operation::CODES;
use super::{ALTERNATIVES, DOCUMENT, Description, operations};
use crate::api::billing::customers;
use crate::api::subscriptions;
use crate::pages::views::ApiDocs;
use crate::web::fields::{self, Validate};
use identity::clients::{self, Purpose};
use identity::plans::terms;
use identity::{audit, audit_trail, names, user_search};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use store::FromRow;

/// What every route under these begins with is the API.
const API: [&str; 2] = ["/api/", "/webhooks/"];
/// What describes the API is no part of it.
const ABOUT_IT: [&str; 2] = ["/api/openapi.json", "/api/docs"];
/// Codes that no operation answers with: a head that no route gets, other methods of a path, and pages.
const ELSEWHERE: [&str; 3] = ["head_too_large", "method_not_allowed", "signed_out"];

/// Every operation as `GET /api/…`, with its description.
fn operations() -> Vec<(String, &'static Value)> {
    let paths = DOCUMENT["paths"].as_object().expect("paths");
    let all = paths.iter().flat_map(|(path, item)| {
        let methods = item.as_object().expect("an item").iter();
        methods.map(move |(method, operation)| (format!("{} {path}", method.to_uppercase()), operation))
    });
    all.collect()
}

#[test]
fn every_route_of_the_api_is_described_and_nothing_else() {
    let router = crate::router();
    let of_api = router
        .listed()
        .iter()
        .filter(|(_, path)| API.iter().any(|prefix| path.starts_with(prefix)) && !ABOUT_IT.contains(path));
    let routes: BTreeSet<String> = of_api.map(|(method, path)| format!("{method} {path}")).collect();
    let described: BTreeSet<String> = operations().into_iter().map(|(route, _)| route).collect();
    let missing: Vec<_> = routes.difference(&described).collect();
    assert!(
        missing.is_empty(),
        "add a line to a table of the crate `api`, or an entry to server/src/openapi/operations.rs, for each of {missing:#?}"
    );
    let gone: Vec<_> = described.difference(&routes).collect();
    assert!(gone.is_empty(), "no route in server/src/router.rs: {gone:#?}");
}

#[test]
fn every_operation_is_described_in_full() {
    let mut ids = BTreeSet::new();
    let tags: Vec<&Value> =
        DOCUMENT["tags"].as_array().expect("tags").iter().map(|tag| &tag["name"]).collect();
    for (route, operation) in operations() {
        let id = operation["operationId"].as_str().expect("an id");
        assert!(ids.insert(id), "{route}: {id} is the id of two operations");
        assert!(tags.contains(&&operation["tags"][0]), "{route} has no known tag");
        assert!(!operation["summary"].as_str().expect("a summary").ends_with('.'), "{route}");
        let security = operation["security"].as_array().expect("security");
        assert!(!security.is_empty() || route.contains(" /webhooks/"), "{route} says nothing of credentials");
        let responses = operation["responses"].as_object().expect("responses");
        let done = responses.keys().filter(|status| status.starts_with('2')).count();
        assert_eq!(done, 1, "{route} has one answer; `answers` in operations.rs says what it is");
        let takes_body = operation.get("requestBody").is_some();
        // The bytes of an event are signed, whatever their media type.
        let checks_type = takes_body && !route.contains(" /webhooks/");
        assert_eq!(checks_type, responses.contains_key("415"), "{route}");
        for name in route.split('{').skip(1).filter_map(|rest| rest.split('}').next()) {
            let parameters = operation["parameters"].as_array().expect("parameters");
            assert!(
                parameters.iter().any(|one| one["name"] == name && one["in"] == "path"),
                "{route}: {name}"
            );
        }
    }
}

/// The schema of a field of a request.
fn field(schema: &str, field: &str) -> &'static Value {
    &DOCUMENT["components"]["schemas"][schema]["properties"][field]
}

/// Whether a body has the fields that a schema wants: `required`, and what `anyOf` and `not` make of it.
fn has_fields_for(schema: &Value, body: &Value) -> bool {
    let items = |word: &str| schema[word].as_array().into_iter().flatten();
    let has_all = items("required").all(|name| body.get(name.as_str().expect("a name")).is_some());
    let is_any = schema.get("anyOf").is_none() || items("anyOf").any(|one| has_fields_for(one, body));
    has_all && is_any && schema.get("not").is_none_or(|refused| !has_fields_for(refused, body))
}

/// Whether the handler of a body of this type takes it.
fn takes<T: DeserializeOwned + Validate>(body: &Value) -> bool {
    fields::read_body(body.to_string().as_bytes(), T::validate).is_ok()
}

#[test]
fn the_alternatives_of_fields_are_those_that_are_checked() {
    type Takes = fn(&Value) -> bool;
    let handlers: [(&str, Takes, Value); 2] = [
        ("CreateSubscription", takes::<subscriptions::CreateBody>, json!({ "plan": "pro" })),
        ("BillingCustomerOf", takes::<customers::CustomerOf>, json!({})),
    ];
    assert_eq!(handlers.each_ref().map(|(name, ..)| *name), ALTERNATIVES.map(|(name, _)| name));
    for (name, takes, others) in handlers {
        let schema = &DOCUMENT["components"]["schemas"][name];
        let mut taken = Vec::new();
        for (user, customer) in [(false, false), (true, false), (false, true), (true, true)] {
            let mut body = others.clone();
            for (field, is_sent) in [("user", user), ("customer", customer)] {
                if is_sent {
                    body[field] = json!(format!("{field}_00000000000000000000000000"));
                }
            }
            assert_eq!(has_fields_for(schema, &body), takes(&body), "{name}: {body}");
            taken.push(takes(&body));
        }
        assert_eq!(taken, [false, true, true, false], "{name} takes a user or a customer");
    }
}

/// The schema of a query parameter.
fn parameter(route: &str, name: &str) -> &'static Value {
    let (_, operation) = operations().into_iter().find(|(known, _)| known == route).expect("an operation");
    let all = operation["parameters"].as_array().expect("parameters");
    &all.iter().find(|one| one["name"] == name).expect("the parameter")["schema"]
}

#[test]
fn the_limits_of_fields_are_those_that_are_checked() {
    let length =
        |schema: &str, name: &str| field(schema, name)["maxLength"].as_u64().expect("a length") as usize;
    for schema in
        ["CreateService", "CreateClient", "CreateOrganization", "CreatePlan", "CreateApiKey", "ChangeUser"]
    {
        assert_eq!(field(schema, "name")["minLength"], 1, "{schema}");
        let longest = "n".repeat(length(schema, "name"));
        assert!(
            names::display("name", &longest).is_ok() && names::display("name", &(longest + "n")).is_err()
        );
    }
    let longest = "r".repeat(length("SuspendUser", "reason"));
    assert!(audit::reason(Some(&longest)).is_ok() && audit::reason(Some(&(longest + "r"))).is_err());
    let longest = format!("https://a.test/{}", "p".repeat(clients::URI_LENGTH_MAX - 15));
    let uris = field("CreateClient", "redirect_uris");
    assert_eq!(uris["items"]["maxLength"], longest.len());
    assert!(clients::check_uri(Purpose::Redirect, &longest).is_ok());
    assert!(clients::check_uri(Purpose::Redirect, &(longest + "p")).is_err());
    let many: Vec<String> =
        (0..=uris["maxItems"].as_u64().expect("a number")).map(|one| one.to_string()).collect();
    assert!(clients::check_uri_list(Purpose::Redirect, &many).is_err());
    assert!(clients::check_uri_list(Purpose::Redirect, &many[1..]).is_ok());
    for (name, check) in [
        ("seats", (|count| terms::seats(Some(count)).is_ok()) as fn(i64) -> bool),
        ("price_cents", |price| terms::price(price).is_ok()),
    ] {
        let bound = |word: &str| field("CreatePlan", name)[word].as_i64().expect("a bound");
        assert!(check(bound("minimum")) && !check(bound("minimum") - 1), "{name}");
        assert!(check(bound("maximum")) && !check(bound("maximum") + 1), "{name}");
    }
    let users = "GET /api/organizations/{org}/users";
    for word in parameter(users, "sort")["enum"].as_array().expect("words") {
        assert!(identity::users::Order::parse(word.as_str().expect("a word")).is_ok(), "{word}");
    }
    let longest = "q".repeat(parameter(users, "q")["maxLength"].as_u64().expect("a length") as usize);
    assert!(user_search::text(&longest).is_ok() && user_search::text(&(longest + "q")).is_err());
    let longest = "a".repeat(
        parameter("GET /api/organizations/{org}/audit", "action")["maxLength"].as_u64().expect("a length")
            as usize,
    );
    assert!(audit_trail::action(&longest).is_ok() && audit_trail::action(&(longest + "a")).is_err());
}

/// The fields of an object of the API, and the columns of its row.
fn fields_and_columns<T: FromRow>(object: &str) -> [BTreeSet<String>; 2] {
    let mut fields = BTreeSet::new();
    let mut objects = vec![&DOCUMENT["components"]["schemas"][object]];
    while let Some(schema) = objects.pop() {
        objects.extend(schema["allOf"].as_array().into_iter().flatten());
        let referred = schema["$ref"].as_str().and_then(|target| DOCUMENT.pointer(target.strip_prefix('#')?));
        objects.extend(referred);
        fields.extend(schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.clone()));
    }
    [fields, store::column_names::<T>().into_iter().collect()]
}

/// What only one of them has stands here: a column that is forgotten in the API, or a field that is stored nowhere, is found.
#[test]
fn the_fields_of_an_object_are_the_columns_of_its_row_but_for_these() {
    let nouns = [
        (
            "User",
            fields_and_columns::<identity::users::User>("User"),
            "email_verified",
            "email_verified_at known_browsers_epoch organization_id",
        ),
        (
            "Session",
            fields_and_columns::<identity::sessions::Session>("Session"),
            "",
            "authentication organization_id user_id",
        ),
        ("Service", fields_and_columns::<identity::services::Service>("Service"), "", "organization_id"),
        (
            "Organization",
            fields_and_columns::<identity::organizations::Organization>("Organization"),
            "status",
            "decision deleted_at suspended_at",
        ),
        (
            "Administrator",
            fields_and_columns::<identity::administrators::Administrator>("Administrator"),
            "user",
            "user_id",
        ),
        (
            "Client",
            fields_and_columns::<identity::clients::Client>("Client"),
            "client_id client_secret needs_review pkce post_logout_redirect_uris redirect_uris scopes service",
            "accepted_at access_token_typ administration_scope changed_at id organization_id pkce_required service_id slug",
        ),
    ];
    for (object, [fields, columns], only_fields, only_columns) in nouns {
        let only = |one: &BTreeSet<String>, other: &BTreeSet<String>| {
            one.difference(other).cloned().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(only(&fields, &columns), only_fields, "fields of {object} without a column");
        assert_eq!(only(&columns, &fields), only_columns, "columns of {object} without a field");
    }
}

#[test]
fn every_error_code_is_one_of_the_page_and_has_an_operation() {
    let mut used = BTreeSet::new();
    for (_, operation) in operations() {
        for (_, response) in operation["responses"].as_object().expect("responses") {
            let codes = response[CODES].as_array().into_iter().flatten();
            used.extend(codes.filter_map(Value::as_str));
        }
    }
    let known: BTreeSet<&str> =
        KNOWN.iter().map(|code| code.code).filter(|code| !ELSEWHERE.contains(code)).collect();
    let unused: Vec<_> = known.difference(&used).collect();
    assert!(unused.is_empty(), "which operation answers with these? {unused:?}");

    let mut api = Description::default();
    operations::describe(&mut api);
    let unknown: Vec<_> = api.operations.iter().flat_map(super::Operation::unknown_codes).collect();
    assert!(unknown.is_empty(), "not in docs/errors.md: {unknown:?}");
}

#[test]
fn a_name_stands_for_one_object_and_every_reference_leads_to_one() {
    let mut api = Description::default();
    operations::describe(&mut api);
    let mut known = BTreeMap::new();
    for (name, schema) in api.operations.into_iter().flat_map(|operation| operation.finish().3) {
        let schema = serde_json::to_value(schema).expect("JSON");
        let first = known.entry(name.clone()).or_insert_with(|| schema.clone());
        assert_eq!(*first, schema, "two types are named {name}: use #[schema(as = …)]");
    }
    let text = DOCUMENT.to_string();
    for target in text.split("\"$ref\":\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert!(DOCUMENT.pointer(target).is_some(), "{target}");
    }
}

#[test]
fn the_page_shows_every_route_object_and_code_and_its_links_lead_somewhere() {
    let page = ApiDocs(&DOCUMENT).markup(texts::Languages::built_in().english()).into_string();
    for (route, operation) in operations() {
        let (method, path) = route.split_once(' ').expect("a method");
        assert!(page.contains(&format!("{method}</span> <code>{path}</code>")), "{route}");
        assert!(
            page.contains(&format!("id=\"{}\"", operation["operationId"].as_str().expect("an id"))),
            "{route}"
        );
    }
    for code in KNOWN.iter() {
        assert!(page.contains(&format!("id=\"code-{}\"", code.code)), "{}", code.code);
    }
    for anchor in page.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert!(page.contains(&format!("id=\"{anchor}\"")), "nothing has the id {anchor}");
    }
    let others = page.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
    for target in others.filter(|target| !target.starts_with('#')) {
        assert!(
            target.starts_with('/') && !target.starts_with("//"),
            "{target} is an address of another site"
        );
    }
}
