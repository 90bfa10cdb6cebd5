//! Publishes what changed, each change once: own commits before their callers are answered, those of
//! other instances as soon as the log shows them.
//!
//! This instance's commits are in the log too. One of two threads publishes them: the thread that committed, which
//! stores its transaction's id, or the thread that reads the log, whose last snapshot shows which
//! transactions it has published. Both hold one lock, so "already published" means that every
//! listener was notified.

use super::change_log::News;
use super::notify::Signal;
use super::pg_snapshot::PgSnapshot;
use crate::changes::Feed;
use crate::{Key, Options};
use parking_lot::Mutex;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Marks of the horizon over time, from newest to oldest, span what is kept of the log.
const MARKS: u32 = 8;
/// Notes of own commits that the tail has not read yet. Without its note a commit is published twice.
const OWN_MAX: usize = 100_000;
/// A transaction that writes for this long is worth a line in the program's log.
const STANDSTILL: Duration = Duration::from_secs(60);
/// Between two cuts of the log.
const CUT_PAUSE: Duration = Duration::from_secs(1);

pub(super) struct Publisher {
    feed: Arc<Feed>,
    /// Rung for other instances to be woken.
    notify_others: Arc<Signal>,
    lag_max: Duration,
    kept: Duration,
    /// Held while the listeners are notified of one change, which is quick.
    state: Mutex<State>,
    /// The log may be cut off before this transaction; 0 when there is no need.
    cut_below: AtomicU64,
    /// The newest version that this process has committed since the present read of the log began.
    written_since: AtomicU64,
}

struct State {
    /// What the tail has published is what this snapshot could see …
    snapshot: PgSnapshot,
    /// … and these were published before the log reader could see them.
    own: HashSet<u64>,
    /// The log reader has lost its connection: after a crash ids are given out again, so `snapshot` is not valid.
    lost: bool,
    marks: VecDeque<(Duration, u64)>,
    next_cut: Duration,
    /// Since when the horizon has not moved, and when the next warning about it is due.
    standstill: (Duration, Duration),
}

impl Publisher {
    /// The snapshot is older than anything that is cached.
    pub(super) fn new(
        feed: Arc<Feed>,
        snapshot: PgSnapshot,
        notify_others: Arc<Signal>,
        options: &Options,
    ) -> Publisher {
        let (following, now) = (&options.following, feed.uptime());
        feed.note_snapshot_end(snapshot.xmax());
        feed.advance(snapshot.xmin(), now, following.lag_max);
        let state = State {
            snapshot,
            own: HashSet::new(),
            lost: false,
            marks: VecDeque::new(),
            next_cut: now,
            standstill: (now, now + STANDSTILL),
        };
        Publisher {
            feed,
            notify_others,
            lag_max: following.lag_max,
            kept: following.kept,
            state: Mutex::new(state),
            cut_below: AtomicU64::new(0),
            written_since: AtomicU64::new(0),
        }
    }

    /// A transaction of this process is about to commit: from then on others may see it.
    pub(super) fn committing(&self, xid: &str) {
        self.feed.note_shown(version_with(xid));
    }

    /// Publishes a commit of this process that is durable.
    pub(super) fn committed(&self, xid: &str, keys: Vec<Key>) {
        self.note_written(xid);
        if keys.is_empty() {
            return;
        }
        let mut state = self.state.lock();
        // An id that cannot be read is published again by the tail, which does no harm.
        match xid.parse() {
            Ok(xid) if !state.lost && state.snapshot.includes(xid) => return,
            Ok(xid) => {
                if state.own.len() == OWN_MAX {
                    state.own.clear();
                }
                state.own.insert(xid);
            }
            Err(_) => {}
        }
        self.publish(keys);
        drop(state);
        self.notify_others.raise();
    }

    /// Publishes what may have been committed, or may be yet: then the tail will publish it again. Its caller is told
    /// to look, so no list comes from a replica that does not know how it ended.
    pub(super) fn maybe_committed(&self, xid: &str, keys: Vec<Key>) {
        self.note_written(xid);
        let _turn = self.state.lock();
        self.publish(keys);
    }

