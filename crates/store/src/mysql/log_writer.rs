//! What a thread that runs commands does with the log of changes: a row for each commit, and from time to time
//! its old rows away.

use super::change_log::{self, LogEntry};
use super::commit_outcome;
use super::connection::Connection;
use super::publisher::Publisher;
use crate::planted::{self, Bug, is_planted};
use crate::remote::{ChangeLog, CommitOutcome, ReconnectingSession, TxMode};
use crate::{Error, Key};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Instant;

pub(super) struct LogWriter {
    publisher: Arc<Publisher>,
    /// Of the last commit; the next one's is one more. Where it begins is left to chance.
    mark: i64,
    /// To be done after the caller has its answer.
    must_trim: bool,
}

impl LogWriter {
    pub(super) fn new(publisher: Arc<Publisher>) -> LogWriter {
        LogWriter { publisher, mark: RandomState::new().hash_one(0) as i64, must_trim: false }
    }

    fn publish(&mut self, keys: Vec<Key>) {
        self.must_trim |= self.publisher.publish(keys);
    }
}

impl ChangeLog for LogWriter {
    type Session = Connection;
    type LogEntry = LogEntry;

    fn write(&mut self, connection: &mut Connection, keys: &[Key]) -> Result<LogEntry, Error> {
        self.mark = self.mark.wrapping_add(1);
        let entry = change_log::write(connection, keys, self.mark)?;
        self.publisher.note_own(entry.seq);
        if is_planted(Bug::OrderBySequence) && entry.seq.is_multiple_of(2) {
            planted::wait();
        }
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
        // In this order: should the log reader come in between, the row is published twice, and not never.
        self.publish(keys);
        self.publisher.note_published(entry.seq);
    }

    fn maybe_committed(&mut self, entry: &LogEntry, keys: Vec<Key>) {
        // Before the publication: a row that appears after it is published by the log reader.
        self.publisher.note_late(entry.seq);
        self.publish(keys);
    }

    fn trim(&mut self, session: &mut ReconnectingSession<Connection>) {
        if !std::mem::take(&mut self.must_trim) {
            return;
        }
        let trimmed = session.begin(TxMode::Log, Instant::now()).and_then(change_log::trim);
        session.finish();
        if let Err(error) = trimmed {
            tracing::warn!(%error, "the log of changes was not trimmed; a later commit tries again");
        }
    }
}
