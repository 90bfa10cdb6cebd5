//! What a thread that runs commands does with the log of changes: a row for each commit, and from time to time
//! its old rows away.

use super::connection::Connection;
use super::feed::{self, Publisher};
use super::outcome;
use crate::remote::{Link, Log, Outcome, Purpose};
use crate::{Error, Key};
use std::sync::Arc;
use std::time::Instant;

pub(super) struct Commits {
    publisher: Arc<Publisher>,
    /// To be done after the caller has its answer.
    must_trim: bool,
}

impl Commits {
    pub(super) fn new(publisher: Arc<Publisher>) -> Commits {
        Commits { publisher, must_trim: false }
    }

    fn publish(&mut self, keys: Vec<Key>) {
        self.must_trim |= self.publisher.publish(keys);
    }
}

impl Log for Commits {
    type Session = Connection;
    /// The number of its row.
    type Entry = u64;

    fn write(&mut self, connection: &mut Connection, keys: &[Key]) -> Result<u64, Error> {
        let seq = feed::log(connection, keys)?;
        self.publisher.claim(seq);
        Ok(seq)
    }

    fn ask(&self, link: &mut Link<Connection>, seq: &u64, until: Instant) -> Result<Outcome, Error> {
        outcome::ask(link, *seq, until)
    }

    fn committed(&mut self, _seq: &u64, keys: Vec<Key>) {
        self.publish(keys);
    }

    fn perhaps_committed(&mut self, _seq: &u64, keys: Vec<Key>) {
        self.publish(keys);
    }

    fn tidy_up(&mut self, link: &mut Link<Connection>) {
        if !std::mem::take(&mut self.must_trim) {
            return;
        }
        let trimmed = link.begin(Purpose::Log, Instant::now()).and_then(feed::trim);
        link.finish();
        if let Err(error) = trimmed {
            tracing::warn!(%error, "the log of changes was not trimmed; a later commit tries again");
        }
    }
}
