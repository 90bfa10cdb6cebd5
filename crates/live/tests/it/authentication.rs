//! A back end whose callers send JWTs: what a token allows, and what a query receives of it.

use crate::app;
use crate::client::Client;
use live::auth::LocalIssuer;
use live::{Running, Settings};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;
use store::testing::TestPlace;

const HOUR: Duration = Duration::from_secs(3600);

async fn start(issuer: &LocalIssuer) -> (Running, TestPlace) {
    let database = TestPlace::create();
    let settings = Settings::new(database.url(), ([127, 0, 0, 1], 0).into());
    let app = app::app().authenticate(Arc::new(issuer.clone()));
    (live::serve(app, settings).await.expect("the app is served"), database)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_gives_its_subject_and_the_claims_that_a_query_declares() {
    let issuer = LocalIssuer::temporary("app").expect("an issuer");
    let (running, _database) = start(&issuer).await;
    let token = |user: &str, claims: Value| {
        let claims: Map<String, Value> = claims.as_object().cloned().unwrap_or_default();
        issuer.issue(user, HOUR, claims).expect("a token")
    };
    let (ada, grace) = (token("ada", json!({ "role": "teacher" })), token("grace", json!({})));
    let (ada, grace) = (Client::new(running.address, &ada), Client::new(running.address, &grace));
    ada.value("create", json!({ "id": 1 }));
    assert_eq!(ada.value("own_counters", json!({}))[0]["owner"], "ada");
    assert_eq!(grace.value("own_counters", json!({})), json!([]));
    assert_eq!(ada.value("secret", json!({ "id": 1 })), 0);
    assert_eq!(grace.call("secret", json!({ "id": 1 })).status, 403);

    let own = |token: &str| Client::new(running.address, token).call("own_counters", json!({}));
    let foreign =
        LocalIssuer::temporary("app").expect("an issuer").issue("ada", HOUR, Map::new()).expect("a token");
    for bad in [&foreign, "x", "a.b.c"] {
        let answer = own(bad);
        assert_eq!((answer.status, &answer.json()["code"]), (401, &json!("invalid_token")), "{bad}");
        assert_eq!(answer.header("www-authenticate"), Some(r#"bearer error="invalid_token""#), "{bad}");
    }
    let answer = own("");
    assert_eq!((answer.status, &answer.json()["code"]), (401, &json!("unauthenticated")));
    assert_eq!(answer.header("www-authenticate"), Some("bearer"));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_open_to_those_with_a_token() {
    let issuer = LocalIssuer::temporary("app").expect("an issuer");
    let (running, _database) = start(&issuer).await;
    let token = issuer.issue("ada", HOUR, Map::new()).expect("a token");
    let ada = Client::new(running.address, &token);
    let mut events = ada.live(json!([{ "key": "a", "query": "own_counters", "args": {} }]));
    events.expect("hello");
    assert_eq!(events.expect("value").value(), &json!([]));
    ada.value("create", json!({ "id": 1 }));
    events.until(|value| value[0]["owner"] == "ada");
    running.stop().await;
}
