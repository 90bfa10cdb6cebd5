//! Counters.

use crate::client::TestApp;
use live::auth::LocalIssuer;
use serde_json::{Value, json};

async fn start() -> TestApp {
    TestApp::start(counters::with_issuer(
        counters::app(),
        LocalIssuer::temporary("counters").expect("an issuer"),
    ))
    .await
}

async fn register(app: &TestApp, name: &str) -> String {
    let registered = app.call("", "register", &json!({ "name": name })).await;
    assert_eq!(registered.status, 200, "{registered:?}");
    registered.json()["value"]["token"].as_str().expect("a token").to_owned()
}

async fn value(app: &TestApp, token: &str, name: &str, args: Value) -> Value {
    let answer = app.call(token, name, &args).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["value"].take()
}

#[tokio::test(flavor = "multi_thread")]
async fn users_register_and_count() {
    let app = start().await;
    let ada = register(&app, "Ada").await;
    let taken = app.call("", "register", &json!({ "name": "Ada" })).await;
    assert_eq!(taken.problem(), (409, "name_taken".to_owned()));
    let grace = register(&app, "Grace").await;

    let made = value(&app, &ada, "create_counter", json!({ "name": "Visits" })).await;
    assert_eq!(made, json!({ "id": 1, "name": "Visits", "value": 0 }));
    for (token, expected) in [(&ada, 1), (&grace, 2)] {
        assert_eq!(value(&app, token, "increment", json!({ "id": 1 })).await["value"], expected);
    }
    let read = value(&app, &grace, "get_counter", json!({ "id": 1 })).await;
    assert_eq!(read, json!({ "id": 1, "name": "Visits", "value": 2 }));
    for name in ["get_counter", "increment"] {
        let unknown = app.call(&ada, name, &json!({ "id": 2 })).await;
        assert_eq!(unknown.problem(), (404, "not_found".to_owned()), "{name}");
    }
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_but_registration_works_without_a_token() {
    let app = start().await;
    let ada = register(&app, "Ada").await;
    let forged = format!("{}x", ada);
    for token in ["", "x", &forged] {
        for (name, args) in [
            ("create_counter", json!({ "name": "Visits" })),
            ("get_counter", json!({ "id": 1 })),
            ("list_counters", json!({})),
            ("increment", json!({ "id": 1 })),
        ] {
            assert_eq!(app.call(token, name, &args).await.problem().0, 401, "{name} with {token:?}");
        }
    }
    for (name, args) in [
        ("create_counter", json!({ "name": "" })),
        ("create_counter", json!({ "name": "n".repeat(65) })),
        ("get_counter", json!({ "id": "1" })),
        ("increment", json!({ "id": 1, "by": 5 })),
    ] {
        assert_eq!(app.call(&ada, name, &args).await.problem().0, 400, "{name} {args}");
    }
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_have_twenty_counters() {
    let app = start().await;
    let ada = register(&app, "Ada").await;
    for number in 1..=45 {
        value(&app, &ada, "create_counter", json!({ "name": format!("Counter {number}") })).await;
    }
    let (mut after, mut pages) = (0, Vec::new());
    loop {
        let page = value(&app, &ada, "list_counters", json!({ "after": after })).await;
        let ids: Vec<i64> =
            page.as_array().expect("rows").iter().filter_map(|row| row["id"].as_i64()).collect();
        let Some(last) = ids.last() else { break };
        after = *last;
        pages.push(ids);
    }
    assert_eq!(pages, [(1..=20).collect::<Vec<_>>(), (21..=40).collect(), (41..=45).collect()]);
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_increment_counts_and_watchers_see_the_last() {
    let app = std::sync::Arc::new(start().await);
    let ada = register(&app, "Ada").await;
    value(&app, &ada, "create_counter", json!({ "name": "Visits" })).await;
    let authorization = format!("Bearer {ada}");
    let headers = [("content-type", "application/json"), ("authorization", &*authorization)];
    let subscriptions = json!({ "subscriptions": [
        { "key": "one", "query": "get_counter", "args": { "id": 1 } },
        { "key": "all", "query": "list_counters", "args": {} },
    ] });
    let mut events = app.events("POST", "/live", &headers, &subscriptions.to_string()).await;
    let writers: Vec<_> = (0..8)
        .map(|_| {
            let (app, ada) = (app.clone(), ada.clone());
            tokio::spawn(async move {
                for _ in 0..25 {
                    value(&app, &ada, "increment", json!({ "id": 1 })).await;
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.expect("increments");
    }
    let (mut one, mut all) = (Value::Null, Value::Null);
    while (one["value"] != 200) || (all[0]["value"] != 200) {
        let mut event = events.next("value").await;
        let changed = if event["keys"] == json!(["one"]) { &mut one } else { &mut all };
        *changed = event["value"].take();
    }
    // A new counter changes the list and nothing else.
    value(&app, &ada, "create_counter", json!({ "name": "Clicks" })).await;
    let event = events.next("value").await;
    assert_eq!((&event["keys"], &event["value"][1]["name"]), (&json!(["all"]), &json!("Clicks")));
    drop(events);
    std::sync::Arc::into_inner(app).expect("the only one").stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_and_what_it_loads_are_part_of_the_program() {
    let app = start().await;
    for (path, kind, part) in [
        ("/", "text/html; charset=utf-8", "/page/counters.js"),
        ("/page/counters.js", "text/javascript", "/page/sarsen-client.js"),
        ("/page/counters.css", "text/css", "prefers-color-scheme"),
        ("/page/sarsen-client.js", "text/javascript", "export"),
    ] {
        let answer = app.get(path).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, kind), "{path}");
        assert!(answer.body.contains(part), "{path}");
        assert!(answer.header("content-security-policy").starts_with("default-src 'none'"), "{path}");
    }
    app.stop().await;
}

/// The types that the page is checked with.
#[test]
fn the_types_of_the_page_are_those_of_the_back_end() {
    let app = counters::app();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../counters/page/api.d.ts");
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    let types = app.typescript().expect("types");
    if kept != types {
        std::fs::write(path, types).expect("written");
        panic!("{path} was out of date and has been written anew; read the difference");
    }
}
