//! The answer to a wrong body or query string lists every wrong field, in the words of the API.

use super::problem;
use crate::support::Admin;
use crate::tenancy::routes;
use serde_json::{Value, json};
use server::testing::{Answer, TestServer};
use std::collections::BTreeSet;

/// Routes that change something and take no body.
const WITHOUT_BODY: [(&str, &str); 4] = [
    ("POST", "/api/organizations/{org}/billing/{connection}/retry"),
    ("POST", "/api/organizations/{org}/clients/{client}/secrets"),
    ("POST", "/api/organizations/{org}/users/{user}/sign-in-link"),
    ("POST", "/api/organizations/{org}/users/{user}/password-link"),
];

/// For each route with a body: one that is wrong in its types and names, and one whose values break the rules.
fn wrong_bodies(method: &str, route: &str) -> [Value; 2] {
    let long = "x".repeat(101);
    match (method, route.strip_prefix("/api/organizations/{org}").unwrap_or(route)) {
        ("POST", "/api/organizations") => {
            [json!({ "slug": null, "nmae": "Made" }), json!({ "slug": "platform", "name": long })]
        }
        ("PATCH", "") => [
            json!({ "name": null, "sign_up": "yes", "device_flow": [] }),
            json!({ "name": " ", "device_flow": "on" }),
        ],
        ("PUT", "/branding") => [json!({ "contact": 1, "logo": "x" }), json!({ "contact": "a\nb" })],
        ("PATCH", "/administrators/{user}") => [json!({}), json!({ "role": "root" })],
        ("POST", "/invitations") => {
            [json!({ "mail": "a@b.example" }), json!({ "email": "ada", "role": "platform_owner" })]
        }
        ("POST", "/services") => [json!({ "slug": {}, "name": true }), json!({ "slug": "A b", "name": "" })],
        ("PATCH", "/services/{service}") => {
            [json!({ "slug": "new", "name": null }), json!({ "name": "a\nb" })]
        }
        ("POST", "/clients") => [
            json!({ "kind": 7, "redirect_uris": "https://a.example", "consent_required": 1, "secret": "x" }),
            json!({
                "service": "sketch", "kind": "spa", "name": "\u{202e}", "pkce": "optional", "id_token_alg": "none",
                "access_token_typ": "jwt", "redirect_uris": ["https://a.example/cb", "http://a.example/cb", "/cb"],
                "post_logout_redirect_uris": ["https://a.example/#x"],
            }),
        ],
        ("PATCH", "/clients/{client}") => [
            json!({ "kind": "web", "device_flow": null, "redirect_uris": [1, "https://a.example", null] }),
            json!({ "pkce": "on", "redirect_uris": ["ftp://a.example"], "name": long }),
        ],
        ("PUT", "/clients/{client}/scopes") => {
            [json!({ "scopes": ["users:read", 1] }), json!({ "scopes": ["all"] })]
        }
        ("POST", "/plans") => [
            json!({ "slug": "gold", "services": ["sketch", 2], "price_cents": 1.5, "currency": 1, "limits": { "a.b": "x" } }),
            json!({
                "slug": "Gold", "name": "Gold", "services": [], "price_cents": -1, "currency": "euro", "seats": 0,
                "features": ["fine", ""], "limits": { "projects": 3 },
            }),
        ],
        ("PATCH", "/plans/{plan}") => [
            json!({ "slug": "x", "seats": "many", "features": null, "limits": null, "price_cents": null }),
            json!({ "price_cents": -1, "seats": 0, "name": "" }),
        ],
        ("POST", "/subscriptions") => [
            json!({ "user": 1, "status": 1, "current_period_end": 1 }),
            json!({ "plan": "pro", "status": "paid", "current_period_end": "tomorrow" }),
        ],
        ("PATCH", "/subscriptions/{subscription}") => [
            json!({ "plan": [], "current_period_end": 5 }),
            json!({ "status": "paid", "current_period_end": "2027-13-01T00:00:00Z" }),
        ],
        ("POST", "/users") => {
            [json!({ "email_verified": "no", "password": "x" }), json!({ "email": "ada@", "name": long })]
        }
        ("PATCH", "/users/{user}") => [json!({ "email": "a@b.example" }), json!({ "name": "" })],
        ("POST", "/keys") => [
            json!({ "scopes": "users:read", "expires_at": 1 }),
            json!({ "name": "", "scopes": ["users:read", "all"], "expires_at": "never" }),
        ],
        ("POST", "/billing") => [
            json!({ "livemode": "yes", "secret": 7, "provider": "stripe" }),
            json!({ "name": "", "account": "acct 1", "secret": "sk_live_of_another_kind" }),
        ],
        ("PATCH", "/billing/{connection}") => {
            [json!({ "livemode": true, "name": [] }), json!({ "name": "a\nb", "secret": "whsec_" })]
        }
        ("PUT", "/billing/{connection}/prices/{price}") => {
            [json!({ "plans": 1 }), json!({ "plan": "A plan" })]
        }
        (
            "PUT" | "POST",
            "/billing/{connection}/customers/{billing_customer}" | "/billing/{connection}/references",
        ) => [json!({ "user": 1, "email": "a@b.example" }), json!({})],
        ("PUT", "/users/{user}/suspension" | "/api/platform/organizations/{org}/suspension") => {
            [json!({ "reason": 1, "until": "2027" }), json!({ "reason": "a\nb" })]
        }
        ("POST", "/api/platform/organizations/{org}/review") => {
            [json!({ "reason": true }), json!({ "decision": "yes", "reason": "x".repeat(501) })]
        }
        ("POST", "/api/platform/owners") => [json!({}), json!({ "email": "@" })],
        ("POST", "/api/service/check") => [
            json!({ "checks": [{ "user": 1 }, 2, { "user": "a", "feature": "b", "plan": "c" }] }),
            json!({ "checks": [] }),
        ],
        other => panic!("{other:?} is a new route: say what its body may not have"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_lists_all_wrong_fields_of_its_body() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "owner@sarsen.test", "org:acme platform").await;
    let acme = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let key = server.demo.api_key.clone();
    let mut said = String::new();
    for (method, route) in routes("/api/") {
        if matches!(method, "GET" | "DELETE") || WITHOUT_BODY.contains(&(method, route)) {
            continue;
        }
        let path = route
            .replace("{org}", "acme")
            .replace("{service}", "sketch")
            .replace("{client}", server.client("web"))
            .replace("{plan}", "pro")
            .replace("{subscription}", "sub_00000000000000000000000000")
            .replace("{connection}", "billing_00000000000000000000000000")
            .replace("{price}", "price_1")
            .replace("{billing_customer}", "cus_1")
            .replace("{user}", "user_00000000000000000000000000");
        let token = match route {
            "/api/service/check" => &key,
            route if route.starts_with("/api/organizations/{org}") => &acme.token,
            _ => &admin.token,
        };
        for body in wrong_bodies(method, route) {
            let answer = server.request(method, &path).bearer(token).json(&body).send().await;
            assert_eq!(problem(&answer), (422, "invalid".to_owned()), "{method} {route} {body}: {answer:?}");
            said.push_str(&format!("{method} {route}\n{}", told(&answer)));
        }
    }
    insta::assert_snapshot!(said);
    server.stop().await;
}

/// The problem and its fields.
fn told(answer: &Answer) -> String {
    let body = answer.json();
    let mut told = format!("  {}\n", body["detail"].as_str().unwrap_or_default());
    for error in body["errors"].as_array().into_iter().flatten() {
        let text = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
        told.push_str(&format!("  - {} {}: {}\n", text("field"), text("code"), text("detail")));
    }
    told
}

#[tokio::test(flavor = "multi_thread")]
async fn types_and_rules_are_checked_together() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let path = "/api/organizations/acme/plans";
    let send = async |body: &str| {
        let request = admin.request("POST", path).body("application/json", body.as_bytes().to_vec());
        request.send().await
    };
    let answer = send(
        r#"{"slug": "A B", "name": 1, "services": ["sketch", "sketch"], "price_cents": 99999999999999999999,
            "currency": "EUR", "currency": "EUR", "colour": "red", "features": ["a\u0000b"]}"#,
    )
    .await;
    assert_eq!(problem(&answer), (422, "invalid".to_owned()));
    insta::assert_snapshot!(told(&answer), @r#"
    7 fields are wrong: currency, features[0], name, price_cents, colour, slug, services. See `errors`.
    - currency repeated: Sent more than once; send it once.
    - features[0] invalid: The text has a NUL (\u0000); remove it.
    - name wrong_type: 1 is not a string; use a string.
    - price_cents out_of_range: 1e+20 is out of range; use a value that the field can hold.
    - colour unknown: Unknown; use slug, name, services, price_cents, currency, features, limits or seats.
    - slug invalid: "A B" is not a slug; use 2 to 50 characters of a-z, 0-9 and -, starting with a letter, like "acme".
    - services repeated: "sketch" is listed twice; list it once.
    "#);

    let many: Vec<String> = (0..80).map(|number| format!("\"f{number}\": 1")).collect();
    let answer = send(&format!("{{{}}}", many.join(", "))).await;
    assert_eq!(problem(&answer), (422, "invalid".to_owned()));
    assert_eq!(answer.json()["errors"].as_array().map(Vec::len), Some(50), "the list is limited");

    // What is taken, and what is named and does not exist, is a field too.
    let plan =
        json!({ "slug": "pro", "name": "Pro", "services": ["sketch"], "price_cents": 1, "currency": "EUR" });
    let taken = admin.call("POST", path, &plan).await;
    assert_eq!(problem(&taken), (409, "taken".to_owned()));
    let client = json!({ "service": "nothing", "kind": "device", "name": "A client" });
    let unknown = admin.call("POST", "/api/organizations/acme/clients", &client).await;
    assert_eq!(problem(&unknown), (404, "not_found".to_owned()));
    insta::assert_snapshot!([told(&taken), told(&unknown)].concat(), @r#"
    slug: "pro" is taken; choose another.
    - slug taken: "pro" is taken; choose another.
    Service "nothing" not found; use cli, notes or sketch.
    - service not_found: Service "nothing" not found; use cli, notes or sketch.
    "#);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_string_lists_all_wrong_parameters() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let mut said = String::new();
    for (list, query) in [
        ("users", "limit=x&limit=2&search=ada&pages=3"),
        ("users", "limit=0&cursor=!"),
        ("plans", "limit=1.5&service=sketch"),
        ("subscriptions", "limit=9999999999999999999"),
    ] {
        let answer = admin.request("GET", &format!("/api/organizations/acme/{list}?{query}")).send().await;
        assert_eq!(problem(&answer), (400, "invalid_query".to_owned()), "{answer:?}");
        said.push_str(&format!("{list}?{query}\n{}", told(&answer)));
    }
    insta::assert_snapshot!(said, @r#"
    users?limit=x&limit=2&search=ada&pages=3
      3 fields are wrong: limit, search, pages. See `errors`.
      - limit repeated: Sent more than once; send it once.
      - search unknown: Unknown; use limit, cursor, email, q or sort.
      - pages unknown: Unknown; use limit, cursor, email, q or sort.
    users?limit=0&cursor=!
      2 fields are wrong: limit, cursor. See `errors`.
      - limit out_of_range: 0 is out of range; use 1 to 200.
      - cursor invalid: The cursor is not valid for this list; use the `next` value of the previous page.
    plans?limit=1.5&service=sketch
      2 fields are wrong: limit, service. See `errors`.
      - limit wrong_type: "1.5" is not an integer; use an integer.
      - service unknown: Unknown; use limit or cursor.
    subscriptions?limit=9999999999999999999
      limit: 9999999999999999999 is out of range; use a value that the field can hold.
      - limit out_of_range: 9999999999999999999 is out of range; use a value that the field can hold.
    "#);
    server.stop().await;
}

#[test]
fn the_routes_without_a_body_exist() {
    let known: BTreeSet<_> = routes("/api/").into_iter().collect();
    assert!(WITHOUT_BODY.iter().all(|route| known.contains(route)), "{known:?}");
}
