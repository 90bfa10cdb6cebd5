//! What all routes have in common: discovery, health, CORS, hosts, wrong paths and methods, versions, the form of bodies.

use super::{ACME, Call, People, Recording, call, get, is_recorded, post, recorded_server};
use crate::tenancy::routes;
use serde_json::json;
use server::testing::TestServer;

const USERS: &str = "/api/organizations/acme/users";
const ORIGIN: (&str, &str) = ("origin", "https://app.example");

#[tokio::test(flavor = "multi_thread")]
async fn server_wide() {
    if !is_recorded() {
        return;
    }
    let server = recorded_server(|_| {}, true).await;
    let people = People::of(&server).await;
    let mut to = Recording::of(&server);
    discovery(&server, &mut to).await;
    cross_origin(&server, &mut to).await;
    addresses(&server, &mut to).await;
    methods(&server, &mut to).await;
    versions(&people, &mut to).await;
    bodies(&people, &mut to).await;
    insta::assert_snapshot!("server_wide", to.finish());
    server.stop().await;
}

async fn discovery(server: &TestServer, to: &mut Recording) {
    to.section("What clients discover");
    for path in [
        "/.well-known/openid-configuration",
        "/.well-known/oauth-authorization-server",
        "/.well-known/oauth-protected-resource",
        "/.well-known/oauth-protected-resource/api",
        "/.well-known/jwks.json",
        "/healthz",
        "/readyz",
    ] {
        to.send(server, "discovery and health", get(path)).await;
    }
    // Their bodies have snapshots of their own, or are counters.
    for path in [
        "/api/openapi.json",
        "/metrics",
        "/assets/sarsen.css",
        "/assets/product.js",
        "/assets/logo.svg",
        "/favicon.ico",
    ] {
        let call = get(path);
        let mut answer = server.get(path).send().await;
        assert!(!answer.body.is_empty(), "{path}");
        "(a document)".clone_into(&mut answer.body);
        to.record("a document", &call, &answer);
    }
    to.send(server, "a document by its hash", call("HEAD", "/assets/logo.svg?v=AAAAAAAAAAAA")).await;
    to.send(server, "the page of the API", call("HEAD", "/api/docs")).await;
}

async fn cross_origin(server: &TestServer, to: &mut Recording) {
    to.section("Pages of other origins");
    let asks = |call: Call, method: &str| {
        call.header(ORIGIN.0, ORIGIN.1).header("access-control-request-method", method)
    };
    for (path, method) in [
        ("/api/subscription", "GET"),
        ("/auth/token", "POST"),
        ("/auth/userinfo", "GET"),
        ("/.well-known/jwks.json", "GET"),
        ("/auth/device/code", "POST"),
        ("/o/acme/login", "POST"),
        ("/auth/introspect", "POST"),
        ("/auth/authorize", "GET"),
        ("/healthz", "GET"),
    ] {
        to.send(server, "a preflight", asks(call("OPTIONS", path), method)).await;
    }
    let named =
        asks(call("OPTIONS", USERS), "PATCH").header("access-control-request-headers", "x-one, x-two");
    to.send(server, "a preflight that names headers", named).await;
    let plain = call("OPTIONS", USERS).header(ORIGIN.0, ORIGIN.1);
    to.send(server, "OPTIONS from another origin without a method", plain).await;
    to.send(server, "OPTIONS that is no preflight", call("OPTIONS", USERS)).await;
    for path in ["/api/nothing", "/auth/userinfo", "/.well-known/oauth-protected-resource", "/o/nobody/login"]
    {
        to.send(server, "a request of another origin", get(path).header(ORIGIN.0, ORIGIN.1)).await;
    }
}

async fn addresses(server: &TestServer, to: &mut Recording) {
    to.section("Addresses");
    for path in [
        "/nothing",
        "/auth/nothing",
        "/api",
        "/api/",
        "/api/nothing",
        "/webhooks/nothing",
        "/.well-known/nothing",
        "/o/acme/nothing",
        "/healthz/",
        "/%2e%2e/etc/passwd",
    ] {
        to.send(server, "nothing is there", get(path)).await;
    }
    for path in
        ["/api/organizations/%ff", "/api/organizations/%00", "/auth/%ff", "/o/%00/login", "/webhooks/%ff"]
    {
        to.send(server, "no text", get(path)).await;
    }
    for prefix in ["/api/", "/auth/", "/o/"] {
        to.send(server, "too long", get(format!("{prefix}{}", "x".repeat(2048)))).await;
    }
    to.send(server, "an API key in the address", get("/api/subscription?token=sarsen_sk_x")).await;
    for path in ["/api/subscription", "/auth/token", "/o/acme/login", "/healthz", "/.well-known/jwks.json"] {
        // The last `Host` counts for nothing: there are two.
        to.send(server, "two hosts", get(path).header("host", "localhost")).await;
        let elsewhere = format!("GET {path} HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n");
        let answer = server::testing::Answer::parse(&server.raw(elsewhere.as_bytes()).await);
        to.record("for another host", &get(path).header("host", "evil.example"), &answer);
    }
    let own = get("/api/nothing").header("x-request-id", "mine-1");
    to.send(server, "with an id of the client's", own).await;
    let long = "x".repeat(20 * 1024);
    for path in ["/api/subscription", "/auth/token", "/o/acme/login"] {
        to.send(server, "a head that is too large", get(path).header("x-long", &long)).await;
    }
}

