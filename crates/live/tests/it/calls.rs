//! How often a caller calls, in whatever way.

use crate::app::serve_with;
use crate::client::{Answer, Client};
use serde_json::json;
use std::io::BufRead as _;
use store::testing::TestPlace;

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_calls_as_often_as_the_limit_says() {
    let database = TestPlace::create();
    let running = serve_with(database.url(), |settings| settings.limits.calls_per_caller_max = 2).await;
    let call = |token: &str| Client::new(running.address, token).call("own_counters", json!({}));
    // Ten seconds may end between two of them.
    let refused = loop {
        let answers: Vec<Answer> = (0..3).map(|_| call("ada")).collect();
        if let Some(refused) = answers.into_iter().find(|answer| answer.status == 429) {
            break refused;
        }
    };
    assert_eq!(refused.json()["code"], "limit_reached");
    assert!(refused.body.contains("calls_per_caller_max") && refused.head.contains("retry-after"));
    assert_eq!(call("grace").status, 200, "another user");
    // A subscription tells as much as a call.
    let get = |id: i64| json!({ "key": id.to_string(), "query": "get_counter", "args": { "id": id } });
    let three = json!({ "subscriptions": [get(1), get(2), get(3)] });
    for path in ["/live", "/live/poll"] {
        let eve = Client::new(running.address, "eve");
        let refused = loop {
            // A stream that is refused or opened ends at once here.
            let asked = eve.send_open("POST", path, &[], &three.to_string()).0;
            let next = eve.send("POST", "/live/poll", &[], &three.to_string());
            if asked == 429 || next.status == 429 {
                break next;
            }
        };
        assert!(
            refused.status == 429 && refused.body.contains("calls_per_caller_max"),
            "{path}: {}",
            refused.body
        );
    }
    running.stop().await;
}

/// Ten seconds may end in the middle of `is_counted`, so several users try it. Each has calls of their own.
fn for_some_user(is_counted: impl Fn(&str) -> bool) {
    let counted = (0..20).any(|user| is_counted(&format!("user{user}")));
    assert!(counted, "it does not count");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_streams_of_a_ticket_count_and_its_browser_comes_back_later() {
    const SUBS: &str = "sub=%7B%22key%22%3A%22a%22%2C%22query%22%3A%22own_counters%22%7D\
                        &sub=%7B%22key%22%3A%22b%22%2C%22query%22%3A%22own_counters%22%7D";
    let database = TestPlace::create();
    let running = serve_with(database.url(), |settings| settings.limits.calls_per_caller_max = 2).await;
    let nobody = Client::new(running.address, "");
    for_some_user(|user| {
        let own = Client::new(running.address, user);
        let ticket = own.send("POST", "/live/ticket", &[], "").json()["ticket"].clone();
        let path = format!("/live?ticket={}&{SUBS}", ticket.as_str().expect("a ticket"));
        nobody.events("GET", &path, "").expect("hello");
        let is_refused = own.call("own_counters", json!({})).status == 429;
        // A status of an error would be the end of the browser's attempts.
        let (status, again) = nobody.send_open("GET", &path, &[], "");
        assert_eq!(status, 200);
        let event = again.lines().map_while(Result::ok).find(|line| line.starts_with("event:"));
        is_refused && event.as_deref() == Some("event: bye")
    });
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_client_adds_without_its_token_counts_for_the_user_of_the_stream() {
    let database = TestPlace::create();
    let running = serve_with(database.url(), |settings| settings.limits.calls_per_caller_max = 2).await;
    let nobody = Client::new(running.address, "");
    let two = ["a", "b"].map(|key| json!({ "key": key, "query": "own_counters" }));
    for_some_user(|user| {
        let own = Client::new(running.address, user);
        let mut events = own.live(json!([]));
        let hello = events.expect("hello");
        let path = format!("/live/{}", hello.data["stream"].as_str().expect("a name"));
        let adding = json!({ "secret": hello.data["secret"], "add": two }).to_string();
        assert_eq!(nobody.send("POST", &path, &[], &adding).status, 204);
        own.call("own_counters", json!({})).status == 429
    });
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poll_with_more_answers_than_calls_are_allowed_is_answered() {
    let database = TestPlace::create();
    let running = serve_with(database.url(), |settings| settings.limits.calls_per_caller_max = 2).await;
    let three = ["a", "b", "c"].map(|key| json!({ "key": key, "query": "own_counters" }));
    let three = json!({ "subscriptions": three }).to_string();
    for_some_user(|user| {
        let own = Client::new(running.address, user);
        let polled = own.send("POST", "/live/poll", &[], &three);
        assert_eq!(polled.status, 200, "{}", polled.body);
        polled.body.matches("event: value").count() == 3 && own.call("own_counters", json!({})).status == 429
    });
    running.stop().await;
}
