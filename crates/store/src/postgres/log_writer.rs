//! What a thread that runs commands does with the log of changes: a row for each commit, and from time to time
//! a slice off its old end.

use super::change_log::{self, LogEntry};
use super::commit_outcome;
use super::connection::Connection;
use super::publisher::Publisher;
use crate::remote::{ChangeLog, CommitOutcome, ReconnectingSession, TxMode};
use crate::{Error, Key};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Instant;

/// Slices that are cut off the log at once.
const SLICES_MAX: u32 = 4;

pub(super) struct LogWriter {
    publisher: Arc<Publisher>,
    /// Of the last commit; the next one's is one more. Where it begins is left to chance.
    mark: i64,
}

impl LogWriter {
    pub(super) fn new(publisher: Arc<Publisher>) -> LogWriter {
        LogWriter { publisher, mark: RandomState::new().hash_one(0) as i64 }
    }
}

impl ChangeLog for LogWriter {
    type Session = Connection;
    type LogEntry = LogEntry;

    fn write(&mut self, connection: &mut Connection, keys: &[Key]) -> Result<LogEntry, Error> {
        self.mark = self.mark.wrapping_add(1);
        let entry = change_log::write(connection, keys, self.mark)?;
        self.publisher.committing(&entry.xid);
        Ok(entry)
    }

    fn commit_outcome(
        &self,
        session: &mut ReconnectingSession<Connection>,
        entry: &LogEntry,
        until: Instant,
    ) -> Result<CommitOutcome, Error> {
        commit_outcome::ask(session, entry, until)
    }

    fn committed(&mut self, entry: &LogEntry, keys: Vec<Key>) {
        self.publisher.committed(&entry.xid, keys);
    }

    fn maybe_committed(&mut self, entry: &LogEntry, keys: Vec<Key>) {
        self.publisher.maybe_committed(&entry.xid, keys);
    }

    fn trim(&mut self, session: &mut ReconnectingSession<Connection>) {
        let Some(below) = self.publisher.cut_below() else { return };
        for _ in 0..SLICES_MAX {
            let cut =
                session.begin(TxMode::Log, Instant::now()).and_then(|open| change_log::cut(open, below));
            session.finish();
            match cut {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    tracing::warn!(%error, "the log of changes was not cut; a later commit tries again");
                    return;
                }
            }
        }
    }
}
