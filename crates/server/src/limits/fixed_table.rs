//! A table of counters that strangers fill: of fixed size, and without names.
//!
//! The key of a counter is a keyed hash of what it counts for, so that nobody can aim at a place. A key may be in a few places
//! only; where all of them are taken, the counter that is worth least goes.

use identity::secrets::SecretKey;
use parking_lot::{Mutex, MutexGuard};
use std::fmt;

/// Places in a table, in sets of [`WAYS`].
const PLACES: usize = 32_768;
/// Places in which one key may be.
const WAYS: usize = 8;

/// What a table holds for one key. The default is that of a key that is not in it.
pub(super) trait Counter: Copy + Default {
    /// What it is judged by.
    type Worth: Ord;

    /// How much is lost if another key takes its place.
    fn worth(&self) -> Self::Worth;
}

/// The place of a counter, and never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key(u64);

impl fmt::Display for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// The counters of one kind.
pub(super) struct FixedTable<C> {
    secret: SecretKey,
    /// The kind, so that the keys of two tables have nothing in common.
    kind: &'static str,
    places: Mutex<Vec<Place<C>>>,
}

#[derive(Clone, Copy, Default)]
struct Place<C> {
    /// 0 for an empty place.
    key: u64,
    counter: C,
}

/// A table while nobody else changes it.
pub(super) struct Counters<'t, C>(MutexGuard<'t, Vec<Place<C>>>);

impl<C> fmt::Debug for FixedTable<C> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "FixedTable({}, …)", self.kind)
    }
}

impl<C: Counter> FixedTable<C> {
    pub fn new(secret: SecretKey, kind: &'static str) -> FixedTable<C> {
        FixedTable { secret, kind, places: Mutex::new(vec![Place::default(); PLACES]) }
    }

    /// The key of what `parts` name.
    pub fn key(&self, parts: &[&str]) -> Key {
        Key(self.number(parts).max(1))
    }

    /// A number that only this server can tell from `parts`.
    pub fn number(&self, parts: &[&str]) -> u64 {
        let all: Vec<&str> = [self.kind].iter().chain(parts).copied().collect();
        self.secret.derive_number(&all)
    }

    pub fn lock(&self) -> Counters<'_, C> {
        Counters(self.places.lock())
    }
}

impl<C: Counter> Counters<'_, C> {
    /// The counter of a key.
    pub fn of(&mut self, key: Key) -> &mut C {
        let Key(key) = key;
        let first = (key % (PLACES / WAYS) as u64) as usize * WAYS;
        let set = &mut self.0[first..first + WAYS];
        let known = set.iter().position(|place| place.key == key);
        let at = known.or_else(|| (0..WAYS).min_by_key(|at| (set[*at].key != 0, set[*at].counter.worth())));
        let place = &mut set[at.unwrap_or(0)];
        if place.key != key {
            *place = Place { key, counter: C::default() };
        }
        &mut place.counter
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    struct Count(u32);
    impl Counter for Count {
        type Worth = u32;
        fn worth(&self) -> u32 {
            self.0
        }
    }

    fn table(kind: &'static str) -> FixedTable<Count> {
        FixedTable::new(SecretKey::new(&[1; 32]), kind)
    }

    #[test]
    fn what_counts_most_stays_and_the_table_does_not_grow() {
        let table = table("test");
        let attacked = table.key(&["attacked"]);
        let mut counters = table.lock();
        counters.of(attacked).0 = 9;
        for number in 0..100_000 {
            counters.of(table.key(&[&number.to_string()])).0 += 1;
        }
        assert_eq!((counters.0.len(), *counters.of(attacked)), (PLACES, Count(9)));
        assert_eq!(counters.0.iter().filter(|place| place.key == 0).count(), 0, "it is full");
    }

    #[test]
    fn an_empty_place_goes_before_a_counter_that_is_worth_nothing() {
        let table = table("test");
        let mut counters = table.lock();
        // The keys of one set.
        let keys: Vec<Key> = (0..WAYS as u64).map(|round| Key(7 + round * (PLACES / WAYS) as u64)).collect();
        for key in &keys {
            counters.of(*key);
        }
        let left = keys.iter().filter(|key| counters.0.iter().any(|place| place.key == key.0)).count();
        assert_eq!(left, WAYS);
    }

    #[test]
    fn the_keys_of_two_tables_differ() {
        assert_ne!(table("one").key(&["203.0.113.9"]), table("other").key(&["203.0.113.9"]));
    }
}
