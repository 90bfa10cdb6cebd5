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

    /// The key as text: `table` or `table.column=value`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The table's name.
    pub fn table_name(&self) -> &str {
        self.0.split('.').next().unwrap_or(&self.0)
    }

    /// True for a key of a whole table.
    pub fn is_table(&self) -> bool {
        !self.0.contains('.')
    }

    /// True when a change of `self` concerns what depends on `dependency`.
    pub fn concerns(&self, dependency: &Key) -> bool {
        self == dependency
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

/// One commit in the feed.
#[derive(Clone, Debug)]
pub struct Change {
    /// Its version.
    pub version: Version,
    /// What it changed, as its commands declared.
    pub keys: Arc<[Key]>,
}

/// Hears of changes; called on the committing thread, so it must be quick and must not wait.
pub(crate) type Listener = Box<dyn Fn(&Change) + Send + Sync>;

/// The feed: the newest changes and who wants to hear of them.
pub(crate) struct Feed {
    version: AtomicU64,
    /// Newest last. Held only for a push or a scan; never while a listener runs.
    recent: Mutex<VecDeque<Change>>,
    listeners: RwLock<Vec<Listener>>,
}

/// How many commits a cache fill may lag behind and still be checked key by key.
const REMEMBERED: usize = 1024;

impl Feed {
    pub(crate) fn new(version: Version) -> Feed {
        Feed {
            version: AtomicU64::new(version),
            recent: Mutex::new(VecDeque::with_capacity(64)),
            listeners: RwLock::new(Vec::new()),
        }
    }

    pub(crate) fn version(&self) -> Version {
        self.version.load(Ordering::Acquire)
    }

    pub(crate) fn listen(&self, listener: Listener) {
        self.listeners.write().push(listener);
    }

    /// Publishes a commit: remembered first, then announced, then the version moves. One at a time: a
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
        self.version.store(version, Ordering::Release);
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
