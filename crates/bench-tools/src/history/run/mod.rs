//! A run: servers, clients and faults, and what all of them record.
//!
//! - `http.rs`: requests and streams over a bare socket. `events.rs`: what a stream sends.
//! - `writer.rs`, `watcher.rs`, `reader.rs`: the clients, one thread each. `servers.rs`: the servers as processes.
//! - This file: the clock of the run, its phases, and the record.

pub mod events;
pub mod http;
pub mod reader;
pub mod servers;
pub mod watcher;
pub mod writer;

use crate::history::checker::held::Held;
use crate::history::checker::record::{Attempt, Client, Event, Micros, Query, Seen, Version};
use crate::history::random::Random;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Rows, numbered from 0.
pub const KEYS: u32 = 12;
/// Teams, numbered from 0. Rows are seldom in the last one, so that its list is often empty.
pub const TEAMS: u32 = 3;

/// What the clients may do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Write.
    Writing,
    /// Finish the mutation that has begun, and wait.
    Resting,
    /// End.
    Over,
}

/// What all threads share.
pub struct Run {
    began: Instant,
    /// The servers.
    pub addresses: Vec<SocketAddr>,
    seed: u64,
    /// The longest pause of a writer between two mutations.
    pub pause_ms: u32,
    phase: Mutex<(Phase, usize)>,
    changed: Condvar,
    /// All streams end when it changes.
    storms: AtomicU64,
    record: Mutex<Record>,
}

/// What has been recorded.
#[derive(Default)]
pub struct Record {
    /// The clients, by number.
    pub clients: Vec<Client>,
    /// What each of them holds.
    pub held: Vec<Held>,
    /// See `History`.
    pub attempts: Vec<Attempt>,
    /// See `History`.
    pub seen: Vec<Seen>,
    /// The newest version that a writer was answered with.
    pub newest: Option<Version>,
    /// Answers that no fault explains.
    pub failures: Vec<String>,
    /// Streams and polls that were opened.
    pub streams: usize,
}

impl Run {
    /// A run that begins now.
    pub fn new(addresses: Vec<SocketAddr>, seed: u64, pause_ms: u32) -> Run {
        Run {
            began: Instant::now(),
            addresses,
            seed,
            pause_ms,
            phase: Mutex::new((Phase::Resting, 0)),
            changed: Condvar::new(),
            storms: AtomicU64::new(0),
            record: Mutex::default(),
        }
    }

    /// Microseconds since it began.
    pub fn now(&self) -> Micros {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Random numbers for one thread.
    pub fn random(&self, thread: u64) -> Random {
        Random::new(self.seed ^ (thread + 1).wrapping_mul(0xa076_1d64_78bd_642f))
    }

    /// One of the servers.
    pub fn address(&self, random: &mut Random) -> SocketAddr {
        self.addresses[random.below(self.addresses.len() as u32) as usize]
    }

    /// A new client.
    pub fn client(&self, client: Client) -> usize {
        let mut record = self.record();
        record.clients.push(client);
        record.held.push(Held::default());
        record.clients.len() - 1
    }

    /// The record.
    pub fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records an event, and what the client holds after it.
    pub fn see(&self, client: usize, event: Event) {
        let at = self.now();
        let mut record = self.record();
        if let Some(held) = record.held.get_mut(client) {
            // What cannot be applied is recorded; the checker complains about it.
            let _ = held.apply(&event);
        }
        record.seen.push(Seen { client, at, event });
    }

    /// Records an answer that no fault explains.
    pub fn fail(&self, what: String) {
        let mut record = self.record();
        if record.failures.len() < 20 {
            record.failures.push(what);
        }
    }

    /// Lets all streams end.
    pub fn storm(&self) {
        self.storms.fetch_add(1, Ordering::Relaxed);
    }

    /// How often that was.
    pub fn storms(&self) -> u64 {
        self.storms.load(Ordering::Relaxed)
    }

    /// The present phase.
    pub fn phase(&self) -> Phase {
        self.lock_phase().0
    }

    /// Begins a phase.
    pub fn begin(&self, phase: Phase) {
        self.lock_phase().0 = phase;
        self.changed.notify_all();
    }

    /// For writers: waits until they may write. Returns false when the run is over.
    pub fn may_write(&self) -> bool {
        let mut phase = self.lock_phase();
        loop {
            match phase.0 {
                Phase::Writing => {
                    phase.1 += 1;
                    return true;
                }
                Phase::Over => return false,
                Phase::Resting => {
                    phase = self.changed.wait(phase).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// For writers: what was allowed by [`Run::may_write`] has ended.
    pub fn has_written(&self) {
        let mut phase = self.lock_phase();
        phase.1 -= 1;
        drop(phase);
        self.changed.notify_all();
    }

    /// Waits until no mutation is under way.
    pub fn until_rested(&self, limit: Duration) -> bool {
        let phase = self.lock_phase();
        let (phase, _) = self
            .changed
            .wait_timeout_while(phase, limit, |phase| phase.1 > 0)
            .unwrap_or_else(PoisonError::into_inner);
        phase.1 == 0
    }

    /// Waits for this time, or until another phase begins.
    pub fn pause(&self, time: Duration) {
        let phase = self.lock_phase();
        let now = phase.0;
        let waited = self.changed.wait_timeout_while(phase, time, |phase| phase.0 == now);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    fn lock_phase(&self) -> MutexGuard<'_, (Phase, usize)> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The name and the arguments of a query, as the server has them.
pub fn call(query: &Query) -> (&'static str, serde_json::Value) {
    match query {
        Query::Row(key) => ("row", serde_json::json!({ "key": key })),
        Query::Team(team) => ("team", serde_json::json!({ "team": team })),
    }
}

/// One of the queries.
pub fn any_query(random: &mut Random) -> Query {
    match random.chance(0.5) {
        true => Query::Row(random.below(KEYS)),
        false => Query::Team(random.below(TEAMS)),
    }
}
