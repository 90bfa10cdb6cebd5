//! What is measured of work.

use metrics::{Labels, Page};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use store::Time;

/// What is measured of tasks, of repeated work and of effects. Clones share it.
#[derive(Clone, Default)]
pub struct WorkMetrics(Arc<Counts>);

#[derive(Default)]
struct Counts {
    tasks_done: AtomicU64,
    tasks_failed: AtomicU64,
    /// How late the oldest task was that the last look found, in milliseconds.
    tasks_late_ms: AtomicU64,
    turns_failed: AtomicU64,
    /// In Unix seconds: the last turn after which no work had failed in its last one.
    all_well: AtomicI64,
    repeated: Mutex<Vec<Arc<Turns>>>,
    effects: Mutex<Vec<Arc<EffectCounts>>>,
}

type Count = fn(&EffectCounts) -> &AtomicU64;

/// The attempts of one effect at this instance.
pub(super) struct EffectCounts {
    name: &'static str,
    done: AtomicU64,
    failed: AtomicU64,
    given_up: AtomicU64,
    running: AtomicUsize,
    /// How long the oldest one in the database has waited, in milliseconds.
    behind_ms: AtomicU64,
}

impl EffectCounts {
    pub(super) fn done(&self) {
        self.done.fetch_add(1, Relaxed);
    }

    pub(super) fn failed(&self, is_last: bool) {
        self.failed.fetch_add(1, Relaxed);
        self.given_up.fetch_add(is_last.into(), Relaxed);
    }

    pub(super) fn running(&self, count: usize) {
        self.running.store(count, Relaxed);
    }

    pub(super) fn behind(&self, waiting: Duration) {
        self.behind_ms.store(u64::try_from(waiting.as_millis()).unwrap_or(u64::MAX), Relaxed);
    }
}

/// The turns of one kind of repeated work at this instance.
struct Turns {
    name: &'static str,
    failed: AtomicU64,
    /// The last one failed.
    is_failing: AtomicBool,
    /// In Unix seconds; 0 if another instance has done all of them.
    last: AtomicI64,
}

impl WorkMetrics {
    /// Adds repeated work to the page before its first turn.
    pub(crate) fn know(&self, name: &'static str) {
        self.turns(name);
    }

    fn turns(&self, name: &'static str) -> Arc<Turns> {
        let mut repeated = self.0.repeated.lock();
        if let Some(known) = repeated.iter().find(|turns| turns.name == name) {
            return known.clone();
        }
        let (failed, is_failing, last) = (AtomicU64::new(0), AtomicBool::new(false), AtomicI64::new(0));
        let new = Arc::new(Turns { name, failed, is_failing, last });
        repeated.push(new.clone());
        new
    }

    pub(super) fn effect(&self, name: &'static str) -> Arc<EffectCounts> {
        let new = Arc::new(EffectCounts {
            name,
            done: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            given_up: AtomicU64::new(0),
            running: AtomicUsize::new(0),
            behind_ms: AtomicU64::new(0),
        });
        self.0.effects.lock().push(new.clone());
        new
    }

    pub(crate) fn turn_succeeded(&self, name: &'static str, now: Time) {
        let turns = self.turns(name);
        turns.last.store(now.seconds(), Relaxed);
        turns.is_failing.store(false, Relaxed);
        if !self.0.repeated.lock().iter().any(|turns| turns.is_failing.load(Relaxed)) {
            self.0.all_well.store(now.seconds(), Relaxed);
        }
    }

    pub(crate) fn turn_failed(&self, name: &'static str) {
        self.0.turns_failed.fetch_add(1, Relaxed);
        let turns = self.turns(name);
        turns.failed.fetch_add(1, Relaxed);
        turns.is_failing.store(true, Relaxed);
    }

    pub(crate) fn task_done(&self) {
        self.0.tasks_done.fetch_add(1, Relaxed);
    }

    pub(crate) fn task_failed(&self) {
        self.0.tasks_failed.fetch_add(1, Relaxed);
    }

    pub(crate) fn tasks_are_late(&self, millis: u64) {
        self.0.tasks_late_ms.store(millis, Relaxed);
    }

    /// Turns of repeated work that failed at this instance.
    pub fn turns_failed(&self) -> u64 {
        self.0.turns_failed.load(Relaxed)
    }

    /// The Unix time of the last turn at this instance after which none of its work had failed in its last turn; 0 for none.
    pub fn last_success(&self) -> u64 {
        self.0.all_well.load(Relaxed).unsigned_abs()
    }

    /// Adds tasks to a page, with this before their names.
    pub fn show_tasks(&self, page: &mut Page, prefix: &str) {
        let counts = &self.0;
        let done = counts.tasks_done.load(Relaxed);
        page.counter(&format!("{prefix}tasks_total"), "Planned tasks that were done", done);
        page.counter(
            &format!("{prefix}tasks_failed_total"),
            "Planned tasks that failed and are repeated",
            counts.tasks_failed.load(Relaxed),
        );
        page.gauge(
            &format!("{prefix}tasks_late_seconds"),
            "How late the oldest task was that the last look for tasks found",
            counts.tasks_late_ms.load(Relaxed) as f64 / 1000.0,
        );
    }

    /// Adds repeated work to a page, with this before the names.
    pub fn show_turns(&self, page: &mut Page, prefix: &str) {
        let repeated = self.0.repeated.lock();
        let labels = |turns: &Turns| -> Labels { vec![("work", turns.name.to_owned())] };
        page.gauges(
            &format!("{prefix}work_last_success_timestamp_seconds"),
            "Unix time of the last turn of repeated work that succeeded at this instance, 0 for none",
            repeated.iter().map(|turns| (labels(turns), turns.last.load(Relaxed).unsigned_abs().into())),
        );
        page.counters(
            &format!("{prefix}work_turns_failed_total"),
            "Turns of repeated work that failed at this instance",
            repeated.iter().map(|turns| (labels(turns), turns.failed.load(Relaxed))),
        );
    }

    /// Adds effects to a page, with this before the names.
    pub fn show_effects(&self, page: &mut Page, prefix: &str) {
        let effects = self.0.effects.lock();
        let labels = |counts: &EffectCounts| -> Labels { vec![("effect", counts.name.to_owned())] };
        let counted: [(&str, &str, Count); 3] = [
            ("total", "Effects outside of the database that have happened", |counts| &counts.done),
            ("failed_total", "Attempts at effects that failed", |counts| &counts.failed),
            ("given_up_total", "Effects that failed and are not tried again", |counts| &counts.given_up),
        ];
        for (name, help, count) in counted {
            let rows = effects.iter().map(|counts| (labels(counts), count(counts).load(Relaxed)));
            page.counters(&format!("{prefix}effects_{name}"), help, rows);
        }
        page.gauges(
            &format!("{prefix}effects_running"),
            "Attempts at effects that have begun",
            effects.iter().map(|counts| (labels(counts), counts.running.load(Relaxed).into())),
        );
        page.gauges(
            &format!("{prefix}effects_behind_seconds"),
            "How long the oldest effect has waited that has not happened",
            effects
                .iter()
                .map(|counts| (labels(counts), (counts.behind_ms.load(Relaxed) as f64 / 1000.0).into())),
        );
    }
}
