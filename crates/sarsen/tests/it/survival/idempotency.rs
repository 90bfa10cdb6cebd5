//! `kill -9` while a hundred requests with one `Idempotency-Key` are under way. They are sent again to the next process:
//! the write is done once, and an answer that somebody has received is the answer of all.

use super::traffic::{text_at, wait_until};
use crate::balancer::{agent, read};
use crate::signing_in;
use crate::support::{Demo, Place};
use serde_json::{Value, json};
use server::testing::{TestPlace, free_port};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::Duration;
use ureq::Agent;
use ureq::http::{Request, Response};

const AT_ONCE: usize = 100;
/// In every second one the kill waits for the first answer; the others spread over this time.
const ROUNDS: u32 = 8;
const ROUNDS_ON_A_SERVER: u32 = 4;
const SPREAD: Duration = Duration::from_millis(60);
/// All of them together stay below what a program may send in a quarter of an hour (10,000).
const PAUSE: Duration = Duration::from_millis(50);
const CLIENTS: &str = "/api/organizations/acme/clients";

/// A write without a natural name: done twice, it would make two clients.
struct Write<'a> {
    issuer: &'a str,
    key: &'a str,
    name: String,
}

#[derive(Debug)]
struct Answered {
    body: String,
    is_replay: bool,
}

impl Write<'_> {
    /// None when the connection broke.
    fn send(&self, agent: &Agent) -> Option<Response<String>> {
        let body = json!({ "service": "sketch", "kind": "device", "name": self.name }).to_string();
        let request = Request::post(format!("{}{CLIENTS}", self.issuer))
            .header("authorization", format!("Bearer {}", self.key))
            .header("content-type", "application/json")
            .header("idempotency-key", &self.name);
        agent.run(request.body(body).expect("a request")).and_then(read).ok()
    }

    /// Sends it until it is answered. No kill can lose the answer of what was done.
    fn insist(&self, agent: &Agent) -> Answered {
        loop {
            let answer = self.send(agent).expect("an answer");
            let problem: Value = serde_json::from_str(answer.body()).unwrap_or_default();
            match (answer.status().as_u16(), problem["code"].as_str().unwrap_or_default()) {
                (201, _) => {
                    let is_replay = answer.headers().contains_key("idempotency-replayed");
                    return Answered { body: answer.into_body(), is_replay };
                }
                (503, "overloaded") => std::thread::park_timeout(PAUSE),
                _ => panic!("{answer:?}"),
            }
        }
    }
}

#[test]
fn of_a_hundred_writes_with_one_key_one_is_done_across_a_kill() {
    let database = TestPlace::create();
    let (place, listen) = (Place::new(), format!("127.0.0.1:{}", free_port()));
    let start = || Demo::start_at(&place, &listen, Some(&database.url()));
    let demo = start();
    let issuer = demo.issuer().to_owned();
    signing_in::sign_in(&place, &demo, "/organization/admin");
    let program = place.json(&["key", "create", "Program", "--scope", "clients:write"]);
    let key = text_at(&program, "/key");
    let rounds = if database.is_shared() { ROUNDS_ON_A_SERVER } else { ROUNDS };
    let mut received_before = 0;
    let mut running = demo.running;
    for round in 0..rounds {
        let write = Write { issuer: &issuer, key: &key, name: format!("client-{round}") };
        let (before, killed) = (Mutex::new(Vec::new()), AtomicBool::new(false));
        let everybody = Barrier::new(AT_ONCE + 1);
        std::thread::scope(|scope| {
            for _ in 0..AT_ONCE {
                scope.spawn(|| {
                    let agent = agent();
                    everybody.wait();
                    while !killed.load(Ordering::SeqCst)
                        && let Some(answer) = write.send(&agent)
                    {
                        if answer.status() == 201 {
                            before.lock().expect("a lock").push(answer.into_body());
                            return;
                        }
                    }
                });
            }
            everybody.wait();
            if round % 2 == 0 {
                wait_until("there is an answer", || !before.lock().expect("a lock").is_empty());
            } else {
                std::thread::park_timeout(SPREAD * round / rounds);
            }
            // Dropping it is SIGKILL.
            drop(running);
            killed.store(true, Ordering::SeqCst);
        });

        running = start().running;
        let again = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..AT_ONCE {
                scope.spawn(|| {
                    let answered = write.insist(&agent());
                    again.lock().expect("a lock").push(answered);
                });
            }
        });
        let before = before.into_inner().expect("a lock");
        check(&before, &again.into_inner().expect("a lock"), round);
        received_before += before.len();
        let clients = place.json(&["client", "list"]);
        let named = clients.as_array().expect("a list").iter().filter(|client| client["name"] == write.name);
        assert_eq!(named.count(), 1, "round {round}");
    }
    println!("{received_before} answers before {rounds} kills");
    assert!(received_before > 0, "no kill came after an answer");
    assert_eq!(running.stop(), 0, "a clean shutdown");
}

/// All have the same answer, and only the first one is not a replay.
fn check(before: &[String], again: &[Answered], round: u32) {
    assert_eq!(again.len(), AT_ONCE);
    let answers: Vec<&String> = before.iter().chain(again.iter().map(|answered| &answered.body)).collect();
    let first_answers = again.iter().filter(|answered| !answered.is_replay).count();
    assert!(answers.iter().all(|answer| *answer == answers[0]), "round {round}: {answers:?}");
    assert!(first_answers <= usize::from(before.is_empty()), "round {round}: {first_answers} were executed");
}
