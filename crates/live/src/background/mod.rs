//! Work that is not a request: tasks that are planned, work that is repeated, and effects outside of the database.
//!
//! [`Work`] needs a store and a clock, and no app: a program with HTTP of its own uses it alone, and [`crate::App`] passes its own
//! work on to it. All of it is rows in the database, so that several instances share it and a crash loses none.
//!
//! - `tasks.rs`: commands that run later, once.
//! - `repeated.rs`: work again and again, or when a log has new entries; one instance at a time.
//! - `effects.rs`: what happens outside of the database, at least once; `reader.rs` carries it out, `lease.rs`: on one instance.
//! - `failure.rs`: why work failed. `metrics.rs`: what is measured.

pub(crate) mod effects;
mod failure;
mod lease;
mod metrics;
mod reader;
pub(crate) mod repeated;
pub(crate) mod tasks;

pub use effects::{Attempt, Effect, Lane, queue};
pub use failure::Failure;
pub use metrics::WorkMetrics;
pub use tasks::{Task, cancel, later};

use crate::given::random;
use crate::{Error, Given};
use effects::EffectEntry;
use repeated::{Every, When};
use std::any::{Any, TypeId};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use store::{Log, Store, Time};
use tasks::TaskEntry;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The tables that work needs, in the language of migrations. An app makes them at its start; a program with migrations of its own
/// has the same there, without `IF NOT EXISTS`.
pub const TABLES: [&str; 3] = [tasks::TABLE, repeated::TABLE, effects::TABLE];

/// Values that tasks can read, by their types.
pub(crate) type State = Arc<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>;
/// The present time.
pub(crate) type Clock = Arc<dyn Fn() -> Time + Send + Sync>;

/// The work of a program on one database.
///
/// The database must have [`TABLES`].
#[must_use = "work is done only after `start`"]
pub struct Work {
    store: Store,
    clock: Clock,
    state: State,
    metrics: WorkMetrics,
    pub(crate) tasks: BTreeMap<&'static str, TaskEntry>,
    every: Vec<Arc<Every>>,
    effects: Vec<EffectEntry>,
    /// A name that two tasks have, or two kinds of repeated work or effects.
    duplicate: Option<&'static str>,
}

/// What work is done with. Clones share it.
#[derive(Clone)]
pub(crate) struct Worker(Arc<WorkerParts>);

struct WorkerParts {
    store: Store,
    clock: Clock,
    state: State,
    metrics: WorkMetrics,
    tasks: BTreeMap<&'static str, TaskEntry>,
}

impl Worker {
    pub(crate) fn store(&self) -> &Store {
        &self.0.store
    }

    pub(crate) fn now(&self) -> Time {
        (self.0.clock)()
    }

    pub(crate) fn metrics(&self) -> &WorkMetrics {
        &self.0.metrics
    }

    pub(crate) fn tasks(&self) -> &BTreeMap<&'static str, TaskEntry> {
        &self.0.tasks
    }

    /// What commands at this time are given: the same each time that it is called with the same randomness.
    pub(crate) fn given(&self, now: Time, random: [u8; 32]) -> Given {
        Given::with_state(now, random, self.0.state.clone())
    }
}

impl Work {
    /// No work yet. `clock` is the present time.
    pub fn new(store: Store, clock: impl Fn() -> Time + Send + Sync + 'static) -> Work {
        Work {
            store,
            clock: Arc::new(clock),
            state: State::default(),
            metrics: WorkMetrics::default(),
            tasks: BTreeMap::new(),
            every: Vec::new(),
            effects: Vec::new(),
            duplicate: None,
        }
    }

    /// Counts what is done in `metrics`, which the program shows.
    pub fn measured_by(self, metrics: &WorkMetrics) -> Work {
        Work { metrics: metrics.clone(), ..self }
    }

    pub(crate) fn with_state(self, state: State) -> Work {
        Work { state, ..self }
    }

    /// Keeps a value that tasks can read ([`Given::state`]).
    pub fn with<T: Any + Send + Sync>(mut self, value: Arc<T>) -> Work {
        let mut state = (*self.state).clone();
        state.insert(TypeId::of::<T>(), value);
        self.state = Arc::new(state);
        self
    }

    /// Adds work that [`later`] may plan.
    pub fn task<T: Task>(mut self) -> Work {
        if self.tasks.insert(T::NAME, TaskEntry::of::<T>()).is_some() {
            self.duplicate.get_or_insert(T::NAME);
        }
        self
    }

