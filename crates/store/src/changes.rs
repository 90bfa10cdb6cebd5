//! What changed, in commit order.
//!
//! A command says what it changed and a query what it depends on, both as [`Key`]s. Every commit that
//! changed something has a [`Version`]. Listeners run on the thread that committed, *before* the
//! caller is answered: a cache is right when `write` returns.

use parking_lot::{Mutex, RwLock};
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The number of a commit. Larger is later; never reused within an epoch.
pub type Version = u64;

/// A table, or the rows of a table where a column has a value.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Arc<str>);

impl Key {
    /// Everything in a table.
    pub fn table(table: &str) -> Key {
        Key(table.into())
    }

    /// The rows of `table` where `column` is `value`: `Key::row("subscriptions", "user_id", user)`.
    pub fn row(table: &str, column: &str, value: &str) -> Key {
        let mut text = String::with_capacity(table.len() + column.len() + value.len() + 2);
        for part in [table, ".", column, "=", value] {
            text.push_str(part);
        }
        Key(text.into())
    }

    /// The key that [`Key::as_str`] gave this text.
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

    /// Whatever there is: for when it is not known what changed.
    pub fn everything() -> Key {
        Key("*".into())
    }

    /// True for [`Key::everything`].
    pub fn is_everything(&self) -> bool {
        &*self.0 == "*"
    }

    /// True for a key of a whole table.
    pub fn is_table(&self) -> bool {
        !self.0.contains('.')
    }

    /// True when a change of `self` concerns what depends on `dependency`.
    pub fn concerns(&self, dependency: &Key) -> bool {
        self == dependency
            || self.is_everything()
            || ((self.is_table() || dependency.is_table()) && self.table_name() == dependency.table_name())
    }

