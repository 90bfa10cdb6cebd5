//! The database's server ends in the middle of the traffic and comes back: Sarsen says so cleanly meanwhile, has lost
//! nothing that it acknowledged, and serves again by itself.

use super::traffic::{Acknowledged, Stop, Terminal, Told, sign_in, soon};
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
/// Grants whose end is asked for in each outage, beginning shortly before it.
const REVOCATIONS: usize = 8;
/// Who is put off comes back after this. He is asked to wait for longer, and a test has no time for it.
const PAUSE: Duration = Duration::from_millis(5);
/// A refresh token that comes again within this gives the same successor; later it counts as stolen.
const SAME_SUCCESSOR_FOR: Duration = Duration::from_secs(10);

#[derive(Default)]
struct Tally {
    acknowledged: Mutex<Acknowledged>,
    done: AtomicUsize,
    read: AtomicUsize,
    put_off: AtomicUsize,
    reads_put_off: AtomicUsize,
    unknown: AtomicUsize,
    /// Access tokens whose grant has ended, by what was acknowledged.
    ended: Mutex<Vec<String>>,
    still_refused: AtomicUsize,
}

#[test]
fn an_outage_of_the_database_is_told_cleanly_and_ends_by_itself() {
    let Some(mut database) = OwnDatabase::start() else { return };
    let place = Place::new();
    let demo = Demo::start_at(&place, "127.0.0.1:0", Some(&database.url()));
    let (issuer, terminal) = (demo.issuer(), Terminal::new(&demo.says));
    let mut ada = Browser::new(issuer);
    sign_in(&mut ada, &demo.says);
    let grant = terminal.grant(&mut ada);
    let mut good: Vec<Told> = (0..REVOCATIONS * OUTAGES.len()).map(|_| terminal.grant(&mut ada)).collect();
    let (stop, tally) = (Stop::default(), Tally::default());
    std::thread::scope(|scope| {
        let _ends = stop.at_the_end();
        // Made in here: without its sender, who waits for more ends too.
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
            soon("there is traffic", || traffic() > before + 50);

            for grant in good.drain(..REVOCATIONS) {
                to_end.send(grant).expect("somebody ends it");
            }
            database.stop(how);
            let (refused, unread) = (&tally.put_off, &tally.reads_put_off);
            let before = (refused.load(Ordering::SeqCst), unread.load(Ordering::SeqCst));
            soon("writes are put off", || refused.load(Ordering::SeqCst) > before.0 + 20);
            soon("reads are put off", || unread.load(Ordering::SeqCst) > before.1 + 5);
            let ready = get(issuer, "/readyz");
            assert_eq!(ready.status(), 503, "{ready:?}");
            assert_is_unavailable(&ready);
            assert_eq!(get(issuer, "/healthz").status(), 200, "it is alive all the same");

            database.resume();
            soon("it is ready again", || get(issuer, "/readyz").status() == 200);
            let done = tally.done.load(Ordering::SeqCst);
            soon("codes are given again", || tally.done.load(Ordering::SeqCst) > done + 20);
            let read = tally.read.load(Ordering::SeqCst);
            soon("tokens are read again", || tally.read.load(Ordering::SeqCst) > read + 5);
            let ended = || tally.ended.lock().expect("a lock").len();
            soon("grants are ended", || ended() == number * REVOCATIONS);
            let refused = tally.still_refused.load(Ordering::SeqCst);
            soon("what is ended is looked at", || {
                tally.still_refused.load(Ordering::SeqCst) > refused + 2 * number * REVOCATIONS
            });
        }
    });
    println!(
        "{} done, {} put off, {} of unknown outcome",
        tally.done.into_inner(),
        tally.put_off.into_inner(),
        tally.unknown.into_inner()
    );
    tally.acknowledged.into_inner().expect("a lock").check(&terminal, "after the outages");
    assert_eq!(demo.running.stop(), 0, "and it ends cleanly");
}

fn ask_for_codes(terminal: Terminal, stop: &Stop, tally: &Tally) {
    while !stop.is_set() {
        let told = terminal.begin().expect("an answer");
        if is_done(&told, tally) {
            tally.acknowledged.lock().expect("a lock").codes.push(told.given("device_code"));
        }
    }
}

/// Whose answer was lost asks again with what it has, and is given the same successor unless that took too long.
fn refresh(terminal: &Terminal, mut token: String, stop: &Stop, tally: &Tally) {
    let mut first_asked = Instant::now();
    while !stop.is_set() {
        let told = terminal.refresh(&token).expect("an answer");
        if told.text("error") == "invalid_grant" && first_asked.elapsed() >= SAME_SUCCESSOR_FOR {
            return;
        }
        if is_done(&told, tally) {
            (token, first_asked) = (told.given("refresh_token"), Instant::now());
        }
    }
    tally.acknowledged.lock().expect("a lock").newest_refresh_tokens.push(token);
}

/// Ends grants, and asks again until that is acknowledged: it may be asked for twice.
fn end_grants(terminal: &Terminal, grants: Receiver<Told>, stop: &Stop, tally: &Tally) {
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

/// What was acknowledged as revoked is never accepted, whatever the database does.
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

/// A good token is never told that it is no good.
fn read_with_a_token(issuer: &str, token: &str, stop: &Stop, tally: &Tally) {
    let agent = agent();
    while !stop.is_set() {
        let answer = ask(&agent, issuer, token);
        match answer.status().as_u16() {
            200 => tally.read.fetch_add(1, Ordering::SeqCst),
            _ => {
                assert_is_unavailable(&answer);
                std::thread::park_timeout(PAUSE);
                tally.reads_put_off.fetch_add(1, Ordering::SeqCst)
            }
        };
    }
}

/// Whether it was done; whatever else is said is said as `docs/errors.md` has it.
fn is_done(told: &Told, tally: &Tally) -> bool {
    let count = match (told.status, &*told.text("error")) {
        (200, _) => &tally.done,
        (503, "temporarily_unavailable") => {
            assert!(told.retry_after.is_some(), "{told:?}");
            assert_is_of_our_words(&told.text("error_description"));
            std::thread::park_timeout(PAUSE);
            &tally.put_off
        }
        (500, "server_error") => {
            let text = told.text("error_description");
            assert!(text.contains("whether the change was made is unknown"), "{told:?}");
            &tally.unknown
        }
        _ => panic!("no clean answer: {told:?}"),
    };
    count.fetch_add(1, Ordering::SeqCst);
    told.status == 200
}

fn assert_is_unavailable(answer: &Response<String>) {
    let problem: Value = serde_json::from_str(answer.body()).unwrap_or_default();
    let stable = ["unavailable", "overloaded"].contains(&problem["code"].as_str().unwrap_or_default());
    assert!(answer.status() == 503 && stable, "{answer:?}");
    assert!(answer.headers().contains_key("retry-after"), "{answer:?}");
    assert_is_of_our_words(problem["detail"].as_str().unwrap_or_default());
}

/// Nobody outside is told what the database or its driver says.
fn assert_is_of_our_words(text: &str) {
    let away = "The database cannot do this now. Nothing was changed; try again.";
    let busy = "The server is busy. Nothing was done; try again.";
    assert!([away, busy].contains(&text), "{text}");
}

/// A question that needs a good token.
fn ask(agent: &Agent, issuer: &str, token: &str) -> Response<String> {
    let request = agent.get(format!("{issuer}/api/subscription"));
    request.header("authorization", format!("Bearer {token}")).call().and_then(read).expect("an answer")
}

fn get(issuer: &str, path: &str) -> Response<String> {
    agent().get(format!("{issuer}{path}")).call().and_then(read).expect("an answer")
}
