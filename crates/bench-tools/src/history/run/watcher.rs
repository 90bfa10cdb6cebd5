//! A watcher: holds a stream with several subscriptions, or polls, and comes back with what it holds.

use super::events::{Received, read};
use super::http::{Answer, Connection, Stream};
use super::{Phase, Run, any_query, call};
use crate::history::checker::record::{Client, Query};
use crate::history::random::Random;
use browser::sse::{Event, Events};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

const RETRY: Duration = Duration::from_millis(50);
const LOOK: Duration = Duration::from_millis(100);

/// What a watcher does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Habit {
    /// Reads its stream at once.
    Steady,
    /// Stops to read for up to two seconds, again and again.
    Slow,
    /// Comes back several times a second, with what it holds.
    Storm,
    /// Polls.
    Poll,
}

struct Subscription {
    client: usize,
    query: Query,
    takes_rows: bool,
}

/// Watches until the run is over.
pub fn watch(run: &Run, number: usize, habit: Habit) {
    let mut random = run.random(2000 + number as u64);
    let queries: BTreeSet<Query> = (0..6).map(|_| any_query(&mut random)).collect();
    let subscribe = |query: Query| {
        let takes_rows = random.chance(0.8);
        Subscription { client: run.client(Client::Watcher(query.clone())), query, takes_rows }
    };
    let subscriptions: Vec<Subscription> = queries.into_iter().map(subscribe).collect();
    while run.phase() != Phase::Over {
        let ended = match habit {
            Habit::Poll => poll(run, &subscriptions, &mut random),
            _ => stream(run, &subscriptions, &mut random, habit),
        };
        if let Err(what) = ended {
            run.fail(what);
        }
        if habit != Habit::Storm {
            std::thread::park_timeout(RETRY);
        }
    }
}

/// The subscriptions as a client sends them, with what it holds.
fn wanted(run: &Run, subscriptions: &[Subscription]) -> Vec<Value> {
    let record = run.record();
    let one = |subscription: &Subscription| {
        let (query, args) = call(&subscription.query);
        let key = subscription.client.to_string();
        let mut wanted = json!({ "key": key, "query": query, "args": args, "rows": subscription.takes_rows });
        if let Some(have) = record.held[subscription.client].have() {
            wanted["have"] = have.into();
        }
        wanted
    };
    subscriptions.iter().map(one).collect()
}

fn stream(
    run: &Run,
    subscriptions: &[Subscription],
    random: &mut Random,
    habit: Habit,
) -> Result<(), String> {
    let body = json!({ "subscriptions": wanted(run, subscriptions) }).to_string();
    let opened = Stream::open(run.address(random), "POST /live", &body);
    let mut stream = match opened {
        Ok(Ok(stream)) => stream,
        Ok(Err(Answer { status: 500.., .. })) | Err(_) => return Ok(()),
        Ok(Err(answer)) => return Err(format!("a stream is answered with {answer:?}")),
    };
    run.record().streams += 1;
    let life = match habit {
        Habit::Storm => Duration::from_millis(u64::from(20 + random.below(400))),
        _ => Duration::from_millis(u64::from(1000 + random.below(20_000))),
    };
    let (began, storms) = (Instant::now(), run.storms());
    while run.phase() != Phase::Over && began.elapsed() < life && run.storms() == storms {
        match stream.event(LOOK) {
            Ok(Some(event)) => take(run, &event)?,
            Ok(None) => {}
            Err(_) => return Ok(()),
        }
        if habit == Habit::Slow && random.chance(0.05) && run.phase() == Phase::Writing {
            run.pause(Duration::from_millis(u64::from(random.below(2000))));
        }
    }
    Ok(())
}

fn poll(run: &Run, subscriptions: &[Subscription], random: &mut Random) -> Result<(), String> {
    let mut path = String::from("GET /live/poll?");
    for wanted in wanted(run, subscriptions) {
        path.push_str("sub=");
        for byte in wanted.to_string().bytes() {
            path.push_str(&format!("%{byte:02X}"));
        }
        path.push('&');
    }
    let answered = Connection::default().request(run.address(random), path.trim_end_matches('&'), &[], "");
    match answered {
        Ok(Answer { status: 200, body }) => {
            run.record().streams += 1;
            let (mut events, mut taken) = (Events::new(body.len()), Ok(()));
            events.push(body.as_bytes());
            let read = events.take(|event| taken = taken.clone().and_then(|()| take(run, &event)));
            read.map_err(|unreadable| unreadable.to_string()).and(taken)
        }
        Ok(Answer { status: 500.., .. }) | Err(_) => Ok(()),
        Ok(answer) => Err(format!("a poll is answered with {answer:?}")),
    }
}

/// Records what a stream has sent.
fn take(run: &Run, event: &Event<'_>) -> Result<(), String> {
    match read(event)? {
        Received::Of(keys, event) => {
            for key in keys {
                let client = key.parse().map_err(|_| format!("nobody has the key {key}"))?;
                run.see(client, event.clone());
            }
            Ok(())
        }
        Received::Problem(keys, problem) => Err(format!("subscriptions {keys:?} get {problem}")),
        Received::Other => Ok(()),
    }
}
