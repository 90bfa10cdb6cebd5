//! Keeps the results of live queries up to date.
//!
//! A change wakes the groups that depend on its keys ([`Store::watch`]). The dispatcher runs each of them once for all
//! subscribers, at most [`crate::Limits::runs_max`] at a time; short queries share a snapshot. Callers take turns, so that
//! thousands of groups of one do not delay those of another (`turns.rs`). Between the end of a run
//! and the start of its watch no change is missed: the store refuses a watch whose keys have changed since the snapshot.
//!
//! A run that fails leaves its group queued and is tried again. Under load, runs of one group keep a distance that grows
//! with the time that groups wait, up to [`DISTANCE_MAX`].

use crate::auth::Clock;
use crate::frame::{Frame, Weight};
use crate::group::{Found, Group, GroupKey, GroupState, Metrics, Phase, Work};
use crate::http::canary::WrittenAt;
use crate::members::Members;
use crate::planted::{Bug, is_planted};
use crate::run_queue::{Delayed, Kind, Queue, Ready};
use crate::stream::Stream;
use crate::{Limits, Problem, Query as _};
use parking_lot::Mutex;
use std::cmp::Ordering;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use store::{Answer, Backoff, Key, Position, Read, Snapshot, Store, Version};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use web::log_interval::LogInterval;

/// The longest distance between two runs of a group.
const DISTANCE_MAX: Duration = Duration::from_millis(50);
/// While groups wait less than this for their run, runs keep no distance.
const WAIT_IGNORED: Duration = Duration::from_millis(1);
/// A group without subscribers is kept for so long: clients come back, and long polls ask again.
const KEPT_EMPTY: Duration = Duration::from_secs(5);
/// … unless there are more of them: one caller can subscribe to something else all the time.
const EMPTY_MAX: usize = 10_000;
/// The pauses before a run that failed is tried again.
const RETRY: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));
/// After so many failed runs in a row, a second and a half or more, subscribers without an answer receive the error.
const FAILURES_UNTOLD: u32 = 5;
/// Of the places for runs, queries that are not short have one in so many.
const PLACES_PER_OTHER: usize = 8;
/// The same where a server keeps the database.
const OTHERS_ON_A_SERVER: usize = 2;

/// See the module.
pub(crate) struct Engine {
    pub(crate) store: Store,
    pub(crate) limits: Limits,
    pub(crate) metrics: Metrics,
    clock: Clock,
    groups: Mutex<HashMap<GroupKey, Arc<Group>>>,
    /// Bytes of all answers.
    pub(crate) answer_bytes: Arc<AtomicUsize>,
    /// The number of groups at which those without subscribers are forgotten at once.
    crowded_at: AtomicUsize,
    queue: Mutex<Queue>,
    work: Notify,
    permits: Arc<Semaphore>,
    failures: LogInterval,
    /// The queries that were named in the log because they declared no key.
    keyless: Mutex<HashSet<&'static str>>,
    /// How long groups wait for their run, smoothed, in microseconds.
    wait_us: AtomicU64,
}

/// Whose limit another answer would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    Caller,
    Server,
}

/// The right to run. Dropping it gives it back.
struct Place {
    engine: Arc<Engine>,
    is_other: bool,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_other {
            self.engine.queue.lock().others_running -= 1;
            self.engine.work.notify_one();
        }
    }
}

/// What a run showed: the state that it read, and how long it took.
#[derive(Clone, Copy)]
struct Shown {
    version: Version,
    settled: Version,
    taken: Duration,
    seen: Position,
    took: Duration,
}

/// What a run read, with its keys.
type Ran = (Found, Vec<Key>);

