//! A writer: sends one mutation after another, each until it has an answer.

use super::http::{Answer, Connection};
use super::{KEYS, Phase, Run, TEAMS};
use crate::history::checker::record::{Attempt, Outcome, Version};
use serde::Deserialize;
use serde_json::json;
use std::time::Duration;

/// How often a mutation is sent that gets no answer.
const TRIES: usize = 400;
const RETRY: Duration = Duration::from_millis(50);

#[derive(Deserialize)]
struct Written {
    value: Vec<(u32, u64)>,
    version: Version,
}

/// Makes the first revision of every row.
pub fn seed(run: &Run) -> Result<(), String> {
    let mut connection = Connection::default();
    for key in 0..KEYS {
        let id = format!("seed-{key}");
        let body =
            json!({ "id": id, "fails": false, "rows": [{ "key": key, "value": key, "team": key % 2 }] });
        let started = run.now();
        let outcome = send(run, &mut connection, "append_alone", &id, &body.to_string(), || run.addresses[0]);
        if !matches!(outcome, Outcome::Committed { .. }) {
            return Err(format!("row {key} cannot be made: {outcome:?}"));
        }
        run.record().attempts.push(Attempt { id, started, outcome });
    }
    Ok(())
}

/// Writes until the run is over.
pub fn write(run: &Run, number: usize) {
    let mut random = run.random(number as u64);
    let mut connection = Connection::default();
    let mut count = 0;
    while run.may_write() {
        count += 1;
        let id = format!("w{number}-{count}");
        let mut keys = vec![random.below(KEYS)];
        if random.chance(0.25) {
            // Two writers cross here: each locks what the other wants next.
            keys.push((keys[0] + 1 + random.below(KEYS - 1)) % KEYS);
        }
        let mut state = |key: u32| {
            let team = if random.chance(0.05) { TEAMS - 1 } else { random.below(TEAMS - 1) };
            json!({ "key": key, "value": random.below(40), "team": team })
        };
        let rows: Vec<_> = keys.into_iter().map(&mut state).collect();
        let fails = random.chance(0.1);
        let body = json!({ "id": id, "fails": fails, "rows": rows }).to_string();
        let name = if random.chance(0.5) { "append" } else { "append_alone" };
        let started = run.now();
        let outcome = send(run, &mut connection, name, &id, &body, || run.address(&mut random));
        if let Outcome::Committed { version, .. } = &outcome {
            run.record().newest = Some(version.clone());
        }
        run.record().attempts.push(Attempt { id, started, outcome });
        run.has_written();
        run.pause(Duration::from_millis(u64::from(random.below(run.pause_ms))));
    }
}

/// Sends a mutation until it has an answer.
fn send(
    run: &Run,
    connection: &mut Connection,
    name: &str,
    id: &str,
    body: &str,
    mut address: impl FnMut() -> std::net::SocketAddr,
) -> Outcome {
    // A caller without a token needs a long key.
    let key = format!("history-{id:0>24}");
    for _ in 0..TRIES {
        let head = format!("POST /rpc/{name}");
        match connection.request(address(), &head, &[("Idempotency-Key", &key)], body) {
            Ok(Answer { status: 200, body }) => match serde_json::from_str::<Written>(&body) {
                Ok(Written { value: revs, version }) => {
                    return Outcome::Committed { ended: run.now(), version, revs };
                }
                Err(error) => run.fail(format!("{error}: {body}")),
            },
            Ok(Answer { status: 409, body }) if body.contains("refused_on_purpose") => {
                return Outcome::Refused;
            }
            Ok(Answer { status: 500.., .. }) | Err(_) => {}
            Ok(answer) => run.fail(format!("a mutation is answered with {answer:?}")),
        }
        if run.phase() == Phase::Over {
            break;
        }
        *connection = Connection::default();
        std::thread::park_timeout(RETRY);
    }
    Outcome::Unknown
}
