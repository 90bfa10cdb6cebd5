//! Bounded caches of query results. An entry is removed when a key that it depends on changes, or when it expires.
//! Entries come from queries ([`crate::Store::fill`]) or from rows that were just written ([`Cache::insert`]).

use crate::changes::Feed;
use crate::{Change, Error, Key, Time, Version};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, BuildHasherDefault, Hash, Hasher, RandomState};
use std::sync::Arc;

/// A query result for a cache, with the keys that it depends on and the time at which it expires.
pub struct Filled<V> {
    /// The value.
    pub value: V,
    /// Keys of every row that it was made from.
    pub keys: Vec<Key>,
    /// When it expires; [`Time::NEVER`] if it does not.
    pub until: Time,
}

/// How far this process had published changes at some moment; see [`Cache::insert`].
#[derive(Clone, Copy, Debug)]
pub struct FeedPosition(Version);

/// A cache from `K` to `V`. Clones share it.
pub struct Cache<K, V> {
    inner: Arc<Inner<K, V>>,
}

struct Inner<K, V> {
    name: &'static str,
    capacity: usize,
    feed: Arc<Feed>,
    /// Locked for a look-up or a few map operations, never across an await or a database call.
    entries: Mutex<Entries<K, V>>,
}

/// Entries are in numbered slots, so that the index from keys to entries contains numbers and no copies of keys.
/// Keys are stored as digests: two that collide remove one entry too many, never one too few.
struct Entries<K, V> {
    by_key: HashMap<K, u32>,
    slots: Vec<Option<Entry<K, V>>>,
    free: Vec<u32>,
    dependents: HashMap<u64, Dependents, BuildHasherDefault<Identity>>,
    hasher: RandomState,
}

struct Entry<K, V> {
    key: K,
    value: V,
    depends_on: Box<[Digest]>,
    until: Time,
    /// Read since the last sweep, so it survives the next one.
    used: bool,
}

/// Digests of a key and of its table.
#[derive(Clone, Copy)]
struct Digest {
    key: u64,
    table: u64,
}

/// The hash of a digest, which is a hash already.
#[derive(Default)]
struct Identity(u64);

impl Hasher for Identity {
    fn write_u64(&mut self, digest: u64) {
        self.0 = digest;
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |all, byte| all.rotate_left(8) ^ u64::from(*byte));
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The slots that depend on a key: usually one.
#[expect(clippy::box_collection, reason = "the box makes the common case a third of the size")]
enum Dependents {
    One(u32),
    Many(Box<HashSet<u32>>),
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
        let entries = Entries {
            by_key: HashMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            dependents: HashMap::default(),
            hasher: RandomState::new(),
        };
        let inner = Arc::new(Inner {
            name,
            capacity: capacity.max(1),
            feed: feed.clone(),
            entries: Mutex::new(entries),
        });
        let weak = Arc::downgrade(&inner);
        feed.subscribe(Box::new(move |change| {
            if let Some(inner) = weak.upgrade() {
                inner.entries.lock().invalidate(change);
            }
        }));
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
        if !self.inner.feed.is_fresh() || !self.inner.feed.covers(crate::not_before::min_version()) {
            return None;
        }
        let slot = *entries.by_key.get(key)?;
        let entry = entries.slots.get_mut(slot as usize)?.as_mut().filter(|entry| entry.until > now)?;
        entry.used = true;
        Some(entry.value.clone())
    }

    /// The position of the feed, to be taken before a command whose rows are inserted afterwards.
    pub fn position(&self) -> FeedPosition {
        FeedPosition(self.inner.feed.position())
    }

