//! What a thread that runs commands does with the log of changes: a row for each commit, and from time to time
//! a slice off its old end.

use super::connection::Connection;
use super::log::{self, Entry};
use super::outcome;
use super::publisher::Publisher;
use crate::remote::{Link, Log, Outcome, Purpose};
use crate::{Error, Key};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Instant;

/// Slices that are cut off the log at once.
const SLICES_MAX: u32 = 4;

pub(super) struct Commits {
    publisher: Arc<Publisher>,
    /// Of the last commit; the next one's is one more. Where it begins is left to chance.
    mark: i64,
}

impl Commits {
    pub(super) fn new(publisher: Arc<Publisher>) -> Commits {
        Commits { publisher, mark: RandomState::new().hash_one(0) as i64 }
    }
}

impl Log for Commits {
    type Session = Connection;
    type Entry = Entry;

    fn write(&mut self, connection: &mut Connection, keys: &[Key]) -> Result<Entry, Error> {
        self.mark = self.mark.wrapping_add(1);
        let entry = log::write(connection, keys, self.mark)?;
        self.publisher.commits(&entry.xid);
        Ok(entry)
    }

    fn ask(&self, link: &mut Link<Connection>, entry: &Entry, until: Instant) -> Result<Outcome, Error> {
        outcome::ask(link, entry, until)
    }

    fn committed(&mut self, entry: &Entry, keys: Vec<Key>) {
        self.publisher.committed(&entry.xid, keys);
    }

    fn perhaps_committed(&mut self, entry: &Entry, keys: Vec<Key>) {
        self.publisher.perhaps_committed(&entry.xid, keys);
    }

    fn tidy_up(&mut self, link: &mut Link<Connection>) {
        let Some(below) = self.publisher.cut_below() else { return };
        for _ in 0..SLICES_MAX {
            let cut = link.begin(Purpose::Log, Instant::now()).and_then(|open| log::cut(open, below));
            link.finish();
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
