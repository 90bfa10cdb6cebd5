//! Caches of query results. An entry is removed when a key that it depends on changes, when it expires, or when the
//! memory of all caches is used up (`cache_memory.rs`). Entries come from queries ([`crate::Store::fill`]) or from rows
//! that were just written ([`Cache::insert`]).

use crate::cache_entries::{Entries, Entry};
use crate::cache_memory::{CacheMemory, CacheStats, Outcome, Resident, Turn};
use crate::changes::Feed;
use crate::engine::Shared;
use crate::key_index::{Owner, OwnerId};
use crate::not_before::min_version;
use crate::recheck::{Queries, Recheck};
use crate::sync::Mutex;
use crate::tx::TablesRead;
use crate::weigh::Weigh;
use crate::{Error, Key, Position, Snapshot, Time};
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
    /// In the index of keys.
    owner: OwnerId,
    feed: Arc<Feed>,
    memory: Arc<CacheMemory>,
    /// Among the caches that share the memory.
    number: u32,
    /// While declarations are checked.
    queries: Option<Queries<K, V>>,
    /// Locked for a look-up or a few map operations, never across an await or a database call.
    entries: Mutex<Entries<K, V>>,
}

impl<K, V> Clone for Cache<K, V> {
    fn clone(&self) -> Self {
        Cache { inner: self.inner.clone() }
    }
}

