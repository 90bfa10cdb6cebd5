//! Cursors of `GET /api/live` go on after clean restarts of PostgreSQL: no product has to read its whole state anew.

use crate::balancer::read;
use crate::signing_in;
use crate::support::{Demo, Place, is_soak, rest};
use serde_json::Value;
use server::testing::{OwnServer, Pooler, say_skipped};
use std::io::{BufRead as _, BufReader};
use std::time::{Duration, Instant};
use ureq::Agent;

const ROUNDS: usize = 1;
const SOAK_ROUNDS: usize = 20;
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn soak_no_cursor_is_reset_by_a_clean_restart_of_the_database() {
    let Some(server) = OwnServer::start() else { return };
    let Some(pooler) = Pooler::start(&server) else {
        return say_skipped("cursors behind a pooler: there is no pgbouncer");
    };
    let place = Place::new();
    let demo = Demo::start_at(&place, "127.0.0.1:0", Some(&pooler.url(&server)));
    signing_in::sign_in(&place, &demo, "/organization/admin");
    let product = Product {
        agent: Agent::config_builder().timeout_global(Some(PATIENCE)).build().new_agent(),
        address: format!("{}/api", demo.issuer()),
        key: demo.text("/api_key").to_owned(),
    };
    let (mut cursor, mut seen) = (product.cursor(), 0);
    for round in 0..if is_soak() { SOAK_ROUNDS } else { ROUNDS } {
        let plan = ["starter", "pro"][round % 2];
        server.restart("fast");
        let change = ["subscription", "change", "--org", "acme", "--user", "ada@acme.test", "--plan", plan];
        let began = Instant::now();
        while place.run(&change).code != 0 {
            assert!(began.elapsed() < PATIENCE, "the plan cannot be changed");
            rest();
        }
        let events = product.events_until(&cursor, &format!(r#""plan":"{plan}""#));
        let names: Vec<&str> = events.iter().map(|event| event.name.as_str()).collect();
        assert!(!names.contains(&"reset"), "round {round}: {names:?}");
        seen += names.len();
        cursor = events.last().expect("the change").id.clone();
    }
    println!("{seen} events and no reset");
    assert_eq!(demo.running.stop(), 0, "a clean shutdown");
}

/// The back end of a product.
struct Product {
    agent: Agent,
    address: String,
    key: String,
}

#[derive(Default)]
struct Event {
    name: String,
    id: String,
}

impl Product {
    fn get(&self, path: &str, cursor: Option<&str>) -> ureq::http::Response<ureq::Body> {
        let request = self.agent.get(format!("{}{path}", self.address));
        let request = request.header("authorization", format!("Bearer {}", self.key));
        let request = match cursor {
            Some(cursor) => request.header("last-event-id", cursor),
            None => request,
        };
        request.call().expect("an answer")
    }

    /// That of the whole state.
    fn cursor(&self) -> String {
        let page = read(self.get("/service/state", None)).expect("a page");
        let page: Value = serde_json::from_str(page.body()).expect("JSON");
        page["last_event_id"].as_str().expect("a cursor").to_owned()
    }

    /// What a new stream has from there on, up to the event that is wanted.
    fn events_until(&self, cursor: &str, wanted: &str) -> Vec<Event> {
        let stream = self.get("/live", Some(cursor)).into_body().into_reader();
        let (mut events, mut event) = (Vec::new(), Event::default());
        let mut is_last = false;
        for line in BufReader::new(stream).lines() {
            let line = line.expect("a stream");
            match line.split_once(": ").unwrap_or((line.as_str(), "")) {
                ("event", name) => name.clone_into(&mut event.name),
                ("id", id) => id.clone_into(&mut event.id),
                ("data", data) => is_last = data.contains(wanted),
                ("", "") if !event.name.is_empty() => {
                    let is_reset = event.name == "reset";
                    events.push(std::mem::take(&mut event));
                    if is_last || is_reset {
                        return events;
                    }
                }
                _ => {}
            }
        }
        panic!("the stream has ended");
    }
}