impl Engine {
    /// Starts the dispatcher, in the caller's runtime.
    pub(crate) fn start(store: Store, limits: Limits, clock: Clock) -> Arc<Engine> {
        // On a server one thread runs all of them: each that waits there keeps short ones waiting for as long as it takes.
        let others_max = match store.is_shared() {
            true => OTHERS_ON_A_SERVER,
            false => (limits.runs_max / PLACES_PER_OTHER).max(1),
        };
        let engine = Arc::new(Engine {
            store,
            clock,
            permits: Arc::new(Semaphore::new(limits.runs_max)),
            failures: LogInterval::second(),
            keyless: Mutex::default(),
            queue: Mutex::new(Queue::new(others_max)),
            limits,
            metrics: Metrics::default(),
            groups: Mutex::default(),
            answer_bytes: Arc::default(),
            crowded_at: AtomicUsize::new(EMPTY_MAX),
            work: Notify::new(),
            wait_us: AtomicU64::new(0),
        });
        tokio::spawn(engine.clone().dispatch());
        engine
    }

    /// Runs nothing any more.
    pub(crate) fn stop(&self) {
        self.queue.lock().close();
        self.groups.lock().clear();
        self.work.notify_one();
    }

    /// Adds a subscriber to the group with this key, which `make` makes if there is none. The group runs if it has no
    /// result yet, or none that is surely as new as `held`: the client's version, and its digest if that is known. Returns
    /// the ask that a run must answer first, if there is one ([`GroupState::asks`]), and why there is no room for the answer, if
    /// there is none.
    pub(crate) fn join(
        self: &Arc<Engine>,
        key: GroupKey,
        stream: &Arc<Stream>,
        slot: u32,
        held: Option<(Version, Option<&str>)>,
        make: impl FnOnce() -> (bool, Work),
    ) -> (Arc<Group>, Option<u64>, Option<Full>) {
        let answer_bytes_max = self.answer_bytes_max(stream);
        let (group, ask, is_due, full) = {
            let mut groups = self.groups.lock();
            if groups.len() >= self.crowded_at.load(Relaxed) {
                groups.retain(|_, group| group.state.lock().empty_since.is_none());
                self.crowded_at.store(groups.len() + EMPTY_MAX, Relaxed);
            }
            let group = groups.entry(key).or_insert_with_key(|key| {
                let (is_point, work) = make();
                Arc::new(Group::new(key.clone(), is_point, work, &self.answer_bytes))
            });
            let mut state = group.state.lock();
            state.members.add(stream.clone(), slot);
            let bytes = state.frame.as_ref().map_or(0, |frame| frame.bytes());
            let has_room = state.payers.add(stream.account(), bytes, self.limits.answer_bytes_per_caller_max);
            let is_full = state.frame.is_none()
                && self.answer_bytes.load(Relaxed) > answer_bytes_max
                // A full server is ready.
                && group.key.query != WrittenAt::NAME;
            let full = match has_room {
                false => Some(Full::Caller),
                true => is_full.then_some(Full::Server),
            };
            state.empty_since = None;
            let has_versions = self.store.has_common_versions();
            let is_covered = has_versions && held.is_some_and(|(held, _)| state.covers(held));
            let shown = match &state.frame {
                // A later run may have found the frame's result again; the client needs it with a version that is not
                // older.
                Some(frame) if held.is_some_and(|(_, digest)| digest == Some(&*frame.digest)) => {
                    Some(frame.version)
                }
                // Another result must have all that the client has seen, which its version alone does not say.
                Some(frame) => Some(frame.settled),
                None => state.checked,
            };
            let held = held.map(|(version, _)| version);
            let is_behind = match (shown, held) {
                (None, _) => true,
                _ if is_covered => false,
                // Versions of two histories do not compare, so only a later run can tell.
                (Some(shown), Some(held)) => held.partial_cmp(&shown).is_none_or(Ordering::is_gt),
                (Some(_), None) => false,
            };
            if is_behind && let Some(held) = held {
                let is_asked = has_versions && state.needed.is_some_and(|needed| held <= needed);
                state.asks += u64::from(!is_asked);
                state.needed = Some(state.needed.map_or(held, |needed| self.store.stronger(needed, held)));
            }
            let ask = is_behind.then_some(state.asks);
            // A group that nobody watched has not run again meanwhile.
            let is_due = group.is_due(&state, Instant::now());
            drop(state);
            (group.clone(), ask, is_due, full)
        };
        if ask.is_some() || is_due {
            self.touch(&group);
        }
        (group, ask, full)
    }

