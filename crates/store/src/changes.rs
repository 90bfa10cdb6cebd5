//! The feed of changes, in the order in which this process publishes them.
//!
//! A command declares what it changed and a query what it depends on, both as [`Key`]s. Listeners run on the committing
//! thread *before* `write` returns, so caches are up to date by then.

use crate::key_index::KeyIndex;
use crate::sync::RwLock;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::version::{Epoch, Position, Version};
use crate::{Key, Uptime};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// A published commit. Commits of other instances may be published several at once.
#[derive(Clone, Debug)]
pub struct Change {
    /// The position in this process's feed. Later changes have larger ones.
    pub position: Position,
    /// The changed keys, as the commands declared them.
    pub keys: Arc<[Key]>,
}

/// Called on the committing thread, so it must be quick and must not block.
pub(crate) type Listener = Box<dyn Fn(&Change) + Send + Sync>;

/// Positions and versions, what depends on which keys, and the listeners.
///
/// Caches go by the position. The version is the same on every instance; it advances when all earlier commits have been
/// published here. The numbers below are numbers of versions in the current epoch.
pub(crate) struct Feed {
    position: AtomicU64,
    /// The position of the change whose publication has begun; it is committed already.
    committed: AtomicU64,
    epoch: AtomicU64,
    /// What had been committed before this moment belonged to another epoch, in microseconds of `clock`.
    epoch_since: AtomicU64,
    /// The name of the database's history, which has several epochs on PostgreSQL.
    history: AtomicU64,
    /// The version if other instances write too. 0 if this process is the only writer: then positions are versions.
    horizon: AtomicU64,
    /// The end of the last snapshot in which the change log was read: it included no commit from this version on.
    snapshot_end: AtomicU64,
    /// No state that this process has returned is newer than this version.
    shown: AtomicU64,
    /// Every state from this version on includes all that this process has committed.
    written: AtomicU64,
    /// All that was visible at this moment has been published, in microseconds of `clock`.
    read_at: AtomicU64,
    /// When cached entries become stale, in microseconds of `clock`; [`ALWAYS`] if this process is the only writer.
    fresh_until: AtomicU64,
    clock: Arc<dyn Uptime>,
    /// What depends on which keys.
    pub(crate) index: KeyIndex,
    listeners: RwLock<Vec<Listener>>,
}

const ALWAYS: u64 = u64::MAX;

impl Feed {
    /// A feed that begins with the state that has this number.
    pub(crate) fn new(epoch: Epoch, number: u64, clock: Arc<dyn Uptime>) -> Feed {
        Feed {
            position: AtomicU64::new(number),
            committed: AtomicU64::new(number),
            epoch: AtomicU64::new(epoch.0),
            epoch_since: AtomicU64::new(0),
            history: AtomicU64::new(epoch.0),
            horizon: AtomicU64::new(0),
            snapshot_end: AtomicU64::new(0),
            shown: AtomicU64::new(number),
            written: AtomicU64::new(0),
            read_at: AtomicU64::new(0),
            fresh_until: AtomicU64::new(ALWAYS),
            index: KeyIndex::new(Position(number), clock.clone()),
            clock,
            listeners: RwLock::new(Vec::new()),
        }
    }

    /// The state with this number in the current epoch.
    pub(crate) fn at(&self, number: u64) -> Version {
        Version { epoch: self.epoch(), number }
    }

    /// Everything up to this version has been published here.
    pub(crate) fn version(&self) -> Version {
        self.at(self.number())
    }

    fn number(&self) -> u64 {
        match self.horizon.load(Ordering::Acquire) {
            0 => self.position().0,
            horizon => horizon,
        }
    }

    /// Another epoch has begun, whose numbers do not continue those before. Its newest snapshot, which was `asked` for then,
    /// included every commit before the first of these numbers and none from the last on.
    pub(crate) fn begin_epoch(&self, epoch: Epoch, history: u64, numbers: Range<u64>, asked: Duration) {
        self.epoch_since.store(asked.as_micros() as u64, Ordering::Release);
        self.history.store(history, Ordering::Release);
        self.epoch.store(epoch.0, Ordering::Release);
        self.horizon.store(numbers.start, Ordering::Release);
        self.shown.store(numbers.end, Ordering::Release);
        self.written.store(numbers.end, Ordering::Release);
    }

    /// Names the history that the feed begins in, where it is not the epoch.
    pub(crate) fn note_history(&self, history: u64) {
        self.history.store(history, Ordering::Release);
    }

    pub(crate) fn history(&self) -> u64 {
        self.history.load(Ordering::Acquire)
    }

    pub(crate) fn epoch(&self) -> Epoch {
        Epoch(self.epoch.load(Ordering::Acquire))
    }

