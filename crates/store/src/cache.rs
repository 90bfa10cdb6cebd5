//! Bounded caches of query results. An entry is removed when a key that it depends on changes, or when it expires.
//! Entries come from queries ([`crate::Store::fill`]) or from rows that were just written ([`Cache::insert`]).

use crate::changes::Feed;
use crate::engine::Shared;
use crate::key_index::{Digest, Owner, OwnerId};
use crate::not_before::min_version;
use crate::recheck::{Queries, Recheck};
use crate::{Error, Key, Position, Snapshot, Time};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Weak};

/// A query result for a cache, with the time at which it expires.
pub struct Filled<V> {
    /// The value.
    pub value: V,
    /// When it expires; [`Time::NEVER`] if it does not.
    pub until: Time,
}

/// A cache from `K` to `V`. Clones share it.
pub struct Cache<K, V> {
    inner: Arc<Inner<K, V>>,
}

struct Inner<K, V> {
    name: &'static str,
    capacity: usize,
    /// In the index of keys.
    owner: OwnerId,
    feed: Arc<Feed>,
    /// While declarations are checked.
    queries: Option<Queries<K, V>>,
    /// Locked for a look-up or a few map operations, never across an await or a database call.
    entries: Mutex<Entries<K, V>>,
}

/// Entries are in numbered slots, which the index of keys names.
struct Entries<K, V> {
    by_key: HashMap<K, u32>,
    slots: Vec<Option<Entry<K, V>>>,
    free: Vec<u32>,
}

struct Entry<K, V> {
    key: K,
    value: V,
    depends_on: Box<[Digest]>,
    until: Time,
    /// Read since the last sweep, so it survives the next one.
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
    pub(crate) fn new(name: &'static str, capacity: usize, shared: &Shared) -> Cache<K, V> {
        let feed = &shared.feed;
        let inner = Arc::new_cyclic(|inner: &Weak<Inner<K, V>>| Inner {
            name,
            capacity: capacity.max(1),
            owner: feed.index.add_owner(inner.clone()),
            feed: feed.clone(),
            queries: shared.options.check.then(Queries::default),
            entries: Mutex::new(Entries { by_key: HashMap::new(), slots: Vec::new(), free: Vec::new() }),
        });
        if inner.queries.is_some() {
            let inner: Arc<dyn Recheck> = inner.clone();
            shared.rechecks.add(Arc::downgrade(&inner));
        }
        Cache { inner }
    }

    /// The value, if it is cached and has not expired at `now`. While changes of other instances may be missing, and
    /// for a caller that requires a newer state ([`crate::not_before`]), the result is `None`.
    pub fn get<Q>(&self, key: &Q, now: Time) -> Option<V>
    where
        K: std::borrow::Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let mut entries = self.inner.entries.lock();
        let feed = &self.inner.feed;
        if !feed.is_fresh() || min_version().is_some_and(|version| !feed.covers(version)) {
            return None;
        }
        let slot = *entries.by_key.get(key)?;
        let entry = entries.slots.get_mut(slot as usize)?.as_mut().filter(|entry| entry.until > now)?;
        entry.used = true;
        Some(entry.value.clone())
    }

    /// The position of the feed, to be taken before a command whose rows are inserted afterwards.
    pub fn position(&self) -> Position {
        self.inner.feed.position()
    }

    /// Caches rows that a command of this process has written, after it was acknowledged. `keys` are those of the rows.
    /// `before` is the position from before the command, which must not declare these rows as changed. Nothing is cached if one of the keys has
    /// changed since.
    ///
    /// Nothing is cached if other instances write to the database. A client could learn of a change from one of them and
    /// then get the older row from this cache, until this instance has read the change.
    pub fn insert(&self, key: K, filled: Filled<V>, keys: Vec<Key>, before: Position) {
        if self.inner.feed.is_single_process() {
            self.keep(key, filled, &keys, before);
        }
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.inner.entries.lock().by_key.len()
    }

    /// True if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn name(&self) -> &'static str {
        self.inner.name
    }

    /// Caches a result whose snapshot was opened after the position `seen`, unless one of its keys has changed since.
    ///
    /// This is sufficient with several instances too, because both the snapshot and the change log are read from the
    /// primary. A commit that the snapshot does not include became visible after the snapshot was taken, so it is read
    /// from the log and published after `seen`. Either that has already happened, and the result is refused here, or it
    /// happens later and removes the entry. A commit that the snapshot does include may be published again; that removes
    /// an entry and does no harm.
    pub(crate) fn keep(&self, key: K, filled: Filled<V>, keys: &[Key], seen: Position) {
        let mut entries = self.inner.entries.lock();
        if self.inner.feed.is_fresh() {
            self.inner.put(&mut entries, key, filled, keys, seen);
        }
    }

    /// The queries of the entries, while declarations are checked.
    pub(crate) fn queries(&self) -> Option<&Queries<K, V>> {
        self.inner.queries.as_ref()
    }

    /// Fails unless the declared keys cover all watched tables that the query has read.
    pub(crate) fn check(&self, tables: &[String], watched: &[&str], keys: &[Key]) -> Result<(), Error> {
        let missing = tables.iter().find(|table| {
            watched.contains(&table.as_str()) && !keys.iter().any(|key| key.table_name() == *table)
        });
        missing.map_or(Ok(()), |table| Err(Error::Undeclared { name: self.name(), table: table.clone() }))
    }
}