    /// A history that began meanwhile has forgotten what [`Publisher::committing`] noted, so it is noted again.
    fn note_written(&self, xid: &str) {
        let version = version_with(xid);
        self.written_since.fetch_max(version, Ordering::AcqRel);
        self.feed.note_shown(version);
        self.feed.note_written(version);
    }

    /// A read of the log begins: it shows all that was committed before.
    pub(super) fn reading(&self) {
        self.written_since.store(0, Ordering::Release);
    }

    /// The tail cannot read the log; when it can again, everything may have changed.
    pub(super) fn connection_lost(&self) {
        self.state.lock().lost = true;
    }

    /// The history that the tail has read.
    pub(super) fn history(&self) -> u64 {
        self.feed.history()
    }

    /// What the tail has read up to.
    pub(super) fn snapshot(&self) -> PgSnapshot {
        self.state.lock().snapshot.clone()
    }

    /// Publishes what the tail has read in this history: it `asked` then, and what had been committed by then is in.
    pub(super) fn publish_read(&self, news: News, history: u64, asked: Duration) {
        let epoch = news.origin.epoch();
        let mut state = self.state.lock();
        let connected_anew = std::mem::take(&mut state.lost);
        // After a restore, or after the promotion of a standby that had not received everything, ids come again, and
        // cached rows may never have existed. After a long absence rows may have been cut off before they were read.
        let foreign = news.is_foreign();
        let missed = !foreign && news.cut_below > state.snapshot.xmin();
        let went_back = news.snapshot.xmax() < state.snapshot.xmax();
        let other_history = history != self.feed.history();
        let other_epoch = epoch != self.feed.epoch();
        if other_history || other_epoch {
            // Commits of the new history that this read does not show have been answered already.
            let end = news.snapshot.xmax().max(self.written_since.load(Ordering::Acquire));
            self.feed.begin_epoch(epoch, history, news.snapshot.xmin()..end, asked);
        }
        // Before the changes are published: what they cause to be read from a replica must have them.
        self.feed.note_snapshot_end(news.snapshot.xmax());
        if connected_anew || foreign || missed || went_back || other_history || other_epoch {
            tracing::warn!(
                connected_anew,
                foreign,
                missed,
                went_back,
                other_history,
                other_epoch,
                "all cached entries are dropped"
            );
            state.own.clear();
            self.publish(vec![Key::everything()]);
        } else {
            let mut keys = Vec::new();
            for (xid, changed) in news.changes {
                if !state.own.remove(&xid) {
                    keys.extend(changed);
                }
            }
            keys.sort_unstable();
            keys.dedup();
            self.publish(keys);
        }
        if state.snapshot.xmin() != news.snapshot.xmin() || news.snapshot.xmin() == news.snapshot.xmax() {
            state.standstill = (asked, asked + STANDSTILL);
        } else if asked >= state.standstill.1 {
            let since = asked.saturating_sub(state.standstill.0).as_secs();
            tracing::warn!(
                seconds = since,
                "a transaction in the database server does not end: versions stand still and the log of \
                 changes grows; see backend_xid and xact_start in pg_stat_activity"
            );
            state.standstill.1 = asked + STANDSTILL;
        }
        state.snapshot = news.snapshot;
        let horizon = state.snapshot.xmin();
        state.own.retain(|xid| *xid >= horizon);
        self.feed.advance(horizon, asked, self.lag_max);
        self.plan_cut(&mut state, asked);
    }

    /// How far the log is to be cut off now, if at all. Asked by threads that commit, between two
    /// commands; one of them is told.
    pub(super) fn cut_below(&self) -> Option<u64> {
        match self.cut_below.load(Ordering::Relaxed) {
            0 => None,
            _ => Some(self.cut_below.swap(0, Ordering::Relaxed)).filter(|below| *below > 0),
        }
    }