    /// The number that a snapshot must have reached for a client that holds `version`. No number will do for a version of
    /// another epoch, so that the primary answers.
    pub(crate) fn needed(&self, version: Version) -> u64 {
        if version.epoch == self.epoch() { version.number } else { u64::MAX }
    }

    /// The position of the last published change.
    pub(crate) fn position(&self) -> Position {
        Position(self.position.load(Ordering::Acquire))
    }

    /// The position that a snapshot shows which is taken now. A watch that a change calls may read at once, while others
    /// are still being called; with several processes a replica could be behind, so then it is the published one.
    pub(crate) fn readable(&self) -> Position {
        match self.is_single_process() {
            true => Position(self.committed.load(Ordering::Acquire)),
            false => self.position(),
        }
    }

    /// The time that [`Feed::advance`] is measured in.
    pub(crate) fn uptime(&self) -> Duration {
        self.clock.now()
    }

    /// Every commit before `horizon`, of any instance, has been published, and so has everything else that was visible
    /// at `read`. Cached entries are fresh for `lag_max` from then on.
    pub(crate) fn advance(&self, horizon: u64, read: Duration, lag_max: Duration) {
        self.horizon.fetch_max(horizon, Ordering::AcqRel);
        self.read_at.store(read.as_micros() as u64, Ordering::Release);
        self.fresh_until.store((read + lag_max).as_micros() as u64, Ordering::Release);
    }

    /// Whether everything is published that a snapshot shows which has this version and was taken before `taken`. While a
    /// transaction stays open, the horizon does not move, but the log is read.
    pub(crate) fn has_published(&self, version: Version, taken: Duration) -> bool {
        if version.epoch != self.epoch() {
            // Everything was published when the present epoch began. A later snapshot is of one that is not known here yet.
            return self.epoch_since.load(Ordering::Acquire) > taken.as_micros() as u64;
        }
        // Where instances have no version in common, that of a snapshot is the position here, which says nothing of theirs.
        let says_all = self.versions_are_shared() || self.is_fresh();
        (says_all && self.version().replaces(version))
            || self.read_at.load(Ordering::Acquire) > taken.as_micros() as u64
    }

    /// The last read of the change log included no commit from `end` on. It may have missed some before.
    pub(crate) fn note_snapshot_end(&self, end: u64) {
        self.snapshot_end.store(end, Ordering::Release);
    }

    /// The end of the last snapshot; 0 if this process is the only writer.
    pub(crate) fn snapshot_end(&self) -> u64 {
        self.snapshot_end.load(Ordering::Acquire)
    }

    /// False if changes of other instances may be missing for longer than promised.
    pub(crate) fn is_fresh(&self) -> bool {
        let until = self.fresh_until.load(Ordering::Acquire);
        until == ALWAYS || (self.uptime().as_micros() as u64) < until
    }

    /// A state up to this version is about to be returned to a caller. Called before a commit, and before results of a
    /// snapshot are returned.
    pub(crate) fn note_shown(&self, number: u64) {
        self.shown.fetch_max(number, Ordering::AcqRel);
    }

    /// The version for a client that must not get an older state later.
    pub(crate) fn shown(&self) -> Version {
        self.at(self.shown.load(Ordering::Acquire).max(self.number()))
    }

    /// The greatest version that this process has seen, in an answer or in the log. A client that names a greater one may have made
    /// it up.
    pub(crate) fn seen(&self) -> u64 {
        self.shown().number().max(self.snapshot_end())
    }

    /// Every state from this version on includes a commit of this process. Called before `write` returns.
    pub(crate) fn note_written(&self, number: u64) {
        self.written.fetch_max(number, Ordering::AcqRel);
    }

    /// The version from which on a state includes everything that this process has acknowledged.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Whether a version means the same on every instance.
    pub(crate) fn versions_are_shared(&self) -> bool {
        self.is_single_process() || self.horizon.load(Ordering::Acquire) > 0
    }

    /// Whether this process is the only one that writes to the database.
    pub(crate) fn is_single_process(&self) -> bool {
        self.fresh_until.load(Ordering::Acquire) == ALWAYS
    }

    /// True if all changes up to `needed` have been published here, so that cached entries are not older. False if
    /// instances have no versions in common.
    pub(crate) fn covers(&self, version: Version) -> bool {
        let reached =
            if self.is_single_process() { self.position().0 } else { self.horizon.load(Ordering::Acquire) };
        self.needed(version) <= reached
    }

    pub(crate) fn subscribe(&self, listener: Listener) {
        self.listeners.write().push(listener);
    }

