//! What a thread that runs commands does with the log of changes; each back end has a log of its own kind.

use super::{ReconnectingSession, Session};
use crate::threads::pause;
use crate::{Error, Key};
use std::fmt::Display;
use std::time::{Duration, Instant};

/// How long the outcome of a commit is looked for before the caller gets `outcome_unknown`.
const PATIENCE: Duration = Duration::from_secs(3);
/// Between two queries for a transaction that has not ended.
const PAUSE: Duration = Duration::from_millis(20);

/// A thread's access to the change log and to its listeners.
pub(crate) trait ChangeLog: Send + 'static {
    type Session: Session;
    /// A transaction in the log: enough to ask what became of it.
    type LogEntry: Display;

    /// Logs `keys` in the open transaction.
    fn write(&mut self, session: &mut Self::Session, keys: &[Key]) -> Result<Self::LogEntry, Error>;

    /// What became of a commit whose answer was lost; unknown while it has not ended.
    fn commit_outcome(
        &self,
        session: &mut ReconnectingSession<Self::Session>,
        entry: &Self::LogEntry,
        until: Instant,
    ) -> Result<CommitOutcome, Error>;

    /// Publishes a commit that is durable.
    fn committed(&mut self, entry: &Self::LogEntry, keys: Vec<Key>);

    /// Publishes what may have been committed, or may be yet: then the log reader publishes it again.
    fn maybe_committed(&mut self, entry: &Self::LogEntry, keys: Vec<Key>);

    /// Keeps the log short, when that is due. Called when callers have their answers.
    fn trim(&mut self, session: &mut ReconnectingSession<Self::Session>);
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CommitOutcome {
    Committed,
    Aborted,
    Unknown,
}

/// Asks until the transaction has ended. Its old server process may not have noticed yet that
/// nobody listens: then it still counts as running.
pub(super) fn wait_for_outcome<L: ChangeLog>(
    log: &L,
    session: &mut ReconnectingSession<L::Session>,
    entry: &L::LogEntry,
) -> CommitOutcome {
    let until = Instant::now() + PATIENCE;
    let mut is_logged = false;
    loop {
        match log.commit_outcome(session, entry, until) {
            Ok(CommitOutcome::Unknown) => {}
            Ok(known) => return known,
            // One line, however often it is asked: in an outage every writer asks.
            Err(error) if !std::mem::replace(&mut is_logged, true) => {
                tracing::warn!(%entry, %error, "the outcome of a commit is not known yet");
            }
            Err(_) => {}
        }
        if Instant::now() + PAUSE > until {
            tracing::error!(%entry, "the outcome of a commit is unknown");
            return CommitOutcome::Unknown;
        }
        pause(PAUSE);
    }
}
