//! The database server stops under traffic and comes back. Meanwhile Sarsen answers 503; afterwards it serves again, and no
//! acknowledged change is lost.

use super::traffic::{Acknowledged, DeviceClient, Stop, TokenAnswer, sign_in, wait_until};
use crate::balancer::{agent, read};
use crate::browser::Browser;
use crate::support::{Demo, Place};
use serde_json::Value;
use server::testing::{End, OwnDatabase};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use ureq::Agent;
use ureq::http::Response;

const OUTAGES: [End; 4] = [End::Orderly, End::Crash, End::Crash, End::Crash];
/// Grants that are revoked in each outage, from shortly before it.
const REVOCATIONS: usize = 8;
/// The pause after a 503. It is shorter than `Retry-After`, to keep the test short.
const PAUSE: Duration = Duration::from_millis(5);
/// A refresh token that is used again within this time gives the same successor; later it counts as stolen.
const SAME_SUCCESSOR_FOR: Duration = Duration::from_secs(10);

#[derive(Default)]
struct Tally {
    acknowledged: Mutex<Acknowledged>,
    done: AtomicUsize,
    read: AtomicUsize,
    refused: AtomicUsize,
    reads_refused: AtomicUsize,
    unknown: AtomicUsize,
    /// Access tokens whose grants are acknowledged as revoked.
    ended: Mutex<Vec<String>>,
    still_refused: AtomicUsize,
}

#[test]
fn an_outage_of_the_database_is_answered_with_503_and_ends_by_itself() {
    let Some(mut database) = OwnDatabase::start() else { return };
    let place = Place::new();
    let demo = Demo::start_at(&place, "127.0.0.1:0", Some(&database.url()));
    let (issuer, terminal) = (demo.issuer(), DeviceClient::new(&demo.says));
    let mut ada = Browser::new(issuer);
    sign_in(&mut ada, &demo.says);
    let grant = terminal.grant(&mut ada);
    let mut good: Vec<TokenAnswer> =
        (0..REVOCATIONS * OUTAGES.len()).map(|_| terminal.grant(&mut ada)).collect();
    let (stop, tally) = (Stop::default(), Tally::default());
    let began = Instant::now();
    std::thread::scope(|scope| {
        let _ends = stop.at_the_end();
        // Inside the scope: when the sender is dropped, the receiver ends too.
        let (to_end, ended) = channel();
        for _ in 0..6 {
            let terminal = terminal.clone();
            scope.spawn(|| ask_for_codes(terminal, &stop, &tally));
        }
        scope.spawn(|| refresh(&terminal, grant.text("refresh_token"), &stop, &tally));
        scope.spawn(|| read_with_a_token(issuer, &grant.text("access_token"), &stop, &tally));
        scope.spawn({
            let (terminal, stop, tally) = (&terminal, &stop, &tally);
            move || end_grants(terminal, ended, stop, tally)
        });
        scope.spawn(|| read_with_what_is_ended(issuer, &stop, &tally));
        for (number, how) in (1..).zip(OUTAGES) {
            let traffic = || tally.done.load(Ordering::SeqCst) + tally.read.load(Ordering::SeqCst);
            let before = traffic();
            wait_until("there is traffic", || traffic() > before + 50);

            for grant in good.drain(..REVOCATIONS) {
                to_end.send(grant).expect("a receiver");
            }
            database.stop(how);
            let (refused, unread) = (&tally.refused, &tally.reads_refused);
            let before = (refused.load(Ordering::SeqCst), unread.load(Ordering::SeqCst));
            wait_until("writes are put off", || refused.load(Ordering::SeqCst) > before.0 + 20);
            wait_until("reads are put off", || unread.load(Ordering::SeqCst) > before.1 + 5);
            let ready = get(issuer, "/readyz");
            assert_eq!(ready.status(), 503, "{ready:?}");
            assert_is_unavailable(&ready);
            assert_eq!(get(issuer, "/healthz").status(), 200, "the process is alive");

            database.resume();
            wait_until("it is ready again", || get(issuer, "/readyz").status() == 200);
            let done = tally.done.load(Ordering::SeqCst);
            wait_until("codes are given again", || tally.done.load(Ordering::SeqCst) > done + 20);
            let read = tally.read.load(Ordering::SeqCst);
            wait_until("tokens are read again", || tally.read.load(Ordering::SeqCst) > read + 5);
            let ended = || tally.ended.lock().expect("a lock").len();
            wait_until("grants are ended", || ended() == number * REVOCATIONS);
            let refused = tally.still_refused.load(Ordering::SeqCst);
            wait_until("what is ended is looked at", || {
                tally.still_refused.load(Ordering::SeqCst) > refused + 2 * number * REVOCATIONS
            });
        }
    });
    println!(
        "{} done, {} put off, {} of unknown outcome",
        tally.done.into_inner(),
        tally.refused.into_inner(),
        tally.unknown.into_inner()
    );
    tally.acknowledged.into_inner().expect("a lock").check(&terminal, "after the outages");
    let lines = demo.running.log().matches("the database is not available").count();
    let seconds = began.elapsed().as_secs() as usize + 1;
    assert!((1..=seconds).contains(&lines), "{lines} lines about the outages in {seconds} s");
    assert_eq!(demo.running.stop(), 0, "a clean shutdown");
}