    /// The bytes of all answers above which this stream gets no other one. Half of the room is for users, if there are any:
    /// without a token anybody can fill the rest from many networks.
    fn answer_bytes_max(&self, stream: &Stream) -> usize {
        match stream.is_strangers() {
            true => self.limits.answer_bytes_max / 2,
            false => self.limits.answer_bytes_max,
        }
    }

    /// Counts arguments of so many bytes that are kept for a stream. `None` if there is no room for them.
    pub(crate) fn weight(&self, stream: &Stream, bytes: usize) -> Option<Weight> {
        let has_room = self.answer_bytes.load(Relaxed) + bytes <= self.answer_bytes_max(stream);
        has_room.then(|| Weight::new(bytes, &self.answer_bytes))
    }

    /// Queues a group for a run, unless it waits for one already. If it is running, the store's refusal of the new watch
    /// queues it again. Its watch ends: until the run has begun another one, no commit spends time on the group.
    fn touch(&self, group: &Arc<Group>) {
        let mut state = group.state.lock();
        if state.phase != Phase::Idle {
            return;
        }
        state.cause = store::publishing_command();
        let watch = state.watch.take();
        let (ready, due) = self.plan(group, &mut state);
        drop(state);
        drop(watch);
        self.enqueue(ready, due);
    }

    /// Makes a group one that waits for a run. Returns what [`Engine::enqueue`] takes, once the group is not locked any more.
    fn plan(&self, group: &Arc<Group>, state: &mut GroupState) -> (Ready, Instant) {
        state.phase = Phase::Queued;
        state.touched = Instant::now();
        let due = state.started.map_or(state.touched, |started| started + self.distance());
        state.due = due.max(state.touched);
        (Ready::new(group, state), state.due)
    }

    fn enqueue(&self, ready: Ready, due: Instant) {
        let mut queue = self.queue.lock();
        if queue.closed {
            return;
        }
        if due <= Instant::now() {
            queue.push(ready);
        } else {
            queue.numbers += 1;
            let number = queue.numbers;
            queue.delayed.push(Reverse(Delayed { due, number, ready }));
        }
        drop(queue);
        self.work.notify_one();
    }

    /// The distance that runs of one group keep now.
    fn distance(&self) -> Duration {
        let wait = Duration::from_micros(self.wait_us.load(Relaxed));
        if wait < WAIT_IGNORED { Duration::ZERO } else { (wait * 8).min(DISTANCE_MAX) }
    }