async fn methods(server: &TestServer, to: &mut Recording) {
    to.section("Methods");
    for (method, path) in [
        ("DELETE", "/auth/token"),
        ("GET", "/auth/device/code"),
        ("PUT", "/auth/userinfo"),
        ("GET", "/consent"),
        ("PUT", "/activate"),
        ("TRACE", "/"),
        ("POST", "/healthz"),
        ("POST", "/metrics"),
        ("POST", "/.well-known/jwks.json"),
        ("GET", "/webhooks/billing/billing_00000000000000000000000000"),
    ] {
        to.send(server, "a wrong method", call(method, path)).await;
    }
    // One method of each path of the API that it does not have.
    let all = routes("/api/");
    let mut paths: Vec<&str> = all.iter().map(|(_, path)| *path).collect();
    paths.dedup();
    for path in paths {
        let has = |method: &str| all.iter().any(|(known, of)| *known == method && *of == path);
        let wrong = ["POST", "PUT", "DELETE", "PATCH"].into_iter().find(|method| !has(method));
        to.send(server, "a wrong method", call(wrong.unwrap_or("TRACE"), example(path))).await;
    }
    for path in [
        "/healthz",
        "/.well-known/openid-configuration",
        "/activate",
        "/api/live",
        "/auth/authorize",
        "/nothing",
    ] {
        to.send(server, "HEAD", call("HEAD", path)).await;
    }
}

/// A path of the table of routes with something in it that does not exist.
pub fn example(route: &str) -> String {
    let parts = route.split('/').map(|part| match part {
        "{org}" => "acme",
        "{plan}" | "{service}" => "nothing",
        "{price}" | "{billing_customer}" => "external_1",
        "{user}" => "user_00000000000000000000000000",
        "{invitation}" => "invitation_00000000000000000000000000",
        "{client}" => "client_00000000000000000000000000",
        "{secret}" => "secret_00000000000000000000000000",
        "{subscription}" => "sub_00000000000000000000000000",
        "{session}" => "session_00000000000000000000000000",
        "{key}" => "apikey_00000000000000000000000000",
        "{connection}" => "billing_00000000000000000000000000",
        plain => plain,
    });
    parts.collect::<Vec<_>>().join("/")
}

async fn versions(people: &People<'_>, to: &mut Recording) {
    to.section("Sarsen-Version");
    let seen = people.admin(to, "an answer has a version", get(ACME)).await;
    let seen = seen.header("sarsen-version").to_owned();
    people.admin(to, "sent back", get(ACME).header("sarsen-version", &seen)).await;
    for wrong in ["", "7", "x.y"] {
        people.admin(to, "no version", get(ACME).header("sarsen-version", wrong)).await;
    }
}

async fn bodies(people: &People<'_>, to: &mut Recording) {
    to.section("Bodies");
    let deep = format!("{}{}", "{\"a\":".repeat(17), "}".repeat(16));
    let many = format!("{{\"a\":[{}]}}", vec!["0"; 2047].join(","));
    let long = format!("{{\"email\":\"{}\"}}", "x".repeat(8193));
    for (what, body) in [
        ("empty", ""),
        ("cut off", "{\"email\":"),
        ("no JSON", "{'email': 1}"),
        ("a list", "[]"),
        ("a text", "\"x\""),
        ("null", "null"),
        ("two objects", "{\"email\":\"a@b.example\"} {}"),
        ("unknown and missing fields", "{\"mail\":\"a@b.example\"}"),
        ("a field twice", "{\"email\":\"a@b.example\",\"email\":\"b@b.example\"}"),
        ("wrong types", "{\"email\":1,\"name\":[],\"email_verified\":\"yes\"}"),
        ("a NUL", "{\"email\":\"a@b.example\",\"name\":\"a\\u0000b\"}"),
        ("wrong values", "{\"email\":\"ada@\",\"name\":\"\"}"),
        ("too deep", &*deep),
        ("too many values", &*many),
        ("a text that is too long", &*long),
    ] {
        people.admin(to, what, post(USERS).body("application/json", body)).await;
    }
    people
        .admin(to, "not UTF-8", post(USERS).body("application/json", b"{\"email\":\"\xff\"}".to_vec()))
        .await;
    people.admin(to, "too large", post(USERS).body("application/json", vec![b' '; 64 * 1024 + 1])).await;
    for media_type in ["text/plain", "application/x-www-form-urlencoded", "application/json5"] {
        people.admin(to, "a wrong media type", post(USERS).body(media_type, "{}")).await;
    }
    people.admin(to, "no media type", post(USERS)).await;
    let made = json!({ "email": "utf8@acme.test", "name": "Zoë" });
    let body = post(USERS).body("Application/JSON; charset=utf-8", made.to_string());
    people.admin(to, "a media type with a parameter", body).await;
    for query in ["limit=0", "limit=x&limit=2&pages=3", "cursor=!", "limit=%ff", "email=%00", "q=&sort=name"]
    {
        people.admin(to, "wrong parameters", get(format!("{USERS}?{query}"))).await;
    }
    let parameters = vec!["p=x"; 65].join("&");
    people.admin(to, "too many parameters", get(format!("{USERS}?{parameters}"))).await;
    people.admin(to, "a query that is too long", get(format!("{USERS}?q={}", "x".repeat(8193)))).await;
    let cut = format!(
        "POST {USERS} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
         transfer-encoding: chunked\r\nconnection: close\r\n\r\nzz\r\n",
        people.admin
    );
    let answer = server::testing::Answer::parse(&people.server.raw(cut.as_bytes()).await);
    to.record("chunks that are none", &post(USERS).by("admin", ""), &answer);
}
