//! The store's metrics on a page for Prometheus.

use crate::Store;
use metrics::{Labels, Page};

impl Store {
    /// Adds the store's metrics to a page.
    pub fn show(&self, page: &mut Page) {
        self.show_commands(page);
        self.show_reads(page);
        self.show_file(page);
    }

    fn show_commands(&self, page: &mut Page) {
        let (shared, now) = (&self.inner.shared, self.stats());
        page.counter("store_commands_total", "Committed writes", now.commands);
        page.counter(
            "store_commands_failed_total",
            "Writes that returned an error, most of them because of a rule",
            now.failed,
        );
        page.counter(
            "store_commands_refused_total",
            "Writes that could not start within a second (503)",
            now.refused,
        );
        page.counter(
            "store_commands_retried_total",
            "Writes that were run again after a conflict or a lost connection",
            now.retried,
        );
        page.gauge("store_queue_depth", "Writes that wait", now.queue_depth);
        page.histogram(
            "store_write_duration_seconds",
            "Writes, from the call to the durable answer",
            &shared.stats.writes,
        );
        page.counter("store_commits_total", "Commits; one can have many writes", now.batches);
        page.counter(
            "store_commits_failed_total",
            "Commits that failed, or whose outcome is not known",
            now.commits_failed,
        );
        page.histogram("store_commit_duration_seconds", "Commits, with their flush", &shared.stats.commits);
    }

    fn show_reads(&self, page: &mut Page) {
        let (shared, now) = (&self.inner.shared, self.stats());
        page.counter("store_reads_total", "Reads of the database", now.reads);
        page.counter("store_replica_reads_total", "Reads that a replica answered", now.replica_reads);
        let (commands, queries) = (&shared.commands.timings, &shared.queries.timings);
        let by_queue = |commands, queries| [(queue("commands"), commands), (queue("queries"), queries)];
        page.histograms(
            "store_queue_wait_seconds",
            "From the call to the start of a write or a read that another thread runs",
            by_queue(&commands.waits, &queries.waits),
        );
        page.histograms(
            "store_run_duration_seconds",
            "Runs of writes (SQLite: without the commit) and of reads that another thread runs",
            by_queue(&commands.runs, &queries.runs),
        );
        let fresh = "1 while changes of other instances arrive in time; without them caches do not answer";
        page.gauge("store_fresh", fresh, self.is_fresh());
        let lags = self.inner.backend.replica_lags();
        let lags = lags
            .into_iter()
            .enumerate()
            .map(|(number, lag)| (vec![("replica", number.to_string())], lag.as_secs_f64().into()));
        let help = "Since a replica was last seen with all that the primary had a second before";
        page.gauges("store_replica_lag_seconds", help, lags);
    }

    fn show_file(&self, page: &mut Page) {
        let (shared, now) = (&self.inner.shared, self.stats());
        page.counter(
            "store_checkpoints_total",
            "SQLite: moves of the write-ahead log into the file",
            now.checkpoints,
        );
        page.counter(
            "store_flushes_failed_total",
            "SQLite: failed flushes of the database file; from the first one on the log only grows",
            now.flushes_failed,
        );
        page.histogram(
            "store_checkpoint_pause_seconds",
            "SQLite: pauses of writes for a checkpoint",
            &shared.stats.pauses,
        );
        page.gauge("store_wal_bytes", "SQLite: size of the write-ahead log", now.wal_bytes);
        page.gauge("store_wal_max_bytes", "SQLite: its largest size so far", now.wal_bytes_max);
        let free = self.inner.backend.disk_free().map(|bytes| (Labels::new(), bytes.into()));
        page.gauges("store_disk_free_bytes", "SQLite: free space on the disk of the file", free);
    }
}

fn queue(name: &str) -> Labels {
    vec![("queue", name.to_owned())]
}
