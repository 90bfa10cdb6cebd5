//! Lists and scans that a replica answers, as long as it keeps up.
//!
//! An instance reads from one node at a time: from the first replica of its list that can be reached, is one of the
//! primary's and not far behind it (`looks.rs`), else from the primary. A caller that has seen a state, by a version that it sends
//! or because this process wrote it, gets no older one: the snapshot that answers must contain
//! that state. If a replica does not have it within moments, the query goes to the primary, as it does when the
//! replica's connection breaks, and when the replica is ahead of the primary: the caller's next request may be
//! answered by the primary, which would show an older state.

use super::standby::{Standby, Unusable};
use super::{ReconnectingSession, Session, SnapshotInfo, replica_health};
use crate::engine::Shared;
use crate::job::Query;
use crate::queue::Queue;
use crate::threads::{pause, spawn};
use crate::{Error, Snapshot};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Each replica is looked at this often.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// A replica is not read from when the last good look at it is older than this: the next one gets no answer.
const CHECK_MAX_AGE: Duration = Duration::from_millis(500);
/// A replica that does not have the state that the primary had this long ago is not read from. This bounds
/// what a caller may see who carries no version.
pub(super) const LAG_MAX: Duration = Duration::from_secs(1);
/// How long a query waits for the replica to get the state that it needs.
const CATCH_UP_MAX: Duration = Duration::from_millis(20);
/// Between two looks of a query at the replica's state.
const CATCH_UP_POLL: Duration = Duration::from_millis(1);
/// When every thread has been busy for this long with what it does, the replica is too slow, or silent.
const STALL_AFTER: Duration = Duration::from_millis(200);

const UNHEALTHY: u64 = u64::MAX;

/// Queries on their way to a replica, and which one that is.
pub(super) struct Replicas {
    pub(super) shared: Arc<Shared>,
    pub(super) queries: Queue<Box<dyn Query>>,
    /// When the last look at each replica ended that found it good, in milliseconds after `born`; [`NOT_GOOD`] when
    /// a later one did not.
    healthy_ms: Vec<AtomicU64>,
    /// The same, but later looks change it only when they are good too.
    last_good_ms: Vec<AtomicU64>,
    /// Threads that answer, and those of them that are busy.
    threads: usize,
    busy: AtomicUsize,
    /// When the last of them began or ended something, in milliseconds after `born`.
    progress_ms: AtomicU64,
    born: Instant,
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    /// What could be seen on the primary, and when; not older than [`LAG_MAX`] but for the first.
    primary: VecDeque<(Instant, SnapshotInfo)>,
    /// The state that the replica must have before it is read from again.
    needed: u64,
    stopped: bool,
}

impl State {
    /// The newest state that anybody has seen is `shown`.
    fn required(&mut self, now: Instant, primary: SnapshotInfo, shown: u64) -> SnapshotInfo {
        self.primary.push_back((now, primary));
        let old = |(at, _): &(Instant, SnapshotInfo)| now.saturating_duration_since(*at) >= LAG_MAX;
        while self.primary.get(1).is_some_and(old) {
            self.primary.pop_front();
        }
        if self.needed > shown {
            // It was lost in a restore or a promotion: no replica will ever have it.
            self.needed = 0;
        }
        // At first that is the state of the start: a replica may have stood still for hours before.
        let bound = self.primary.front().map_or(primary, |(_, seen)| *seen);
        SnapshotInfo { horizon: bound.horizon.max(self.needed), ..bound }
    }
}

impl Replicas {
    pub(super) fn new(shared: Arc<Shared>) -> Replicas {
        let options = &shared.options;
        Replicas {
            queries: Queue::new(1, options.readers, options.writer.deadline)
                .with_background(|query| query.is_background()),
            healthy_ms: options.replicas.iter().map(|_| AtomicU64::new(UNHEALTHY)).collect(),
            last_good_ms: options.replicas.iter().map(|_| AtomicU64::new(0)).collect(),
            threads: options.readers.max(1),
            busy: AtomicUsize::new(0),
            progress_ms: AtomicU64::new(0),
            born: Instant::now(),
            state: Mutex::default(),
            wake: Condvar::new(),
            shared,
        }
    }

    /// Whether a replica is read from at the moment. One that has fallen silent holds up those who have asked it, for
    /// as long as TCP does; nobody else for long.
    pub(super) fn in_use(&self) -> bool {
        self.chosen().is_some() && !self.is_stalled()
    }