    fn note_wait(&self, wait: Duration) {
        let wait = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX).min(1_000_000);
        let before = self.wait_us.load(Relaxed);
        self.wait_us.store((before * 15 + wait) / 16, Relaxed);
    }

    async fn dispatch(self: Arc<Engine>) {
        loop {
            let (has_work, next) = {
                let mut queue = self.queue.lock();
                if queue.closed {
                    return;
                }
                let next = queue.release(Instant::now());
                (queue.has_work(), next)
            };
            if has_work {
                // First a free place, then the choice: a group that is queued meanwhile can still have the next turn.
                let Ok(permit) = self.permits.clone().acquire_owned().await else { return };
                let (kind, groups) = self.queue.lock().take();
                let place = Place { engine: self.clone(), is_other: kind == Kind::Others, _permit: permit };
                tokio::spawn(self.clone().run(groups, place));
                continue;
            }
            match next {
                None => self.work.notified().await,
                Some(due) => {
                    // Whichever comes first: there is work to take in both cases.
                    let _ = tokio::time::timeout_at(due.into(), self.work.notified()).await;
                }
            }
        }
    }

    /// Runs groups in one snapshot.
    async fn run(self: Arc<Engine>, groups: Vec<Arc<Group>>, _place: Place) {
        let started = Instant::now();
        let (mut needed, mut is_point) = (None::<Version>, true);
        let groups: Vec<_> = groups.into_iter().filter(|group| !group.rests()).collect();
        if groups.is_empty() {
            return;
        }
        for group in &groups {
            let mut state = group.state.lock();
            state.phase = Phase::Running;
            self.note_wait(started.saturating_duration_since(state.due));
            state.started = Some(started);
            state.asks_of_run = state.asks;
            state.needed_of_run = state.needed;
            // A stream that joins from now on waits for what this run finds.
            state.standing = None;
            is_point &= group.is_point;
            // A replica may be older than the last run.
            let shown = state.checked.filter(|_| self.store.is_shared());
            for version in shown.into_iter().chain(state.needed) {
                needed = Some(needed.map_or(version, |needed| self.store.stronger(needed, version)));
            }
        }
        let read = match (self.store.is_shared(), is_point) {
            (true, _) => Read::default().in_background().from_replica(),
            (false, true) => Read::default().point(),
            (false, false) => Read::default().in_background(),
        };
        let read = needed.map_or(read, |version| read.not_older_than(version));
        let (running, store, now) = (groups.clone(), self.store.clone(), (self.clock)());
        let run_all = move |snapshot: &mut Snapshot<'_>| {
            snapshot.set_time(now);
            let run = |group: &Arc<Group>| {
                store.recorded(snapshot, group.name(), |snapshot| group.work.run(snapshot))
            };
            running.iter().map(run).collect::<Result<Vec<Ran>, Problem>>()
        };
        let answered = self.store.query(read, run_all).await;
        let took = started.elapsed();
        self.metrics.run_times.observe(took);
        match answered {
            Ok(Answer { value, version, settled, taken, seen, .. }) => {
                for (group, (found, keys)) in groups.iter().zip(value) {
                    let shown = Shown { version, settled, taken, seen, took };
                    self.finish(group, found, keys, shown);
                }
            }
            // Which of them failed is not known here: each runs again by itself, and only then counts as failed.
            Err(_) if groups.len() > 1 => groups.iter().for_each(|group| self.put_apart(group)),
            Err(problem) => groups.iter().for_each(|group| self.fail(group, &problem)),
        }
    }

    /// Takes the result of a run: watches its keys, and gives it to the subscribers if it is new.
    fn finish(self: &Arc<Engine>, group: &Arc<Group>, found: Found, keys: Vec<Key>, shown: Shown) {
        let Shown { version, settled, taken, .. } = shown;
        self.metrics.runs.fetch_add(1, Relaxed);
        let output = match found {
            Found::Output(output) => output,
            Found::Standing(caller) => {
                // Before the group counts as current: until then the streams hold frames back.
                let members: Vec<_> = {
                    let mut state = group.state.lock();
                    state.standing = Some(caller.clone());
                    state.members.iter().map(|member| member.stream.clone()).collect()
                };
                members.iter().for_each(|stream| stream.set_standing(group, caller.as_ref()));
                let mut state = group.state.lock();
                let again = self.settle(group, &mut state, keys, shown);
                state.waiting = Members::default();
                let members: Vec<_> = state.members.iter().map(|member| member.stream.clone()).collect();
                drop(state);
                self.after(again);
                members.iter().for_each(|stream| stream.wake());
                return;
            }
        };
        let is_refreshed = matches!(group.work, Work::Query(_, Some(_)));
        if keys.is_empty() && !is_refreshed && self.keyless.lock().insert(group.name()) {
            tracing::warn!(
                query = group.name(),
                "a live query declares no key, so it never runs again; call `snapshot.depends` if its answer can change"
            );
        }
        // Runs of a group follow each other, so nobody else changes its frame. It is encoded without the lock, on which
        // commits wait.
        let before = group.state.lock().frame.clone();
        let (times, bytes_max) = ((version, settled, taken), self.limits.frame_bytes_max);
        let frame = Frame::new(times, output, before.as_deref(), bytes_max, &self.answer_bytes);
        let mut state = group.state.lock();
        let was_asked = state.asks_of_run > state.answered;
        let is_new = state.frame.as_ref().is_none_or(|before| before.digest != frame.digest);
        let is_older = state.checked.is_some_and(|checked| version < checked);
        let is_shown = is_new && !is_older;
        // Versions of two epochs cannot be compared. Clients that hold this result are told its version in the new epoch.
        let begins_epoch =
            !is_new && state.frame.as_ref().is_some_and(|held| held.version.epoch() != version.epoch());
        // Many may have joined while there was room.
        let is_first = before.is_none() && is_shown && group.key.query != WrittenAt::NAME;
        let is_confirmed = !is_new && state.confirmed.is_none_or(|confirmed| settled.replaces(confirmed));
        if is_shown || is_confirmed {
            state.confirmed = Some(settled);
        }
        if is_shown {
            self.metrics.frames.fetch_add(1, Relaxed);
            self.metrics.delays.observe(state.touched.elapsed());
            state.frame = Some(Arc::new(frame));
        } else {
            self.metrics.runs_unchanged.fetch_add(1, Relaxed);
            if (was_asked || begins_epoch) && !is_older {
                // The same result, but a subscriber must get it with a version that is not older than its own.
                state.frame = Some(Arc::new(frame));
            }
        }
        let again = self.settle(group, &mut state, keys, shown);
        let answered = state.answered;
        // A stream locks itself before its groups, so the group's lock must be free when streams are locked.
        let marked = if is_shown || begins_epoch { &state.members } else { &state.waiting };
        let members: Vec<_> = marked.iter().map(|member| (member.stream.clone(), member.slot)).collect();
        let without_room = match (is_shown, &state.frame) {
            (true, Some(frame)) => {
                let bytes = frame.bytes();
                state.payers.charge(bytes, self.limits.answer_bytes_per_caller_max)
            }
            _ => Vec::new(),
        };
        if state.asks == answered {
            state.waiting = Members::default();
        }
        state.drop_unwatched();
        drop(state);
        for (stream, slot) in &members {
            let has_room = !without_room.iter().any(|account| Arc::ptr_eq(account, stream.account()));
            let is_full = is_first && self.answer_bytes.load(Relaxed) > self.answer_bytes_max(stream);
            match (has_room, is_full) {
                (false, _) => stream.refuse(*slot, group, Full::Caller),
                (true, true) => stream.refuse(*slot, group, Full::Server),
                (true, false) => stream.mark(*slot, group, answered),
            }
        }
        self.after(again);
    }

    /// Notes a run and watches its keys. If a key has changed meanwhile, or a subscriber needs a later run, the group waits for
    /// a run at once, and does not count as current in between: returns what [`Engine::enqueue`] takes.
    fn settle(
        self: &Arc<Engine>,
        group: &Arc<Group>,
        state: &mut GroupState,
        keys: Vec<Key>,
        shown: Shown,
    ) -> Option<(Ready, Instant)> {
        let Shown { version, seen, took, .. } = shown;
        let is_older = state.checked.is_some_and(|checked| version < checked);
        state.checked = if is_older { state.checked } else { Some(version) };
        // Those that asked while this run was under way get a run of their own.
        state.answered = state.asks_of_run;
        let is_answered = state.asks == state.answered;
        state.covered = state.needed_of_run.take().or(state.covered);
        state.needed = state.needed.filter(|_| !is_answered);
        state.failures = 0;
        state.runs += 1;
        state.last_run = took;
        let (engine, watching) = (Arc::downgrade(self), Arc::downgrade(group));
        state.watch = self.store.watch(&keys, seen, move || {
            if let (Some(engine), Some(group)) = (engine.upgrade(), watching.upgrade()) {
                engine.touch(&group);
            }
        });
        state.keys = keys;
        state.phase = Phase::Idle;
        let has_gap = state.watch.is_none() && !is_planted(Bug::GapAfterRun);
        (has_gap || is_older || !is_answered).then(|| self.plan(group, state))
    }

    fn after(&self, again: Option<(Ready, Instant)>) {
        if let Some((ready, due)) = again {
            self.enqueue(ready, due);
        }
    }

    /// Has a group run again at once, by itself.
    fn put_apart(&self, group: &Arc<Group>) {
        let mut state = group.state.lock();
        state.phase = Phase::Queued;
        state.needed_of_run = None;
        state.due = Instant::now();
        let (due, ready) = (state.due, Ready { kind: Kind::Retries, ..Ready::new(group, &state) });
        drop(state);
        self.enqueue(ready, due);
    }

    /// A run failed: the group keeps its result, which is not known to be current, and runs again while somebody subscribes.
    fn fail(&self, group: &Arc<Group>, problem: &Problem) {
        self.metrics.runs_failed.fetch_add(1, Relaxed);
        let mut state = group.state.lock();
        if is_planted(Bug::FailedRunIsUnchanged) && state.checked.is_some() {
            state.phase = Phase::Idle;
            return;
        }
        if state.members.is_empty() {
            state.forget();
            return;
        }
        let pause = RETRY.after(state.failures).take();
        state.failures = state.failures.saturating_add(1);
        let told: Vec<_> = match state.failures >= FAILURES_UNTOLD {
            true => state.members.iter().map(|member| (member.stream.clone(), member.slot)).collect(),
            false => Vec::new(),
        };
        state.phase = Phase::Queued;
        state.needed_of_run = None;
        if let Some(failures) = self.failures.due(Instant::now()) {
            tracing::warn!(query = group.name(), code = %problem.code, why = %problem.words(),
                failures, "a live query failed and is run again");
        }
        state.due = Instant::now() + pause;
        let (due, ready) = (state.due, Ready::new(group, &state));
        drop(state);
        self.enqueue(ready, due);
        told.iter().for_each(|(stream, slot)| stream.report_failure(*slot, group, problem));
    }

    /// Forgets groups that nobody has subscribed to for some time, takes those without subscribers from the queue, and runs those again
    /// that depend on the time.
    pub(crate) fn sweep(&self) {
        let unwatched = self.queue.lock().take_unwatched();
        for group in unwatched.iter().filter(|group| !group.rests()) {
            // Meanwhile somebody has subscribed, so it must run: it is queued again.
            let state = group.state.lock();
            let (ready, due) = (Ready::new(group, &state), state.due);
            drop(state);
            self.enqueue(ready, due);
        }
        let now = Instant::now();
        let mut groups = self.groups.lock();
        let mut due = Vec::new();
        groups.retain(|_, group| {
            let state = group.state.lock();
            if group.is_due(&state, now) {
                due.push(group.clone());
            }
            state.empty_since.is_none_or(|since| now.saturating_duration_since(since) <= KEPT_EMPTY)
        });
        self.crowded_at.fetch_min(groups.len() + EMPTY_MAX, Relaxed);
        drop(groups);
        due.iter().for_each(|group| self.touch(group));
    }

    /// All groups.
    pub(crate) fn groups(&self) -> Vec<Arc<Group>> {
        self.groups.lock().values().cloned().collect()
    }

    /// Whether every change that a frame shows has been published in this process.
    pub(crate) fn has_published(&self, frame: &Frame) -> bool {
        self.store.has_published(frame.version, frame.taken)
    }
}