impl<K, V> Recheck for Inner<K, V>
where
    K: Hash + Eq + Send + Sync,
    V: Send + Sync,
{
    fn recheck(&self, snapshot: &mut Snapshot<'_>, written: &[String]) -> Result<(), Error> {
        let Some(queries) = &self.queries else { return Ok(()) };
        match queries.are_right(snapshot, written, |key| self.entries.lock().by_key.contains_key(key)) {
            true => Ok(()),
            false => Err(Error::StaleCache { cache: self.name }),
        }
    }
}

impl<K: Hash + Eq + Clone, V> Inner<K, V> {
    /// Stores an entry, unless one of its keys has been published since `seen`. What had the key before is removed.
    fn put(&self, entries: &mut Entries<K, V>, key: K, filled: Filled<V>, keys: &[Key], seen: Position) {
        if let Some(slot) = entries.by_key.get(&key) {
            self.clear(entries, *slot);
        }
        if entries.by_key.len() >= self.capacity {
            self.make_room(entries);
        }
        let depends_on = self.feed.index.digests(keys);
        let slot = entries.free.pop().unwrap_or_else(|| {
            entries.slots.push(None);
            (entries.slots.len() - 1) as u32
        });
        // With the entries locked: a change that finds the slot in the index finds the entry in the slot.
        if !self.feed.index.install(self.owner, slot, &depends_on, seen) {
            entries.free.push(slot);
            return;
        }
        entries.by_key.insert(key.clone(), slot);
        if let Some(free) = entries.slots.get_mut(slot as usize) {
            *free = Some(Entry { key, value: filled.value, depends_on, until: filled.until, used: true });
        }
    }

    fn clear(&self, entries: &mut Entries<K, V>, slot: u32) {
        let Some(entry) = entries.slots.get_mut(slot as usize).and_then(Option::take) else { return };
        entries.by_key.remove(&entry.key);
        entries.free.push(slot);
        self.feed.index.remove(self.owner, slot, &entry.depends_on);
    }

    /// Removes entries that were not read since the last sweep, and half of all entries if those are too few.
    fn make_room(&self, entries: &mut Entries<K, V>) {
        let mut idle: Vec<u32> = Vec::new();
        for (slot, entry) in (0..).zip(entries.slots.iter_mut()) {
            if let Some(entry) = entry
                && !std::mem::take(&mut entry.used)
            {
                idle.push(slot);
            }
        }
        if idle.len() < (self.capacity / 8).max(1) {
            idle.extend(entries.by_key.values().take((self.capacity / 2).max(1)));
        }
        idle.into_iter().for_each(|slot| self.clear(entries, slot));
    }
}

impl<K, V> Owner for Inner<K, V>
where
    K: Hash + Eq + Clone + Send + Sync,
    V: Send + Sync,
{
    fn touched(&self, slots: &[u32]) {
        let mut entries = self.entries.lock();
        slots.iter().for_each(|slot| self.clear(&mut entries, *slot));
    }

    fn touched_table(&self, table: u64) {
        let mut entries = self.entries.lock();
        let is_affected = |entry: &Entry<K, V>| entry.depends_on.iter().any(|one| one.table == table);
        let slots = (0..).zip(&entries.slots);
        let affected = slots.filter(|(_, entry)| entry.as_ref().is_some_and(is_affected));
        let affected: Vec<u32> = affected.map(|(slot, _)| slot).collect();
        affected.into_iter().for_each(|slot| self.clear(&mut entries, slot));
    }

    fn touched_all(&self) {
        let mut entries = self.entries.lock();
        let all: Vec<u32> = entries.by_key.values().copied().collect();
        all.into_iter().for_each(|slot| self.clear(&mut entries, slot));
    }
}
