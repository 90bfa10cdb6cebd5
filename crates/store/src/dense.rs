//! Hash tables of what there may be millions of. They stay at least three eighths full while values come and go.
//!
//! A removal leaves a mark in a `HashTable`, and a table that is full of marks doubles, so it would be a quarter full in the
//! end. Here it is built again in its size. A table that is less than an eighth full shrinks.

use hashbrown::HashTable;

/// A smaller table is left alone.
const BUCKETS_MIN: usize = 32;

/// Adds a value that is not in the table.
pub(crate) fn insert<T>(table: &mut HashTable<T>, hash: u64, value: T, hash_of: impl Fn(&T) -> u64) {
    let buckets = table.num_buckets();
    let is_full = table.len() == table.capacity();
    // With more values than this it may double: they are half of its capacity then.
    if is_full && buckets >= BUCKETS_MIN && table.len() < buckets / 4 * 3 {
        let anew = HashTable::with_capacity(buckets / 8 * 7);
        for value in std::mem::replace(table, anew) {
            table.insert_unique(hash_of(&value), value, &hash_of);
        }
    }
    table.insert_unique(hash, value, hash_of);
}

/// Removes the value for which `is_it` holds, and returns it.
pub(crate) fn remove<T>(
    table: &mut HashTable<T>,
    hash: u64,
    is_it: impl FnMut(&T) -> bool,
    hash_of: impl Fn(&T) -> u64,
) -> Option<T> {
    let (value, _) = table.find_entry(hash, is_it).ok()?.remove();
    if table.num_buckets() >= BUCKETS_MIN && table.len() < table.num_buckets() / 8 {
        table.shrink_to(table.len() * 2, hash_of);
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash_of(value: &u64) -> u64 {
        value.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    #[test]
    fn a_table_stays_dense_while_values_come_and_go() {
        for count in [600_u64, 700, 900] {
            let mut table = HashTable::new();
            for value in 0..20_000_u64 {
                insert(&mut table, hash_of(&value), value, hash_of);
                if let Some(old) = value.checked_sub(count) {
                    assert_eq!(remove(&mut table, hash_of(&old), |one| *one == old, hash_of), Some(old));
                }
            }
            assert!(table.len() as u64 == count && table.num_buckets() * 3 / 8 <= table.len(), "{count}");
            assert!(
                (20_000 - count..20_000)
                    .all(|value| table.find(hash_of(&value), |one| *one == value).is_some())
            );
        }
    }

    #[test]
    fn a_table_that_has_lost_its_values_shrinks() {
        let mut table = HashTable::new();
        (0..10_000).for_each(|value| insert(&mut table, hash_of(&value), value, hash_of));
        for value in 0..9_990_u64 {
            assert!(remove(&mut table, hash_of(&value), |one| *one == value, hash_of).is_some());
        }
        assert!(table.num_buckets() <= BUCKETS_MIN * 2, "{}", table.num_buckets());
        assert!((9_990..10_000).all(|value| table.find(hash_of(&value), |one| *one == value).is_some()));
    }
}