    /// Every live instance read, long ago, the rows that were behind the horizon `kept` ago. The age of a row
    /// is no criterion: a row that was written early and committed late has only just appeared.
    fn plan_cut(&self, state: &mut State, now: Duration) {
        let horizon = state.snapshot.xmin();
        let due = |(at, _): &(Duration, u64)| now.saturating_sub(*at) >= self.kept / MARKS;
        if state.marks.back().is_none_or(due) {
            state.marks.push_back((now, horizon));
        }
        let old = |(at, _): &(Duration, u64)| now.saturating_sub(*at) >= self.kept;
        while state.marks.get(1).is_some_and(old) {
            state.marks.pop_front();
        }
        if let Some((_, below)) = state.marks.front().filter(|mark| old(mark))
            && now >= state.next_cut
        {
            state.next_cut = now + CUT_PAUSE.min(self.kept);
            self.cut_below.store(*below, Ordering::Relaxed);
        }
    }

    /// With the lock held.
    fn publish(&self, keys: Vec<Key>) {
        if !keys.is_empty() {
            self.feed.publish(keys);
        }
    }
}

/// The first version whose state holds the transaction. An id that cannot be read is in none.
fn version_with(xid: &str) -> u64 {
    xid.parse().map_or(0, |xid: u64| xid.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::super::epochs::Origin;
    use super::*;
    use crate::BootTime;
    use crate::version::Epoch;

    #[test]
    fn what_became_of_a_commit_is_known_to_who_is_read_from_also_when_nobody_else_knows() {
        let feed = Arc::new(Feed::new(Epoch(1), 7, Arc::new(BootTime)));
        let snapshot = PgSnapshot::parse("7:7:").expect("reads");
        let publisher =
            Publisher::new(feed.clone(), snapshot, Arc::default(), &Options::new("postgres://db.test", &[]));
        publisher.committed("8", vec![]);
        assert_eq!(feed.written(), 9);
        publisher.maybe_committed("12", vec![Key::table("users")]);
        assert_eq!(feed.written(), 13);
    }

    #[test]
    fn a_new_history_includes_what_was_committed_while_the_log_was_read() {
        let feed = Arc::new(Feed::new(Epoch(1), 900, Arc::new(BootTime)));
        let snapshot = PgSnapshot::parse("900:900:").expect("reads");
        let publisher =
            Publisher::new(feed.clone(), snapshot, Arc::default(), &Options::new("postgres://db.test", &[]));
        publisher.committed("899", vec![]);
        publisher.reading();
        publisher.committed("11", vec![]);
        let news = News {
            snapshot: PgSnapshot::parse("9:9:").expect("reads"),
            origin: Origin::parse("1 1  1 1").expect("reads"),
            cut_below: 0,
            changes: Vec::new(),
        };
        publisher.publish_read(news, 2, Duration::ZERO);
        assert_eq!((feed.written(), feed.shown().number()), (12, 12));
        publisher.committing("12");
        publisher.committed("12", vec![]);
        assert_eq!((feed.written(), feed.shown().number()), (13, 13));
    }

    #[test]
    fn what_a_change_causes_to_be_read_must_have_it() {
        let feed = Arc::new(Feed::new(Epoch(1), 7, Arc::new(BootTime)));
        let snapshot = PgSnapshot::parse("7:7:").expect("reads");
        let publisher =
            Publisher::new(feed.clone(), snapshot, Arc::default(), &Options::new("postgres://db.test", &[]));
        let (needed, reads) = (Arc::new(AtomicU64::new(0)), feed.clone());
        let noted = needed.clone();
        feed.subscribe(Box::new(move |_| noted.store(reads.snapshot_end(), Ordering::Relaxed)));
        let news = News {
            snapshot: PgSnapshot::parse("9:9:").expect("reads"),
            origin: Origin::parse("0 1  1 1").expect("reads"),
            cut_below: 0,
            changes: vec![(8, vec![Key::table("users")])],
        };
        publisher.publish_read(news, 1, Duration::ZERO);
        assert_eq!(needed.load(Ordering::Relaxed), 9);
    }
}