fn ask_for_codes(terminal: DeviceClient, stop: &Stop, tally: &Tally) {
    while !stop.is_set() {
        let answer = terminal.begin().expect("an answer");
        if is_done(&answer, tally) {
            tally.acknowledged.lock().expect("a lock").codes.push(answer.given("device_code"));
        }
    }
}

/// After a lost answer the same refresh token is sent again, and gives the same successor within a time.
fn refresh(terminal: &DeviceClient, mut token: String, stop: &Stop, tally: &Tally) {
    let mut first_asked = Instant::now();
    while !stop.is_set() {
        let answer = terminal.refresh(&token).expect("an answer");
        if answer.text("error") == "invalid_grant" && first_asked.elapsed() >= SAME_SUCCESSOR_FOR {
            return;
        }
        if is_done(&answer, tally) {
            (token, first_asked) = (answer.given("refresh_token"), Instant::now());
        }
    }
    tally.acknowledged.lock().expect("a lock").newest_refresh_tokens.push(token);
}

/// Revokes grants, and retries until that is acknowledged.
fn end_grants(terminal: &DeviceClient, grants: Receiver<TokenAnswer>, stop: &Stop, tally: &Tally) {
    for grant in grants {
        let refresh_token = grant.text("refresh_token");
        while !is_done(&terminal.revoke(&refresh_token).expect("an answer"), tally) {
            if stop.is_set() {
                return;
            }
        }
        tally.acknowledged.lock().expect("a lock").revoked.push(refresh_token);
        tally.ended.lock().expect("a lock").push(grant.text("access_token"));
    }
}

/// An acknowledged revocation holds at any time of an outage.
fn read_with_what_is_ended(issuer: &str, stop: &Stop, tally: &Tally) {
    let agent = agent();
    while !stop.is_set() {
        let ended = tally.ended.lock().expect("a lock").clone();
        for token in ended {
            let answer = ask(&agent, issuer, &token);
            match answer.status().as_u16() {
                401 => {
                    tally.still_refused.fetch_add(1, Ordering::SeqCst);
                }
                _ => assert_is_unavailable(&answer),
            }
        }
        std::thread::park_timeout(PAUSE);
    }
}

/// A valid token is never refused as invalid.
fn read_with_a_token(issuer: &str, token: &str, stop: &Stop, tally: &Tally) {
    let agent = agent();
    while !stop.is_set() {
        let answer = ask(&agent, issuer, token);
        match answer.status().as_u16() {
            200 => tally.read.fetch_add(1, Ordering::SeqCst),
            _ => {
                assert_is_unavailable(&answer);
                std::thread::park_timeout(PAUSE);
                tally.reads_refused.fetch_add(1, Ordering::SeqCst)
            }
        };
    }
}

/// Whether the request succeeded. Other answers must be those of `docs/errors.md`.
fn is_done(answer: &TokenAnswer, tally: &Tally) -> bool {
    let count = match (answer.status, &*answer.text("error")) {
        (200, _) => &tally.done,
        (503, "temporarily_unavailable") => {
            assert!(answer.retry_after.is_some(), "{answer:?}");
            assert_is_documented_text(&answer.text("error_description"));
            std::thread::park_timeout(PAUSE);
            &tally.refused
        }
        (500, "server_error") => {
            let text = answer.text("error_description");
            assert!(text.contains("whether the change was made is unknown"), "{answer:?}");
            &tally.unknown
        }
        _ => panic!("not an answer of docs/errors.md: {answer:?}"),
    };
    count.fetch_add(1, Ordering::SeqCst);
    answer.status == 200
}

fn assert_is_unavailable(answer: &Response<String>) {
    let problem: Value = serde_json::from_str(answer.body()).unwrap_or_default();
    let stable = ["unavailable", "overloaded"].contains(&problem["code"].as_str().unwrap_or_default());
    assert!(answer.status() == 503 && stable, "{answer:?}");
    assert!(answer.headers().contains_key("retry-after"), "{answer:?}");
    assert_is_documented_text(problem["detail"].as_str().unwrap_or_default());
}

/// Clients do not see the errors of the database or its driver.
fn assert_is_documented_text(text: &str) {
    let away = "The database cannot do this now. Nothing was changed; try again.";
    let busy = "The server is busy. Nothing was done; try again.";
    assert!([away, busy].contains(&text), "{text}");
}

/// A request that needs a valid token.
fn ask(agent: &Agent, issuer: &str, token: &str) -> Response<String> {
    let request = agent.get(format!("{issuer}/api/subscription"));
    request.header("authorization", format!("Bearer {token}")).call().and_then(read).expect("an answer")
}

fn get(issuer: &str, path: &str) -> Response<String> {
    agent().get(format!("{issuer}{path}")).call().and_then(read).expect("an answer")
}
