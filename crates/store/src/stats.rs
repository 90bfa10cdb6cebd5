//! The store's counters, for `/metrics` and the load generator.

use metrics::Histogram;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Live counters, which any thread can increment.
#[derive(Default, Debug)]
pub struct Stats {
    pub(crate) commands: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) retried: AtomicU64,
    pub(crate) batches: AtomicU64,
    pub(crate) commit_ns: AtomicU64,
    pub(crate) commit_ns_max: AtomicU64,
    pub(crate) checkpoints: AtomicU64,
    pub(crate) pause_ns_max: AtomicU64,
    pub(crate) wal_bytes: AtomicU64,
    pub(crate) wal_bytes_max: AtomicU64,
    pub(crate) reads: AtomicU64,
    pub(crate) replica_reads: AtomicU64,
    pub(crate) commits_failed: AtomicU64,
    /// Failed flushes of the database file. From the first one on the log is kept as it is.
    pub(crate) flushes_failed: AtomicU64,
    /// Times of commits.
    pub(crate) commits: Histogram,
    /// Times of commands, from the call to the answer.
    pub(crate) writes: Histogram,
    /// Pauses of the writer for checkpoints.
    pub(crate) pauses: Histogram,
}

/// The counters at one moment. Times are in microseconds, sizes in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct StatsSnapshot {
    /// Committed commands.
    pub commands: u64,
    /// Commands that failed, by themselves or with their batch.
    pub failed: u64,
    /// Commands that were refused because they could not start in time.
    pub refused: u64,
    /// Runs of commands that were rolled back and repeated, after a conflict or a lost connection (servers only).
    pub retried: u64,
    /// Commits.
    pub batches: u64,
    /// Commits that failed or whose outcome is not known.
    pub commits_failed: u64,
    /// The total time of commits.
    pub commit_us_total: u64,
    /// The longest commit.
    pub commit_us_max: u64,
    /// Checkpoints of the write-ahead log (SQLite only, like the next three).
    pub checkpoints: u64,
    /// The longest pause of the writer for a checkpoint.
    pub pause_us_max: u64,
    /// The size of the write-ahead log.
    pub wal_bytes: u64,
    /// The largest size of the write-ahead log so far.
    pub wal_bytes_max: u64,
    /// Completed queries.
    pub reads: u64,
    /// Queries that a replica answered.
    pub replica_reads: u64,
    /// Commands in the queue.
    pub queue_depth: u64,
    /// SQLite: failed flushes of the database file. From the first one on the log only grows, until the next start.
    pub flushes_failed: u64,
}

impl Stats {
    pub(crate) fn committed(&self, took: Duration) {
        self.commits.observe(took);
        let took = took.as_nanos() as u64;
        self.batches.fetch_add(1, Relaxed);
        self.commit_ns.fetch_add(took, Relaxed);
        self.commit_ns_max.fetch_max(took, Relaxed);
    }

    pub(crate) fn paused(&self, took: Duration) {
        self.pauses.observe(took);
        self.pause_ns_max.fetch_max(took.as_nanos() as u64, Relaxed);
    }

    pub(crate) fn wal_is(&self, bytes: u64) {
        self.wal_bytes.store(bytes, Relaxed);
        self.wal_bytes_max.fetch_max(bytes, Relaxed);
    }

    pub(crate) fn snapshot(&self, queue_depth: usize) -> StatsSnapshot {
        StatsSnapshot {
            commands: self.commands.load(Relaxed),
            failed: self.failed.load(Relaxed),
            refused: self.refused.load(Relaxed),
            retried: self.retried.load(Relaxed),
            batches: self.batches.load(Relaxed),
            commits_failed: self.commits_failed.load(Relaxed),
            commit_us_total: self.commit_ns.load(Relaxed) / 1000,
            commit_us_max: self.commit_ns_max.load(Relaxed) / 1000,
            checkpoints: self.checkpoints.load(Relaxed),
            pause_us_max: self.pause_ns_max.load(Relaxed) / 1000,
            wal_bytes: self.wal_bytes.load(Relaxed),
            wal_bytes_max: self.wal_bytes_max.load(Relaxed),
            reads: self.reads.load(Relaxed),
            replica_reads: self.replica_reads.load(Relaxed),
            queue_depth: queue_depth as u64,
            flushes_failed: self.flushes_failed.load(Relaxed),
        }
    }
}
