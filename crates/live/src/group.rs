//! A group: the subscribers of one query with the same arguments and claims. One run serves all of them.

use crate::Problem;
use crate::account::Payers;
use crate::caller::Caller;
use crate::frame::{Shared, Weight};
use crate::members::Members;
use crate::query::{Output, RunQuery, decided};
use crate::stream::Stream;
use metrics::Histogram;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::time::{Duration, Instant};
use store::{Key, Snapshot, Version, Watch};

/// What makes two subscriptions the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct GroupKey {
    pub(crate) query: &'static str,
    pub(crate) args: Arc<str>,
    pub(crate) claims: Arc<str>,
}

/// What a group runs.
pub(crate) enum Work {
    /// A live query, which also runs again after this time, if there is one ([`crate::Query::REFRESH`]).
    Query(RunQuery, Option<Duration>),
    /// The standing of a caller: the present caller, or `None` if their session has ended.
    Standing(RunStanding),
}

/// Reads the standing of a caller.
pub(crate) type RunStanding = Box<dyn Fn(&mut Snapshot<'_>) -> Result<Option<Caller>, Problem> + Send + Sync>;

/// What a run found.
#[derive(Clone)]
pub(crate) enum Found {
    Output(Result<Output, Problem>),
    Standing(Option<Caller>),
}

impl Work {
    /// Runs it. An error is one that may pass; what the query itself decides, such as "not found", is a result.
    pub(crate) fn run(&self, snapshot: &mut Snapshot<'_>) -> Result<Found, Problem> {
        match self {
            Work::Query(run, _) => decided(run, snapshot).map(Found::Output),
            Work::Standing(run) => run(snapshot).map(Found::Standing),
        }
    }
}

/// A group without subscribers keeps an answer that is no longer than this.
const KEPT_BYTES_MAX: usize = 4 * 1024;

/// See the module.
pub(crate) struct Group {
    pub(crate) key: GroupKey,
    pub(crate) is_point: bool,
    pub(crate) work: Work,
    pub(crate) state: Mutex<GroupState>,
    _weight: Weight,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The frame is up to date, as far as this process knows.
    Idle,
    /// A key has changed, or nothing was read yet.
    Queued,
    /// It is being read.
    Running,
}

pub(crate) struct GroupState {
    pub(crate) phase: Phase,
    pub(crate) frame: Option<Shared>,
    /// The version that the last run has shown; the frame may be older, if the result was equal.
    pub(crate) checked: Option<Version>,
    /// The frame has every commit before this version: a run that has found it again may have shown more than its own.
    pub(crate) confirmed: Option<Version>,
    /// Counts the subscribers that need a run which begins after they joined. Versions would not do: without versions in
    /// common (MySQL), two results can have the same one.
    pub(crate) asks: u64,
    /// `asks`, as the present run began, or the last one.
    pub(crate) asks_of_run: u64,
    /// The asks that runs have answered.
    pub(crate) answered: u64,
    /// A subscriber holds this version from elsewhere: the next run must not be older.
    pub(crate) needed: Option<Version>,
    /// `needed`, as the present run began.
    pub(crate) needed_of_run: Option<Version>,
    /// The last version that a run was asked for and has answered. Thousands of clients that come back after a restart hold
    /// the same version of the last process.
    pub(crate) covered: Option<Version>,
    /// The subscribers that wait for the next run's result, also if it is equal.
    pub(crate) waiting: Members,
    /// The callers of the subscribers, who are charged for the frame.
    pub(crate) payers: Payers,
    /// The last result of a caller's standing.
    pub(crate) standing: Option<Option<Caller>>,
    pub(crate) watch: Option<Watch>,
    pub(crate) keys: Vec<Key>,
    pub(crate) members: Members,
    /// When a key changed that the last run does not know.
    pub(crate) touched: Instant,
    /// The command that changed it, if one of this process did.
    pub(crate) cause: Option<&'static str>,
    /// When the next run may begin.
    pub(crate) due: Instant,
    pub(crate) started: Option<Instant>,
    /// Runs that have failed since the last that has not.
    pub(crate) failures: u32,
    pub(crate) runs: u64,
    pub(crate) last_run: Duration,
    /// Since when nobody subscribes.
    pub(crate) empty_since: Option<Instant>,
}

impl GroupState {
    /// Whether the frame is of a run that was asked for this version of another history, or for a later one of that. Only
    /// where instances have versions in common.
    pub(crate) fn covers(&self, version: Version) -> bool {
        let is_of_another = |frame: &Shared| frame.version.epoch() != version.epoch();
        self.frame.as_ref().is_some_and(is_of_another)
            && self.covered.is_some_and(|covered| version <= covered)
    }
}

impl GroupState {
    /// A long answer does not wait for clients that come back: no caller is charged for it any more.
    pub(crate) fn drop_unwatched(&mut self) {
        let is_long = self.frame.as_ref().is_some_and(|frame| frame.bytes() > KEPT_BYTES_MAX);
        if self.members.is_empty() && is_long && self.phase != Phase::Running {
            let phase = self.phase;
            self.forget();
            // One that waits for its run keeps its place.
            self.phase = phase;
        }
    }

    /// Forgets what was read, so that the next subscriber causes a run.
    pub(crate) fn forget(&mut self) {
        self.phase = Phase::Idle;
        self.frame = None;
        self.checked = None;
        self.confirmed = None;
        self.standing = None;
        self.watch = None;
        self.keys.clear();
        self.needed = None;
        self.answered = self.asks;
        self.failures = 0;
    }
}

impl Group {
    /// What it runs, for people.
    pub(crate) fn name(&self) -> &'static str {
        match self.work {
            Work::Query(..) => self.key.query,
            Work::Standing(_) => "standing",
        }
    }

    /// `all` counts the bytes of all answers and of what was asked for.
    pub(crate) fn new(key: GroupKey, is_point: bool, work: Work, all: &Arc<AtomicUsize>) -> Group {
        Group {
            _weight: Weight::new(key.args.len() + key.claims.len(), all),
            key,
            is_point,
            work,
            state: Mutex::new(GroupState {
                phase: Phase::Idle,
                frame: None,
                checked: None,
                confirmed: None,
                asks: 0,
                asks_of_run: 0,
                answered: 0,
                needed: None,
                needed_of_run: None,
                covered: None,
                waiting: Members::default(),
                payers: Payers::default(),
                standing: None,
                watch: None,
                keys: Vec::new(),
                members: Members::default(),
                touched: Instant::now(),
                cause: None,
                due: Instant::now(),
                started: None,
                failures: 0,
                runs: 0,
                last_run: Duration::ZERO,
                empty_since: None,
            }),
        }
    }

    /// Whether its result is up to date, as far as this process knows.
    pub(crate) fn is_current(&self) -> bool {
        let state = self.state.lock();
        state.phase == Phase::Idle && state.checked.is_some()
    }

    /// Ends a subscription.
    pub(crate) fn leave(&self, stream: &Stream, slot: u32) {
        let mut state = self.state.lock();
        state.members.remove(stream.id, slot);
        state.waiting.remove(stream.id, slot);
        state.payers.remove(stream.account());
        if state.members.is_empty() {
            state.empty_since = Some(Instant::now());
            state.drop_unwatched();
        }
    }

    /// Whether it is to run again although nothing has changed.
    pub(crate) fn is_due(&self, state: &GroupState, now: Instant) -> bool {
        let Work::Query(_, Some(refresh)) = self.work else { return false };
        let is_watched = state.phase == Phase::Idle && !state.members.is_empty();
        is_watched && state.started.is_some_and(|at| now.saturating_duration_since(at) >= refresh)
    }

    /// Whether nobody subscribes to it. Then it does not run before somebody does.
    pub(crate) fn rests(&self) -> bool {
        let mut state = self.state.lock();
        let rests = state.members.is_empty();
        if rests {
            state.forget();
        }
        rests
    }
}

/// Counters, for `/metrics`.
#[derive(Default)]
pub(crate) struct Metrics {
    pub(crate) runs: AtomicU64,
    pub(crate) runs_failed: AtomicU64,
    pub(crate) runs_unchanged: AtomicU64,
    pub(crate) frames: AtomicU64,
    pub(crate) events: AtomicU64,
    pub(crate) bytes: AtomicU64,
    /// From a change to its frame.
    pub(crate) delays: Histogram,
    pub(crate) run_times: Histogram,
    pub(crate) slow_commands: AtomicU64,
    pub(crate) streams_opened: AtomicU64,
    pub(crate) streams_refused: AtomicU64,
    pub(crate) calls: AtomicU64,
}
