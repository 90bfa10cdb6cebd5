//! Defects of an app: each stays with its request.

use crate::app::{GetCounter, Increment, app, serve_with, start};
use crate::client::Client;
use live::{Anyone, Problem, Query};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;
use store::testing::{Kind, TestPlace, kind};
use store::{Key, Snapshot, Sql, args, sql};
use utoipa::ToSchema;

fn fragile(id: i64) -> Value {
    json!([{ "key": "a", "query": "fragile", "args": { "id": id } }])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_of_the_app_is_an_answer() {
    let server = start().await;
    let ada = Client::new(server.running.address, "ada");
    for answer in [ada.call("fragile", json!({ "id": -1 })), ada.send("GET", "/panics", &[], "")] {
        assert_eq!((answer.status, answer.json()["code"].clone()), (500, json!("internal")));
    }
    let mut events = ada.live(fragile(-1));
    events.expect("hello");
    assert_eq!(events.expect("error").data["problem"]["code"], "internal");
    server.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_that_a_panic_met_are_given_back() {
    let database = TestPlace::create();
    let running = serve_with(database.url(), |settings| settings.limits.streams_per_caller_max = 3).await;
    let ada = Client::new(running.address, "ada");
    for _ in 0..10 {
        let body = json!({ "subscriptions": fragile(-1) }).to_string();
        let answer = ada.send("POST", "/live/poll", &[], &body);
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_fails_says_so_and_rests_when_nobody_subscribes() {
    let server = start().await;
    let ada = Client::new(server.running.address, "ada");
    let mut events = ada.live(fragile(1));
    events.expect("hello");
    let error = events.expect("error");
    assert_eq!(error.data["problem"]["code"], "internal");
    assert_eq!(error.data["digest"], Value::Null, "no answer to come back with");
    drop(events);
    // A version that the answer must not be older than is no answer either.
    let version = ada.call("hour", json!({})).json()["version"].clone();
    let mut wanted = fragile(1);
    wanted[0]["have"] = json!(format!("{}/-", version.as_str().expect("a version")));
    let mut events = ada.live(wanted);
    events.expect("hello");
    assert_eq!(events.expect("error").data["problem"]["code"], "internal");
    drop(events);
    // It runs once more at most, sees that it is alone, and is forgotten.
    let group = || {
        let groups = ada.send("GET", "/live/explain", &[], "").json()["groups"].clone();
        let groups = groups.as_array().expect("a list").clone();
        groups.into_iter().find(|group| group["query"] == "fragile")
    };
    while group().is_some_and(|group| group["state"] != "current" || group["failures"] != 0) {}
    server.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_parts_of_an_app_with_one_name_are_refused() {
    let database = TestPlace::create();
    let settings = live::Settings::new(database.url(), ([127, 0, 0, 1], 0).into());
    let apps = [
        app().query::<GetCounter>(),
        app().mutation::<Increment>(),
        app().task::<Increment>(),
        app().every("x", Duration::from_secs(1), |_| async { Ok(()) }).every(
            "x",
            Duration::from_secs(1),
            |_| async { Ok(()) },
        ),
    ];
    for (app, name) in apps.into_iter().zip(["get_counter", "increment", "increment_later", "x"]) {
        let refused = live::serve(app, settings.clone()).await.err().expect("refused").to_string();
        assert!(refused.contains(name), "{refused}");
    }
}

static COUNT: Sql = sql("SELECT COUNT(*) FROM counters");

/// A query that declares a key only if it is not forgetful.
#[derive(Deserialize, ToSchema)]
struct Count {
    is_forgetful: bool,
}

impl Query for Count {
    const NAME: &'static str = "count";
    type Claims = Anyone;
    type Value = i64;
    fn run(&self, snapshot: &mut Snapshot<'_>, _: &Anyone) -> Result<i64, Problem> {
        if !self.is_forgetful {
            snapshot.depends(|| [Key::table("counters")]);
        }
        Ok(snapshot.one(&COUNT, args![], |row| row.get(0))?.unwrap_or_default())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_check_finds_a_live_query_that_declares_no_key() {
    if kind() != Kind::Sqlite {
        return;
    }
    let database = TestPlace::create();
    let settings = live::Settings::new(database.url(), ([127, 0, 0, 1], 0).into());
    let settings = live::Settings { check: true, ..settings };
    let running = live::serve(app().query::<Count>(), settings).await.expect("the app is served");
    let ada = Client::new(running.address, "ada");
    let count =
        |key, is_forgetful| json!({ "key": key, "query": "count", "args": { "is_forgetful": is_forgetful } });
    let mut events = ada.live(json!([count("good", false)]));
    events.expect("hello");
    assert_eq!(events.expect("value").data["value"], 0);
    let mut events = ada.live(json!([count("bad", true)]));
    events.expect("hello");
    let problem = events.expect("error").data["problem"].clone();
    let detail = problem["detail"].as_str().expect("a text");
    assert!(detail.contains("count") && detail.contains("counters"), "{problem}");
    running.stop().await;
}

/// A short query, of those that share a snapshot. One fails.
#[derive(Deserialize, ToSchema)]
struct Short {
    id: i64,
}

const FAILING: i64 = 7;

impl Query for Short {
    const NAME: &'static str = "short";
    const POINT: bool = true;
    type Claims = Anyone;
    type Value = i64;

    fn run(&self, snapshot: &mut Snapshot<'_>, _: &Anyone) -> Result<i64, Problem> {
        snapshot.depends(|| [Key::row("counters", "id", &self.id.to_string())]);
        if self.id == FAILING { Err(Problem::internal()) } else { Ok(self.id) }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_fails_does_not_make_those_beside_it_fail() {
    let database = TestPlace::create();
    let settings = live::Settings::new(database.url(), ([127, 0, 0, 1], 0).into());
    let running = live::serve(app().query::<Short>(), settings).await.expect("the app is served");
    let ada = Client::new(running.address, "ada");
    let all: Vec<Value> =
        (0..64).map(|id| json!({ "key": id.to_string(), "query": "short", "args": { "id": id } })).collect();
    let mut events = ada.live(json!(all));
    events.expect("hello");
    let mut values = 0;
    let mut is_told = false;
    while values < 63 || !is_told {
        let event = events.next().expect("an event");
        values += usize::from(event.name == "value");
        is_told |= event.name == "error";
    }
    let page = ada.send("GET", "/metrics", &[], "").body;
    let failed = page.lines().find_map(|line| line.strip_prefix("live_runs_failed_total "));
    let failed: u64 = failed.and_then(|number| number.parse().ok()).expect("a number");
    // It is told after five. If those of its snapshot counted, they would be many more.
    assert!((5..10).contains(&failed), "{failed}");
    running.stop().await;
}