    /// Does work again and again, on one instance at a time. The next turn begins `interval` after the last began; one
    /// that fails is repeated earlier. A turn that a crash or a stop interrupts begins again within a minute, so the work may
    /// happen more than once. How late a turn may begin grows with the interval, from a second to 15.
    pub fn every<F, W, E>(self, name: &'static str, interval: Duration, work: F) -> Work
    where
        F: Fn() -> W + Send + Sync + 'static,
        W: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Failure>,
    {
        let look = repeated::look_for(interval);
        self.repeat(Every::new(name, When::Passed(interval), look, work))
    }

    /// Does work when a log may have new entries, on one instance at a time, and now and then without. See
    /// [`crate::App::on_log`].
    pub fn on_log<F, W, E>(self, log: &'static Log, name: &'static str, work: F) -> Work
    where
        F: Fn() -> W + Send + Sync + 'static,
        W: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Failure>,
    {
        self.repeat(Every::new(name, When::Appended(log), repeated::LOOK, work))
    }

    /// Adds an effect that [`queue`] may queue.
    pub fn effect<E: Effect>(self) -> Work {
        self.carry_out(EffectEntry::of::<E>())
    }

    pub(crate) fn carry_out(mut self, effect: EffectEntry) -> Work {
        self.note_name(effect.name);
        self.effects.push(effect);
        self
    }

    /// Repeated work and effects have their leases in one table.
    fn note_name(&mut self, name: &'static str) {
        let mut known =
            self.every.iter().map(|every| every.name).chain(self.effects.iter().map(|one| one.name));
        if known.any(|known| known == name) {
            self.duplicate.get_or_insert(name);
        }
    }

    pub(crate) fn repeat(mut self, every: Every) -> Work {
        self.note_name(every.name);
        self.metrics.know(every.name);
        self.every.push(Arc::new(every));
        self
    }

    /// Does the turns that are due now, one after another, and returns whose they were: for tests, and for programs that
    /// choose the time themselves. All are tried; the error is that of the first that failed.
    pub async fn run_due(&self) -> Result<Vec<&'static str>, Failure> {
        let (worker, mut done, mut failed) = (self.worker(), Vec::new(), None);
        for every in &self.every {
            match repeated::run_due(&worker, every).await {
                None => {}
                Some(Ok(())) => done.push(every.name),
                Some(Err(failure)) => drop(failed.get_or_insert(failure)),
            }
        }
        failed.map_or(Ok(done), Err)
    }

    /// Begins to work in the background, until [`RunningWork::stop`]. Fails if two tasks, or two kinds of repeated work, have one
    /// name.
    pub fn start(self) -> Result<RunningWork, Error> {
        let (stop, stopped) = watch::channel(false);
        self.start_until(stop, &stopped)
    }

    /// The same until `stopped` is true.
    pub(crate) fn start_until(
        self,
        stop: watch::Sender<bool>,
        stopped: &watch::Receiver<bool>,
    ) -> Result<RunningWork, Error> {
        if let Some(name) = self.duplicate {
            return Err(Error::Duplicate(name));
        }
        let worker = self.worker();
        let repeated = self.every.into_iter();
        let repeated =
            repeated.map(|every| tokio::spawn(repeated::run(worker.clone(), every, stopped.clone())));
        let mut turns: Vec<_> = repeated.collect();
        turns.push(tokio::spawn(tasks::run(worker.clone(), stopped.clone())));
        let known = self.effects.clone();
        let effects = self.effects.into_iter().map(|effect| {
            let counts = self.metrics.effect(effect.name);
            tokio::spawn(reader::run(worker.clone(), effect, counts, stopped.clone()))
        });
        let effects = effects.collect();
        turns.push(tokio::spawn(async move { reader::warn_of_unknown(&worker, &known).await }));
        Ok(RunningWork { stop, turns, effects })
    }

    fn worker(&self) -> Worker {
        Worker(Arc::new(WorkerParts {
            store: self.store.clone(),
            clock: self.clock.clone(),
            state: self.state.clone(),
            metrics: self.metrics.clone(),
            tasks: self.tasks.clone(),
        }))
    }
}

/// Work that is done in the background.
pub struct RunningWork {
    stop: watch::Sender<bool>,
    turns: Vec<JoinHandle<()>>,
    effects: Vec<JoinHandle<()>>,
}

impl RunningWork {
    /// Begins nothing more.
    pub fn begin_stop(&self) {
        // If nothing is left, nothing has to be stopped.
        let _ = self.stop.send(true);
    }

    /// Begins nothing more, and interrupts what has begun: that is done again, by another instance or after the next start. Attempts
    /// at effects have three seconds to end.
    pub async fn stop(self) {
        self.begin_stop();
        self.turns.into_iter().for_each(|turn| turn.abort());
        // They wait for no longer themselves, but where the database does not answer.
        let ending = async {
            for effect in self.effects {
                let _ = effect.await;
            }
        };
        if tokio::time::timeout(reader::STOP_MAX * 2, ending).await.is_err() {
            tracing::warn!("the database does not answer; effects whose outcome is not noted happen again");
        }
    }
}

/// Randomness for a command that may run again.
pub(crate) fn drawn() -> [u8; 32] {
    random()
}
