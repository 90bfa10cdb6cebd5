//! What a thread that runs commands does with the log of changes: a row for each commit, and from time to time
//! its old rows away.

use super::connection::Connection;
use super::feed::{self, Entry, Publisher};
use super::outcome;
use crate::remote::{Link, Log, Outcome, Purpose};
use crate::{Error, Key};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Instant;

pub(super) struct Commits {
    publisher: Arc<Publisher>,
    /// Of the last commit; the next one's is one more. Where it begins is left to chance.
    mark: i64,
    /// To be done after the caller has its answer.
    must_trim: bool,
}

impl Commits {
    pub(super) fn new(publisher: Arc<Publisher>) -> Commits {
        Commits { publisher, mark: RandomState::new().hash_one(0) as i64, must_trim: false }
    }

    fn publish(&mut self, keys: Vec<Key>) {
        self.must_trim |= self.publisher.publish(keys);
    }
}

impl Log for Commits {
    type Session = Connection;
    type Entry = Entry;

    fn write(&mut self, connection: &mut Connection, keys: &[Key]) -> Result<Entry, Error> {
        self.mark = self.mark.wrapping_add(1);
        let entry = feed::log(connection, keys, self.mark)?;
        self.publisher.claim(entry.seq);
        Ok(entry)
    }

    fn ask(&self, link: &mut Link<Connection>, entry: &Entry, until: Instant) -> Result<Outcome, Error> {
        outcome::ask(link, entry, until)
    }

    fn committed(&mut self, _entry: &Entry, keys: Vec<Key>) {
        self.publish(keys);
    }

    fn perhaps_committed(&mut self, _entry: &Entry, keys: Vec<Key>) {
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
