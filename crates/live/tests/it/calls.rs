//! How often a caller calls, in whatever way.

use crate::app::serve_with;
use crate::client::{Answer, Client};
use serde_json::json;
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

#[tokio::test(flavor = "multi_thread")]
async fn the_first_stream_of_a_ticket_counts_and_is_opened_again() {
    const SUBS: &str = "sub=%7B%22key%22%3A%22a%22%2C%22query%22%3A%22own_counters%22%7D\
                        &sub=%7B%22key%22%3A%22b%22%2C%22query%22%3A%22own_counters%22%7D";
    let database = TestPlace::create();
    let running = serve_with(database.url(), |settings| settings.limits.calls_per_caller_max = 2).await;
    let nobody = Client::new(running.address, "");
    // Ten seconds may end between a stream and the call after it. Each user has calls of their own.
    for user in 0.. {
        let token = format!("user{user}");
        let own = Client::new(running.address, &token);
        let ticket = own.send("POST", "/live/ticket", &[], "").json()["ticket"].clone();
        let path = format!("/live?ticket={}&{SUBS}", ticket.as_str().expect("a ticket"));
        assert_eq!(nobody.send_open("GET", &path, &[], "").0, 200);
        if own.call("own_counters", json!({})).status == 429 {
            assert_eq!(nobody.send_open("GET", &path, &[], "").0, 200, "the browser opens it again by itself");
            break;
        }
        assert!(user < 20, "no stream of a ticket counts");
    }
    running.stop().await;
}
