//! The feed of changes, in commit order.
//!
//! A command declares what it changed and a query what it depends on, both as [`Key`]s. Every commit that changed
//! something has a [`Version`]. Listeners run on the committing thread *before* `write` returns, so caches are up to
//! date by then.

use crate::Uptime;
use parking_lot::{Mutex, RwLock};
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The number of a commit. Later commits have larger numbers. Numbers are not reused within an epoch.
pub type Version = u64;

/// A table, or the rows of a table in which a column has some value.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Arc<str>);

impl Key {
    /// All rows of a table.
    pub fn table(table: &str) -> Key {
        Key(table.into())
    }

    /// The rows of `table` in which `column` is `value`: `Key::row("subscriptions", "user_id", user)`.
    pub fn row(table: &str, column: &str, value: &str) -> Key {
        let mut text = String::with_capacity(table.len() + column.len() + value.len() + 2);
        for part in [table, ".", column, "=", value] {
            text.push_str(part);
        }
        Key(text.into())
    }

    /// The key with this text, as returned by [`Key::as_str`].
    pub(crate) fn of_text(text: &str) -> Key {
        Key(text.into())
    }

    /// The key as text: `table` or `table.column=value`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The table's name.
    pub fn table_name(&self) -> &str {
        self.0.split('.').next().unwrap_or(&self.0)
    }

    /// All rows of all tables, for when it is unknown what changed.
    pub fn everything() -> Key {
        Key("*".into())
    }

    /// True for [`Key::everything`].
    pub fn is_everything(&self) -> bool {
        &*self.0 == "*"
    }

    /// True for the key of a whole table.
    pub fn is_table(&self) -> bool {
        !self.0.contains('.')
    }

    /// True if a change of `self` affects results that depend on `dependency`.
    pub fn concerns(&self, dependency: &Key) -> bool {
        self == dependency
            || self.is_everything()
            || ((self.is_table() || dependency.is_table()) && self.table_name() == dependency.table_name())
    }

