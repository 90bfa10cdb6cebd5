//! How long jobs of a queue and commits take, for the prediction of a new job's wait.

use metrics::Histogram;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A run that takes longer than this is capped at a multiple of the average.
const SLOW_NS: u64 = 1_000_000;

/// Measured times: the average run of a job and the median of recent commits. For `/metrics`, all waits and runs.
#[derive(Default)]
pub(crate) struct Timings {
    /// From the call to the start of a job.
    pub(crate) waits: Histogram,
    /// Jobs of a batch count as equally long.
    pub(crate) runs: Histogram,
    pub(crate) run_ns: AtomicU64,
    pub(crate) commit_ns: AtomicU64,
    last_commits: Mutex<VecDeque<u64>>,
}

impl Timings {
    /// Records that `jobs` ran for `run` in total. Each sample has a weight of 1/16, and outliers are capped, so that one
    /// slow job does not count as a slow database.
    pub(crate) fn record_run(&self, jobs: usize, run: Duration) {
        self.runs.observe_many(jobs as u64, run);
        let average = self.run_ns.load(Ordering::Relaxed);
        let each = (run.as_nanos() as u64 / jobs.max(1) as u64).min(average.saturating_mul(8).max(SLOW_NS));
        let next = average - average / 16 + each / 16;
        self.run_ns.store(next, Ordering::Relaxed);
    }

    /// Records a commit. A single slow one does not move the median of fifteen.
    pub(crate) fn record_commit(&self, took: Duration) {
        let mut last = self.last_commits.lock();
        if last.len() == 15 {
            last.pop_front();
        }
        last.push_back(took.as_nanos() as u64);
        let mut sorted: Vec<u64> = last.iter().copied().collect();
        sorted.sort_unstable();
        self.commit_ns.store(sorted[sorted.len() / 2], Ordering::Relaxed);
    }
}
