//! Subscriptions.

use crate::app::{serve, serve_with, start};
use crate::client::{Client, Event};
use serde_json::{Value, json};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use store::testing::{Kind, kind, postgres::with_client};

fn get(key: &str, id: i64) -> Value {
    json!({ "key": key, "query": "get_counter", "args": { "id": id } })
}

fn have(event: &Event) -> Value {
    json!(format!("{}/{}", event.id, event.data["digest"].as_str().expect("a digest")))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscriber_receives_the_value_and_then_each_change() {
    let server = start().await;
    let ada = Client::new(server.running.address, "ada");
    ada.value("create", json!({ "id": 1 }));
    let mut events = ada.live(json!([get("k1", 1)]));
    let hello = events.expect("hello");
    assert!(hello.data["stream"].is_string() && hello.data["secret"].is_string());
    let first = events.expect("value");
    assert_eq!((first.data["keys"].clone(), first.value()["value"].clone()), (json!(["k1"]), json!(0)));
    assert_eq!(first.data["version"], first.id);
    let answer = ada.call("increment", json!({ "id": 1 }));
    let second = events.expect("value");
    assert_eq!(second.value()["value"], 1);
    if kind() != Kind::Mysql {
        assert!(second.id > first.id && *second.id >= *answer.json()["version"].as_str().expect("a version"));
    }
    server.running.stop().await;
    assert_eq!(events.expect("bye").retry.map(|retry| retry <= 5_000), Some(true));
    assert_eq!(events.next(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_exist_yet_appears() {
    let server = start().await;
    let ada = Client::new(server.running.address, "ada");
    let mut events = ada.live(json!([get("k1", 1), { "key": "k2", "query": "nothing" }, get("k3", -1)]));
    events.expect("hello");
    let mut codes: Vec<_> = (0..3)
        .map(|_| {
            let event = events.expect("error");
            (event.data["keys"][0].to_string(), event.data["problem"]["code"].to_string())
        })
        .collect();
    codes.sort();
    let expected = [("k1", "not_found"), ("k2", "unknown_query"), ("k3", "not_found")];
    assert_eq!(codes, expected.map(|(key, code)| (format!("{key:?}"), format!("{code:?}"))));
    ada.value("create", json!({ "id": 1 }));
    assert_eq!(events.expect("value").value()["value"], 0);
    ada.value("delete", json!({ "id": 1 }));
    assert_eq!(events.expect("error").data["problem"]["status"], 404);
    server.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_watchers_cost_one_run_and_others_none() {
    watchers_of_one_row(200).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "two thousand streams"]
async fn soak_two_thousand_watchers_cost_one_run_and_others_none() {
    watchers_of_one_row(2_000).await;
}

async fn watchers_of_one_row(count: u64) {
    let server = start().await;
    let ada = Client::new(server.running.address, "ada");
    ada.value("create", json!({ "id": 1 }));
    ada.value("create", json!({ "id": 2 }));
    // A user may have a hundred streams.
    let users: Vec<String> = (0..count).map(|number| format!("user{}", number / 100)).collect();
    let mut watchers: Vec<_> = users
        .iter()
        .map(|user| Client::new(server.running.address, user).live(json!([get("k", 1)])))
        .collect();
    let mut other = ada.live(json!([get("k", 2)]));
    for events in watchers.iter_mut().chain([&mut other]) {
        events.expect("hello");
        events.expect("value");
    }
    // The counters of `/metrics` have the canary's runs too.
    let runs = || {
        let explained = ada.send("GET", "/live/explain", &[], "").json();
        let groups = explained["groups"].as_array().expect("a list").clone();
        let groups = groups.iter().filter(|group| group["query"] == "get_counter");
        let runs: Vec<u64> = groups.map(|group| group["runs"].as_u64().expect("a number")).collect();
        assert_eq!(runs.len(), 2, "a group for each counter");
        runs.iter().sum::<u64>()
    };
    let before = runs();
    ada.value("increment", json!({ "id": 1 }));
    for events in &mut watchers {
        assert_eq!(events.expect("value").value()["value"], 1);
    }
    // On a server a change may be published twice, when the command is answered and when the log is read, and each run may
    // begin before that, so that it is repeated. The number of watchers has no part in it.
    let runs_max = if server.database.is_shared() { 4 } else { 1 };
    assert!((1..=runs_max).contains(&(runs() - before)), "{} runs", runs() - before);
    ada.value("increment", json!({ "id": 2 }));
    ada.value("increment", json!({ "id": 1 }));
    assert_eq!(other.expect("value").value()["value"], 1, "nothing came for the first change");
    for events in &mut watchers {
        assert_eq!(events.expect("value").value()["value"], 2, "nothing came for the second change");
    }
    server.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_returning_client_gets_same_or_the_new_value() {
    let server = start().await;
    let ada = Client::new(server.running.address, "ada");
    ada.value("create", json!({ "id": 1 }));
    ada.value("create", json!({ "id": 2 }));
    let mut events = ada.live(json!([get("a", 1), get("b", 2)]));
    events.expect("hello");
    let (first, second) = (events.expect("value"), events.expect("value"));
    drop(events);
    let (one, two) = match first.data["keys"][0] == "a" {
        true => (first, second),
        false => (second, first),
    };
    ada.value("increment", json!({ "id": 2 }));
    let mut again = [get("a", 1), get("b", 2)];
    again[0]["have"] = have(&one);
    again[1]["have"] = have(&two);
    let mut events = ada.live(json!(again));
    events.expect("hello");
    let (first, second) = (events.next().expect("an event"), events.next().expect("an event"));
    let (same, value) = if first.name == "same" { (first, second) } else { (second, first) };
    assert_eq!((same.name.as_str(), same.data["keys"].clone()), ("same", json!(["a"])));
    assert_eq!((value.name.as_str(), value.value()["value"].clone()), ("value", json!(1)));
    server.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_restart_equal_results_are_one_line() {
    let server = start().await;
    let ada = Client::new(server.running.address, "ada");
    ada.value("create", json!({ "id": 1 }));
    let mut events = ada.live(json!([get("a", 1)]));
    events.expect("hello");
    let held = events.expect("value");
    let crate::app::Server { running, database } = server;
    running.stop().await;
    events.expect("bye");
    let running = serve(&database).await;
    let ada = Client::new(running.address, "ada");
    let mut again = get("a", 1);
    again["have"] = have(&held);
    let mut events = ada.live(json!([again]));
    events.expect("hello");
    assert_eq!(events.expect("same").data["keys"], json!(["a"]));
    ada.value("increment", json!({ "id": 1 }));
    assert_eq!(events.expect("value").value()["value"], 1);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_moves_gets_no_state_that_lacks_a_late_commit() {
    if kind() != Kind::Postgres {
        return;
    }
    let server = start().await;
    let ada = Client::new(server.running.address, "ada");
    ada.value("create", json!({ "id": 1 }));
    // A transaction that ends after a later one. It writes no row of the change log, so no instance notices it.
    let config = server.database.url().parse().expect("a URL");
    let ((commit, may_commit), (began, wait)) = (channel::<()>(), channel());
    let late = std::thread::spawn(move || {
        with_client(config, move |client| {
            client.batch_execute("BEGIN; UPDATE counters SET value = 7 WHERE id = 1").expect("runs");
            began.send(()).expect("the test waits");
            // The test may have failed.
            let _ = may_commit.recv();
            client.batch_execute("COMMIT").expect("runs");
        });
    });
    wait.recv().expect("it begins");
    ada.value("create", json!({ "id": 2 }));
    let other = serve(&server.database).await;
    let moved = Client::new(other.address, "ada");
    let mut without = moved.live(json!([get("a", 1)]));
    without.expect("hello");
    assert_eq!(without.expect("value").value()["value"], 0);
    drop(commit);
    late.join().expect("it commits");
    let mut events = ada.live(json!([get("a", 1)]));
    events.expect("hello");
    let held = events.expect("value");
    assert_eq!(held.value()["value"], 7);
    // If nothing else has begun a transaction, both frames have one version.
    let mut again = get("a", 1);
    again["have"] = have(&held);
    let mut events = moved.live(json!([again]));
    events.expect("hello");
    events.expect("same");
    other.stop().await;
    server.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_sends_the_row_that_changed() {
    let server = start().await;
    let ada = Client::new(server.running.address, "ada");
    for id in 1..=50 {
        ada.value("create", json!({ "id": id }));
    }
    let mut rows = ada.live(json!([{ "key": "l", "query": "own_counters", "args": {}, "rows": true }]));
    let mut whole = ada.live(json!([{ "key": "l", "query": "own_counters" }]));
    for events in [&mut rows, &mut whole] {
        events.expect("hello");
        assert_eq!(events.expect("value").value().as_array().map(Vec::len), Some(50));
    }
    let before = rows.bytes;
    ada.value("increment", json!({ "id": 7 }));
    let change = rows.expect("rows");
    // `settled`, where commits overlap on PostgreSQL.
    let bytes_max = 300 + change.data.get("settled").map_or(0, |settled| settled.to_string().len() + 11);
    assert!(rows.bytes - before <= bytes_max, "{} bytes", rows.bytes - before);
    assert_eq!(change.data["set"], json!([["7", { "id": 7, "owner": "ada", "value": 1 }]]));
    assert_eq!((change.data["gone"].clone(), change.data.get("order")), (json!([]), None));
    assert_eq!(change.data["by"], "id");
    assert_eq!(whole.expect("value").value()[6]["value"], 1);
    ada.value("delete", json!({ "id": 7 }));
    let change = rows.expect("rows");
    assert_eq!((change.data["set"].clone(), change.data["gone"].clone()), (json!([]), json!(["7"])));
    server.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_asks_for_a_later_version_costs_the_others_nothing() {
    let server = start().await;
    let (ada, grace) =
        (Client::new(server.running.address, "ada"), Client::new(server.running.address, "grace"));
    // So long that the whole list is longer than a changed row.
    (1..=10).for_each(|id| drop(ada.value("create", json!({ "id": id }))));
    let list = json!({ "key": "l", "query": "own_counters", "args": {}, "rows": true });
    let (mut first, mut second) = (ada.live(json!([list])), ada.live(json!([list])));
    first.expect("hello");
    let shown = first.expect("value");
    let hello = second.expect("hello");
    second.expect("value");
    grace.value("create", json!({ "id": 100 }));
    let later = grace.call("increment", json!({ "id": 100 })).json()["version"].clone();
    let later = later.as_str().expect("a version");
    let digest = shown.data["digest"].as_str().expect("a digest");
    let mut again = list.clone();
    again["have"] = json!(format!("{later}/{digest}"));
    let path = format!("/live/{}", hello.data["stream"].as_str().expect("a name"));
    let body = json!({ "secret": hello.data["secret"], "add": [again] }).to_string();
    assert_eq!(ada.send("POST", &path, &[], &body).status, 204);
    second.expect("same");
    ada.value("increment", json!({ "id": 3 }));
    let change = first.expect("rows");
    assert_eq!(change.data["base"], shown.data["version"], "what this client holds");
    assert_eq!(change.data["set"][0][0], "3");
    server.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_stream_changes_its_subscriptions() {
    let server = start().await;
    let ada = Client::new(server.running.address, "ada");
    ada.value("create", json!({ "id": 1 }));
    ada.value("create", json!({ "id": 2 }));
    let mut events = ada.live(json!([get("a", 1)]));
    let hello = events.expect("hello");
    events.expect("value");
    let (name, secret) = (hello.data["stream"].as_str().expect("a name"), &hello.data["secret"]);
    let change = |client: &Client<'_>, secret: &Value, name: &str| {
        let body = json!({ "secret": secret, "add": [get("b", 2)], "remove": ["a"] }).to_string();
        let answer = client.send("POST", &format!("/live/{name}"), &[], &body);
        (answer.status, answer.body)
    };
    let grace = Client::new(server.running.address, "grace");
    assert_eq!(change(&grace, secret, name).0, 403, "another user");
    assert_eq!(change(&ada, &json!("guess"), name).0, 403, "without the secret");
    let (status, problem) = change(&ada, secret, "elsewhere");
    assert!(status == 409 && problem.contains("stream_elsewhere"), "{problem}");
    assert_eq!(change(&ada, secret, name), (204, String::new()));
    assert_eq!(events.expect("value").data["keys"], json!(["b"]));
    ada.value("increment", json!({ "id": 1 }));
    ada.value("increment", json!({ "id": 2 }));
    assert_eq!(events.expect("value").data["keys"], json!(["b"]), "the removed one is silent");
    server.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_opens_a_stream_without_a_header_and_opens_it_again() {
    let server = start().await;
    let (ada, nobody) = (Client::new(server.running.address, "ada"), Client::new(server.running.address, ""));
    ada.value("create", json!({ "id": 1 }));
    let ticket =
        ada.send("POST", "/live/ticket", &[], "").json()["ticket"].as_str().expect("a ticket").to_owned();
    let sub = "%7B%22key%22%3A%22l%22%2C%22query%22%3A%22own_counters%22%7D";
    for _ in 0..2 {
        let mut events = nobody.events("GET", &format!("/live?ticket={ticket}&sub={sub}"), "");
        let hello = events.expect("hello");
        assert_eq!(events.expect("value").value()[0]["owner"], "ada");
        // The URL may be in a log: the secret that it gives adds nothing without the token.
        let path = format!("/live/{}", hello.data["stream"].as_str().expect("a name"));
        let more = json!({ "secret": hello.data["secret"], "add": [get("a", 1)] }).to_string();
        assert_eq!([&nobody, &ada].map(|client| client.send("POST", &path, &[], &more).status), [401, 204]);
    }
    let path = format!("/live?ticket={ticket}&sub={}", sub.replace("own_counters", "get_counter"));
    let other = nobody.send("GET", &path, &[], "");
    assert_eq!(
        (other.status, other.json()["code"].clone()),
        (401, json!("invalid_ticket")),
        "one stream only"
    );
    assert_eq!(nobody.send("HEAD", &format!("/live?ticket={ticket}&sub={sub}"), &[], "").status, 405);
    let wrong = nobody.send("GET", &format!("/live?ticket=x{ticket}&sub={sub}"), &[], "");
    assert_eq!((wrong.status, wrong.json()["code"].clone()), (401, json!("invalid_ticket")));
    server.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_poll_waits_for_a_change() {
    let server = start().await;
    let ada = Client::new(server.running.address, "ada");
    ada.value("create", json!({ "id": 1 }));
    let poll = |wanted: Value| {
        let body = json!({ "subscriptions": [wanted] }).to_string();
        ada.send("POST", "/live/poll", &[], &body).body
    };
    let first = poll(get("a", 1));
    assert!(first.starts_with("event: value\n") && first.contains("\"value\":0"), "{first}");
    let data: Value =
        serde_json::from_str(first.lines().find_map(|line| line.strip_prefix("data: ")).expect("data"))
            .expect("JSON");
    let held =
        format!("{}/{}", data["version"].as_str().unwrap_or(""), data["digest"].as_str().unwrap_or(""));
    let address = server.running.address;
    let waiting = std::thread::spawn(move || {
        let mut wanted = get("a", 1);
        wanted["have"] = json!(held);
        let body = json!({ "subscriptions": [wanted] }).to_string();
        Client::new(address, "ada").send("POST", "/live/poll", &[], &body).body
    });
    ada.value("increment", json!({ "id": 1 }));
    let second = waiting.join().expect("an answer");
    assert!(second.contains("\"value\":1"), "{second}");
    server.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_and_a_long_poll_end_with_their_token() {
    let database = store::testing::TestPlace::create();
    let long = |settings: &mut live::Settings| settings.limits.poll_time = Duration::from_secs(3600);
    let running = serve_with(database.url(), long).await;
    let ada = Client::new(running.address, "ada!300");
    let mut events = ada.live(json!([]));
    events.expect("hello");
    assert_eq!(events.expect("error").data["problem"]["code"], "unauthenticated");
    events.expect("bye");
    assert_eq!(events.next(), None);
    // No subscription: nothing but the end of the token ends the poll within the hour.
    let answer = ada.send("POST", "/live/poll", &[], r#"{"subscriptions":[]}"#);
    assert!(answer.status == 200 && answer.body.starts_with("event: bye"), "{}", answer.body);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_poll_of_what_does_not_exist_waits_too() {
    let database = store::testing::TestPlace::create();
    let quick = |settings: &mut live::Settings| settings.limits.poll_time = Duration::from_millis(300);
    let running = serve_with(database.url(), quick).await;
    let ada = Client::new(running.address, "ada");
    let poll = |wanted: &Value| {
        let body = json!({ "subscriptions": [wanted] }).to_string();
        ada.send("POST", "/live/poll", &[], &body).body
    };
    // A busy database may answer later than a poll is held.
    let until = |wanted: &Value, text: &str| loop {
        let answer = poll(wanted);
        if answer.contains(text) {
            return answer;
        }
    };
    let mut wanted = get("a", 1);
    let first = until(&wanted, "event: error");
    let field = |name: &str| first.lines().find_map(|line| line.strip_prefix(name)).expect(name).to_owned();
    let data: Value = serde_json::from_str(&field("data: ")).expect("JSON");
    wanted["have"] = json!(format!("{}/{}", field("id: "), data["digest"].as_str().expect("a digest")));
    let asked_at = Instant::now();
    let second = poll(&wanted);
    assert!(!second.contains("event: error") && asked_at.elapsed() >= Duration::from_millis(300), "{second}");
    ada.value("create", json!({ "id": 1 }));
    until(&wanted, "\"value\":0");
    running.stop().await;
}

/// A file as it was before: its history is another one, so clients take what it has.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_restore_from_a_backup_clients_receive_the_older_value() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let serve = |name: &str| serve_with(format!("sqlite:{}", path(name).display()), |_| {});
    let running = serve("own.db").await;
    for id in [1, 2] {
        Client::new(running.address, "ada").value("create", json!({ "id": id }));
    }
    running.stop().await;
    std::fs::copy(path("own.db"), path("backup.db")).expect("copies");

    let running = serve("own.db").await;
    let ada = Client::new(running.address, "ada");
    ada.value("increment", json!({ "id": 1 }));
    let mut again = [get("a", 1), get("b", 2)];
    for wanted in &mut again {
        let mut events = ada.live(json!([wanted]));
        events.expect("hello");
        wanted["have"] = have(&events.expect("value"));
    }
    running.stop().await;

    let running = serve("backup.db").await;
    let ada = Client::new(running.address, "ada");
    let mut events = ada.live(json!(again));
    events.expect("hello");
    let (first, second) = (events.next().expect("an event"), events.next().expect("an event"));
    let (same, value) = if first.name == "same" { (first, second) } else { (second, first) };
    assert_eq!((&*same.name, &same.data["keys"]), ("same", &json!(["b"])), "its digest is the same");
    assert_eq!(
        (&*value.name, &value.data["keys"], &value.value()["value"]),
        ("value", &json!(["a"]), &json!(0))
    );
    ada.value("increment", json!({ "id": 1 }));
    assert_eq!(events.expect("value").value()["value"], 1);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_is_ready_when_a_change_arrives() {
    let server = start().await;
    let nobody = Client::new(server.running.address, "");
    assert_eq!(nobody.send("GET", "/readyz", &[], "").body, "ok\n");
    let explained = nobody.send("GET", "/live/explain", &[], "").json();
    assert_eq!(explained["groups"][0]["query"], "live.canary");
    assert_eq!(nobody.send("GET", "/live/explain", &[("X-Forwarded-For", "192.0.2.1")], "").status, 403);
    server.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_among_many_private_groups_runs_one_of_them() {
    private_groups(10).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "ten thousand groups"]
async fn soak_a_write_among_ten_thousand_private_groups_runs_one_of_them() {
    private_groups(20).await;
}

async fn private_groups(streams: usize) {
    let server = start().await;
    let ada = Client::new(server.running.address, "ada");
    let wanted = |user: usize| -> Vec<Value> {
        (0..500).map(|id| get(&id.to_string(), (user * 500 + id) as i64)).collect()
    };
    let mut streams: Vec<_> = (0..streams).map(|user| ada.live(json!(wanted(user)))).collect();
    for events in &mut streams {
        events.expect("hello");
        (0..500).for_each(|_| assert_eq!(events.expect("error").data["problem"]["status"], 404));
    }
    let runs = || {
        let metrics = ada.send("GET", "/metrics", &[], "").body;
        let line =
            metrics.lines().find(|line| line.starts_with("live_runs_total")).expect("the metric").to_owned();
        line.rsplit(' ').next().and_then(|value| value.parse::<u64>().ok()).expect("a number")
    };
    let before = runs();
    ada.value("create", json!({ "id": 1234 }));
    assert_eq!(streams[2].expect("value").data["keys"], json!(["234"]));
    let runs_max = if server.database.is_shared() { 2 } else { 1 };
    assert!(runs() - before <= runs_max, "{} runs", runs() - before);
    server.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_of_another_user_makes_no_frame() {
    let server = start().await;
    let (ada, grace) =
        (Client::new(server.running.address, "ada"), Client::new(server.running.address, "grace"));
    grace.value("create", json!({ "id": 1 }));
    ada.value("create", json!({ "id": 2 }));
    ada.value("create", json!({ "id": 3 }));
    let own = json!([{ "key": "l", "query": "own_counters" }]);
    let mut events = ada.live(own);
    events.expect("hello");
    assert_eq!(events.expect("value").value().as_array().map(Vec::len), Some(2));
    grace.value("delete", json!({ "id": 1 }));
    ada.value("increment", json!({ "id": 2 }));
    assert_eq!(events.expect("value").value()[0]["value"], 1, "the first event is of her own row");
    server.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_are_named() {
    let server = start().await;
    let ada = Client::new(server.running.address, "ada");
    let many: Vec<Value> = (0..501).map(|id| get(&id.to_string(), id)).collect();
    let names = |answer: crate::client::Answer, limit: &str| {
        assert_eq!(answer.status, 429, "{}", answer.body);
        assert!(answer.json()["detail"].as_str().is_some_and(|text| text.contains(limit)), "{}", answer.body);
    };
    names(ada.send("POST", "/live", &[], &json!({ "subscriptions": many }).to_string()), "subscriptions_max");
    let _streams: Vec<_> = (0..100).map(|_| ada.live(json!([]))).collect();
    names(ada.send("POST", "/live", &[], "{}"), "streams_per_caller_max");
    let large = ada.send("POST", "/rpc/get_counter", &[], &" ".repeat(300 * 1024));
    assert_eq!((large.status, large.json()["code"].clone()), (413, json!("body_too_large")));
    server.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_see_which_command_changed_an_answer() {
    let server = start().await;
    let ada = Client::new(server.running.address, "ada");
    ada.value("create", json!({ "id": 1 }));
    let mut events = ada.live(json!([get("a", 1)]));
    events.expect("hello");
    events.expect("value");
    let command = || {
        let groups = ada.send("GET", "/live/explain", &[], "").json()["groups"].clone();
        let groups = groups.as_array().expect("a list").clone();
        groups.iter().find(|group| group["query"] == "get_counter").expect("the group")["command"].clone()
    };
    assert_eq!(command(), Value::Null, "it ran for a subscriber");
    ada.value("increment", json!({ "id": 1 }));
    assert_eq!(events.expect("value").value()["value"], 1);
    if !server.database.is_shared() {
        // On a server the log of changes, which names no commands, may have been read before.
        assert_eq!(command(), "increment");
    }
    server.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poll_that_a_stop_ends_says_when_to_return() {
    let server = start().await;
    let address = server.running.address;
    let ada = Client::new(address, "ada");
    ada.value("create", json!({ "id": 1 }));
    let wanted = json!({ "key": "a", "query": "get_counter", "args": { "id": 1 } });
    let mut events = ada.live(json!([wanted]));
    events.expect("hello");
    let value = events.expect("value");
    let mut wanted = wanted;
    wanted["have"] = format!("{}/{}", value.id, value.data["digest"].as_str().expect("a digest")).into();
    let body = json!({ "subscriptions": [wanted] }).to_string();
    let poll =
        std::thread::spawn(move || Client::new(address, "ada").send("POST", "/live/poll", &[], &body).body);
    let watched = || ada.send("GET", "/live/explain", &[], "").body.contains(r#""subscribers":2"#);
    while !watched() {
        tokio::task::yield_now().await;
    }
    server.running.stop().await;
    let seen = poll.join().expect("an answer");
    assert!(seen.contains("event: same\n") && seen.contains("event: bye\nretry: "), "{seen}");
}
