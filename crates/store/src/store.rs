//! The handle to a database.

use crate::changes::Change;
use crate::engine::{Backend, Shared};
use crate::job::{CommandOf, Start};
use crate::mark::MarkKey;
use crate::stats::StatsSnapshot;
use crate::{Error, Position, Sql, Tx, Version, not_before, runtime};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// A database. Clones share it. Dropping them closes nothing: call [`Store::close`].
#[derive(Clone)]
pub struct Store {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) shared: Arc<Shared>,
    pub(crate) backend: Box<dyn Backend>,
}

impl Store {
    /// Runs a command and returns when its changes are on disk.
    ///
    /// The command may run more than once, so it must have no effects except through `tx`. If it returns an error, its
    /// changes are undone. The same happens when one of its statements fails, even if the command ignores that.
    /// Returns [`Error::Overloaded`] if the command could not start in time.
    pub async fn write<T, E, F>(&self, name: &'static str, command: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Error> + Send + 'static,
        F: Fn(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
    {
        self.command(name, false, command).await
    }

    /// Like [`Store::write`], for short commands that come at thousands a second, rarely fail and wait for no lock.
    /// Queued ones share one transaction without savepoints. If one of them fails, the others run again with savepoints
    /// (SQLite) or each in a transaction of its own. [`Tx::exec_one`] saves them journeys to the server.
    pub async fn write_batched<T, E, F>(&self, name: &'static str, command: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Error> + Send + 'static,
        F: Fn(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
    {
        self.command(name, true, command).await
    }

    async fn command<T, E, F>(&self, name: &'static str, batchable: bool, function: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Error> + Send + 'static,
        F: Fn(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
    {
        let runtime = runtime::of_caller()?;
        let (reply, answer) = oneshot::channel();
        let start = Start::default();
        let queued_at = Instant::now();
        let shared = &self.inner.shared;
        let job = CommandOf {
            name,
            batchable,
            function,
            result: None,
            reply: Some(reply),
            runtime: Some(runtime),
            start: start.clone(),
            queued_at,
        };
        if let Err((_, error)) = shared.commands.push(Box::new(job)) {
            shared.stats.refused.fetch_add(1, Ordering::Relaxed);
            return Err(error.into());
        }
        let result = wait(answer, &start, shared.commands.deadline).await;
        match result {
            Ok(result) => {
                shared.stats.writes.observe(queued_at.elapsed());
                result
            }
            Err(error) => {
                shared.stats.refused.fetch_add(1, Ordering::Relaxed);
                Err(error.into())
            }
        }
    }

    /// Queues a short command, as for [`Store::write_batched`], without waiting for its result. Returns `false` if it was
    /// refused: these commands have less room than those for which somebody waits.
    pub fn write_later<E, F>(&self, name: &'static str, command: F) -> bool
    where
        E: From<Error> + Send + 'static,
        F: Fn(&mut Tx<'_>) -> Result<(), E> + Send + 'static,
    {
        let start = Start::default();
        let job = CommandOf {
            name,
            batchable: true,
            function: command,
            result: None,
            reply: None,
            runtime: None,
            start,
            queued_at: Instant::now(),
        };
        let shared = &self.inner.shared;
        let accepted = shared.commands.push_later(Box::new(job)).is_ok();
        if !accepted {
            shared.stats.refused.fetch_add(1, Ordering::Relaxed);
        }
        accepted
    }

    /// Calls `listener` for every change. For a change of this process it runs on the committing thread, before the
    /// caller of `write` gets its result; for a change of another instance, on the thread that reads the change log.
    /// After an outage the change may be [`crate::Key::everything`]. The listener must return quickly, and must not block
    /// or write.
    pub fn on_change(&self, listener: impl Fn(&Change) + Send + Sync + 'static) {
        self.inner.shared.feed.subscribe(Box::new(listener));
    }

    /// How far this process has published changes.
    pub fn position(&self) -> Position {
        self.inner.shared.feed.position()
    }

    /// This process has published every commit up to this version. Instances that share a database server have versions
    /// in common, which follow a commit by a few milliseconds.
    pub fn version(&self) -> Version {
        self.inner.shared.feed.version()
    }

    /// Whether versions mean the same on every instance: not on MySQL with several, where a version of another instance
    /// says nothing here, and two results of one version may differ.
    pub fn has_common_versions(&self) -> bool {
        self.inner.shared.feed.versions_are_shared()
    }

    /// Whether this process has published every change that an answer shows.
    pub fn has_published(&self, version: Version, taken: Duration) -> bool {
        self.inner.shared.feed.has_published(version, taken)
    }

    /// No response of this process has shown a state newer than this version. A client that sends it with its next
    /// request, to any instance, is served inside [`crate::not_before`].
    pub fn shown(&self) -> Version {
        self.inner.shared.feed.shown()
    }

    /// A result includes all writes that this process has acknowledged if its [`crate::Answer::settled`] is not older than
    /// this.
    pub fn acknowledged(&self) -> Version {
        let feed = &self.inner.shared.feed;
        // Where instances have no version in common (MySQL), this one's own counts its commits: each was published before it was
        // answered.
        let is_own = feed.is_single_process() || !feed.versions_are_shared();
        if is_own { feed.version() } else { feed.at(feed.written()) }
    }

    /// The version to return to a client that is served inside [`crate::not_before`]: the larger of its own version and
    /// [`Store::shown`]. If its version is not part of this database's history, as after a restore, the result is
    /// [`Store::shown`]; a read from the primary is what reveals that.
    pub fn version_token(&self) -> Version {
        let feed = &self.inner.shared.feed;
        let shown = feed.shown();
        match not_before::min_version() {
            Some(carried)
                if carried > shown && !(not_before::had_fresh_read() && feed.versions_are_shared()) =>
            {
                carried
            }
            _ => shown,
        }
    }

    /// False if changes of other instances may be missing for longer than promised, as while the database is away.
    pub fn is_fresh(&self) -> bool {
        self.inner.shared.feed.is_fresh()
    }

    /// Identifies the history that cursors of logs belong to ([`crate::LogCursor`]).
    pub fn log_history(&self) -> u64 {
        let feed = &self.inner.shared.feed;
        // Elsewhere the epoch is that of the process, and a cursor identifies its history by its last entry.
        if feed.versions_are_shared() && !feed.is_single_process() { feed.history() } else { 0 }
    }

    /// Whether several instances may use the database at once. A file has one process.
    pub fn is_shared(&self) -> bool {
        !self.inner.shared.feed.is_single_process()
    }

    /// The current counters.
    pub fn stats(&self) -> StatsSnapshot {
        self.inner.shared.stats.snapshot(self.inner.shared.commands.depth())
    }

    /// Prepares a statement without running it, for the test that prepares all of them.
    pub fn prepare(&self, sql: &Sql) -> Result<(), Error> {
        self.inner.backend.prepare(sql)
    }

    /// The database's query plan for a statement, one step a line; `None` if the database has no such text. For the test
    /// that no statement scans a large table.
    pub fn explain(&self, sql: &Sql) -> Result<Option<String>, Error> {
        self.inner.backend.explain(sql)
    }

    /// Copies the database to a new file that only its owner may read, without stopping writers (SQLite only). The copy
    /// has each write that was acknowledged before the call. The file gets its name when it is complete and flushed.
    /// It is marked under the key. Returns its size. Blocks until that is done.
    pub fn backup(&self, target: &Path, key: &MarkKey) -> Result<u64, Error> {
        self.inner.backend.backup(target, key)
    }

    /// Accepts no more jobs, finishes those that are queued, moves the write-ahead log into the file and closes it.
    /// Blocks until that is done.
    pub fn close(&self) {
        self.inner.backend.close();
    }
}

/// Waits for the result. Gives up at the deadline if the job has not started by then.
pub(crate) async fn wait<T>(
    mut answer: oneshot::Receiver<T>,
    start: &Start,
    deadline: Duration,
) -> Result<T, Error> {
    let received = match tokio::time::timeout(deadline, &mut answer).await {
        Ok(received) => received,
        Err(_) if start.give_up() => return Err(Error::Overloaded { retry_after: deadline }),
        Err(_) => answer.await,
    };
    received.map_err(|_| Error::Stopped)
}
