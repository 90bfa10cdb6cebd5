//! Publishes what changed: own commits on the thread that made them, those of other instances on the thread that reads the
//! change log. A change is published once, unless that thread comes upon an own commit before it was published.

use crate::Key;
use crate::changes::Feed;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// How often a process trims the log, in commits.
const TRIM_EVERY: u64 = 10_000;
/// Own rows that the log reader has not met yet; more only when it cannot reach the server.
const OWN_MAX: usize = 100_000;

/// The feed, for the threads that commit side by side and the one that reads the log: one at a time publishes.
pub(super) struct Publisher {
    feed: Arc<Feed>,
    /// Held while the listeners run for one commit, which is quick.
    turn: Mutex<()>,
    /// Numbers of rows of this process, and whether it has published them. Held for a look-up.
    own: Mutex<HashMap<u64, bool>>,
    /// Numbers of own rows whose commit may take effect later, for the log reader.
    late: Mutex<Vec<u64>>,
}

impl Publisher {
    pub(super) fn new(feed: Arc<Feed>) -> Publisher {
        Publisher { feed, turn: Mutex::new(()), own: Mutex::default(), late: Mutex::default() }
    }

    /// Notes, before the commit, that the row is one of this process. Until [`Publisher::note_published`] the log reader
    /// publishes it if it sees it first: the answer to a commit may come long after it has taken effect.
    pub(super) fn note_own(&self, seq: u64) {
        let mut own = self.own.lock();
        if own.len() == OWN_MAX {
            // A change that is published twice costs a few cached entries, and nothing else.
            own.clear();
        }
        own.insert(seq, false);
    }

    /// Notes that an own row was published, unless the log reader has met it already.
    pub(super) fn note_published(&self, seq: u64) {
        if let Some(is_published) = self.own.lock().get_mut(&seq) {
            *is_published = true;
        }
    }

    /// Whether this process has published that row itself. It is asked once for each row that is there.
    pub(super) fn take_own(&self, seq: u64) -> bool {
        self.own.lock().remove(&seq) == Some(true)
    }

    /// The same for a row that is not there yet, or not any more. One that is not published is asked for again.
    pub(super) fn take_published(&self, seq: u64) -> bool {
        let mut own = self.own.lock();
        let is_published = own.get(&seq) == Some(&true);
        if is_published {
            own.remove(&seq);
        }
        is_published
    }

    /// Leaves a row to the log reader: its commit may take effect later, or never.
    pub(super) fn note_late(&self, seq: u64) {
        self.take_own(seq);
        self.late.lock().push(seq);
    }

    /// The rows of [`Publisher::note_late`] since the last call.
    pub(super) fn take_late(&self) -> Vec<u64> {
        std::mem::take(&mut *self.late.lock())
    }

    /// Forgets which numbers are our own: the server may have lost them, and given them to others.
    pub(super) fn forget_own(&self) {
        self.own.lock().clear();
    }

    /// Publishes a commit that is durable. True when it is time to trim the log.
    pub(super) fn publish(&self, keys: Vec<Key>) -> bool {
        let _turn = self.turn.lock();
        self.feed.publish(keys).0.is_multiple_of(TRIM_EVERY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BootTime;
    use crate::version::Epoch;

    #[test]
    fn a_row_of_our_own_that_was_published_is_known_once() {
        let publisher = Publisher::new(Arc::new(Feed::new(Epoch(1), 0, Arc::new(BootTime))));
        publisher.note_own(7);
        assert!(!publisher.take_published(7), "it may be committed, and is not published");
        publisher.note_published(7);
        assert_eq!(
            [publisher.take_own(7), publisher.take_own(7), publisher.take_own(8)],
            [true, false, false]
        );
        // The log reader was first, and publishes it.
        publisher.note_own(9);
        assert!(!publisher.take_own(9));
        publisher.note_published(9);
        assert!(publisher.own.lock().is_empty(), "nobody asks for it again");
        publisher.note_own(10);
        publisher.note_published(10);
        assert_eq!([publisher.take_published(10), publisher.take_published(10)], [true, false]);
    }

    #[test]
    fn a_late_row_is_not_our_own_and_is_left_to_the_log_reader_once() {
        let publisher = Publisher::new(Arc::new(Feed::new(Epoch(1), 0, Arc::new(BootTime))));
        publisher.note_own(7);
        publisher.note_late(7);
        assert!(!publisher.take_own(7));
        assert_eq!([publisher.take_late(), publisher.take_late()], [vec![7], vec![]]);
    }
}