    /// Caches rows that a command of this process has written, after it was acknowledged. `before` is the position from
    /// before the command, which must not declare these rows as changed. Nothing is cached if one of the keys has
    /// changed since.
    ///
    /// Nothing is cached if other instances write to the database. A client could learn of a change from one of them and
    /// then get the older row from this cache, until this instance has read the change.
    pub fn insert(&self, key: K, filled: Filled<V>, before: FeedPosition) {
        if self.inner.feed.is_single_process() {
            self.keep(key, filled, before.0);
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
    pub(crate) fn keep(&self, key: K, filled: Filled<V>, seen: Version) {
        let mut entries = self.inner.entries.lock();
        // Checked under the lock: a change that is published after this check finds the entry and removes it.
        if !self.inner.feed.is_fresh() || !self.inner.feed.unchanged_since(seen, &filled.keys) {
            return;
        }
        entries.remove(&key);
        if entries.by_key.len() >= self.inner.capacity {
            entries.make_room(self.inner.capacity);
        }
        entries.insert(key, filled);
    }

    /// Fails unless the declared keys cover all watched tables that the query has read.
    pub(crate) fn check(&self, tables: &[String], watched: &[&str], keys: &[Key]) -> Result<(), Error> {
        let missing = tables.iter().find(|table| {
            watched.contains(&table.as_str()) && !keys.iter().any(|key| key.table_name() == *table)
        });
        missing.map_or(Ok(()), |table| Err(Error::Undeclared { name: self.name(), table: table.clone() }))
    }
}

impl<K: Hash + Eq + Clone, V> Entries<K, V> {
    fn digest(&self, key: &Key) -> Digest {
        Digest { key: self.hasher.hash_one(key.as_str()), table: self.hasher.hash_one(key.table_name()) }
    }

    fn insert(&mut self, key: K, filled: Filled<V>) {
        let depends_on: Box<[Digest]> = filled.keys.iter().map(|key| self.digest(key)).collect();
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as u32
        });
        for dependency in &depends_on {
            match self.dependents.entry(dependency.key) {
                std::collections::hash_map::Entry::Vacant(vacant) => {
                    vacant.insert(Dependents::One(slot));
                }
                std::collections::hash_map::Entry::Occupied(mut occupied) => occupied.get_mut().add(slot),
            }
        }
        self.by_key.insert(key.clone(), slot);
        if let Some(free) = self.slots.get_mut(slot as usize) {
            *free = Some(Entry { key, value: filled.value, depends_on, until: filled.until, used: true });
        }
    }

    fn remove(&mut self, key: &K) {
        if let Some(slot) = self.by_key.get(key) {
            self.clear(*slot);
        }
    }

    fn clear(&mut self, slot: u32) {
        let Some(entry) = self.slots.get_mut(slot as usize).and_then(Option::take) else { return };
        self.by_key.remove(&entry.key);
        self.free.push(slot);
        for dependency in &entry.depends_on {
            if self.dependents.get_mut(&dependency.key).is_some_and(|dependents| dependents.drop_last(slot)) {
                self.dependents.remove(&dependency.key);
            }
        }
    }

    fn invalidate(&mut self, change: &Change) {
        if change.keys.iter().any(Key::is_everything) {
            let all: Vec<u32> = self.by_key.values().copied().collect();
            return all.into_iter().for_each(|slot| self.clear(slot));
        }
        for changed in change.keys.iter() {
            let digest = self.digest(changed);
            let removed: Vec<u32> = if changed.is_table() {
                let is_affected =
                    |entry: &Entry<K, V>| entry.depends_on.iter().any(|one| one.table == digest.table);
                let slots = self.slots.iter().enumerate();
                slots
                    .filter(|(_, entry)| entry.as_ref().is_some_and(is_affected))
                    .map(|(slot, _)| slot as u32)
                    .collect()
            } else {
                // Entries that depend on the whole table are indexed by the table's name.
                let dependents = [digest.key, digest.table].map(|key| self.dependents.get(&key));
                dependents.into_iter().flatten().flat_map(Dependents::slots).collect()
            };
            removed.into_iter().for_each(|slot| self.clear(slot));
        }
    }

    /// Removes entries that were not read since the last sweep, and half of all entries if those are too few.
    fn make_room(&mut self, capacity: usize) {
        let mut idle: Vec<u32> = Vec::new();
        for (slot, entry) in self.slots.iter_mut().enumerate() {
            if let Some(entry) = entry
                && !std::mem::take(&mut entry.used)
            {
                idle.push(slot as u32);
            }
        }
        if idle.len() < (capacity / 8).max(1) {
            idle.extend(self.by_key.values().take((capacity / 2).max(1)));
        }
        idle.into_iter().for_each(|slot| self.clear(slot));
    }
}

impl Dependents {
    fn add(&mut self, slot: u32) {
        match self {
            Dependents::One(only) if *only == slot => {}
            Dependents::One(only) => *self = Dependents::Many(Box::new(HashSet::from([*only, slot]))),
            Dependents::Many(all) => {
                all.insert(slot);
            }
        }
    }

    /// Removes a slot. Returns true if none is left.
    fn drop_last(&mut self, slot: u32) -> bool {
        match self {
            Dependents::One(only) => *only == slot,
            Dependents::Many(all) => {
                all.remove(&slot);
                all.is_empty()
            }
        }
    }

    fn slots(&self) -> Vec<u32> {
        match self {
            Dependents::One(only) => vec![*only],
            Dependents::Many(all) => all.iter().copied().collect(),
        }
    }
}