impl<K, V> Cache<K, V>
where
    K: Hash + Eq + Clone + Weigh + Send + Sync + 'static,
    V: Clone + Weigh + Send + Sync + 'static,
{
    pub(crate) fn new(name: &'static str, shared: &Shared) -> Cache<K, V> {
        let (feed, memory) = (&shared.feed, &shared.cache_memory);
        let inner = Arc::new_cyclic(|inner: &Weak<Inner<K, V>>| Inner {
            name,
            owner: feed.index.add_owner(inner.clone()),
            feed: feed.clone(),
            memory: memory.clone(),
            number: memory.add(inner.clone()),
            queries: shared.options.check.then(Queries::default),
            entries: Mutex::new(Entries::new()),
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
        entries.read(key, now).cloned()
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

    /// Removes an entry that is no longer of use.
    pub fn remove(&self, key: &K) {
        let mut entries = self.inner.entries.lock();
        if let Some(slot) = entries.find(key) {
            self.inner.clear(&mut entries, slot);
        }
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.inner.entries.lock().len()
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
        let inner = &self.inner;
        let mut entries = inner.entries.lock();
        if !inner.feed.is_fresh() {
            return;
        }
        let Some(put) = inner.put(&mut entries, key, filled, keys, seen) else { return };
        drop(entries);
        inner.memory.enqueue(inner.number, put.slot, put.stamp, put.in_small);
    }

    /// The queries of the entries, while declarations are checked.
    pub(crate) fn queries(&self) -> Option<&Queries<K, V>> {
        self.inner.queries.as_ref()
    }

    /// See [`check_declared`].
    pub(crate) fn check(&self, tables: &TablesRead, watched: &[&str], keys: &[Key]) -> Result<(), Error> {
        check_declared(self.name(), tables, watched, keys)
    }
}

/// Fails if a query found rows in a watched table of which it declared no key. Where its SELECTs found nothing, any key will
/// do: what a join would find begins with a row of one of its tables, which table that is the query knows.
pub(crate) fn check_declared(
    name: &'static str,
    tables: &TablesRead,
    watched: &[&str],
    keys: &[Key],
) -> Result<(), Error> {
    let is_missing = |table: &&String| {
        watched.contains(&table.as_str()) && !keys.iter().any(|key| key.table_name() == **table)
    };
    let tables = if keys.is_empty() { &tables.all } else { &tables.found };
    match tables.iter().find(is_missing) {
        Some(table) => Err(Error::Undeclared { name, table: table.clone() }),
        None => Ok(()),
    }
}

impl<K, V> Recheck for Inner<K, V>
where
    K: Hash + Eq + Send + Sync,
    V: Send + Sync,
{
    fn recheck(&self, snapshot: &mut Snapshot<'_>, written: &[String]) -> Result<(), Error> {
        let Some(queries) = &self.queries else { return Ok(()) };
        match queries.are_right(snapshot, written, |key| self.entries.lock().find(key).is_some()) {
            true => Ok(()),
            false => Err(Error::StaleCache { cache: self.name }),
        }
    }
}

/// An entry that must be queued.
struct Put {
    slot: u32,
    stamp: u32,
    in_small: bool,
}

impl<K: Hash + Eq + Weigh, V: Weigh> Inner<K, V> {
    /// Stores an entry, unless one of its keys has been published since `seen`. What had the key before is removed.
    fn put(
        &self,
        entries: &mut Entries<K, V>,
        key: K,
        filled: Filled<V>,
        keys: &[Key],
        seen: Position,
    ) -> Option<Put> {
        if let Some(slot) = entries.find(&key) {
            self.clear(entries, slot);
        }
        let Filled { value, until } = filled;
        let heap = key.heap_bytes() + value.heap_bytes();
        let bytes = Entries::<K, V>::bytes_of(heap, keys.len());
        if bytes > self.memory.entry_max() {
            return None;
        }
        let digests = self.feed.index.digests(keys);
        let slot = entries.free_slot();
        // With the entries locked: a change that finds the slot in the index finds the entry in the slot.
        if !self.feed.index.install(self.owner, slot, &digests, seen) {
            return None;
        }
        digests.iter().for_each(|digest| entries.note_table(digest.table));
        let in_small = self.memory.count(bytes, entries.hash(&key));
        let depends_on = digests.iter().map(|digest| digest.stored()).collect();
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let entry = Entry { key, value, depends_on, until, stamp: 0, bytes, in_small, reads: 0 };
        let stamp = entries.put(entry);
        Some(Put { slot, stamp, in_small })
    }
}

impl<K: Hash + Eq, V> Inner<K, V> {
    fn clear(&self, entries: &mut Entries<K, V>, slot: u32) {
        let Some(entry) = entries.take(slot) else { return };
        self.feed.index.remove(self.owner, slot, &entry.depends_on);
        self.memory.uncount(entry.bytes as usize, entry.in_small);
    }
}

impl<K, V> Resident for Inner<K, V>
where
    K: Hash + Eq + Send + Sync,
    V: Send + Sync,
{
    fn take_turn(&self, slot: u32, stamp: u32, turn: Turn) -> Outcome {
        let mut entries = self.entries.lock();
        let Some(entry) = entries.at_mut(slot).filter(|entry| entry.stamp == stamp) else {
            return Outcome::Gone;
        };
        let is_kept = entry.reads > 0 && turn != Turn::MainAtOnce && entry.until > self.memory.now();
        if is_kept {
            entry.reads = if turn == Turn::Small { 0 } else { entry.reads - 1 };
            if std::mem::take(&mut entry.in_small) {
                self.memory.moved(entry.bytes as usize);
            }
            return Outcome::Kept;
        }
        let fingerprint = entries.at(slot).map_or(0, |entry| entries.hash(&entry.key));
        self.clear(&mut entries, slot);
        entries.evictions += 1;
        Outcome::Evicted { fingerprint }
    }

    fn has(&self, slot: u32, stamp: u32) -> bool {
        self.entries.lock().at(slot).is_some_and(|entry| entry.stamp == stamp)
    }

    fn stats(&self) -> CacheStats {
        let entries = self.entries.lock();
        CacheStats {
            name: self.name,
            entries: entries.len() as u64,
            bytes: entries.bytes as u64,
            hits: entries.hits,
            misses: entries.misses,
            evictions: entries.evictions,
        }
    }
}

impl<K, V> Owner for Inner<K, V>
where
    K: Hash + Eq + Send + Sync,
    V: Send + Sync,
{
    fn touched(&self, slots: &[u32]) {
        let mut entries = self.entries.lock();
        slots.iter().for_each(|slot| self.clear(&mut entries, *slot));
    }

    fn touched_table(&self, table: u64) {
        let mut entries = self.entries.lock();
        if !entries.may_depend_on(table) {
            return;
        }
        let affected = entries.taken(|entry| entry.depends_on.iter().any(|one| one.may_be_of(table)));
        affected.into_iter().for_each(|slot| self.clear(&mut entries, slot));
    }

    fn touched_all(&self) {
        let mut entries = self.entries.lock();
        entries.taken(|_| true).into_iter().for_each(|slot| self.clear(&mut entries, slot));
    }
}