    /// The value, when the key is `table.column=value` for this table and column.
    pub fn value_of(&self, table: &str, column: &str) -> Option<&str> {
        self.0.strip_prefix(table)?.strip_prefix('.')?.strip_prefix(column)?.strip_prefix('=')
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// One commit in the feed; where another instance's were read from a log, several of them.
#[derive(Clone, Debug)]
pub struct Change {
    /// Its place in what this process has published: larger is later. On SQLite it is the version.
    pub version: Version,
    /// What it changed, as its commands declared.
    pub keys: Arc<[Key]>,
}

/// Hears of changes; called on the committing thread, so it must be quick and must not wait.
pub(crate) type Listener = Box<dyn Fn(&Change) + Send + Sync>;

/// The feed: the newest changes and who wants to hear of them.
///
/// With several instances on one database there are two orders. *Positions* count what was published
/// here, at first sight: caches go by them. The *version* is the same on every instance, and moves when
/// everything before it has been published here.
pub(crate) struct Feed {
    position: AtomicU64,
    /// The version, where other instances write too; 0 where this process is alone: then positions are.
    horizon: AtomicU64,
    /// What the last look at other instances' commits could see: none from this version on.
    snapshot_end: AtomicU64,
    /// No state that this process has shown is newer than this version.
    shown: AtomicU64,
    /// What this process has committed is in every state from this version on.
    written: AtomicU64,
    /// Until when what is cached may be believed, in microseconds after `born`; [`ALWAYS`] without others.
    fresh_until: AtomicU64,
    born: Instant,
    /// Newest last. Held only for a push or a scan; never while a listener runs.
    recent: Mutex<VecDeque<Change>>,
    listeners: RwLock<Vec<Listener>>,
}

/// How many commits a cache fill may lag behind and still be checked key by key.
const REMEMBERED: usize = 1024;
const ALWAYS: u64 = u64::MAX;

impl Feed {
    pub(crate) fn new(version: Version) -> Feed {
        Feed {
            position: AtomicU64::new(version),
            horizon: AtomicU64::new(0),
            snapshot_end: AtomicU64::new(0),
            shown: AtomicU64::new(version),
            written: AtomicU64::new(0),
            fresh_until: AtomicU64::new(ALWAYS),
            born: Instant::now(),
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

    /// How far this process has published.
    pub(crate) fn position(&self) -> Version {
        self.position.load(Ordering::Acquire)
    }

    /// Every commit of any instance before `horizon` has been published, and all that could be seen
    /// when `until` was still far: what is cached may be believed up to then.
    pub(crate) fn advance(&self, horizon: Version, until: Instant) {
        self.horizon.fetch_max(horizon, Ordering::AcqRel);
        let until = until.saturating_duration_since(self.born).as_micros() as u64;
        self.fresh_until.store(until, Ordering::Release);
    }

    /// A look at other instances' commits has seen none from `next` on, and perhaps all before.
    pub(crate) fn note_snapshot_end(&self, end: Version) {
        self.snapshot_end.store(end, Ordering::Release);
    }

    /// From which version on the last look saw no commit; 0 where this process is alone.
    pub(crate) fn snapshot_end(&self) -> Version {
        self.snapshot_end.load(Ordering::Acquire)
    }

    /// False when other instances' changes may be missing for longer than is promised.
    pub(crate) fn is_fresh(&self) -> bool {
        let until = self.fresh_until.load(Ordering::Acquire);
        until == ALWAYS || (self.born.elapsed().as_micros() as u64) < until
    }

    /// A state up to `version` is about to be seen by somebody outside: called before a commit, and before
    /// what a snapshot says is handed out.
    pub(crate) fn note_shown(&self, version: Version) {
        self.shown.fetch_max(version, Ordering::AcqRel);
    }

    /// What a caller carries along who must not be answered from an older state than before.
    pub(crate) fn shown(&self) -> Version {
        self.shown.load(Ordering::Acquire).max(self.version())
    }

    /// A commit of this process is in every state from `version` on. Called before its caller is answered.
    pub(crate) fn note_written(&self, version: Version) {
        self.written.fetch_max(version, Ordering::AcqRel);
    }

    /// From which version on a state holds all that this process has acknowledged.
    pub(crate) fn written(&self) -> Version {
        self.written.load(Ordering::Acquire)
    }

    /// Whether a version means the same at every instance.
    pub(crate) fn versions_are_shared(&self) -> bool {
        self.is_single_process() || self.horizon.load(Ordering::Acquire) > 0
    }

    /// Whether nobody else writes to this database.
    pub(crate) fn is_single_process(&self) -> bool {
        self.fresh_until.load(Ordering::Acquire) == ALWAYS
    }

    /// True when all of the state `needed` has been published here, so that what is cached is not older. Where
    /// instances have no version in common, nobody can tell.
    pub(crate) fn covers(&self, needed: Version) -> bool {
        let reached =
            if self.is_single_process() { self.position() } else { self.horizon.load(Ordering::Acquire) };
        needed <= reached
    }

    pub(crate) fn subscribe(&self, listener: Listener) {
        self.listeners.write().push(listener);
    }

    /// Publishes a commit: remembered first, then announced, then the position moves. One at a time: a
    /// back end with several writing threads lets them in one by one.
    pub(crate) fn publish(&self, version: Version, keys: Vec<Key>) {
        if !keys.is_empty() {
            let change = Change { version, keys: keys.into() };
            {
                let mut recent = self.recent.lock();
                if recent.len() == REMEMBERED {
                    recent.pop_front();
                }
                recent.push_back(change.clone());
            }
            for listener in self.listeners.read().iter() {
                // The commit is a fact, whatever a listener makes of it.
                if catch_unwind(AssertUnwindSafe(|| listener(&change))).is_err() {
                    tracing::error!(version, "a listener of changes panicked; what it keeps may be stale");
                }
            }
        }
        self.position.store(version, Ordering::Release);
    }

    /// True when none of `keys` was published after `seen`. When the feed no longer knows: false.
    pub(crate) fn unchanged_since(&self, seen: Version, keys: &[Key]) -> bool {
        let recent = self.recent.lock();
        let forgotten =
            recent.len() == REMEMBERED && recent.front().is_some_and(|oldest| oldest.version > seen);
        !forgotten
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

    #[test]
    fn a_key_names_its_table_and_value() {
        let key = Key::row("sessions", "id", "session_1");
        assert_eq!(key.as_str(), "sessions.id=session_1");
        assert_eq!(key.table_name(), "sessions");
        assert_eq!(key.value_of("sessions", "id"), Some("session_1"));
        assert_eq!(key.value_of("sessions", "user_id"), None);
    }

    #[test]
    fn everything_concerns_all_and_only_it_does() {
        let row = Key::row("sessions", "id", "session_1");
        assert!(Key::everything().concerns(&row) && Key::everything().concerns(&Key::table("users")));
        assert!(!row.is_everything() && !Key::table("users").is_everything());
    }

    #[test]
    fn a_feed_that_follows_others_is_fresh_for_as_long_as_it_was_told() {
        let feed = Feed::new(7);
        assert_eq!((feed.is_fresh(), feed.version()), (true, 7));
        feed.advance(900, Instant::now() + std::time::Duration::from_secs(60));
        feed.publish(8, vec![Key::table("users")]);
        assert_eq!((feed.is_fresh(), feed.version(), feed.position()), (true, 900, 8));
        feed.advance(800, Instant::now());
        assert_eq!((feed.is_fresh(), feed.version()), (false, 900), "nothing goes backwards");
    }

    #[test]
    fn what_was_shown_is_covered_when_it_is_published() {
        let feed = Feed::new(7);
        assert_eq!((feed.shown(), feed.covers(7), feed.covers(8)), (7, true, false));
        feed.note_shown(8);
        assert_eq!((feed.shown(), feed.covers(feed.shown())), (8, false), "committing");
        feed.publish(8, vec![Key::table("users")]);
        assert!(feed.covers(feed.shown()));
    }

    #[test]
    fn where_others_write_too_the_horizon_must_have_reached_what_was_shown() {
        let feed = Feed::new(7);
        feed.advance(0, Instant::now());
        assert!(feed.covers(0) && !feed.covers(1), "nobody can tell");
        feed.advance(900, Instant::now());
        feed.note_shown(905);
        assert_eq!((feed.shown(), feed.covers(900), feed.covers(905)), (905, true, false));
    }

    #[test]
    fn a_feed_that_has_forgotten_says_changed() {
        let feed = Feed::new(0);
        let key = Key::table("users");
        for version in 1..=(REMEMBERED as u64 + 1) {
            feed.publish(version, vec![Key::table("plans")]);
        }
        assert!(feed.unchanged_since(2, std::slice::from_ref(&key)));
        assert!(!feed.unchanged_since(0, &[key]));
    }
}
