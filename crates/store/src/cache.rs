//! Bounded caches of what queries answered. An entry leaves when a key that it depends on changes, or
//! when its time has come; see [`crate::Store::fill`] for the one way in.

use crate::changes::Feed;
use crate::{Change, Error, Key, Time, Version};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

/// What a query found out, for a cache: the value, what it depends on, and until when it is true.
pub struct Filled<V> {
    /// The value.
    pub value: V,
    /// Every row that it was made from.
    pub keys: Vec<Key>,
    /// When it ends by itself ([`Time::NEVER`] if it does not).
    pub until: Time,
}

/// A cache from `K` to `V`. Clones share it.
pub struct Cache<K, V> {
    inner: Arc<Inner<K, V>>,
}

struct Inner<K, V> {
    name: &'static str,
    capacity: usize,
    feed: Arc<Feed>,
    /// Held for a look-up or a few map operations; never across an await or a database call.
    entries: Mutex<Entries<K, V>>,
}

struct Entries<K, V> {
    by_key: HashMap<K, Entry<V>>,
    dependents: HashMap<Key, HashSet<K>>,
}

struct Entry<V> {
    value: V,
    keys: Box<[Key]>,
    until: Time,
    /// Looked at since the last sweep: stays when room is made.
    used: bool,
}

impl<K, V> Clone for Cache<K, V> {
    fn clone(&self) -> Self {
        Cache { inner: self.inner.clone() }
    }
}

impl<K, V> Cache<K, V>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    pub(crate) fn new(name: &'static str, capacity: usize, feed: &Arc<Feed>) -> Cache<K, V> {
        let entries = Entries { by_key: HashMap::new(), dependents: HashMap::new() };
        let inner = Arc::new(Inner {
            name,
            capacity: capacity.max(1),
            feed: feed.clone(),
            entries: Mutex::new(entries),
        });
        let heard = Arc::downgrade(&inner);
        feed.listen(Box::new(move |change| {
            if let Some(inner) = heard.upgrade() {
                inner.entries.lock().forget(change);
            }
        }));
        Cache { inner }
    }

    /// The value, if it is known and still true at `now`.
    pub fn get<Q>(&self, key: &Q, now: Time) -> Option<V>
    where
        K: std::borrow::Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let mut entries = self.inner.entries.lock();
        let entry = entries.by_key.get_mut(key).filter(|entry| entry.until > now)?;
        entry.used = true;
        Some(entry.value.clone())
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.inner.entries.lock().by_key.len()
    }

    /// True when nothing is cached.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn name(&self) -> &'static str {
        self.inner.name
    }

    /// Keeps an answer whose snapshot was opened after `seen`, unless one of its keys changed since.
    pub(crate) fn keep(&self, key: K, filled: Filled<V>, seen: Version) {
        let mut entries = self.inner.entries.lock();
        // Checked under the lock: a change published after this check finds the entry and removes it.
        if !self.inner.feed.unchanged_since(seen, &filled.keys) {
            return;
        }
        entries.remove(&key);
        if entries.by_key.len() >= self.inner.capacity {
            entries.make_room(self.inner.capacity);
        }
        for dependency in &filled.keys {
            entries.dependents.entry(dependency.clone()).or_default().insert(key.clone());
        }
        let entry = Entry { value: filled.value, keys: filled.keys.into(), until: filled.until, used: true };
        entries.by_key.insert(key, entry);
    }

    /// Fails when `tables`, which a query read, are not all covered by the keys that it declared.
    pub(crate) fn check(&self, tables: &[String], watched: &[&str], keys: &[Key]) -> Result<(), Error> {
        let missing = tables.iter().find(|table| {
            watched.contains(&table.as_str()) && !keys.iter().any(|key| key.table_name() == *table)
        });
        missing.map_or(Ok(()), |table| Err(Error::Undeclared { name: self.name(), table: table.clone() }))
    }
}

impl<K: Hash + Eq + Clone, V> Entries<K, V> {
    fn remove(&mut self, key: &K) {
        let Some(entry) = self.by_key.remove(key) else { return };
        for dependency in &entry.keys {
            if let Some(dependents) = self.dependents.get_mut(dependency) {
                dependents.remove(key);
                if dependents.is_empty() {
                    self.dependents.remove(dependency);
                }
            }
        }
    }

    fn forget(&mut self, change: &Change) {
        for changed in change.keys.iter() {
            let mut gone: Vec<K> = Vec::new();
            if changed.is_table() {
                let concerned = self.dependents.iter().filter(|(dependency, _)| changed.concerns(dependency));
                gone.extend(concerned.flat_map(|(_, dependents)| dependents.iter().cloned()));
            } else {
                gone.extend(self.dependents.get(changed).into_iter().flatten().cloned());
                let table = Key::table(changed.table_name());
                gone.extend(self.dependents.get(&table).into_iter().flatten().cloned());
            }
            gone.iter().for_each(|key| self.remove(key));
        }
    }

    /// Drops what was not looked at since the last sweep, and half of the rest if that is not enough.
    fn make_room(&mut self, capacity: usize) {
        let mut idle: Vec<K> = Vec::new();
        for (key, entry) in &mut self.by_key {
            if !std::mem::take(&mut entry.used) {
                idle.push(key.clone());
            }
        }
        if idle.len() < (capacity / 8).max(1) {
            idle.extend(self.by_key.keys().take((capacity / 2).max(1)).cloned());
        }
        idle.iter().for_each(|key| self.remove(key));
    }
}
