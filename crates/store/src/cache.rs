//! Bounded caches of what queries answered. An entry leaves when a key that it depends on changes, or
//! when its time has come. What comes in was read ([`crate::Store::fill`]) or has just been written
//! ([`Cache::remember`]).

use crate::changes::Feed;
use crate::{Change, Error, Key, Time, Version};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, BuildHasherDefault, Hash, Hasher, RandomState};
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

/// How far this process had published when something began; see [`Cache::remember`].
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
    /// Held for a look-up or a few map operations; never across an await or a database call.
    entries: Mutex<Entries<K, V>>,
}

/// Entries live in numbered places, so that what depends on a key is a number and not a copy of a key.
/// Keys are kept as digests: two that collide cost an entry too much, never one too few.
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
    /// Looked at since the last sweep: stays when room is made.
    used: bool,
}

/// A key, and its table.
#[derive(Clone, Copy)]
struct Digest {
    key: u64,
    table: u64,
}

/// The hash of a digest, which is one already.
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

/// The places that depend on a key: mostly one.
#[expect(clippy::box_collection, reason = "the box makes the common case a third as large")]
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

    /// The value, if it is known and still true at `now`. What other instances changed is known in time
    /// or nothing is said; nor to a caller who knows a newer state ([`crate::not_before`]).
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

    /// Now, before a command whose rows are going to be remembered.
    pub fn position(&self) -> FeedPosition {
        FeedPosition(self.inner.feed.position())
    }

    /// Keeps what a command of this process has made: called after it was acknowledged, with the moment before it was
    /// given. It must not declare these rows as changed itself. What somebody has changed since is not kept.
    ///
    /// Nothing is kept where other instances write: who was told of a change by one of them would be answered from before
    /// it by this one, until it has heard.
    pub fn insert(&self, key: K, filled: Filled<V>, before: FeedPosition) {
        if self.inner.feed.is_single_process() {
            self.keep(key, filled, before.0);
        }
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

    /// Keeps an answer whose snapshot was opened after the position `seen`, unless one of its keys changed
    /// since.
    ///
    /// That is enough with several instances too, where both the snapshot and the log are read on the
    /// primary. Take a commit that the snapshot does not see: it became visible after the snapshot was
    /// taken, so whoever sees it in the log does so later still, and publishes it after `seen`. Either
    /// that has happened, and the answer is refused here; or it is to come, and finds the entry. What the
    /// snapshot does see may be published again: that costs an entry and does no harm.
    pub(crate) fn keep(&self, key: K, filled: Filled<V>, seen: Version) {
        let mut entries = self.inner.entries.lock();
        // Checked under the lock: a change published after this check finds the entry and removes it.
        if !self.inner.feed.is_fresh() || !self.inner.feed.unchanged_since(seen, &filled.keys) {
            return;
        }
        entries.remove(&key);
        if entries.by_key.len() >= self.inner.capacity {
            entries.make_room(self.inner.capacity);
        }
        entries.insert(key, filled);
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
                // What depends on the whole table has the table's own name for a key.
                let dependents = [digest.key, digest.table].map(|key| self.dependents.get(&key));
                dependents.into_iter().flatten().flat_map(Dependents::slots).collect()
            };
            removed.into_iter().for_each(|slot| self.clear(slot));
        }
    }

    /// Drops what was not looked at since the last sweep, and half of the rest if that is not enough.
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

    /// Takes a place out; true when none is left.
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