    /// Whether all threads wait for a replica that says nothing.
    pub(super) fn is_stalled(&self) -> bool {
        let progress = Duration::from_millis(self.progress_ms.load(Ordering::Relaxed));
        self.busy.load(Ordering::Relaxed) == self.threads
            && self.born.elapsed().saturating_sub(progress) > STALL_AFTER
    }

    fn note_progress(&self) {
        self.progress_ms.store(self.now_ms(), Ordering::Relaxed);
    }

    fn now_ms(&self) -> u64 {
        self.born.elapsed().as_millis() as u64
    }

    /// The first good one.
    pub(super) fn chosen(&self) -> Option<usize> {
        let latest_ms = self.now_ms().saturating_sub(CHECK_MAX_AGE.as_millis() as u64);
        self.healthy_ms.iter().position(|healthy_ms| {
            let healthy_ms = healthy_ms.load(Ordering::Acquire);
            healthy_ms != UNHEALTHY && healthy_ms >= latest_ms
        })
    }

    /// For each replica, how long ago it was seen with all that the primary had [`LAG_MAX`] before; at first, since the
    /// start.
    pub(super) fn lags(&self) -> Vec<Duration> {
        let now_ms = self.now_ms();
        let lag = |good_ms: &AtomicU64| {
            Duration::from_millis(now_ms.saturating_sub(good_ms.load(Ordering::Relaxed)))
        };
        self.last_good_ms.iter().map(lag).collect()
    }

    /// Notes what a look has found.
    pub(super) fn note_check(&self, replica: usize, healthy: bool) {
        if healthy && let Some(good_ms) = self.last_good_ms.get(replica) {
            good_ms.store(self.now_ms(), Ordering::Relaxed);
        }
        if let Some(healthy_ms) = self.healthy_ms.get(replica) {
            healthy_ms.store(if healthy { self.now_ms() } else { UNHEALTHY }, Ordering::Release);
        }
    }

    /// Takes no more queries, and ends the threads when those that wait are answered.
    pub(super) fn close(&self) {
        self.queries.close();
        self.state.lock().stopped = true;
        self.wake.notify_all();
    }

    /// Does not read from a replica until it has the state `needed`, and a look has found it good.
    fn stop_reading(&self, replica: usize, needed: u64, why: &str) {
        let mut state = self.state.lock();
        state.needed = state.needed.max(needed);
        if let Some(healthy_ms) = self.healthy_ms.get(replica)
            && healthy_ms.swap(UNHEALTHY, Ordering::AcqRel) != UNHEALTHY
        {
            tracing::info!(replica, why, "a replica is no longer read from");
        }
    }

    /// The state that a replica must show to be read from now. The horizon alone is not enough: while a transaction
    /// stays open on the primary it does not move, however far the replica falls behind.
    pub(super) fn required(&self, primary: SnapshotInfo) -> SnapshotInfo {
        self.state.lock().required(Instant::now(), primary, self.shared.feed.shown().number())
    }

    /// Waits until it is time to look again; false when there is nothing to look for any more.
    pub(super) fn wait_for_check(&self) -> bool {
        let mut state = self.state.lock();
        if !state.stopped {
            self.wake.wait_for(&mut state, CHECK_INTERVAL);
        }
        !state.stopped
    }
}

/// Starts the threads that read from replicas, and those that look at them.
pub(super) fn serve<S: Session>(
    primary: &Arc<S::Address>,
    addresses: &[Arc<S::Address>],
    replicas: &Arc<Replicas>,
) -> Result<Vec<JoinHandle<()>>, Error> {
    if addresses.is_empty() {
        return Ok(Vec::new());
    }
    let mut threads = vec![replica_health::start::<S>(primary, addresses, replicas)?];
    for _ in 0..replicas.threads {
        let (primary, addresses) = (ReconnectingSession::new(primary.clone()), addresses.to_vec());
        let replicas = replicas.clone();
        threads.push(spawn("sarsen-replica", move || answer_queries::<S>(primary, &addresses, &replicas))?);
    }
    Ok(threads)
}

