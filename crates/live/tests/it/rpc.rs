//! Calls.

use crate::app::{serve, start};
use crate::client::Client;
use serde_json::json;
use std::sync::mpsc::channel;
use store::fault_injection::hold_transaction;
use store::testing::{Kind, kind};

#[tokio::test(flavor = "multi_thread")]
async fn a_call_reads_and_a_mutation_changes() {
    let server = start().await;
    let ada = Client::new(server.running.address, "ada");
    ada.value("create", json!({ "id": 1 }));
    assert_eq!(ada.value("increment", json!({ "id": 1 })), 1);
    let answer = ada.call("get_counter", json!({ "id": 1 }));
    assert_eq!(answer.json()["value"], json!({ "id": 1, "owner": "ada", "value": 1 }));
    assert!(answer.json()["version"].as_str().is_some_and(|version| answer.head.contains(version)));
    server.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_wrong_call_has_its_own_problem() {
    let server = start().await;
    let (ada, nobody) = (Client::new(server.running.address, "ada"), Client::new(server.running.address, ""));
    let problem = |client: &Client<'_>, name: &str, body: &str| {
        let answer = client.send("POST", &format!("/rpc/{name}"), &[], body);
        assert!(answer.head.contains("application/problem+json"), "{}", answer.head);
        let field = answer.json()["errors"][0]["field"].as_str().map(str::to_owned);
        (answer.status, answer.json()["code"].as_str().expect("a code").to_owned(), field)
    };
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(problem(&ada, "nothing", "{}"), (404, "unknown_name".into(), None));
    assert_eq!(problem(&ada, "get_counter", "{\"id\":\"x\"}"), (400, "invalid_arguments".into(), text("id")));
    assert_eq!(
        problem(&ada, "get_counter", "{\"id\":1,\"x\":2}"),
        (400, "invalid_arguments".into(), text("x"))
    );
    assert_eq!(problem(&ada, "get_counter", "[1]").0, 400);
    assert_eq!(problem(&ada, "get_counter", "{\"id\":").0, 400);
    assert_eq!(problem(&ada, "increment", "{\"id\":-1}"), (400, "invalid_arguments".into(), text("id")));
    assert_eq!(problem(&ada, "get_counter", "{\"id\":7}"), (404, "not_found".into(), None));
    assert_eq!(problem(&nobody, "increment", "{\"id\":7}"), (401, "unauthenticated".into(), None));
    assert_eq!(problem(&ada, "secret", "{\"id\":7}"), (403, "forbidden".into(), None));
    assert_eq!(problem(&ada, "live.canary", "{\"instance\":\"x\"}"), (403, "forbidden".into(), None));
    ada.value("create", json!({ "id": 1 }));
    assert_eq!(problem(&ada, "create", "{\"id\":1}"), (409, "conflict".into(), None));
    server.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_call_names_everything_that_is_wrong_with_it() {
    let server = start().await;
    let ada = Client::new(server.running.address, "ada");
    for (body, detail, fields) in [
        (
            r#"{"id":"x","y":1,"z":null}"#,
            "3 fields are wrong: id, y, z. See `errors`.",
            json!(["id", "y", "z"]),
        ),
        (r#"{"y":1}"#, "2 fields are wrong: id, y. See `errors`.", json!(["id", "y"])),
        (r#"{"id":1.5}"#, "id: 1.5 is not an integer; use an integer.", json!(["id"])),
        // In the words of the app.
        (r#"{"id":-1}"#, "`id` must not be negative.", json!(["id"])),
    ] {
        let answer = ada.send("POST", "/rpc/increment", &[], body).json();
        let errors = answer["errors"].as_array().expect("errors").clone();
        let named: Vec<_> = errors.iter().map(|error| error["field"].clone()).collect();
        assert_eq!((answer["code"].clone(), json!(named)), (json!("invalid_arguments"), fields), "{answer}");
        assert_eq!(answer["detail"], detail);
        assert!(
            errors.iter().all(|error| error["code"].is_string() && error["detail"].is_string()),
            "{answer}"
        );
    }
    server.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mutation_that_is_sent_again_happens_once() {
    let server = start().await;
    let ada = Client::new(server.running.address, "ada");
    ada.value("create", json!({ "id": 1 }));
    let send = |client: &Client<'_>, key: &str, body: &str| {
        let answer = client.send("POST", "/rpc/increment", &[("Idempotency-Key", key)], body);
        (answer.status, answer.json()["value"].clone())
    };
    assert_eq!(send(&ada, "k1", "{\"id\":1}"), (200, json!(1)));
    assert_eq!(send(&ada, "k1", "{\"id\":1}"), (200, json!(1)), "the stored answer");
    assert_eq!(send(&ada, "k1", "{ \"id\":1}").0, 422, "another body");
    let grace = Client::new(server.running.address, "grace");
    assert_eq!(send(&grace, "k1", "{\"id\":1}"), (200, json!(2)), "keys belong to a user");
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let address = server.running.address;
            std::thread::spawn(move || send_one(address))
        })
        .collect();
    let answers: Vec<_> = threads.into_iter().map(|thread| thread.join().expect("an answer")).collect();
    assert!(answers.iter().all(|answer| *answer == (200, json!(3))), "{answers:?}");
    assert_eq!(ada.value("get_counter", json!({ "id": 1 }))["value"], 3);
    server.running.stop().await;
}

fn send_one(address: std::net::SocketAddr) -> (u16, serde_json::Value) {
    let ada = Client::new(address, "ada");
    let answer = ada.send("POST", "/rpc/increment", &[("Idempotency-Key", "k2")], "{\"id\":1}");
    (answer.status, answer.json()["value"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_none_is_refused_whatever_is_called() {
    let server = start().await;
    let ada = Client::new(server.running.address, "ada");
    ada.value("create", json!({ "id": 1 }));
    let long = "x".repeat(256);
    for name in ["increment", "get_counter", "nothing"] {
        for keys in [&["two words"][..], &[""], &[&long], &["a", "b"]] {
            let headers: Vec<_> = keys.iter().map(|key| ("Idempotency-Key", *key)).collect();
            let answer = ada.send("POST", &format!("/rpc/{name}"), &headers, "{\"id\":1}");
            let is = (answer.status, answer.json()["code"].clone());
            assert_eq!(is, (400, json!("invalid_idempotency_key")), "{name} {keys:?}");
        }
    }
    assert_eq!(ada.value("get_counter", json!({ "id": 1 }))["value"], 0, "nothing was done");
    server.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_another_instance_repeats_has_a_version_with_its_write() {
    // On SQLite there is one instance, and on MySQL the versions of instances do not compare.
    if kind() != Kind::Postgres {
        return;
    }
    let server = start().await;
    let other = serve(&server.database).await;
    let ada = Client::new(server.running.address, "ada");
    ada.value("create", json!({ "id": 1 }));
    let send = |address| {
        let headers = [("Idempotency-Key", "k1")];
        let answer =
            Client::new(address, "ada").send("POST", "/rpc/increment", &headers, "{\"id\":1}").json();
        assert_eq!(answer["value"], 1, "{answer}");
        answer["version"].as_str().expect("a version").to_owned()
    };
    let (first, again) = (send(server.running.address), send(other.address));
    assert!(again >= first, "{again} after {first}");
    other.stop().await;
    server.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_planned_task_runs_once_and_changes_live_queries() {
    let server = start().await;
    let ada = Client::new(server.running.address, "ada");
    ada.value("create", json!({ "id": 1 }));
    let mut events = ada.live(json!([{ "key": "a", "query": "get_counter", "args": { "id": 1 } }]));
    assert_eq!(ada.value("twice", json!({ "id": 1 })), 1);
    events.until(|value| value["value"] == 2);
    server.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_on_postgres_says_which_commits_it_surely_has() {
    if kind() != Kind::Postgres {
        return;
    }
    let server = start().await;
    let ada = Client::new(server.running.address, "ada");
    ada.value("create", json!({ "id": 1 }));
    let url = server.database.url();
    // What holds the transaction stays on its thread, because the driver blocks.
    let ((stop, stopped), (began, wait)) = (channel::<()>(), channel());
    let held = std::thread::spawn(move || {
        let held = hold_transaction(&url).expect("a transaction");
        began.send(()).expect("the test waits");
        // The test may have failed.
        let _ = stopped.recv();
        held.end().expect("it lasted");
    });
    wait.recv().expect("it begins");
    let written = ada.call("increment", json!({ "id": 1 })).json();
    assert_eq!(written["settled"], json!(null));
    let answer = ada.call("get_counter", json!({ "id": 1 })).json();
    let [settled, version] = ["settled", "version"].map(|field| answer[field].as_str().expect("a version"));
    assert!(settled < version && version >= written["version"].as_str().expect("a version"), "{answer}");
    drop(stop);
    held.join().expect("it ends");
    server.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_argument_that_does_not_exist_is_named() {
    let server = start().await;
    let ada = Client::new(server.running.address, "ada");
    let wrong = || json!({ "id": 1, "idd": 2 });
    assert_eq!(ada.call("secret", wrong()).json()["code"], "forbidden", "rights come before arguments");
    for name in ["get_counter", "create"] {
        let answer = ada.call(name, wrong()).json();
        assert_eq!(answer["code"], "invalid_arguments", "{answer}");
        assert_eq!(answer["errors"][0]["field"], "idd", "{answer}");
    }
    let mut events = ada.live(json!([{ "key": "a", "query": "own_counters", "args": { "n": 1 } }]));
    events.expect("hello");
    assert_eq!(events.expect("error").data["problem"]["errors"][0]["field"], "n");
    server.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_no_answer_carried_is_refused() {
    let server = start().await;
    let ada = Client::new(server.running.address, "ada");
    let known = ada.call("own_counters", json!({})).json()["version"].as_str().expect("a version").to_owned();
    let (epoch, _) = known.split_once('.').expect("an epoch and a number");
    let later = format!("{epoch}.ffffffffffffffff");
    let mut sent = vec![("own_counters", "7"), ("increment", "7")];
    // Where several processes have the database, an answer may have come from another one.
    sent.extend((!server.database.is_shared()).then_some(("own_counters", &*later)));
    for (name, version) in sent {
        let answer = ada.send("POST", &format!("/rpc/{name}"), &[("Sarsen-Version", version)], "{}");
        assert_eq!((answer.status, answer.json()["code"].clone()), (400, json!("invalid_version")), "{name}");
    }
    let known = [("Sarsen-Version", &*known)];
    assert_eq!(ada.send("POST", "/rpc/own_counters", &known, "{}").status, 200);
    server.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_has_one_token() {
    let server = start().await;
    let nobody = Client::new(server.running.address, "");
    let two = [("Authorization", "Bearer ada"), ("Authorization", "Bearer eve")];
    let answer = nobody.send("POST", "/rpc/own_counters", &two, "{}");
    assert_eq!((answer.status, answer.json()["code"].clone()), (400, json!("invalid_arguments")));
    assert_eq!(answer.json()["errors"][0]["field"], "authorization");
    server.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repetition_gets_the_first_answer_also_where_the_first_one_made_it_impossible() {
    let server = start().await;
    let address = server.running.address;
    let ada = Client::new(address, "ada");
    for id in 1..=10 {
        ada.value("create", json!({ "id": id }));
        let key = format!("take-{id}");
        let body = json!({ "id": id }).to_string();
        let take = || ada.send("POST", "/rpc/take", &[("Idempotency-Key", &key)], &body);
        let answers: Vec<_> = std::thread::scope(|scope| {
            let calls: Vec<_> = (0..6).map(|_| scope.spawn(take)).collect();
            calls.into_iter().map(|call| call.join().expect("no panic")).collect()
        });
        for answer in answers {
            assert_eq!((answer.status, answer.json()["value"].clone()), (200, json!(1)), "{}", answer.body);
        }
        let other = ada.send("POST", "/rpc/take", &[("Idempotency-Key", "another")], &body);
        assert_eq!((other.status, other.json()["code"].clone()), (409, json!("taken")));
    }
    server.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_mutation_answers_a_later_version_than_the_one_before() {
    let server = start().await;
    let ada = Client::new(server.running.address, "ada");
    ada.value("create", json!({ "id": 1 }));
    let version =
        |answer: crate::client::Answer| answer.json()["version"].as_str().expect("a version").to_owned();
    let versions: Vec<String> = (0..5).map(|_| version(ada.call("increment", json!({ "id": 1 })))).collect();
    assert!(versions.is_sorted_by(|one, next| one < next), "{versions:?}");
    let read = version(ada.call("get_counter", json!({ "id": 1 })));
    assert!(Some(&read) >= versions.last(), "{read} is older than {versions:?}");
    server.running.stop().await;
}
