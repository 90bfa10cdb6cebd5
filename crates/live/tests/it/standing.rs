//! Rights are dependencies: sessions and roles that end or change while a stream is open.

use crate::app::{serve, serve_with, start};
use crate::client::Client;
use crate::work::Clock;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use store::testing::{Kind, TestPlace};

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_session_ends_its_streams_and_no_other() {
    let server = start().await;
    let address = server.running.address;
    let admin = Client::new(address, "admin");
    admin.value("set_session", json!({ "id": "s1", "role": "student" }));
    admin.value("set_session", json!({ "id": "s2", "role": "student" }));
    admin.value("create", json!({ "id": 1 }));
    let wanted = json!([{ "key": "a", "query": "get_counter", "args": { "id": 1 } }]);
    let (one, two) = (Client::new(address, "ada@s1"), Client::new(address, "ada@s2"));
    let (mut first, mut second) = (one.live(wanted.clone()), two.live(wanted));
    for events in [&mut first, &mut second] {
        events.expect("hello");
        events.expect("value");
    }
    admin.value("set_session", json!({ "id": "s1" }));
    admin.value("increment", json!({ "id": 1 }));
    assert_eq!(first.expect("bye").name, "bye", "nothing of a later version");
    assert_eq!(first.next(), None);
    assert_eq!(second.expect("value").value()["value"], 1);
    let refused = one.call("increment", json!({ "id": 1 }));
    assert_eq!((refused.status, &refused.json()["code"]), (401, &json!("invalid_token")));
    assert_eq!(refused.header("www-authenticate"), Some(r#"bearer error="invalid_token""#));
    server.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_judged_by_what_its_own_transaction_sees() {
    // Elsewhere a cache may be bypassed, and then nothing is unseen.
    let Some(database) = TestPlace::on(Kind::Sqlite) else { return };
    let running = serve_with(database.url(), |settings| settings.check = false).await;
    let (admin, ada) = (Client::new(running.address, "admin"), Client::new(running.address, "ada@s1"));
    let unseen =
        |role: &str| assert_eq!(admin.send("POST", &format!("/unseen/s1/{role}"), &[], "").status, 200);
    admin.value("set_session", json!({ "id": "s1", "role": "student" }));
    admin.value("create", json!({ "id": 1 }));
    let keyed = || ada.send("POST", "/rpc/increment", &[("idempotency-key", "one")], r#"{"id":1}"#).status;
    assert_eq!(keyed(), 200);
    unseen("none");
    for call in ["increment", "take", "get_counter"] {
        let refused = ada.call(call, json!({ "id": 1 }));
        assert_eq!((refused.status, &refused.json()["code"]), (401, &json!("invalid_token")), "{call}");
    }
    assert_eq!(keyed(), 401, "also with an answer of before");
    // Another role than that with which the call was begun: it is begun again.
    unseen("teacher");
    assert_eq!(ada.call("get_counter", json!({ "id": 1 })).status, 200);
    assert_eq!(ada.value("increment", json!({ "id": 1 })), 2, "nothing else was done");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_stands_for_the_owner_whom_the_database_has_until_it_is_deleted() {
    let server = start().await;
    let address = server.running.address;
    let admin = Client::new(address, "admin");
    let program = Client::new(address, "key:k1");
    assert_eq!(program.call("create", json!({ "id": 1 })).json()["code"], "invalid_token", "no such key");
    admin.value("set_session", json!({ "id": "k1", "role": "ada" }));
    program.value("create", json!({ "id": 1 }));
    let own = json!([{ "key": "a", "query": "own_counters", "args": {} }]);
    let mut events = program.live(own.clone());
    events.expect("hello");
    events.until(|value| value.as_array().is_some_and(|own| own.len() == 1));
    let mut of_ada = Client::new(address, "ada").live(own);
    of_ada.expect("hello");
    of_ada.until(|value| value.as_array().is_some_and(|own| own.len() == 1));
    admin.value("set_session", json!({ "id": "k1" }));
    admin.value("increment", json!({ "id": 1 }));
    while events.next().is_some_and(|event| event.name != "bye") {}
    assert_eq!(events.next(), None);
    assert_eq!(program.call("create", json!({ "id": 2 })).status, 401);
    server.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_role_decides_anew_what_a_stream_shows() {
    let server = start().await;
    let address = server.running.address;
    let admin = Client::new(address, "admin");
    admin.value("set_session", json!({ "id": "s1", "role": "teacher" }));
    admin.value("create", json!({ "id": 1 }));
    let ada = Client::new(address, "ada@s1");
    let mut events = ada.live(json!([{ "key": "a", "query": "secret", "args": { "id": 1 } }]));
    events.expect("hello");
    // The token does not say the role, so the first decision may be a refusal until the role is read.
    events.until(|value| *value == 0);
    admin.value("set_session", json!({ "id": "s1", "role": "student" }));
    assert_eq!(events.expect("error").data["problem"]["code"], "forbidden");
    admin.value("increment", json!({ "id": 1 }));
    // What stays refused is not told again.
    for role in ["guest", "student", "guest"] {
        admin.value("set_session", json!({ "id": "s1", "role": role }));
        assert_eq!(ada.call("get_counter", json!({ "id": 1 })).status, 200);
    }
    admin.value("set_session", json!({ "id": "s1", "role": "teacher" }));
    assert_eq!(events.expect("value").value(), &json!(1));
    server.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_database_allows_later_reaches_also_those_without_a_token() {
    let server = start().await;
    let address = server.running.address;
    let admin = Client::new(address, "admin");
    admin.value("create", json!({ "id": 1 }));
    let mut events =
        Client::new(address, "").live(json!([{ "key": "a", "query": "secret", "args": { "id": 1 } }]));
    events.expect("hello");
    assert_eq!(events.expect("error").data["problem"]["code"], "forbidden");
    admin.value("set_session", json!({ "id": "maybe-guest", "role": "teacher" }));
    assert_eq!(events.expect("value").value(), &json!(0));
    server.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_instance_notices_changes_and_revocations() {
    let server = start().await;
    if !server.database.is_shared() {
        return server.running.stop().await;
    }
    let other = serve(&server.database).await;
    let (here, there) = (Client::new(server.running.address, "admin"), Client::new(other.address, "ada@s1"));
    here.value("set_session", json!({ "id": "s1", "role": "student" }));
    here.value("create", json!({ "id": 1 }));
    let mut events = there.live(json!([{ "key": "a", "query": "get_counter", "args": { "id": 1 } }]));
    events.expect("hello");
    events.until(|value| value["value"] == 0);
    here.value("increment", json!({ "id": 1 }));
    events.until(|value| value["value"] == 1);
    here.value("set_session", json!({ "id": "s1" }));
    while let Some(event) = events.next() {
        assert!(event.name == "bye" || event.name == "value", "{event:?}");
    }
    other.stop().await;
    server.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_was_there_at_the_beginning_can_go() {
    let server = start().await;
    let address = server.running.address;
    let admin = Client::new(address, "admin");
    admin.value("create", json!({ "id": 1 }));
    let wanted = json!({ "key": "a", "query": "secret", "args": { "id": 1 } });
    let ada = Client::new(address, "ada@maybe");
    for by_ticket in [false, true] {
        admin.value("set_session", json!({ "id": "maybe", "role": "teacher" }));
        let mut events = match by_ticket {
            false => ada.live(json!([wanted])),
            true => {
                let ticket = ada.send("POST", "/live/ticket", &[], "").json()["ticket"].clone();
                let sub: String = form_urlencoded::byte_serialize(wanted.to_string().as_bytes()).collect();
                let path = format!("/live?ticket={}&sub={sub}", ticket.as_str().expect("a ticket"));
                Client::new(address, "").events("GET", &path, "")
            }
        };
        events.expect("hello");
        assert_eq!(events.expect("value").value(), &json!(0));
        admin.value("set_session", json!({ "id": "maybe" }));
        assert_eq!(events.expect("error").data["problem"]["code"], "forbidden");
    }
    server.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_whose_standing_cannot_be_read_is_alive() {
    let database = store::testing::TestPlace::create();
    let heartbeat = std::time::Duration::from_secs(1);
    let running =
        crate::app::serve_with(database.url(), |settings| settings.limits.heartbeat = heartbeat).await;
    let admin = Client::new(running.address, "admin");
    admin.value("set_session", json!({ "id": "s1", "role": "student" }));
    admin.value("create", json!({ "id": 1 }));
    let ada = Client::new(running.address, "ada@s1");
    let mut events = ada.live(json!([{ "key": "a", "query": "get_counter", "args": { "id": 1 } }]));
    events.expect("hello");
    events.expect("value");
    admin.value("set_session", json!({ "id": "s1", "role": "broken" }));
    admin.value("increment", json!({ "id": 1 }));
    // The value waits for the standing, the comments do not.
    events.expect_comment();
    events.expect_comment();
    admin.value("set_session", json!({ "id": "s1", "role": "student" }));
    assert_eq!(events.expect("value").value()["value"], 1);
    running.stop().await;
}

/// A client does not take a value that is older than the one it has, so it would go on showing the refusal.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_allowed_again_is_not_older_than_what_was_shown_before() {
    let server = start().await;
    let address = server.running.address;
    let admin = Client::new(address, "admin");
    let set = |session: &str, role: &str| admin.value("set_session", json!({ "id": session, "role": role }));
    admin.value("create", json!({ "id": 1 }));
    set("s1", "owner");
    set("s2", "viewer");
    let wanted = json!([{ "key": "a", "query": "role_beside", "args": { "id": 1 } }]);
    let (ada, grace) = (Client::new(address, "ada@s1"), Client::new(address, "grace@s2"));
    let mut viewer = grace.live(wanted.clone());
    let early = viewer.until(|value| value == "viewer");
    // The viewers' answer is the same after these, and keeps its version.
    (0..5).for_each(|_| drop(admin.value("increment", json!({ "id": 1 }))));
    let mut events = ada.live(wanted);
    let shown = events.until(|value| value == "owner");
    assert!(shown.id > early.id, "{shown:?} {early:?}");
    set("s1", "none");
    assert_eq!(events.expect("error").data["problem"]["code"], "forbidden");
    set("s1", "viewer");
    let again = events.until(|value| value == "viewer");
    assert!(again.id >= shown.id, "{again:?} is older than {shown:?}");
    server.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewed_stream_stands_on_its_new_token() {
    let server = start().await;
    let address = server.running.address;
    let admin = Client::new(address, "admin");
    for id in ["t1", "t2"] {
        admin.value("set_session", json!({ "id": id, "role": "student" }));
    }
    admin.value("create", json!({ "id": 1 }));
    let (before, now) = (Client::new(address, "ada#t1"), Client::new(address, "ada#t2"));
    let mut events = before.live(json!([{ "key": "a", "query": "get_counter", "args": { "id": 1 } }]));
    let hello = events.expect("hello");
    events.expect("value");
    let path = format!("/live/{}", hello.data["stream"].as_str().expect("a name"));
    let renewal = json!({ "secret": hello.data["secret"] }).to_string();
    assert_eq!(now.send("POST", &path, &[], &renewal).status, 204);
    admin.value("set_session", json!({ "id": "t1" }));
    admin.value("increment", json!({ "id": 1 }));
    assert_eq!(events.expect("value").value()["value"], 1, "the old token is nobody's concern");
    admin.value("set_session", json!({ "id": "t2" }));
    admin.value("increment", json!({ "id": 1 }));
    events.expect("bye");
    assert_eq!(events.next(), None);
    server.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn renewals_at_once_leave_nothing_behind() {
    let server = start().await;
    let address = server.running.address;
    let admin = Client::new(address, "admin");
    let tokens = ["ada#t1", "ada#t2", "ada#t3", "ada#t4"];
    for token in tokens {
        admin.value("set_session", json!({ "id": &token[4..], "role": "student" }));
    }
    let mut events = Client::new(address, tokens[0]).live(json!([]));
    let hello = events.expect("hello");
    let path = format!("/live/{}", hello.data["stream"].as_str().expect("a name"));
    let renewal = json!({ "secret": hello.data["secret"] }).to_string();
    for _ in 0..50 {
        std::thread::scope(|scope| {
            for token in tokens {
                let (path, renewal) = (&path, &renewal);
                scope.spawn(move || {
                    assert_eq!(Client::new(address, token).send("POST", path, &[], renewal).status, 204)
                });
            }
        });
    }
    drop(events);
    // Groups without subscribers are forgotten after some seconds.
    let began = std::time::Instant::now();
    while !admin.send("GET", "/metrics", &[], "").body.contains("\nlive_groups 0\n") {
        assert!(began.elapsed() < std::time::Duration::from_secs(20), "somebody still subscribes");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    server.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_when_its_row_says_though_nobody_changes_it() {
    let (database, clock) = (TestPlace::create(), Clock::new());
    let time = clock.clone();
    let set = |settings: &mut live::Settings| {
        settings.clock = Arc::new(move || time.now());
        settings.limits.poll_time = Duration::from_secs(3600);
    };
    let running = serve_with(database.url(), set).await;
    let (admin, ada) = (Client::new(running.address, "admin"), Client::new(running.address, "ada@s1"));
    let until = |from_now: u64| {
        let until = clock.now() + Duration::from_secs(from_now);
        admin.value("set_session", json!({ "id": "s1", "role": format!("until {}", until.millis()) }));
    };
    admin.value("create", json!({ "id": 1 }));
    until(3600);
    let wanted = json!([{ "key": "a", "query": "get_counter", "args": { "id": 1 } }]);
    let mut events = ada.live(wanted.clone());
    events.expect("hello");
    events.expect("value");
    // An end that the row gets later counts too.
    until(1800);
    ada.value("increment", json!({ "id": 1 }));
    events.expect("value");
    clock.advance(Duration::from_secs(1801));
    assert_eq!(events.expect("error").data["problem"]["code"], "unauthenticated");
    events.expect("bye");
    assert_eq!(events.next(), None);
    for (call, args) in
        [("get_counter", json!({ "id": 1 })), ("increment", json!({ "id": 1 })), ("own_counters", json!({}))]
    {
        let refused = ada.call(call, args);
        assert_eq!((refused.status, &refused.json()["code"]), (401, &json!("invalid_token")), "{call}");
    }
    let refused = ada.send("POST", "/live", &[], &json!({ "subscriptions": wanted }).to_string());
    assert_eq!(refused.status, 401);
    until(3600);
    assert_eq!(ada.value("increment", json!({ "id": 1 })), 2, "a row that lives again");
    // An end that has passed already is the end of the session at once.
    let mut events = ada.live(wanted);
    events.expect("hello");
    events.expect("value");
    until(0);
    admin.value("increment", json!({ "id": 1 }));
    assert_eq!(events.expect("bye").name, "bye", "nothing of a later version");
    // A poll ends with the session too.
    until(3600);
    let mut wanted = json!({ "key": "a", "query": "letters", "args": { "count": 1 } });
    let mut events = ada.live(json!([wanted]));
    events.expect("hello");
    let shown = events.expect("value").data;
    drop(events);
    let held = |name: &str| shown[name].as_str().expect("a text").to_owned();
    wanted["have"] = json!(format!("{}/{}", held("version"), held("digest")));
    let address = running.address;
    let polling = std::thread::spawn(move || {
        let body = json!({ "subscriptions": [wanted] }).to_string();
        Client::new(address, "ada@s1").send("POST", "/live/poll", &[], &body)
    });
    let is_polling = |group: &Value| group["query"] == "letters" && group["subscribers"] == 1;
    let groups = || admin.send("GET", "/live/explain", &[], "").json()["groups"].clone();
    while !groups().as_array().is_some_and(|groups| groups.iter().any(is_polling)) {}
    until(10);
    clock.advance(Duration::from_secs(11));
    let polled = polling.join().expect("an answer");
    assert!(polled.body.starts_with("event: same"), "what it holds is all it learns: {}", polled.body);
    running.stop().await;
}
