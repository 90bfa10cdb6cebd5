//! The entries of a cache: numbered slots, which the index of keys and the queues name, and a table from keys to slots.

use crate::Time;
use crate::cache_memory::QUEUE_BYTES;
use crate::dense;
use crate::key_index::{DIGEST_BYTES, StoredDigest};
use hashbrown::HashTable;
use std::borrow::Borrow;
use std::hash::{BuildHasher as _, Hash, RandomState};

/// The table has parts that grow one after the other, so that no insertion moves a million places.
const PARTS: usize = 64;
/// A slot and a byte, in a table that is half full (`dense.rs`).
const TABLE_BYTES: usize = 10;
/// An entry that was read this often since its last turn gains nothing by more.
const READS_MAX: u8 = 3;

pub(crate) struct Entries<K, V> {
    hasher: RandomState,
    parts: Box<[HashTable<u32>]>,
    slots: Vec<Option<Entry<K, V>>>,
    free: Vec<u32>,
    /// The digests of the tables that entries have depended on.
    tables: Vec<u64>,
    /// The stamp of the newest entry.
    stamp: u32,
    len: usize,
    pub(crate) bytes: usize,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) evictions: u64,
}

pub(crate) struct Entry<K, V> {
    pub(crate) key: K,
    pub(crate) value: V,
    pub(crate) depends_on: Box<[StoredDigest]>,
    pub(crate) until: Time,
    /// Differs from that of the slot's earlier entries.
    pub(crate) stamp: u32,
    pub(crate) bytes: u32,
    pub(crate) in_small: bool,
    /// Reads since its last turn, up to [`READS_MAX`].
    pub(crate) reads: u8,
}

impl<K, V> Entries<K, V> {
    /// The bytes of an entry that has `heap` bytes on the heap and depends on so many keys.
    pub(crate) fn bytes_of(heap: usize, keys: usize) -> usize {
        let own = size_of::<Option<Entry<K, V>>>() + TABLE_BYTES + QUEUE_BYTES;
        let digests = crate::weigh::allocated(keys * size_of::<StoredDigest>());
        own + heap + digests + keys * DIGEST_BYTES
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn at(&self, slot: u32) -> Option<&Entry<K, V>> {
        self.slots.get(slot as usize)?.as_ref()
    }

    pub(crate) fn at_mut(&mut self, slot: u32) -> Option<&mut Entry<K, V>> {
        self.slots.get_mut(slot as usize)?.as_mut()
    }

    /// Notes the table of a key that an entry depends on.
    pub(crate) fn note_table(&mut self, table: u64) {
        if !self.tables.contains(&table) {
            self.tables.push(table);
        }
    }

    /// Whether an entry may depend on a table.
    pub(crate) fn may_depend_on(&self, table: u64) -> bool {
        self.tables.contains(&table)
    }

    /// The slots that are taken.
    pub(crate) fn taken(&self, is_wanted: impl Fn(&Entry<K, V>) -> bool) -> Vec<u32> {
        let slots = (0..).zip(&self.slots);
        slots.filter(|(_, entry)| entry.as_ref().is_some_and(&is_wanted)).map(|(slot, _)| slot).collect()
    }

    /// A free slot, which [`Entries::put`] takes.
    pub(crate) fn free_slot(&mut self) -> u32 {
        if self.free.is_empty() {
            self.slots.push(None);
            self.free.push((self.slots.len() - 1) as u32);
        }
        self.free.last().copied().unwrap_or(0)
    }
}

impl<K: Hash + Eq, V> Entries<K, V> {
    pub(crate) fn new() -> Entries<K, V> {
        Entries {
            hasher: RandomState::new(),
            parts: (0..PARTS).map(|_| HashTable::new()).collect(),
            slots: Vec::new(),
            free: Vec::new(),
            tables: Vec::new(),
            stamp: 0,
            len: 0,
            bytes: 0,
            hits: 0,
            misses: 0,
            evictions: 0,
        }
    }

    pub(crate) fn hash<Q: Hash + ?Sized>(&self, key: &Q) -> u64 {
        self.hasher.hash_one(key)
    }

    pub(crate) fn find<Q>(&self, key: &Q) -> Option<u32>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.hash(key);
        let is_it = |slot: &u32| self.at(*slot).is_some_and(|entry| entry.key.borrow() == key);
        self.parts.get(part_of(hash))?.find(hash, is_it).copied()
    }

    /// The value of a key at `now`. Counts the read.
    pub(crate) fn read<Q>(&mut self, key: &Q, now: Time) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let found = self.find(key).filter(|slot| self.at(*slot).is_some_and(|entry| entry.until > now));
        let Some(slot) = found else {
            self.misses += 1;
            return None;
        };
        self.hits += 1;
        let entry = self.at_mut(slot)?;
        entry.reads = (entry.reads + 1).min(READS_MAX);
        Some(&entry.value)
    }

    /// Puts an entry into the slot of [`Entries::free_slot`]. No other entry has its key. Returns its stamp.
    pub(crate) fn put(&mut self, entry: Entry<K, V>) -> u32 {
        let slot = self.free_slot();
        self.free.pop();
        self.stamp = self.stamp.wrapping_add(1);
        let stamp = self.stamp;
        let hash = self.hash(&entry.key);
        self.bytes += entry.bytes as usize;
        self.len += 1;
        let Entries { hasher, parts, slots, .. } = self;
        if let Some(place) = slots.get_mut(slot as usize) {
            *place = Some(Entry { stamp, ..entry });
        }
        let hash_at = |slot: &u32| hash_at(hasher, slots, *slot);
        if let Some(part) = parts.get_mut(part_of(hash)) {
            dense::insert(part, hash, slot, hash_at);
        }
        stamp
    }

    /// Takes the entry out of its slot.
    pub(crate) fn take(&mut self, slot: u32) -> Option<Entry<K, V>> {
        let entry = self.slots.get_mut(slot as usize)?.take()?;
        let hash = self.hash(&entry.key);
        let Entries { hasher, parts, slots, .. } = self;
        let hash_at = |slot: &u32| hash_at(hasher, slots, *slot);
        if let Some(part) = parts.get_mut(part_of(hash)) {
            dense::remove(part, hash, |at| *at == slot, hash_at);
        }
        self.free.push(slot);
        self.bytes -= entry.bytes as usize;
        self.len -= 1;
        Some(entry)
    }
}

/// The hash of the key of a slot's entry.
fn hash_at<K: Hash, V>(hasher: &RandomState, slots: &[Option<Entry<K, V>>], slot: u32) -> u64 {
    let entry = slots.get(slot as usize).and_then(Option::as_ref);
    entry.map_or(0, |entry| hasher.hash_one(&entry.key))
}

/// The table takes its places from other bits of a hash.
fn part_of(hash: u64) -> usize {
    (hash >> 48) as usize % PARTS
}
