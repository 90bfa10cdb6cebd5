//! What cannot be answered is refused in the form that its kind of route has, and says what is wrong.

use super::{is_page, problem};
use crate::device::{ada_on_a_device, administers, error, refusal};
use crate::support::{Admin, text, tokens};
use serde_json::{Value, json};
use server::testing::{Answer, Rows, TestServer};

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_a_page_or_a_problem() {
    let server = TestServer::start().await;
    let mut rows = Rows::new();
    for path in [
        "/nothing",
        "/auth/nothing",
        "/o/acme/nothing",
        "/api",
        "/%2e%2e/etc/passwd",
        "//",
        "/activate/",
        "/demo/nothing",
    ] {
        let row = async {
            let answer = server.get(path).send().await;
            assert_eq!((answer.status, is_page(&answer)), (404, true), "{path}: {answer:?}");
            let link = match path.starts_with("/o/acme/") {
                true => "<a class=\"button full\" href=\"/o/acme/account\">",
                false => "For administrators of this server: <a href=\"/\">",
            };
            assert!(answer.body.contains(link), "it leads on: {answer:?}");
        };
        rows.row(path, row).await;
    }
    for path in ["/api/nothing", "/api/", "/api/organizations/acme/nothing"] {
        let row = async {
            assert_eq!(problem(&server.get(path).send().await), (404, "not_found".to_owned()), "{path}");
        };
        rows.row(path, row).await;
    }
    let nothing = server.get("/api/nothing").send().await;
    insta::assert_snapshot!(nothing.body, @r#"{"code":"not_found","detail":"Route not found.","status":404,"title":"Not Found","type":"urn:sarsen:problem:not_found"}"#);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_method_is_told_the_right_ones() {
    let server = TestServer::start().await;
    let mut rows = Rows::new();
    for (method, path, allowed) in [
        ("POST", "/api/subscription", "GET,HEAD"),
        ("DELETE", "/api/organizations", "GET,HEAD,POST"),
        ("POST", "/healthz", "GET,HEAD"),
        ("PUT", "/activate", "GET,HEAD,POST"),
        ("GET", "/consent", "POST"),
        ("TRACE", "/", "GET,HEAD"),
        ("OPTIONS", "/activate", "GET,HEAD,POST"),
    ] {
        let row = async {
            let answer = server.request(method, path).send().await;
            if path.starts_with("/api/") || path == "/healthz" {
                assert_eq!(problem(&answer), (405, "method_not_allowed".to_owned()), "{method} {path}");
            } else {
                assert_eq!((answer.status, is_page(&answer)), (405, true), "{method} {path}");
            }
            assert_eq!(answer.header("allow"), allowed, "{method} {path}");
        };
        rows.row(format!("{method} {path}"), row).await;
    }
    for path in ["/auth/token", "/auth/device/code", "/auth/revoke", "/auth/introspect"] {
        let row = async {
            for method in ["GET", "PUT", "PATCH", "DELETE"] {
                let answer = server.request(method, path).send().await;
                assert_eq!(refusal(&answer), error(405, "invalid_request"), "{method} {path}");
                assert_eq!(answer.header("allow"), "POST", "{method} {path}");
            }
        };
        rows.row(path, row).await;
    }
    let head = server.request("HEAD", "/healthz").send().await;
    assert_eq!((head.status, &*head.body), (200, ""));
    let token = ada_on_a_device(&server).await.text("access_token");
    for path in ["/api/subscription", "/api/user"] {
        let get = server.get(path).bearer(&token).send().await;
        let head = server.request("HEAD", path).bearer(&token).send().await;
        assert_eq!((get.status, head.status, &*head.body), (200, 200, ""), "{path}");
        // The version may get a digit more meanwhile.
        let later = server.get(path).bearer(&token).send().await;
        let lengths = [&get, &later].map(|answer| answer.header("content-length"));
        assert!(lengths.contains(&head.header("content-length")), "{path}: {head:?}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_with_two_meanings_are_refused() {
    let server = TestServer::start().await;
    let form = "content-type: application/x-www-form-urlencoded\r\nconnection: close\r\n";
    let mut rows = Rows::new();
    for (lines, body) in [
        ("content-length: 3\r\ncontent-length: 4\r\n", "a=bc"),
        ("content-length: x\r\n", "a=b"),
        ("content-length: -1\r\n", "a=b"),
        ("transfer-encoding: gzip\r\n", "a=b"),
        ("x-a : b\r\ncontent-length: 3\r\n", "a=b"),
    ] {
        let row = async {
            let request = format!("POST /auth/token HTTP/1.1\r\nhost: test\r\n{form}{lines}\r\n{body}");
            assert_eq!(Answer::parse(&server.raw(request.as_bytes()).await).status, 400, "{lines:?}");
        };
        rows.row(format!("{lines:?}"), row).await;
    }
    for line in ["GET /healthz HTTP/3.0", "GET /health z HTTP/1.1", "\0\0\0\0 HTTP/1.1"] {
        let request = format!("{line}\r\nhost: test\r\nconnection: close\r\n\r\n");
        assert_eq!(Answer::parse(&server.raw(request.as_bytes()).await).status, 400, "{line:?}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_utf8_in_percent_encoding_is_refused() {
    let server = TestServer::start().await;
    let admin = administers(&server, "admin@acme.test", "org:acme").await.text("access_token");
    let mut rows = Rows::new();
    for wrong in ["%ff", "%c3%28", "%zz", "%", "%f", "%ed%a0%80"] {
        let row = async {
            for path in [
                "/activate?user_code=",
                "/o/acme/login?next=",
                "/auth/authorize?client_id=",
                "/auth/logout?state=",
            ] {
                let answer = server.get(&format!("{path}{wrong}")).send().await;
                assert_eq!((answer.status, is_page(&answer)), (400, true), "{path}{wrong}: {answer:?}");
            }
            for query in ["cursor", "email"] {
                let path = format!("/api/organizations/acme/users?{query}={wrong}");
                let answer = server.get(&path).bearer(&admin).send().await;
                assert_eq!(problem(&answer), (400, "invalid_query".to_owned()), "{path}");
            }
            let body = format!("grant_type=refresh_token&refresh_token={wrong}").into_bytes();
            let answer =
                server.request("POST", "/auth/token").body("application/x-www-form-urlencoded", body);
            assert_eq!(refusal(&answer.send().await), error(400, "invalid_request"), "{wrong}");
        };
        rows.row(wrong, row).await;
    }
    for path in ["/o/%ff/login", "/o/%c3%28/account", "/demo/%ff"] {
        let answer = server.get(path).send().await;
        assert_eq!((answer.status, is_page(&answer)), (400, true), "{path}: {answer:?}");
    }
    for path in
        ["organizations/%ff", "organizations/acme/services/%ff", "platform/organizations/%ff/approval"]
    {
        let answer = server.get(&format!("/api/{path}")).bearer(&admin).send().await;
        assert_eq!(problem(&answer), (400, "invalid_path".to_owned()), "{path}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nul_is_refused_wherever_text_is_expected() {
    let server = TestServer::start().await;
    let admin = administers(&server, "admin@acme.test", "org:acme").await.text("access_token");
    let client = server.client("spa");
    let mut rows = Rows::new();
    for path in [
        "/o/%00/login",
        "/o/acme%00/signup",
        "/o/%00/account",
        "/activate?user_code=%00",
        "/o/acme/login?next=%00",
        &format!("/auth/authorize?response_type=code&client_id={client}&nonce=%00"),
        &format!("/auth/authorize?response_type=code&client_id={client}&state=a%00"),
    ] {
        let row = async {
            let answer = server.get(path).send().await;
            assert_eq!((answer.status, is_page(&answer)), (400, true), "{path}: {answer:?}");
        };
        rows.row(path, row).await;
    }
    let acme = "/api/organizations/acme";
    for (path, code) in [
        ("/api/organizations/%00".to_owned(), "invalid_path"),
        (format!("{acme}/services/sketch%00"), "invalid_path"),
        (format!("{acme}/subscriptions?plan=pro%00"), "invalid_query"),
    ] {
        let answer = server.get(&path).bearer(&admin).send().await;
        assert_eq!(problem(&answer), (400, code.to_owned()), "{path}");
    }
    let body = json!({ "service": "sketch\0", "kind": "device", "name": "A client" });
    let answer = server.request("POST", &format!("{acme}/clients")).bearer(&admin).json(&body).send().await;
    assert_eq!(problem(&answer), (422, "invalid".to_owned()), "{answer:?}");
    // Two letters that look like one are text.
    let body = json!({ "slug": "nul", "name": "A \\u0000 in a name" });
    let made = server.request("POST", &format!("{acme}/services")).bearer(&admin).json(&body).send().await;
    assert_eq!(made.status, 201, "{made:?}");
    let form = server.post("/auth/device/code", &[("client_id", server.client("cli")), ("scope", "a\0")]);
    assert_eq!(refusal(&form.send().await), error(400, "invalid_request"));
    let form = server.post("/auth/token", &[("grant_type", "refresh_token"), ("refresh_token", "\0")]);
    assert_eq!(refusal(&form.send().await), error(400, "invalid_request"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_says_which_field_is_wrong() {
    let server = TestServer::start().await;
    let admin = administers(&server, "admin@acme.test", "org:acme").await.text("access_token");
    let send = async |media_type: &str, body: &str| {
        let request = server.request("POST", "/api/organizations/acme/plans").bearer(&admin);
        request.body(media_type, body.as_bytes().to_vec()).send().await
    };
    let mut told = String::new();
    let mut rows = Rows::new();
    for body in [
        "",
        "{",
        "[]",
        "1",
        "null",
        r#"["gold", "Gold", ["cli"], 1, "EUR", [], {}, null]"#,
        r#"{"slug":"gold","name":"Gold","services":["cli"],"price_cents":1,"currency":"EUR"} {}"#,
        r#"{"slug":"gold"}"#,
        r#"{"slug":"gold","name":1,"services":[],"price_cents":1,"currency":"EUR"}"#,
        r#"{"slug":"gold","name":"Gold","services":["cli",2],"price_cents":1,"currency":"EUR"}"#,
        r#"{"slug":"gold","name":"Gold","services":["cli"],"price_cents":"1","currency":"EUR"}"#,
        r#"{"slug":"gold","name":"Gold","services":["cli"],"price_cents":1,"currency":"EUR","colour":"red"}"#,
        r#"{"slug":"gold","slug":"gold","name":"Gold","services":["cli"],"price_cents":1,"currency":"EUR"}"#,
        r#"{"slug":"Gold","name":"Gold","services":["cli"],"price_cents":1,"currency":"EUR"}"#,
    ] {
        let row = async {
            let answer = send("application/json", body).await;
            let (status, code) = problem(&answer);
            told.push_str(&format!("{status} {code}: {}\n", answer.text("detail")));
        };
        rows.row(&body, row).await;
    }
    insta::assert_snapshot!(told, @r#"
    400 invalid_json: The body is empty. Send a JSON object.
    400 invalid_json: The body is not JSON. Line 1, column 1: the body ends inside an object; expected `,` or `}`.
    400 invalid_json: The body is an array. Send a JSON object.
    400 invalid_json: The body is a number. Send a JSON object.
    400 invalid_json: The body is null. Send a JSON object.
    400 invalid_json: The body is an array. Send a JSON object.
    400 invalid_json: The body is not JSON. Line 1, column 83: expected the end of the body: it is one JSON object.
    422 invalid: 4 fields are wrong: name, services, price_cents, currency. See `errors`.
    422 invalid: 2 fields are wrong: name, services. See `errors`.
    422 invalid: services[1]: 2 is not a string; use a string.
    422 invalid: price_cents: the value is a string; use an integer.
    422 invalid: colour: unknown; use slug, name, services, price_cents, currency, features, limits or seats.
    422 invalid: slug: sent more than once; send it once.
    422 invalid: slug: "Gold" is not a slug; use 2 to 50 characters of a-z, 0-9 and -, starting with a letter, like "acme".
    "#);
    for media_type in ["", "text/plain", "application/x-www-form-urlencoded", "application/json5"] {
        assert_eq!(problem(&send(media_type, "{}").await), (415, "not_json".to_owned()), "{media_type}");
    }
    for (query, status) in
        [("limit=0", 400), ("limit=201", 400), ("limit=x", 400), ("limits=1", 400), ("limit=1", 200)]
    {
        let answer =
            server.get(&format!("/api/organizations/acme/plans?{query}")).bearer(&admin).send().await;
        assert_eq!(answer.status, status, "{query}: {answer:?}");
        if status == 400 {
            assert_eq!(problem(&answer).1, "invalid_query");
            assert!(answer.text("detail").contains("limit"), "{answer:?}");
        }
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_names_a_plan_or_a_service_that_is_not_there_is_told_which_are() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let path = |noun: &str| format!("/api/organizations/acme/{noun}");
    let plan = |slug: &str, services: &[&str]| json!({ "slug": slug, "name": slug, "services": services, "price_cents": 1, "currency": "EUR" });
    let of_ada = admin.read(&path("subscriptions")).await["items"][0].clone();
    let subscribe = json!({ "customer": text(&of_ada, "customer"), "plan": "gold" });
    let client = json!({ "service": "sketches", "kind": "device", "name": "A client" });
    let one = path(&format!("subscriptions/{}", text(&of_ada, "id")));
    let mut asked = vec![
        ("POST", path("subscriptions"), subscribe.clone()),
        ("PATCH", one.clone(), json!({ "plan": "Pro" })),
        ("POST", path("clients"), client),
        ("GET", path("clients?service=sketches"), Value::Null),
        ("POST", path("plans"), plan("gold", &["sketch", "sketches"])),
        // A plan is named by its address: there is nothing to choose from.
        ("GET", path("plans/gold"), Value::Null),
    ];
    let mut told = String::new();
    let mut tell = |answer: &Answer| {
        let (status, code) = problem(answer);
        told.push_str(&format!("{status} {code}: {}\n", answer.text("detail")));
    };
    for (method, path, body) in &asked {
        tell(&admin.call(method, path, body).await);
    }
    for number in 0..9 {
        admin.make(&path("plans"), plan(&format!("p{number}"), &["sketch"])).await;
    }
    asked.truncate(1);
    for (method, path, body) in &asked {
        tell(&admin.call(method, path, body).await);
    }
    insta::assert_snapshot!(told, @r#"
    404 not_found: Plan "gold" not found; use pro or starter.
    404 not_found: Plan "Pro" not found; use pro or starter.
    404 not_found: Service "sketches" not found; use cli, notes or sketch.
    404 not_found: Service "sketches" not found; use cli, notes or sketch.
    422 invalid: services: service "sketches" not found; use cli, notes or sketch.
    404 not_found: Plan not found.
    404 not_found: Plan "gold" not found; use one of p0, p1, p2, p3, p4, p5, p6, p7, p8, pro, …
    "#);
    assert_eq!(admin.read(&one).await["plan"], of_ada["plan"], "nothing was changed");

    // Who may not list them learns of none.
    let user = tokens(&server, "ada@acme.test", "profile").await.text("access_token");
    let refused = server.request("POST", &path("subscriptions")).bearer(&user).json(&subscribe).send().await;
    assert_eq!(problem(&refused), (403, "insufficient_scope".to_owned()));
    assert!(!refused.body.contains("starter"), "{refused:?}");
    server.stop().await;
}
