//! What one caller may take from a server, so that there is something left for the others.

use crate::app::serve_with;
use crate::client::{Answer, Client, Event};
use live::{Running, Settings};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use store::testing::{Kind, TestPlace, kind};

fn get(key: &str, id: i64) -> Value {
    json!({ "key": key, "query": "get_counter", "args": { "id": id } })
}

fn code(answer: &Answer) -> (u16, String, Value) {
    let document = answer.json();
    (
        answer.status,
        document["code"].as_str().unwrap_or_default().to_owned(),
        document["errors"][0]["field"].clone(),
    )
}

/// Changes the stream that began with this event.
fn change(client: &Client<'_>, hello: &Event, add: Value, remove: Value) -> Answer {
    let path = format!("/live/{}", hello.data["stream"].as_str().expect("a name"));
    let body = json!({ "secret": hello.data["secret"], "add": add, "remove": remove });
    client.send("POST", &path, &[], &body.to_string())
}

async fn serve(database: &TestPlace, change: impl FnOnce(&mut Settings)) -> Running {
    serve_with(database.url(), change).await
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_of_a_subscription_are_short() {
    let database = TestPlace::create();
    let running = serve(&database, |_| {}).await;
    let ada = Client::new(running.address, "ada");
    for (wanted, field) in [
        (json!({ "key": "a", "query": "get_counter", "have": "x".repeat(257) }), "have"),
        (json!({ "key": "a".repeat(129), "query": "get_counter" }), "key"),
    ] {
        let body = json!({ "subscriptions": [wanted] }).to_string();
        for path in ["/live", "/live/poll"] {
            let answer = ada.send("POST", path, &[], &body);
            assert_eq!(code(&answer), (400, "invalid_arguments".into(), json!(field)), "{path}");
        }
    }
    // Wrong arguments of one subscription leave the others as they are.
    let long = json!({ "key": "a", "query": "get_counter", "args": { "text": "x".repeat(4096) } });
    let mut events = ada.live(json!([long, get("b", 1)]));
    events.expect("hello");
    let mut seen: Vec<Value> = (0..2).map(|_| events.expect("error").data).collect();
    seen.sort_by_key(|data| data["keys"].to_string());
    assert_eq!(seen[0]["problem"]["errors"][0]["field"], "args");
    assert_eq!(seen[1]["problem"]["code"], "not_found");
    // White space and the order of members make no other subscription.
    ada.value("create", json!({ "id": 1 }));
    let mut events = ada.events(
        "POST",
        "/live",
        r#"{"subscriptions":[{"key":"a","query":"get_counter","args": { "id" : 1 } }]}"#,
    );
    events.expect("hello");
    assert_eq!(events.expect("value").value()["value"], 0);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_is_refused_changes_nothing() {
    let database = TestPlace::create();
    let running = serve(&database, |settings| settings.limits.subscriptions_max = 2).await;
    let ada = Client::new(running.address, "ada");
    (1..=3).for_each(|id| drop(ada.value("create", json!({ "id": id }))));
    let mut events = ada.live(json!([get("a", 1), get("b", 2)]));
    let hello = events.expect("hello");
    events.expect("value");
    events.expect("value");
    let long = json!([{ "key": "c".repeat(129), "query": "get_counter", "args": { "id": 3 } }]);
    assert_eq!(change(&ada, &hello, long, json!(["a", "b"])).status, 400);
    assert_eq!(code(&change(&ada, &hello, json!([get("c", 3)]), json!([]))).1, "limit_reached");
    ada.value("increment", json!({ "id": 1 }));
    assert_eq!(events.expect("value").data["keys"], json!(["a"]), "it is still there");
    assert_eq!(
        change(&ada, &hello, json!([get("b", 3)]), json!([])).status,
        204,
        "in place of the other one"
    );
    assert_eq!(events.expect("value").value()["id"], 3);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_a_stream_at_once_leave_one_subscription_with_a_key() {
    let database = TestPlace::create();
    let running = serve(&database, |_| {}).await;
    let ada = Client::new(running.address, "ada");
    (1..=8).for_each(|id| drop(ada.value("create", json!({ "id": id }))));
    let mut events = ada.live(json!([]));
    let hello = events.expect("hello");
    for _ in 0..20 {
        std::thread::scope(|scope| {
            for id in 1..=8 {
                let (ada, hello) = (&ada, &hello);
                scope.spawn(move || {
                    assert_eq!(change(ada, hello, json!([get("a", id)]), json!([])).status, 204)
                });
            }
        });
    }
    // Whichever was last: it is the only one.
    assert_eq!(change(&ada, &hello, json!([get("end", 1)]), json!(["a"])).status, 204);
    while events.next().expect("an event").data["keys"] != json!(["end"]) {}
    (1..=8).for_each(|id| drop(ada.value("increment", json!({ "id": id }))));
    assert_eq!(events.expect("value").data["keys"], json!(["end"]));
    (2..=8).chain([1]).for_each(|id| drop(ada.value("increment", json!({ "id": id }))));
    assert_eq!(events.expect("value").data["keys"], json!(["end"]), "no other subscription is left");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_has_so_many_subscriptions_in_all_streams() {
    let database = TestPlace::create();
    let running = serve(&database, |settings| settings.limits.subscriptions_per_caller_max = 3).await;
    let (ada, grace) = (Client::new(running.address, "ada"), Client::new(running.address, "grace"));
    let mut first = ada.live(json!([get("a", 1), get("b", 2)]));
    let hello = first.expect("hello");
    let body = json!({ "subscriptions": [get("a", 1), get("b", 2)] }).to_string();
    let refused = ada.send("POST", "/live", &[], &body);
    assert_eq!((refused.status, code(&refused).1), (429, "limit_reached".into()));
    assert!(refused.body.contains("subscriptions_per_caller_max"), "{}", refused.body);
    grace.live(json!([get("a", 1), get("b", 2)])).expect("hello");
    assert_eq!(change(&ada, &hello, json!([get("c", 1)]), json!([])).status, 204);
    assert_eq!(change(&ada, &hello, json!([get("d", 1)]), json!([])).status, 429);
    assert_eq!(change(&ada, &hello, json!([get("d", 1)]), json!(["a"])).status, 204);
    drop(first);
    // The server notices the end of the stream by itself.
    while ada.send("POST", "/live/poll", &[], &body).status == 429 {}
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_leave_half_of_the_streams_to_users() {
    let database = TestPlace::create();
    let running = serve(&database, |settings| settings.limits.streams_max = 4).await;
    let stranger = Client::new(running.address, "");
    let open: Vec<_> = (0..2).map(|_| stranger.live(json!([]))).collect();
    let refused = stranger.send("POST", "/live", &[], "{}");
    assert_eq!((refused.status, code(&refused).1), (503, "unavailable".into()));
    let users: Vec<_> =
        ["ada", "grace"].map(|user| Client::new(running.address, user).live(json!([]))).into();
    assert_eq!(Client::new(running.address, "eve").send("POST", "/live", &[], "{}").status, 503);
    drop((open, users));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn text_that_a_database_does_not_store_is_refused() {
    let database = TestPlace::create();
    let running = serve(&database, |_| {}).await;
    let ada = Client::new(running.address, "ada");
    let body = r#"{"id":1,"x":"\u0000"}"#;
    for (method, path, body) in [
        ("POST", "/rpc/create", body),
        ("POST", "/rpc/get_counter", body),
        ("POST", "/live", r#"{"subscriptions":[{"key":"a","query":"get_counter","args":{"id":"\u0000"}}]}"#),
        ("POST", "/rpc/%00", "{}"),
        ("GET", "/live/poll?sub=%00", ""),
    ] {
        assert_eq!(ada.send(method, path, &[], body).status, 400, "{method} {path} {body}");
    }
    // Routes of the app's own too.
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    assert_eq!(ada.send("POST", "/own", &form, "text=a%00b").status, 400);
    let json = [("Content-Type", "application/json")];
    assert_eq!(ada.send("POST", "/own", &json, r#"{"text":"\u0000"}"#).status, 400);
    assert_eq!(ada.send("POST", "/own", &json, r#"{"text":"\\u0000"}"#).status, 404, "not the character");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_may_not_have_many_times_more_values_than_bytes_of_its_limit() {
    let database = TestPlace::create();
    let running = serve(&database, |settings| settings.limits.body_bytes_max = 16_000).await;
    let ada = Client::new(running.address, "ada");
    let json = [("Content-Type", "Application/JSON; charset=utf-8")];
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    let many = format!("[{}0]", "0,".repeat(1_000));
    let deep = [&"[".repeat(65)[..], &"]".repeat(65)].concat();
    for body in [&many, &deep] {
        assert_eq!(ada.send("POST", "/rpc/get_counter", &[], body).status, 400);
        assert_eq!(ada.send("POST", "/live", &form, body).status, 400, "whatever its type says");
        assert_eq!(ada.send("POST", "/own", &json, body).status, 400);
        assert_eq!(ada.send("POST", "/own", &[("Content-Type", "a/b+json")], body).status, 400);
        assert_eq!(ada.send("POST", "/own", &[("Content-Type", "text/csv")], body).status, 404);
    }
    assert_eq!(ada.send("POST", "/own", &form, &"a&".repeat(1_000)).status, 400);
    assert_eq!(ada.send("POST", "/own", &form, &"a&".repeat(900)).status, 404);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_token_an_idempotency_key_cannot_be_guessed() {
    let database = TestPlace::create();
    let running = serve(&database, |_| {}).await;
    let call = |token: &str, key: &str| {
        let client = Client::new(running.address, token);
        code(&client.send("POST", "/rpc/increment", &[("Idempotency-Key", key)], "{\"id\":1}")).1
    };
    assert_eq!(call("", "register-ada"), "invalid_idempotency_key");
    assert_ne!(call("", "0190b5c2-6a58-7e0e-8b0c-3a2f1d9e4c11"), "invalid_idempotency_key");
    assert_ne!(call("ada", "1"), "invalid_idempotency_key");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn those_who_stay_in_a_large_group_receive_what_follows() {
    let database = TestPlace::create();
    let running = serve(&database, |_| {}).await;
    let ada = Client::new(running.address, "ada");
    ada.value("create", json!({ "id": 1 }));
    let mut all: Vec<_> = (0..90).map(|_| ada.live(json!([get("a", 1)]))).collect();
    for events in &mut all {
        events.expect("hello");
        events.expect("value");
    }
    let mut number = 0;
    let mut stay: Vec<_> = all.into_iter().filter(|_| (number += 1, number % 3 == 0).1).collect();
    let subscribers = || {
        let groups = ada.send("GET", "/live/explain", &[], "").json()["groups"].clone();
        let groups = groups.as_array().expect("a list").clone();
        let group = groups.iter().find(|group| group["query"] == "get_counter").expect("the group").clone();
        group["subscribers"].as_u64().expect("a number")
    };
    // The server notices the ends by itself.
    while subscribers() != 30 {}
    ada.value("increment", json!({ "id": 1 }));
    for events in &mut stay {
        assert_eq!(events.expect("value").value()["value"], 1);
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_is_not_one_network_of_many() {
    let database = TestPlace::create();
    for is_proxy in [true, false] {
        let running = serve(&database, |settings| {
            settings.connections.connections = 20;
            settings.connections.unshared.clear();
            settings.connections.stale_after = Duration::from_secs(3600);
            if is_proxy {
                settings.trusted_proxies = vec!["127.0.0.0/8".parse().expect("a block")];
            }
        });
        let running = running.await;
        let mut open = Vec::new();
        while open.len() < 20
            && let Some(connection) = answered(running.address)
        {
            open.push(connection);
        }
        // Half of the places, and the one that came when they were taken.
        assert_eq!(open.len(), if is_proxy { 20 } else { 11 });
        drop(open);
        running.stop().await;
    }
}

/// A connection that has got an answer and stays open.
fn answered(address: SocketAddr) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: test\r\n\r\n").ok()?;
    let mut first = [0; 12];
    stream.read_exact(&mut first).ok()?;
    (&first == b"HTTP/1.1 200").then_some(stream)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_answers_of_a_caller_take_so_much_memory() {
    let database = TestPlace::create();
    let running = serve(&database, |settings| settings.limits.answer_bytes_per_caller_max = 1000).await;
    let (ada, grace) = (Client::new(running.address, "ada"), Client::new(running.address, "grace"));
    (1..=12).for_each(|id| drop(ada.value("create", json!({ "id": id }))));
    // An answer has some 120 bytes, and 170 with `settled`.
    let all: Vec<Value> = (1..=12).map(|id| get(&id.to_string(), id)).collect();
    let mut events = ada.live(json!(all));
    let hello = events.expect("hello");
    let seen: Vec<Event> = (0..12).map(|_| events.next().expect("an event")).collect();
    let (values, errors): (Vec<_>, Vec<_>) = seen.iter().partition(|event| event.name == "value");
    assert!((5..=8).contains(&values.len()), "{seen:?}");
    let problem = &errors[0].data["problem"];
    assert_eq!(problem["code"], "limit_reached");
    assert!(problem["detail"].to_string().contains("answer_bytes_per_caller_max"), "{problem}");
    let key = |event: &Event| event.data["keys"][0].as_str().expect("a key").to_owned();
    let id: i64 = key(errors[0]).parse().expect("a number");
    assert_eq!(change(&ada, &hello, json!([get("again", id)]), json!([])).status, 204);
    assert_eq!(events.expect("error").data["problem"]["code"], "limit_reached");
    // Another caller has room for it, also to watch it twice.
    for _ in 0..2 {
        let mut others = grace.live(json!([get("x", id)]));
        others.expect("hello");
        assert_eq!(others.expect("value").value()["id"], id);
    }
    // What she watches already costs her nothing in a second stream.
    let mut second = ada.live(json!([get("y", key(values[0]).parse().expect("a number"))]));
    second.expect("hello");
    second.expect("value");
    // Answers that are not watched any more leave their room to others.
    let gone = json!([key(values[1]), key(values[2])]);
    assert_eq!(change(&ada, &hello, json!([get("again", id)]), gone).status, 204);
    assert_eq!(events.expect("value").value()["id"], id);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_reads_no_answers_gets_no_more_of_them() {
    const LENGTH: usize = 8 * 1024 * 1024;
    let database = TestPlace::create();
    let running = serve(&database, |settings| {
        settings.limits.answer_bytes_per_caller_max = 3 * LENGTH;
        settings.limits.frame_bytes_max = 2 * LENGTH;
    });
    let running = running.await;
    let body = json!({ "count": LENGTH }).to_string();
    let ask = |path: &str, token: &str, body: &str| {
        let mut stream = TcpStream::connect(running.address).expect("connects");
        let length = body.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: test\r\nauthorization: Bearer {token}\r\ncontent-length: {length}"
        );
        write!(stream, "{head}\r\n\r\n{body}").expect("writes");
        let mut first = [0; 12];
        stream.read_exact(&mut first).expect("the beginning of an answer");
        (String::from_utf8_lossy(&first).into_owned(), stream)
    };
    let call = |token: &str| ask("/rpc/letters", token, &body);
    let kept: Vec<_> = (0..4).map(|_| call("ada")).collect();
    let status: Vec<&str> = kept.iter().map(|(first, _)| &**first).collect();
    assert_eq!(status, ["HTTP/1.1 200", "HTTP/1.1 200", "HTTP/1.1 429", "HTTP/1.1 429"], "they are JSON");
    let ada = Client::new(running.address, "ada");
    let refused = ada.send("POST", "/rpc/letters", &[], &body);
    assert_eq!((refused.status, &*code(&refused).1), (429, "limit_reached"));
    assert!(refused.body.contains("answer_bytes_per_caller_max") && refused.head.contains("retry-after"));
    let short = json!({ "count": 1000 });
    assert_eq!(ada.value("letters", short).as_str().map(str::len), Some(1000));
    assert_eq!(call("grace").0, "HTTP/1.1 200", "another caller");
    // Polls count in the same way.
    let wanted = json!([{ "key": "a", "query": "letters", "args": { "count": LENGTH } }]);
    let poll = json!({ "subscriptions": wanted }).to_string();
    let polls: Vec<_> = (0..3).map(|_| ask("/live/poll", "eve", &poll)).collect();
    let status: Vec<&str> = polls.iter().map(|(first, _)| &**first).collect();
    assert_eq!(status, ["HTTP/1.1 200", "HTTP/1.1 200", "HTTP/1.1 429"]);
    assert_eq!(ask("/live/poll", "ada", &poll).0, "HTTP/1.1 429", "with what her calls have left");
    drop(polls);
    let held = || {
        let page = ada.send("GET", "/metrics", &[], "").body;
        let line = page.lines().find_map(|line| line.strip_prefix("live_answer_bytes "));
        line.and_then(|bytes| bytes.parse::<usize>().ok()).expect("a number")
    };
    assert!(held() >= 2 * LENGTH, "{}", held());
    // Their connections end: then nothing is left of them.
    drop(kept);
    let began = std::time::Instant::now();
    while held() >= LENGTH {
        assert!(began.elapsed() < Duration::from_secs(20), "{} bytes are kept", held());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(call("ada").0, "HTTP/1.1 200");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_networks_of_one_customer_share_streams() {
    let database = TestPlace::create();
    let running = serve(&database, |settings| {
        settings.limits.streams_per_network_max = 1;
        settings.trusted_proxies = vec!["127.0.0.0/8".parse().expect("a block")];
    })
    .await;
    let stranger = Client::new(running.address, "");
    let open = |address: &str| {
        let headers = [("X-Forwarded-For", address)];
        let body = json!({ "subscriptions": [get("a", 1)] }).to_string();
        stranger.send_open("POST", "/live", &headers, &body)
    };
    let opened: Vec<_> = ["2001:db8:0:1::1", "2001:db8:0:2::1"].map(open).into();
    assert_eq!(opened.iter().map(|(status, _)| *status).collect::<Vec<_>>(), [200, 200]);
    assert_eq!(open("2001:db8:0:3::1").0, 429, "the third network of a site");
    assert_eq!(open("2001:db8:1:1::1").0, 200, "another site");
    drop(opened);
    while open("2001:db8:0:3::1").0 == 429 {}
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_networks_of_one_customer_share_subscriptions() {
    let database = TestPlace::create();
    let running = serve(&database, |settings| {
        settings.limits.subscriptions_per_caller_max = 3;
        settings.trusted_proxies = vec!["127.0.0.0/8".parse().expect("a block")];
    })
    .await;
    let stranger = Client::new(running.address, "");
    let body = json!({ "subscriptions": [get("a", 1), get("b", 2)] }).to_string();
    let open = |address| stranger.send_open("POST", "/live", &[("X-Forwarded-For", address)], &body);
    let opened = open("2001:db8:0:1::1");
    assert_eq!(opened.0, 200);
    assert_eq!(open("2001:db8:0:2::1").0, 429, "the second network of a site");
    assert_eq!(open("2001:db8:1:1::1").0, 200, "another site");
    drop(opened);
    while open("2001:db8:0:2::1").0 == 429 {}
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nobody_has_a_token_strangers_have_all_streams() {
    let database = TestPlace::create();
    let mut settings = Settings::new(database.url(), ([127, 0, 0, 1], 0).into());
    settings.limits.streams_max = 2;
    let running = live::serve(live::App::new(), settings).await.expect("the app is served");
    let stranger = Client::new(running.address, "");
    let opened = [stranger.live(json!([])), stranger.live(json!([]))];
    let refused = stranger.send("POST", "/live", &[], "{}");
    assert_eq!(code(&refused).0, 503);
    assert!(refused.body.contains("its 2 streams open (`streams_max`)"), "{}", refused.body);
    drop(opened);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_leave_half_of_the_room_for_answers_to_users() {
    let database = TestPlace::create();
    let running = serve(&database, |settings| settings.limits.answer_bytes_max = 2000).await;
    let (ada, stranger) = (Client::new(running.address, "ada"), Client::new(running.address, ""));
    (1..=20).for_each(|id| drop(ada.value("create", json!({ "id": id }))));
    let mut held = Vec::new();
    // An answer and its arguments have some 130 bytes, and 180 with `settled`.
    let refused = (1..=20).find_map(|id| {
        let mut events = stranger.live(json!([get("a", id)]));
        events.expect("hello");
        let event = events.next().expect("an event");
        held.push(events);
        (event.name == "error").then_some((id, event))
    });
    let (id, event) = refused.expect("twenty answers have more than 1,000 bytes");
    assert!((6..=12).contains(&id), "{id}");
    assert!(event.data["problem"]["detail"].to_string().contains("answer_bytes_max"), "{event:?}");
    let mut events = ada.live(json!([get("a", id)]));
    events.expect("hello");
    assert_eq!(events.expect("value").value()["id"], id, "there is room for a user");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_are_asked_for_at_once_have_no_more_room() {
    let database = TestPlace::create();
    let running = serve(&database, |settings| settings.limits.answer_bytes_max = 8000).await;
    let (ada, stranger) = (Client::new(running.address, "ada"), Client::new(running.address, ""));
    (1..=100).for_each(|id| drop(ada.value("create", json!({ "id": id }))));
    // All join before the first answer is there, and together they have some 13,000 bytes.
    let wanted: Vec<Value> = (1..=100).map(|id| get(&id.to_string(), id)).collect();
    let mut events = stranger.live(json!(wanted));
    events.expect("hello");
    let all: Vec<Event> = (1..=100).map(|_| events.next().expect("an event")).collect();
    let refused: Vec<&Event> = all.iter().filter(|event| event.name == "error").collect();
    assert!((50..100).contains(&refused.len()), "{} of 100 are refused", refused.len());
    for event in refused {
        assert_eq!(event.data["problem"]["code"], "limit_reached");
        assert!(event.data["problem"]["detail"].to_string().contains("sign in"), "{event:?}");
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_larger_limit_for_bodies_holds_for_all_routes() {
    let database = TestPlace::create();
    let running = serve(&database, |settings| settings.limits.body_bytes_max = 4 << 20).await;
    let ada = Client::new(running.address, "ada");
    let body = json!({ "id": 1, "text": "x".repeat(3 << 20) }).to_string();
    let answer = ada.send("POST", "/rpc/create", &[], &body);
    assert_eq!(code(&answer), (400, "invalid_arguments".into(), json!("text")), "it was read");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_subscriptions_of_a_stream_have_two_keys() {
    let database = TestPlace::create();
    let running = serve(&database, |_| {}).await;
    let ada = Client::new(running.address, "ada");
    let body = json!({ "subscriptions": [get("a", 1), get("a", 2)] }).to_string();
    assert_eq!(code(&ada.send("POST", "/live", &[], &body)), (400, "invalid_arguments".into(), json!("key")));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_is_ready() {
    // Elsewhere there are several writers.
    if kind() != Kind::Sqlite {
        return;
    }
    let database = TestPlace::create();
    let running = serve(&database, |_| {}).await;
    let ada = Client::new(running.address, "ada");
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let stopped = std::sync::Mutex::new(stopped);
    let (began, wait) = tokio::sync::oneshot::channel();
    let began = std::sync::Mutex::new(Some(began));
    let store = running.context.store().clone();
    let held = tokio::spawn(async move {
        let hold = move |_: &mut store::Tx<'_>| {
            let _ = began.lock().expect("no panic").take().map(|began| began.send(()));
            // The end of the test drops the other side.
            let _ = stopped.lock().expect("no panic").recv();
            Ok::<_, store::Error>(())
        };
        store.write("hold", hold).await
    });
    wait.await.expect("the writer is held");
    assert_eq!(code(&ada.send("POST", "/rpc/create", &[], "{\"id\":1}")).1, "overloaded");
    assert_eq!(ada.send("GET", "/readyz", &[], "").status, 200, "though its own write was refused");
    drop(stop);
    held.await.expect("no panic").expect("it ends");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_keeps_so_many_answers() {
    let database = TestPlace::create();
    let running = serve(&database, |settings| settings.limits.keyed_calls_per_caller_max = 2).await;
    let call = |token: &str, key: &str| {
        let headers = [("Idempotency-Key", key)];
        Client::new(running.address, token).send("POST", "/rpc/increment", &headers, "{\"id\":1}")
    };
    Client::new(running.address, "ada").value("create", json!({ "id": 1 }));
    // A quarter of an hour may end between two of them.
    let refused = loop {
        let answers: Vec<Answer> = ["1", "2", "3"].map(|key| call("ada", key)).into();
        if let Some(refused) = answers.into_iter().find(|answer| answer.status == 429) {
            break refused;
        }
    };
    assert_eq!(code(&refused).1, "limit_reached");
    assert!(refused.body.contains("keyed_calls_per_caller_max") && refused.head.contains("retry-after"));
    assert_eq!(call("grace", "1").status, 200);
    running.stop().await;
}

/// Answers without watchers count for no caller, so their number has a limit of its own.
#[tokio::test(flavor = "multi_thread")]
async fn who_subscribes_to_something_else_all_the_time_leaves_little_behind() {
    let database = TestPlace::create();
    if database.is_shared() {
        // It is the same on each database, and fastest on a file.
        return;
    }
    let running = serve(&database, |_| {}).await;
    let ada = Client::new(running.address, "ada");
    let mut events = ada.live(json!([]));
    let hello = events.expect("hello");
    let keys: Vec<String> = (0..100).map(|key| key.to_string()).collect();
    let groups = || {
        let page = ada.send("GET", "/metrics", &[], "").body;
        let line = page.lines().find_map(|line| line.strip_prefix("live_groups "));
        line.and_then(|count| count.parse::<i64>().ok()).expect("a number")
    };
    let mut most = 0;
    for round in 0..110 {
        let add: Vec<_> = keys.iter().zip(round * 100..).map(|(key, id)| get(key, id)).collect();
        assert_eq!(change(&ada, &hello, json!(add), json!([])).status, 204);
        most = most.max(groups());
    }
    assert!((9_000..=10_200).contains(&most), "{most} groups");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_answers_of_all_callers_take_so_much_memory() {
    let database = TestPlace::create();
    let running = serve(&database, |settings| settings.limits.answer_bytes_max = 1000).await;
    let (ada, grace) = (Client::new(running.address, "ada"), Client::new(running.address, "grace"));
    (1..=20).for_each(|id| drop(ada.value("create", json!({ "id": id }))));
    let mut held = Vec::new();
    let refused = (1..=20).find_map(|id| {
        let mut events = ada.live(json!([get("a", id)]));
        events.expect("hello");
        let event = events.next().expect("an event");
        held.push(events);
        (event.name == "error").then_some(event)
    });
    let problem = refused.expect("twenty answers have 2,000 bytes").data["problem"].clone();
    assert_eq!(problem["code"], "limit_reached");
    assert!(problem["detail"].to_string().contains("answer_bytes_max"), "{problem}");
    let mut others = grace.live(json!([get("x", 1)]));
    others.expect("hello");
    assert_eq!(others.expect("value").value()["id"], 1, "that answer is there already");
    assert_eq!(grace.send("GET", "/readyz", &[], "").status, 200, "a full server is ready");
    drop((held, others));
    // Answers that nobody watches are forgotten after some seconds.
    let began = std::time::Instant::now();
    loop {
        let mut events = ada.live(json!([get("a", 20)]));
        events.expect("hello");
        if events.next().expect("an event").name == "value" {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "there is no room again");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    running.stop().await;
}

/// The status and the code of a query for the host in these lines of the head.
fn asked_for(address: SocketAddr, hosts: &str, path: &str) -> (u16, String) {
    let mut socket = TcpStream::connect(address).expect("the server listens");
    socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a time-out");
    let head = format!("POST {path} HTTP/1.1\r\n{hosts}Connection: close\r\nContent-Length: 0\r\n\r\n");
    socket.write_all(head.as_bytes()).expect("the server reads");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let document: Value = serde_json::from_str(body).unwrap_or_default();
    (status, document["code"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_whose_name_points_at_the_server_reads_nothing() {
    let database = TestPlace::create();
    let running =
        serve(&database, |settings| settings.allowed_hosts = vec!["notes.example.com".to_owned()]).await;
    let ask = |hosts: &str, path: &str| asked_for(running.address, hosts, path);
    for path in ["/rpc/list_counters", "/live", "/live/poll", "/live/ticket", "/live/x", "/metrics", "/own"] {
        let expected = (421, "unknown_host".to_owned());
        assert_eq!(ask("Host: rebound.example:8080\r\n", path), expected, "{path}");
    }
    for (hosts, expected) in [
        ("Host: notes.example.com\r\n", (404, "unknown_name")),
        ("Host: notes\r\n", (404, "unknown_name")),
        ("Host: 127.0.0.1:8080\r\n", (404, "unknown_name")),
        ("Host: notes.example.com\r\nHost: rebound.example\r\n", (400, "invalid_host")),
        ("", (400, "invalid_host")),
    ] {
        assert_eq!(ask(hosts, "/rpc/no_query"), (expected.0, expected.1.to_owned()), "{hosts}");
    }
    // Load balancers ask by whatever name they have.
    assert_eq!(ask("Host: rebound.example\r\n", "/healthz").0, 405);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_request_holds_no_place_and_waits_for_nothing() {
    let database = TestPlace::create();
    let running = serve_with(database.url(), |settings| settings.limits.streams_per_caller_max = 2).await;
    let ada = Client::new(running.address, "ada");
    ada.value("create", json!({ "id": 1 }));
    let sub = r#"{"key":"a","query":"get_counter","args":{"id":1}}"#;
    let sub: String = form_urlencoded::byte_serialize(sub.as_bytes()).collect();
    let ticket = ada.send("POST", "/live/ticket", &[], "").json()["ticket"].clone();
    let opening = format!("/live?ticket={}&sub={sub}", ticket.as_str().expect("a ticket"));
    let poll = format!("/live/poll?sub={sub}");
    // Each stays open, as that of a client that waits for an answer.
    let mut open = Vec::new();
    for path in [&*opening, &*poll, &*poll, &*opening, "/live", "/live/poll"] {
        let (status, connection) = ada.send_open("HEAD", path, &[], "");
        assert_eq!(status, 405, "{path}");
        open.push(connection);
    }
    let head = ada.send("HEAD", &poll, &[], "");
    assert!(head.header("allow").is_some_and(|allow| allow.contains("get")), "{}", head.head);
    for path in ["/live/ticket", "/live/anything", "/rpc/increment"] {
        assert_eq!(ada.send("HEAD", path, &[], "").status, 405, "{path}");
    }
    assert_eq!(ada.value("get_counter", json!({ "id": 1 }))["value"], 0);
    let polled = ada.send("GET", &poll, &[], "");
    assert_eq!(polled.status, 200, "the places are free: {}", polled.body);
    let mut events = ada.events("GET", &opening, "");
    events.expect("hello");
    assert_eq!(events.expect("value").value()["value"], 0, "the ticket was not used");
    running.stop().await;
}
