//! Plain routes of an app: layers around them, and what answers where there is none.

use crate::app::{app, start};
use crate::client::Client;
use axum::Router;
use axum::extract::State;
use axum::routing::post;
use live::extract::{Answered, Json, Once};
use live::{Context, Problem};
use serde_json::{Value, json};
use store::testing::TestPlace;
use store::{Key, Sql, args, sql};
use tower_http::cors::{Any, CorsLayer};

/// What the documentation says of own routes and CORS, with the layer that it names.
#[tokio::test(flavor = "multi_thread")]
async fn a_layer_of_own_routes_hears_the_question_of_a_browser() {
    let cors = CorsLayer::new().allow_origin(Any).allow_headers(Any).allow_methods(Any);
    let routes = Router::new().route("/notes", post(|| async { "saved" })).layer(cors);
    let database = TestPlace::create();
    let settings = live::Settings::new(database.url(), ([127, 0, 0, 1], 0).into());
    let running = live::serve(app().routes(routes), settings).await.expect("the app is served");
    let page = Client::new(running.address, "");
    let asks = [("origin", "https://board.test"), ("access-control-request-method", "POST")];
    let preflight = page.send("OPTIONS", "/notes", &asks, "");
    assert_eq!((preflight.status, preflight.header("access-control-allow-origin")), (200, Some("*")));
    let saved = page.send("POST", "/notes", &asks[..1], "{}");
    assert_eq!((saved.status, saved.header("access-control-allow-origin")), (200, Some("*")));
    // A wrong method has the document, and what the layer adds.
    let wrong = page.send("GET", "/notes", &asks[..1], "");
    assert_eq!((wrong.status, wrong.header("allow")), (405, Some("post")));
    assert_eq!(wrong.header("access-control-allow-origin"), Some("*"));
    assert_eq!(wrong.json()["code"], "method_not_allowed");
    assert_eq!(page.send("GET", "/rpc/add", &[], "").json()["code"], "method_not_allowed");
    // The framework's own routes allow the headers that are asked for, if the list is one.
    for (asked, allowed) in [
        ("authorization,x-requested-with,traceparent", "authorization,x-requested-with,traceparent"),
        ("a b", "authorization, content-type, idempotency-key, last-event-id, sarsen-version"),
    ] {
        let asks = [asks[0], asks[1], ("access-control-request-headers", asked)];
        let preflight = page.send("OPTIONS", "/rpc/add", &asks, "");
        assert_eq!(
            (preflight.status, preflight.header("access-control-allow-headers")),
            (204, Some(allowed))
        );
        assert_eq!(preflight.header("access-control-allow-credentials"), None);
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_gets_the_apps_page_of_a_problem_at_any_path_of_its_own() {
    let routes = Router::new().route("/notes", post(|| async { "saved" }));
    let app = app().routes(routes).problem_page(|problem| format!("<h1>{}</h1>", problem.detail));
    let database = TestPlace::create();
    let settings = live::Settings::new(database.url(), ([127, 0, 0, 1], 0).into());
    let running = live::serve(app, settings).await.expect("the app is served");
    let client = Client::new(running.address, "");
    for (path, status, text) in [
        ("/nothing", 404, "<h1>There is nothing at this path.</h1>"),
        ("/notes", 405, "<h1>This path does not take this method.</h1>"),
    ] {
        let page = client.send("GET", path, &[("accept", "text/html")], "");
        assert_eq!((page.status, &*page.body), (status, text), "{path}");
        assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"), "{path}");
        let document = client.send("GET", path, &[], "");
        assert_eq!((document.status, document.json()["status"].as_u64()), (status, Some(status.into())));
    }
    // A request that is refused before it reaches a route gets the page as well.
    let long = "x".repeat(300 * 1024);
    for path in ["/notes", "/rpc/create"] {
        let page = client.send("POST", path, &[("accept", "text/html")], &long);
        assert_eq!((page.status, page.body.starts_with("<h1>The body has more")), (413, path == "/notes"));
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_answers_paths_that_have_no_route() {
    async fn page(State(_): State<Context>) -> &'static str {
        "the page"
    }
    let database = TestPlace::create();
    let settings = live::Settings::new(database.url(), ([127, 0, 0, 1], 0).into());
    let app = app().fallback(page).problem_page(|problem| problem.detail.clone());
    let running = live::serve(app, settings).await.expect("the app is served");
    let nobody = Client::new(running.address, "");
    for path in ["/", "/boards/7", "/live/boards/7"] {
        assert_eq!(&*nobody.send("GET", path, &[], "").body, "the page", "{path}");
    }
    assert_eq!(nobody.send("GET", "/healthz", &[], "").status, 200);
    assert_eq!(nobody.send("POST", "/rpc/nothing", &[], "{}").json()["code"], "unknown_name");
    running.stop().await;
    let server = start().await;
    let nobody = Client::new(server.running.address, "");
    assert_eq!(nobody.send("GET", "/boards/7", &[], "").json()["code"], "unknown_path");
    server.running.stop().await;
}

static ADD: Sql = sql("UPDATE counters SET value = value + ?2 WHERE id = ?1");

/// Adds to the first counter, as a plain route.
async fn add(once: Once, Json(by): Json<i64>) -> Result<Answered, Problem> {
    let write = move |tx: &mut store::Tx<'_>| {
        tx.changed(Key::row("counters", "id", "1"));
        match by {
            0 => Err(Problem::conflict("nothing_to_add", "Add something.")),
            by => Ok(json!({ "added": tx.exec(&ADD, args![1, by])? as i64 * by })),
        }
    };
    once.write("add", write).await
}

async fn forgetful(State(context): State<Context>, Json(_): Json<Value>) -> String {
    context.now().millis().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_keyed_route_is_carried_out_once() {
    let keyed = Router::new().route("/add", post(add)).route("/forgetful", post(forgetful));
    let plain = Router::new().route("/plain", post(forgetful).get(|| async { "read" }));
    let database = TestPlace::create();
    let settings = live::Settings::new(database.url(), ([127, 0, 0, 1], 0).into());
    let running =
        live::serve(app().keyed_routes(keyed).routes(plain), settings).await.expect("the app is served");
    let clients = ["ada", "grace"].map(|token| Client::new(running.address, token));
    let [ada, grace] = &clients;
    ada.value("create", json!({ "id": 1 }));
    let value = || ada.value("get_counter", json!({ "id": 1 }))["value"].clone();
    let send = |client: &Client<'_>, path: &str, key: &str, body: &str| {
        let headers = [("content-type", "application/json"), ("idempotency-key", key)];
        let answer = client.send("POST", path, &headers, body);
        (answer.status, answer.json())
    };
    let first = send(ada, "/add", "k1", "5");
    assert_eq!(first, (200, json!({ "added": 5 })));
    assert_eq!(send(ada, "/add", "k1", "5"), first, "the stored answer");
    assert_eq!(value(), 5, "it was done once");
    let (status, problem) = send(ada, "/add", "k1", "6");
    assert_eq!((status, &problem["code"]), (422, &json!("idempotency_key_reused")));
    // Another caller, another address and another key are other requests.
    assert_eq!(send(grace, "/add", "k1", "1").0, 200);
    assert_eq!(send(ada, "/add?again", "k1", "1").0, 200);
    assert_eq!(send(ada, "/add", "k2", "1").0, 200);
    assert_eq!(value(), 8);
    // An error is not kept, and nothing is done without a key either way.
    for _ in 0..2 {
        assert_eq!(send(ada, "/add", "k3", "0").0, 409);
    }
    let json = [("content-type", "application/json")];
    for _ in 0..2 {
        assert_eq!(ada.send("POST", "/add", &json, "1").status, 200);
    }
    assert_eq!(value(), 10, "without a key each request is done");
    // The same request many times at once.
    let address = running.address;
    let all: Vec<_> = (0..8)
        .map(|_| {
            std::thread::spawn(move || {
                let headers = [("content-type", "application/json"), ("idempotency-key", "k4")];
                Client::new(address, "ada").send("POST", "/add", &headers, "7").status
            })
        })
        .collect();
    assert!(all.into_iter().all(|one| one.join().expect("no panic") == 200));
    assert_eq!(value(), 17);
    // Who has no token shares keys with all others, so they must be hard to guess.
    let nobody = Client { address, token: None };
    for (key, status) in [("short", 400), ("0d9c5a3e7b1f42688ab0c1d2", 200)] {
        assert_eq!(send(&nobody, "/add", key, "1").0, status, "{key}");
    }
    let headers = [("idempotency-key", "k5"), ("idempotency-key", "k6"), json[0]];
    assert_eq!(ada.send("POST", "/add", &headers, "1").json()["code"], "invalid_idempotency_key");

    // A route without the extractor says so, before anything is done.
    let (status, problem) = send(ada, "/plain", "k1", "5");
    assert_eq!((status, &problem["code"]), (400, &json!("idempotency_key_unsupported")));
    assert_eq!(ada.send("POST", "/plain", &json, "5").status, 200);
    assert_eq!(&*ada.send("GET", "/plain", &[("idempotency-key", "k1")], "").body, "read");
    assert_eq!(send(ada, "/forgetful", "k1", "5").0, 500, "the app has said that it takes keys");
    running.stop().await;
}
