//! Two back ends run at two nodes of a Galera cluster. One node applies nothing for three seconds. Once a back end has
//! acknowledged a mutation, every answer that is requested from the other back end 250 ms later must contain it: the answer
//! of a call, and the first result of a live query. A slow answer or a 503 is allowed.

use crate::app::serve_with;
use crate::client::Client;
use serde_json::{Value, json};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use store::testing::galera::{Behind, Cluster};
use tokio::task::block_in_place;

const STALE_MAX: Duration = Duration::from_millis(250);
const BEHIND_FOR: Duration = Duration::from_secs(3);
const ROUNDS: u32 = 2;
const SOAK_ROUNDS: u32 = 20;

fn counter() -> Value {
    json!({ "id": 1 })
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "three nodes, and three seconds for each round: a soak runs it"]
async fn soak_no_result_at_a_node_of_galera_that_is_behind_is_older_than_250_ms() {
    let Some(cluster) = block_in_place(|| Cluster::start(3)) else { return };
    cluster.prepare_to_be_busy(1);
    let changing = serve_with(cluster.node(0).url(), |_| {}).await;
    let asked = serve_with(cluster.node(1).url(), |_| {}).await;
    let (ada, bob) = (Client::new(changing.address, "ada"), Client::new(asked.address, "bob"));
    ada.value("create", counter());
    let rounds = if std::env::vars().any(|(name, _)| name == "SARSEN_SOAK") { SOAK_ROUNDS } else { ROUNDS };
    let mut of_all = Duration::ZERO;
    for round in 0..rounds {
        let how = if round % 2 == 0 { Behind::Locked } else { Behind::Busy };
        let (acknowledged, is_over) = (Acknowledged::default(), AtomicBool::new(false));
        let goes_on = || !is_over.load(Ordering::SeqCst);
        block_in_place(|| {
            std::thread::scope(|scope| {
                let ends = End(&is_over);
                scope.spawn(|| {
                    while goes_on() {
                        let value = ada.value("increment", counter()).as_i64().expect("a number");
                        acknowledged.add(value);
                    }
                });
                let calls = scope.spawn(|| acknowledged.stalest(goes_on, || called(&bob)));
                let subscriptions = scope.spawn(|| acknowledged.stalest(goes_on, || subscribed(&bob)));
                cluster.fall_behind(1, how, BEHIND_FOR, || {});
                drop(ends);
                for (what, asked) in [("call", calls), ("live query", subscriptions)] {
                    let (answers, stalest) = asked.join().expect("no panic");
                    println!("{what}, {how:?}: {answers} answers, the stalest {stalest:?}");
                    assert!(answers > 0, "{what}, {how:?}: no answer");
                    of_all = of_all.max(stalest);
                }
            });
        });
    }
    assert!(of_all <= STALE_MAX, "{of_all:?}");
    asked.stop().await;
    changing.stop().await;
}

/// The value of the counter, if the instance is available.
fn called(client: &Client<'_>) -> Option<i64> {
    let answer = client.call("get_counter", counter());
    match answer.status {
        200 => answer.json()["value"]["value"].as_i64(),
        503 => None,
        other => panic!("the answer is {other}: {}", answer.body),
    }
}

/// The same as the first result of a subscription.
fn subscribed(client: &Client<'_>) -> Option<i64> {
    let mut events = client.live(json!([{ "key": "k", "query": "get_counter", "args": counter() }]));
    events.expect("hello");
    let first = events.next()?;
    first.value()["value"].as_i64()
}

/// Also when the test fails.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The values of the counter, each with the time when its mutation was answered.
#[derive(Default)]
struct Acknowledged(Mutex<Vec<(i64, Instant)>>);

impl Acknowledged {
    fn add(&self, value: i64) {
        self.0.lock().expect("a lock").push((value, Instant::now()));
    }

    /// Asks again and again. Returns the number of answers, and how long before the stalest one was asked for the next
    /// value had been acknowledged.
    fn stalest(&self, goes_on: impl Fn() -> bool, ask: impl Fn() -> Option<i64>) -> (u32, Duration) {
        let (mut answers, mut stalest) = (0, Duration::ZERO);
        while goes_on() {
            let asked = Instant::now();
            let Some(value) = ask() else { continue };
            answers += 1;
            let known = self.0.lock().expect("a lock");
            let newer = known.iter().find(|(newer, _)| *newer > value);
            stalest =
                stalest.max(newer.map_or(Duration::ZERO, |(_, at)| asked.saturating_duration_since(*at)));
        }
        (answers, stalest)
    }
}
