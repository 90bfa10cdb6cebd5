//! The memory that all caches of a store share, and which entries leave when it is used up.
//!
//! The algorithm is S3-FIFO, over the entries of all caches at once, so that memory goes where entries are read again. A
//! new entry comes into the small queue, which has a tenth of the memory. At its end an entry that was read meanwhile
//! moves to the main queue, and another one leaves. A scan therefore passes through the small queue and leaves the main
//! one alone. In the main queue, an entry that was read gets another round for each read, at most three. An entry that
//! left the small queue and comes again soon goes into the main one: a table of fingerprints remembers those that left.
//!
//! Each insertion evicts what it needs and looks at a bounded number of entries, so no insertion pays for others.

use crate::Time;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// The share of the small queue: one part in this many.
const SMALL_PART: usize = 10;
/// The largest entry: one part in this many. A larger one is not cached.
const ENTRY_PART: usize = 16;
/// How many entries of the main queue one eviction looks at before it takes the next one.
const TURNS_MAX: usize = 64;
/// The mean size of entries for which the table of fingerprints has room.
const ENTRY_BYTES: usize = 256;
/// Items of entries that are gone are removed when there are more of them than this, and than one for so many others.
const STALE_MAX: usize = 1024;
const STALE_PART: usize = 4;
/// The bytes of an entry in a queue, with its share of items of entries that are gone.
pub(crate) const QUEUE_BYTES: usize = size_of::<Item>() + size_of::<Item>() / STALE_PART;
/// A queue grows and shrinks by so many items.
const BLOCK: usize = 1024;

/// A cache whose entries share the memory.
pub(crate) trait Resident: Send + Sync {
    /// Decides about an entry at the end of its queue. `force` evicts it though it was read.
    fn take_turn(&self, slot: u32, stamp: u32, turn: Turn) -> Outcome;

    /// Whether the entry is there.
    fn has(&self, slot: u32, stamp: u32) -> bool;

    /// Its counters.
    fn stats(&self) -> CacheStats;
}

/// The end of a queue.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    Small,
    Main,
    /// In the main queue, after too many others were kept.
    MainAtOnce,
}

pub(crate) enum Outcome {
    /// It had left its cache before.
    Gone,
    /// It was read, and goes to the back of the main queue.
    Kept,
    /// It has left its cache. The fingerprint is that of its key.
    Evicted { fingerprint: u64 },
}

/// Counters of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// The name of the cache.
    pub name: &'static str,
    /// Its entries.
    pub entries: u64,
    /// Their size.
    pub bytes: u64,
    /// Look-ups that found an entry.
    pub hits: u64,
    /// Look-ups that found none.
    pub misses: u64,
    /// Entries that left because memory was used up.
    pub evictions: u64,
}

/// An entry in a queue: a slot of a cache, and the stamp of the entry that was put there.
#[derive(Clone, Copy)]
struct Item {
    cache: u32,
    slot: u32,
    stamp: u32,
}

pub(crate) struct CacheMemory {
    /// What the caches may take: what is configured, without what is reserved and what this needs itself.
    budget: AtomicUsize,
    used: AtomicUsize,
    small_used: AtomicUsize,
    entries: AtomicUsize,
    /// The latest time of a look-up that filled a cache, in milliseconds.
    now: AtomicI64,
    /// Fingerprints of entries that left the small queue, each at the place that follows from it.
    /// Locked last.
    departed: Mutex<Vec<u32>>,
    /// Locked before the entries of a cache, never after.
    queues: Mutex<Queues>,
}

#[derive(Default)]
struct Queues {
    caches: Vec<Weak<dyn Resident>>,
    small: Queue,
    main: Queue,
}

/// A queue that has no room for more items than there are, as a ring that doubles would have.
#[derive(Default)]
struct Queue {
    blocks: VecDeque<VecDeque<Item>>,
    len: usize,
}

impl Queue {
    fn push_back(&mut self, item: Item) {
        if self.blocks.back().is_none_or(|block| block.len() == BLOCK) {
            self.blocks.push_back(VecDeque::with_capacity(BLOCK));
        }
        if let Some(block) = self.blocks.back_mut() {
            block.push_back(item);
            self.len += 1;
        }
    }

    fn pop_front(&mut self) -> Option<Item> {
        let block = self.blocks.front_mut()?;
        let item = block.pop_front();
        if block.is_empty() {
            self.blocks.pop_front();
        }
        self.len -= usize::from(item.is_some());
        item
    }

    fn retain(&mut self, is_wanted: impl Fn(&Item) -> bool) {
        for item in std::mem::take(self).blocks.into_iter().flatten().filter(is_wanted) {
            self.push_back(item);
        }
    }

    fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl CacheMemory {
    pub(crate) fn new(budget: usize) -> CacheMemory {
        let places = (budget / ENTRY_BYTES).next_power_of_two();
        CacheMemory {
            budget: AtomicUsize::new(budget.saturating_sub(places * size_of::<u32>())),
            used: AtomicUsize::new(0),
            small_used: AtomicUsize::new(0),
            entries: AtomicUsize::new(0),
            now: AtomicI64::new(i64::MIN),
            // The system gives it memory as it fills.
            departed: Mutex::new(vec![0; places]),
            queues: Mutex::default(),
        }
    }

    /// Adds a cache and returns its number.
    pub(crate) fn add(&self, cache: Weak<dyn Resident>) -> u32 {
        let mut queues = self.queues.lock();
        queues.caches.push(cache);
        (queues.caches.len() - 1) as u32
    }

    /// Takes memory from the caches for good.
    pub(crate) fn reserve(&self, bytes: usize) {
        // Under the lock, so that two do not take the same.
        let _queues = self.queues.lock();
        self.budget.store(self.budget.load(Relaxed).saturating_sub(bytes), Relaxed);
    }

    /// The largest entry.
    pub(crate) fn entry_max(&self) -> usize {
        (self.budget.load(Relaxed) / ENTRY_PART).min(u32::MAX as usize)
    }

    pub(crate) fn note_time(&self, now: Time) {
        self.now.store(now.millis(), Relaxed);
    }

    /// The time of the last look-up, to recognize entries that have expired.
    pub(crate) fn now(&self) -> Time {
        Time::from_millis(self.now.load(Relaxed))
    }

    /// Counts a new entry, before others can find it. Returns whether it belongs into the small queue.
    pub(crate) fn count(&self, bytes: usize, fingerprint: u64) -> bool {
        let departed = self.recall(fingerprint);
        self.used.fetch_add(bytes, Relaxed);
        self.entries.fetch_add(1, Relaxed);
        if !departed {
            self.small_used.fetch_add(bytes, Relaxed);
        }
        !departed
    }

    /// Counts an entry no more.
    pub(crate) fn uncount(&self, bytes: usize, in_small: bool) {
        self.used.fetch_sub(bytes, Relaxed);
        self.entries.fetch_sub(1, Relaxed);
        if in_small {
            self.small_used.fetch_sub(bytes, Relaxed);
        }
    }

    /// An entry has moved from the small queue to the main one.
    pub(crate) fn moved(&self, bytes: usize) {
        self.small_used.fetch_sub(bytes, Relaxed);
    }

    /// Queues an entry that was counted, and evicts others until all fit. Not while a cache is locked.
    pub(crate) fn enqueue(&self, cache: u32, slot: u32, stamp: u32, in_small: bool) {
        let mut queues = self.queues.lock();
        let item = Item { cache, slot, stamp };
        if in_small {
            queues.small.push_back(item)
        } else {
            queues.main.push_back(item)
        }
        let live = self.entries.load(Relaxed);
        if queues.small.len + queues.main.len > live + live / STALE_PART + STALE_MAX {
            queues.remove_stale();
        }
        let is_over = || self.used.load(Relaxed) > self.budget.load(Relaxed);
        let mut has_evicted = true;
        while has_evicted && is_over() {
            has_evicted = self.evict(&mut queues);
        }
    }

    /// Evicts one entry. Returns false if there is none.
    fn evict(&self, queues: &mut Queues) -> bool {
        let mut turns = 0;
        loop {
            let small_max = self.budget.load(Relaxed) / SMALL_PART;
            let is_small_full = queues.main.is_empty() || self.small_used.load(Relaxed) > small_max;
            let from_small = is_small_full && !queues.small.is_empty();
            let next = if from_small { queues.small.pop_front() } else { queues.main.pop_front() };
            let Some(item) = next else { return false };
            let turn = match (from_small, turns < TURNS_MAX) {
                (true, _) => Turn::Small,
                (false, true) => Turn::Main,
                (false, false) => Turn::MainAtOnce,
            };
            let cache = queues.caches.get(item.cache as usize).and_then(Weak::upgrade);
            match cache.map_or(Outcome::Gone, |cache| cache.take_turn(item.slot, item.stamp, turn)) {
                Outcome::Gone => {}
                Outcome::Kept => queues.main.push_back(item),
                Outcome::Evicted { fingerprint } => {
                    if from_small {
                        self.remember(fingerprint);
                    }
                    return true;
                }
            }
            turns += 1;
        }
    }

    /// Remembers an entry that left the small queue, in the place of another one.
    fn remember(&self, fingerprint: u64) {
        let mut departed = self.departed.lock();
        let place = fingerprint as usize % departed.len();
        if let Some(place) = departed.get_mut(place) {
            *place = mark_of(fingerprint);
        }
    }

    /// Whether the entry left the small queue lately. Forgets it.
    fn recall(&self, fingerprint: u64) -> bool {
        let mut departed = self.departed.lock();
        let place = fingerprint as usize % departed.len();
        departed.get_mut(place).is_some_and(|place| {
            let is_it = *place == mark_of(fingerprint);
            if is_it {
                *place = 0;
            }
            is_it
        })
    }

    /// The counters of all caches.
    pub(crate) fn stats(&self) -> Vec<CacheStats> {
        let caches: Vec<Arc<dyn Resident>> =
            self.queues.lock().caches.iter().filter_map(Weak::upgrade).collect();
        caches.iter().map(|cache| cache.stats()).collect()
    }
}

/// Zero is an empty place.
fn mark_of(fingerprint: u64) -> u32 {
    ((fingerprint >> 32) as u32).max(1)
}

impl Queues {
    fn remove_stale(&mut self) {
        let Queues { caches, small, main } = self;
        let caches: Vec<Option<Arc<dyn Resident>>> = caches.iter().map(Weak::upgrade).collect();
        let is_there = |item: &Item| {
            let cache = caches.get(item.cache as usize).and_then(Option::as_ref);
            cache.is_some_and(|cache| cache.has(item.slot, item.stamp))
        };
        small.retain(is_there);
        main.retain(is_there);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_keeps_its_order_over_its_blocks_and_gives_their_memory_back() {
        let item = |slot: usize| Item { cache: 0, slot: slot as u32, stamp: 0 };
        let mut queue = Queue::default();
        let count = 3 * BLOCK + 1;
        (0..count).for_each(|slot| queue.push_back(item(slot)));
        queue.retain(|item| item.slot % 2 == 0);
        let rest: Vec<usize> =
            std::iter::from_fn(|| queue.pop_front()).map(|item| item.slot as usize).collect();
        assert_eq!(rest, (0..count).step_by(2).collect::<Vec<_>>());
        assert!(queue.is_empty() && queue.blocks.is_empty());
    }
}
