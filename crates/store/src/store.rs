//! The handle to the database that everybody holds.

use crate::changes::{Change, Version};
use crate::engine::{Backend, Shared};
use crate::job::{CommandOf, Start};
use crate::stats::StatsSnapshot;
use crate::{Error, Sql, Tx, not_before};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// A database. Clones share it; the last one closes nothing: call [`Store::close`].
#[derive(Clone)]
pub struct Store {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) shared: Arc<Shared>,
    pub(crate) backend: Box<dyn Backend>,
}

impl Store {
    /// Runs a command and returns when what it did is on disk.
    ///
    /// The command may run more than once and must do nothing but through `tx`. An `Err` from it
    /// undoes what it did, and so does a statement that failed, even when the command goes on after
    /// it. [`Error::Overloaded`] when it could not start in time.
    pub async fn write<T, E, F>(&self, name: &'static str, command: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Error> + Send + 'static,
        F: Fn(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
    {
        self.command(name, false, command).await
    }

    /// The same for a command that comes thousands of times a second: a statement or two that hardly ever fail
    /// and wait for no row. Those that have gathered run unguarded in one transaction, and again with more care when that fails.
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
        let (reply, answer) = oneshot::channel();
        let start = Start::default();
        let shared = &self.inner.shared;
        let job = CommandOf {
            name,
            batchable,
            function,
            result: None,
            reply: Some(reply),
            runtime: Handle::try_current().ok(),
            start: start.clone(),
        };
        if let Err((_, error)) = shared.commands.push(Box::new(job)) {
            shared.stats.refused.fetch_add(1, Ordering::Relaxed);
            return Err(error.into());
        }
        let result = wait(answer, &start, shared.commands.deadline).await;
        result.unwrap_or_else(|error| {
            shared.stats.refused.fetch_add(1, Ordering::Relaxed);
            Err(error.into())
        })
    }

    /// Runs a command that nobody waits for; what it returns is dropped. False when refused.
    pub fn write_later<E, F>(&self, name: &'static str, command: F) -> bool
    where
        E: From<Error> + Send + 'static,
        F: Fn(&mut Tx<'_>) -> Result<(), E> + Send + 'static,
    {
        let start = Start::default();
        let job = CommandOf {
            name,
            batchable: false,
            function: command,
            result: None,
            reply: None,
            runtime: None,
            start,
        };
        let shared = &self.inner.shared;
        let accepted = shared.commands.push(Box::new(job)).is_ok();
        if !accepted {
            shared.stats.refused.fetch_add(1, Ordering::Relaxed);
        }
        accepted
    }

    /// Calls `listener` for every change: of this process on the committing thread, before the writer's
    /// caller is answered; of other instances on the thread that hears of them. After an outage it may be
    /// [`crate::Key::everything`]. It must be quick, must not wait and must not write.
    pub fn on_change(&self, listener: impl Fn(&Change) + Send + Sync + 'static) {
        self.inner.shared.feed.subscribe(Box::new(listener));
    }

    /// Every commit up to this version has been published by this process. Where instances share a
    /// server the version is theirs in common, and follows a commit by some milliseconds.
    pub fn version(&self) -> Version {
        self.inner.shared.feed.version()
    }

    /// No answer that this process has given so far shows a newer state than this version. A caller who
    /// carries it along is served inside [`crate::not_before`], by whichever instance.
    pub fn shown(&self) -> Version {
        self.inner.shared.feed.shown()
    }

    /// What a caller is to carry from now on, who is answered inside [`crate::not_before`]: never less than he has
    /// carried, but for a version that is not of this database's past, as one from before a restore. That shows when
    /// the database was asked for him.
    pub fn version_token(&self) -> Version {
        let feed = &self.inner.shared.feed;
        let carried = if not_before::had_fresh_read() && feed.versions_are_shared() {
            0
        } else {
            not_before::min_version()
        };
        feed.shown().max(carried)
    }

    /// The counters.
    pub fn stats(&self) -> StatsSnapshot {
        self.inner.shared.stats.snapshot(self.inner.shared.commands.depth())
    }

    /// Prepares a statement without running it: for the test that does so with all of them.
    pub fn prepare(&self, sql: &Sql) -> Result<(), Error> {
        self.inner.backend.prepare(sql)
    }

    /// The steps of the database's plan for a statement, one a line; `None` when it cannot say. For the test that no
    /// statement looks through a long table.
    pub fn explain(&self, sql: &Sql) -> Result<Option<String>, Error> {
        self.inner.backend.explain(sql)
    }

    /// Takes no more work, finishes what waits, moves the log into the file and lets go of it.
    /// Blocks until done.
    pub fn close(&self) {
        self.inner.backend.close();
    }
}

/// Waits for the answer, but gives up at the deadline if the job has not even started.
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