    /// Publishes a commit: calls what depends on its keys, then the listeners, then advances the position, which is
    /// returned. Back ends with several writing threads call it from one thread at a time.
    pub(crate) fn publish(&self, keys: Vec<Key>) -> Position {
        let position = self.position().next();
        self.committed.store(position.0, Ordering::Release);
        if !keys.is_empty() {
            self.index.publish(position, &keys);
            let change = Change { position, keys: keys.into() };
            for listener in self.listeners.read().iter() {
                // The commit has happened, so a failing listener must not fail it.
                if catch_unwind(AssertUnwindSafe(|| listener(&change))).is_err() {
                    tracing::error!(?position, "a change listener panicked; its data may be stale");
                }
            }
        }
        self.position.store(position.0, Ordering::Release);
        position
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock that stands at one second.
    struct Still;

    const NOW: Duration = Duration::from_secs(1);

    impl Uptime for Still {
        fn now(&self) -> Duration {
            NOW
        }
    }

    fn feed(number: u64) -> Feed {
        Feed::new(Epoch(1), number, Arc::new(Still))
    }

    /// Freshness, version and position.
    fn state(feed: &Feed) -> (bool, u64, Position) {
        (feed.is_fresh(), feed.version().number(), feed.position())
    }

    #[test]
    fn a_feed_with_other_writers_is_fresh_until_its_deadline() {
        let feed = feed(7);
        assert_eq!(state(&feed), (true, 7, Position(7)));
        feed.advance(900, NOW, NOW);
        feed.publish(vec![Key::table("users")]);
        assert_eq!(state(&feed), (true, 900, Position(8)));
        feed.advance(800, NOW, Duration::ZERO);
        assert_eq!(state(&feed), (false, 900, Position(8)), "versions do not go backwards");
    }

    #[test]
    fn a_shown_version_is_covered_once_it_is_published() {
        let feed = feed(7);
        let covers = |number| feed.covers(feed.at(number));
        assert_eq!((feed.shown().number(), covers(7), covers(8)), (7, true, false));
        feed.note_shown(8);
        assert_eq!((feed.shown().number(), feed.covers(feed.shown())), (8, false), "committing");
        feed.publish(vec![Key::table("users")]);
        assert!(feed.covers(feed.shown()));
        let other = Version { epoch: Epoch(2), number: 1 };
        assert_eq!((feed.covers(other), feed.needed(other)), (false, u64::MAX), "of another history");
        feed.advance(8, NOW, NOW);
        feed.begin_epoch(Epoch(2), 2, 3..4, NOW);
        assert!(feed.covers(other));
        assert_eq!((feed.version().number(), feed.shown().number(), feed.written()), (3, 4, 4));
    }

    #[test]
    fn with_other_writers_the_horizon_decides_what_is_covered() {
        let feed = feed(7);
        let covers = |number| feed.covers(feed.at(number));
        feed.advance(0, NOW, Duration::ZERO);
        assert!(covers(0) && !covers(1), "versions are not comparable");
        feed.advance(900, NOW, Duration::ZERO);
        feed.note_shown(905);
        assert_eq!((feed.shown().number(), covers(900), covers(905)), (905, true, false));
    }

    #[test]
    fn a_snapshot_is_published_by_the_horizon_or_by_a_later_read_of_the_log() {
        let feed = feed(7);
        feed.advance(900, NOW, Duration::ZERO);
        let later = NOW + Duration::from_millis(1);
        assert!(feed.has_published(feed.at(900), later));
        assert!(
            !feed.has_published(feed.at(905), NOW),
            "the log was read at the same moment, perhaps before"
        );
        // The horizon stands still while a transaction stays open.
        feed.advance(900, later, Duration::ZERO);
        assert!(feed.has_published(feed.at(905), NOW) && !feed.has_published(feed.at(905), later));
    }

    #[test]
    fn a_snapshot_of_an_epoch_that_was_not_read_yet_is_not_published() {
        let feed = feed(7);
        feed.advance(900, NOW, NOW);
        let (moment, old) = (Duration::from_millis(1), feed.at(901));
        let new = Version { epoch: Epoch(2), number: 20 };
        feed.advance(900, NOW + moment * 2, NOW);
        assert!(!feed.has_published(new, NOW + moment), "the server before was asked once more");
        feed.begin_epoch(Epoch(2), 2, 30..30, NOW + moment * 3);
        assert!(feed.has_published(new, NOW + moment));
        assert!(feed.has_published(old, NOW), "everything was published as the epoch began");
        assert!(!feed.has_published(old, NOW + moment * 4), "the server before still answers");
    }

    #[test]
    fn without_common_versions_a_snapshot_is_published_while_the_log_is_read() {
        let feed = feed(7);
        feed.advance(0, NOW, NOW);
        assert!(feed.has_published(feed.at(7), NOW));
        feed.advance(0, NOW, Duration::ZERO);
        assert!(!feed.has_published(feed.at(7), NOW), "changes of others may be missing");
    }
}