/// Serves queries until the queue is closed and empty.
fn answer_queries<S: Session>(
    mut primary: ReconnectingSession<S>,
    addresses: &[Arc<S::Address>],
    replicas: &Replicas,
) {
    let shared = &replicas.shared;
    let mut standbys: Vec<Standby<S>> = addresses.iter().cloned().map(Standby::new).collect();
    let mut taken: VecDeque<Box<dyn Query>> = VecDeque::new();
    while let Some(_turn) = replicas.queries.take_turn(&mut taken, 1) {
        for mut query in taken.drain(..) {
            replicas.queries.started(&query);
            if !query.start() {
                continue;
            }
            let chosen = replicas.chosen();
            replicas.note_progress();
            replicas.busy.fetch_add(1, Ordering::Relaxed);
            let read = chosen.is_some_and(|replica| {
                let standby = standbys.get_mut(replica);
                standby.is_some_and(|standby| read(&mut *query, &mut primary, standby, replica, replicas))
            });
            replicas.note_progress();
            replicas.busy.fetch_sub(1, Ordering::Relaxed);
            if read {
                shared.stats.replica_reads.fetch_add(1, Ordering::Relaxed);
                query.reply(None);
            } else if let Err((query, error)) = shared.queries.push(query) {
                query.reply(Some(error));
            }
        }
    }
}

/// Runs a query on a replica; false when it is the primary's.
fn read<S: Session>(
    query: &mut dyn Query,
    primary: &mut ReconnectingSession<S>,
    standby: &mut Standby<S>,
    replica: usize,
    replicas: &Replicas,
) -> bool {
    let (began, shared) = (Instant::now(), &replicas.shared);
    let record = |query: &dyn Query| {
        if !query.is_background() {
            replicas.queries.timings.record_run(1, began.elapsed());
        }
    };
    loop {
        let (connection, info) = match standby.begin(primary) {
            Ok(begun) => begun,
            Err(Unusable::Unreachable(error)) => {
                replicas.stop_reading(replica, 0, &error.to_string());
                return false;
            }
            Err(Unusable::NotOurReplica(why)) => {
                replicas.stop_reading(replica, 0, why);
                return false;
            }
        };
        if info.horizon >= query.needed() {
            if !primary_shows_all_of(connection, primary, began) {
                if let Some((_, error)) = connection.failure() {
                    replicas.stop_reading(replica, 0, &error.to_string());
                }
                standby.finish();
                record(query);
                return false;
            }
            shared.feed.note_shown(info.end);
            query.run(&mut Snapshot::new(connection, shared.options.check));
            // A lost connection, a recovery conflict, a full disk: the primary has no such problem. A query that
            // takes too long takes as long there.
            let failure = connection.failure();
            let failed = failure.is_some_and(|(_, error)| !matches!(error, Error::TooSlow { .. }));
            standby.finish();
            record(query);
            return !failed;
        }
        standby.finish();
        if began.elapsed() >= CATCH_UP_MAX {
            record(query);
            // A caller may name a state that there is not, of a database before it was restored or made up: that
            // concerns nobody else. One that there is has been seen here, in the log or when the primary has answered.
            if query.needed() <= shared.feed.seen() {
                replicas.stop_reading(replica, query.needed(), "it does not have yet what a caller has seen");
            }
            return false;
        }
        pause(CATCH_UP_POLL);
    }
}

/// Waits until the primary shows all that the session's snapshot shows, because the primary may answer the caller's
/// next request. Not for long: a commit that waits for another replica may wait for ever.
fn primary_shows_all_of<S: Session>(
    connection: &mut S,
    primary: &mut ReconnectingSession<S>,
    began: Instant,
) -> bool {
    loop {
        match connection.is_ahead_of(primary) {
            Ok(false) => return true,
            Ok(true) if began.elapsed() < CATCH_UP_MAX => pause(CATCH_UP_POLL),
            Ok(true) | Err(_) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_needs_no_state_that_the_primary_has_lost() {
        let at = |number| SnapshotInfo { horizon: number, end: number, in_recovery: false };
        let (mut state, began) = (State::default(), Instant::now());
        assert_eq!(state.required(began, at(5_000), 5_000).horizon, 5_000);
        state.needed = 5_100;
        let later = began + LAG_MAX;
        assert_eq!(state.required(later, at(5_050), 5_200).horizon, 5_100, "what a caller has seen");
        // Restored into a younger cluster.
        assert_eq!(
            state.required(later + LAG_MAX, at(800), 800).horizon,
            5_050,
            "for as long as replicas may be behind"
        );
        assert_eq!(state.required(later + LAG_MAX * 2, at(900), 900).horizon, 800);
    }
}