    /// The value, if the key is `table.column=value` for this table and column.
    pub fn value_of(&self, table: &str, column: &str) -> Option<&str> {
        self.0.strip_prefix(table)?.strip_prefix('.')?.strip_prefix(column)?.strip_prefix('=')
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// A published commit. Commits of other instances may be published several at once.
#[derive(Clone, Debug)]
pub struct Change {
    /// The position in this process's feed. Later changes have larger ones. On SQLite it is the version.
    pub version: Version,
    /// The changed keys, as the commands declared them.
    pub keys: Arc<[Key]>,
}

/// Called on the committing thread, so it must be quick and must not block.
pub(crate) type Listener = Box<dyn Fn(&Change) + Send + Sync>;

/// The most recent changes and the listeners.
///
/// With several instances on one database there are two orders. *Positions* count what this process has published, in
/// the order in which it first saw the changes; caches use them. The *version* is the same on every instance. It
/// advances when all earlier commits have been published here.
pub(crate) struct Feed {
    position: AtomicU64,
    /// The version if other instances write too. 0 if this process is the only writer: then positions are versions.
    horizon: AtomicU64,
    /// The end of the last snapshot in which the change log was read: it included no commit from this version on.
    snapshot_end: AtomicU64,
    /// No state that this process has returned is newer than this version.
    shown: AtomicU64,
    /// Every state from this version on includes all that this process has committed.
    written: AtomicU64,
    /// When cached entries become stale, in microseconds of `clock`; [`ALWAYS`] if this process is the only writer.
    fresh_until: AtomicU64,
    clock: Arc<dyn Uptime>,
    /// Newest last. Locked for a push or a scan, never while a listener runs.
    recent: Mutex<VecDeque<Change>>,
    listeners: RwLock<Vec<Listener>>,
}

/// A cache fill can be checked key by key if at most this many commits were published meanwhile.
const RECENT_MAX: usize = 1024;
const ALWAYS: u64 = u64::MAX;

impl Feed {
    pub(crate) fn new(version: Version, clock: Arc<dyn Uptime>) -> Feed {
        Feed {
            position: AtomicU64::new(version),
            horizon: AtomicU64::new(0),
            snapshot_end: AtomicU64::new(0),
            shown: AtomicU64::new(version),
            written: AtomicU64::new(0),
            fresh_until: AtomicU64::new(ALWAYS),
            clock,
            recent: Mutex::new(VecDeque::with_capacity(64)),
            listeners: RwLock::new(Vec::new()),
        }
    }

    pub(crate) fn version(&self) -> Version {
        match self.horizon.load(Ordering::Acquire) {
            0 => self.position(),
            horizon => horizon,
        }
    }

    /// The position of the last published change.
    pub(crate) fn position(&self) -> Version {
        self.position.load(Ordering::Acquire)
    }

    /// The time that [`Feed::advance`] is measured in.
    pub(crate) fn uptime(&self) -> Duration {
        self.clock.now()
    }

    /// Every commit before `horizon`, of any instance, has been published, and so has everything else that was visible
    /// shortly before `until`. Cached entries are fresh up to then.
    pub(crate) fn advance(&self, horizon: Version, until: Duration) {
        self.horizon.fetch_max(horizon, Ordering::AcqRel);
        self.fresh_until.store(until.as_micros() as u64, Ordering::Release);
    }

    /// The last read of the change log included no commit from `end` on. It may have missed some before.
    pub(crate) fn note_snapshot_end(&self, end: Version) {
        self.snapshot_end.store(end, Ordering::Release);
    }

    /// The end of the last snapshot; 0 if this process is the only writer.
    pub(crate) fn snapshot_end(&self) -> Version {
        self.snapshot_end.load(Ordering::Acquire)
    }

    /// False if changes of other instances may be missing for longer than promised.
    pub(crate) fn is_fresh(&self) -> bool {
        let until = self.fresh_until.load(Ordering::Acquire);
        until == ALWAYS || (self.uptime().as_micros() as u64) < until
    }

    /// A state up to `version` is about to be returned to a caller. Called before a commit, and before results of a
    /// snapshot are returned.
    pub(crate) fn note_shown(&self, version: Version) {
        self.shown.fetch_max(version, Ordering::AcqRel);
    }

    /// The version for a client that must not get an older state later.
    pub(crate) fn shown(&self) -> Version {
        self.shown.load(Ordering::Acquire).max(self.version())
    }

    /// Every state from `version` on includes a commit of this process. Called before `write` returns.
    pub(crate) fn note_written(&self, version: Version) {
        self.written.fetch_max(version, Ordering::AcqRel);
    }

    /// The version from which on a state includes everything that this process has acknowledged.
    pub(crate) fn written(&self) -> Version {
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
    pub(crate) fn covers(&self, needed: Version) -> bool {
        let reached =
            if self.is_single_process() { self.position() } else { self.horizon.load(Ordering::Acquire) };
        needed <= reached
    }

    pub(crate) fn subscribe(&self, listener: Listener) {
        self.listeners.write().push(listener);
    }

    /// Publishes a commit: stores it, calls the listeners, then advances the position. Back ends with several writing
    /// threads call it from one thread at a time.
    pub(crate) fn publish(&self, version: Version, keys: Vec<Key>) {
        if !keys.is_empty() {
            let change = Change { version, keys: keys.into() };
            {
                let mut recent = self.recent.lock();
                if recent.len() == RECENT_MAX {
                    recent.pop_front();
                }
                recent.push_back(change.clone());
            }
            for listener in self.listeners.read().iter() {
                // The commit has happened, so a failing listener must not fail it.
                if catch_unwind(AssertUnwindSafe(|| listener(&change))).is_err() {
                    tracing::error!(version, "a change listener panicked; its data may be stale");
                }
            }
        }
        self.position.store(version, Ordering::Release);
    }

    /// True if none of `keys` was published after `seen`. False if that is no longer known.
    pub(crate) fn unchanged_since(&self, seen: Version, keys: &[Key]) -> bool {
        let recent = self.recent.lock();
        let is_too_old =
            recent.len() == RECENT_MAX && recent.front().is_some_and(|oldest| oldest.version > seen);
        !is_too_old
            && !recent
                .iter()
                .rev()
                .take_while(|change| change.version > seen)
                .any(|change| change.keys.iter().any(|changed| keys.iter().any(|key| changed.concerns(key))))
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

    fn feed(version: Version) -> Feed {
        Feed::new(version, Arc::new(Still))
    }

    #[test]
    fn a_key_contains_its_table_and_value() {
        let key = Key::row("sessions", "id", "session_1");
        assert_eq!(key.as_str(), "sessions.id=session_1");
        assert_eq!(key.table_name(), "sessions");
        assert_eq!(key.value_of("sessions", "id"), Some("session_1"));
        assert_eq!(key.value_of("sessions", "user_id"), None);
    }

    #[test]
    fn the_key_of_everything_affects_all_keys() {
        let row = Key::row("sessions", "id", "session_1");
        assert!(Key::everything().concerns(&row) && Key::everything().concerns(&Key::table("users")));
        assert!(!row.is_everything() && !Key::table("users").is_everything());
    }

    #[test]
    fn a_feed_with_other_writers_is_fresh_until_its_deadline() {
        let feed = feed(7);
        assert_eq!((feed.is_fresh(), feed.version()), (true, 7));
        feed.advance(900, NOW * 2);
        feed.publish(8, vec![Key::table("users")]);
        assert_eq!((feed.is_fresh(), feed.version(), feed.position()), (true, 900, 8));
        feed.advance(800, NOW);
        assert_eq!((feed.is_fresh(), feed.version()), (false, 900), "versions do not go backwards");
    }

    #[test]
    fn a_shown_version_is_covered_once_it_is_published() {
        let feed = feed(7);
        assert_eq!((feed.shown(), feed.covers(7), feed.covers(8)), (7, true, false));
        feed.note_shown(8);
        assert_eq!((feed.shown(), feed.covers(feed.shown())), (8, false), "committing");
        feed.publish(8, vec![Key::table("users")]);
        assert!(feed.covers(feed.shown()));
    }

    #[test]
    fn with_other_writers_the_horizon_decides_what_is_covered() {
        let feed = feed(7);
        feed.advance(0, NOW);
        assert!(feed.covers(0) && !feed.covers(1), "versions are not comparable");
        feed.advance(900, NOW);
        feed.note_shown(905);
        assert_eq!((feed.shown(), feed.covers(900), feed.covers(905)), (905, true, false));
    }

    #[test]
    fn a_feed_that_no_longer_knows_reports_a_change() {
        let feed = feed(0);
        let key = Key::table("users");
        for version in 1..=(RECENT_MAX as u64 + 1) {
            feed.publish(version, vec![Key::table("plans")]);
        }
        assert!(feed.unchanged_since(2, std::slice::from_ref(&key)));
        assert!(!feed.unchanged_since(0, &[key]));
    }
}
