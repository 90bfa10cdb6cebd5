//! Access tokens whose signature is known to be right: this process has verified or made it. An ECDSA verification
//! costs more than everything else that a token costs. Nothing but the signature is remembered: expiry, issuer, grant,
//! session and user are checked as for any other token.
//!
//! The set grows up to a fixed size. An entry is in one of two buckets of eight, so that few leave before all are full. An entry is part of the SHA-256 hash of a token, its key and its
//! expiry. It counts only for the key that the caller has found among the published ones, so those of a withdrawn key
//! are void.

use crate::Time;
use crate::ids::KeyId;
use crate::secrets::Hash;
use parking_lot::Mutex;
use std::sync::Arc;
use store::CacheStats;

const BUCKET: usize = 8;
/// The buckets of a new set.
const BUCKETS_MIN: usize = 64;

/// 192 bits of the hash; then the expiry in Unix seconds and bits of the key's id. All zero: a free place.
type Entry = [u64; 4];
const FREE: Entry = [0; 4];

/// The set. Clones share it.
#[derive(Clone)]
pub(crate) struct VerifiedTokens(Arc<Mutex<Set>>);

struct Set {
    entries: Vec<Entry>,
    entries_max: usize,
    /// When so many places are taken, the set makes room.
    room_at: u64,
    taken: u64,
    hits: u64,
    misses: u64,
    evictions: u64,
}

impl VerifiedTokens {
    /// An empty set that may take so many bytes.
    pub(crate) fn new(bytes: usize) -> VerifiedTokens {
        let buckets_max = (bytes / size_of::<Entry>() / BUCKET).max(1);
        let entries = vec![FREE; buckets_max.min(BUCKETS_MIN) * BUCKET];
        let entries_max = buckets_max * BUCKET;
        let room_at = filling(entries.len());
        let set = Set { entries, entries_max, room_at, taken: 0, hits: 0, misses: 0, evictions: 0 };
        VerifiedTokens(Arc::new(Mutex::new(set)))
    }

    /// Notes a token that this key has signed.
    pub(crate) fn note(&self, token: &Hash, key: &KeyId, expires_at: Time, now: Time) {
        let mut set = self.0.lock();
        if set.taken >= set.room_at {
            set.make_room(now);
        }
        set.put(entry_of(token, key, expires_at));
    }

    /// Whether `key`, which is published, has signed the token, as far as is known.
    pub(crate) fn has(&self, token: &Hash, key: &KeyId, now: Time) -> bool {
        let mut set = self.0.lock();
        let wanted = entry_of(token, key, now);
        let is_it = |known: &Entry| {
            known[..3] == wanted[..3] && known[3] as u32 == wanted[3] as u32 && known[3] > wanted[3]
        };
        let found = set.places(&wanted).any(|place| is_it(&set.entries[place]));
        *(if found { &mut set.hits } else { &mut set.misses }) += 1;
        found
    }

    pub(crate) fn stats(&self) -> CacheStats {
        let set = self.0.lock();
        CacheStats {
            name: "verified signatures",
            entries: set.taken,
            bytes: set.taken * size_of::<Entry>() as u64,
            hits: set.hits,
            misses: set.misses,
            evictions: set.evictions,
        }
    }
}

impl Set {
    /// The two buckets in which an entry may be, as the first of their places.
    fn buckets(&self, entry: &Entry) -> [usize; 2] {
        let buckets = (self.entries.len() / BUCKET) as u64;
        [entry[0], entry[1]].map(|word| (word % buckets) as usize * BUCKET)
    }

    /// The places in which an entry may be.
    fn places(&self, entry: &Entry) -> impl Iterator<Item = usize> + use<> {
        self.buckets(entry).into_iter().flat_map(|first| first..first + BUCKET)
    }

    fn put(&mut self, entry: Entry) {
        let same = self.places(&entry).find(|place| self.entries[*place][..3] == entry[..3]);
        // Otherwise a free place in the bucket with more of them, or that of the entry that expires first.
        let free =
            |first: &usize| self.entries[*first..first + BUCKET].iter().filter(|one| **one == FREE).count();
        let [one, other] = self.buckets(&entry);
        let emptier = if free(&one) >= free(&other) { one } else { other };
        let expiry = |place: &usize| self.entries[*place][3] >> 32;
        let first = (emptier..emptier + BUCKET).chain(self.places(&entry)).min_by_key(expiry);
        let Some(place) = same.or(first) else { return };
        let before = std::mem::replace(&mut self.entries[place], entry);
        match (before == FREE, same) {
            (true, _) => self.taken += 1,
            (false, None) => self.evictions += 1,
            (false, Some(_)) => {}
        }
    }

    /// Removes what has expired, and doubles the set if the rest is more than half of what it may be filled with.
    fn make_room(&mut self, now: Time) {
        let now = now.seconds().max(0) as u64;
        let live: Vec<Entry> = self.entries.iter().filter(|entry| entry[3] >> 32 > now).copied().collect();
        let is_largest = self.entries.len() >= self.entries_max;
        let is_needed = live.len() as u64 * 2 > filling(self.entries.len());
        if is_largest && is_needed {
            // What expires first makes room, in its bucket.
            self.room_at = u64::MAX;
            return;
        }
        let len = if is_needed { (self.entries.len() * 2).min(self.entries_max) } else { self.entries.len() };
        self.entries = vec![FREE; len];
        (self.taken, self.room_at) = (0, filling(len));
        live.into_iter().for_each(|entry| self.put(entry));
    }
}

/// Three of four places: then few buckets are full.
fn filling(len: usize) -> u64 {
    len as u64 / 4 * 3
}

fn entry_of(token: &Hash, key: &KeyId, time: Time) -> Entry {
    let seconds = u32::try_from(time.seconds()).unwrap_or(0);
    let key = key.to_uuid().unwrap_or(0) as u32;
    [word(token, 0), word(token, 1), word(token, 2), u64::from(seconds) << 32 | u64::from(key)]
}

/// The words of a hash.
fn word(token: &Hash, number: usize) -> u64 {
    token.as_chunks::<8>().0.get(number).copied().map_or(0, u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets;

    const NOW: Time = Time::from_millis(1_700_000_000_000);
    const LATER: Time = Time::from_millis(1_700_000_600_000);

    fn token(number: u32) -> Hash {
        secrets::hash(&number.to_be_bytes())
    }

    #[test]
    fn a_signature_is_known_for_its_key_until_it_expires() {
        let (set, one, other) = (VerifiedTokens::new(1 << 16), KeyId::from_uuid(1), KeyId::from_uuid(2));
        set.note(&token(1), &one, LATER, NOW);
        assert!(set.has(&token(1), &one, NOW));
        assert!(!set.has(&token(2), &one, NOW), "another token");
        assert!(!set.has(&token(1), &other, NOW), "another key");
        assert!(!set.has(&token(1), &one, LATER), "it has expired");
        set.note(&token(1), &one, LATER, NOW);
        assert_eq!((set.stats().entries, set.stats().hits, set.stats().misses), (1, 1, 3));
    }

    #[test]
    fn one_bit_of_the_hash_makes_another_token() {
        let (set, key) = (VerifiedTokens::new(0), KeyId::from_uuid(1));
        set.note(&token(1), &key, LATER, NOW);
        for bit in 0..192 {
            let mut other = token(1);
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(!set.has(&other, &key, NOW), "{bit}");
        }
    }

    #[test]
    fn a_full_set_forgets_what_expires_first() {
        let (set, key) = (VerifiedTokens::new(0), KeyId::from_uuid(1));
        let expiry = |number: u32| LATER + std::time::Duration::from_secs(number.into());
        (0..20).for_each(|number| set.note(&token(number), &key, expiry(number), NOW));
        let known: Vec<u32> = (0..20).filter(|number| set.has(&token(*number), &key, NOW)).collect();
        assert_eq!(known, (12..20).collect::<Vec<_>>());
        assert_eq!((set.stats().entries, set.stats().evictions), (8, 12));
    }

    #[test]
    fn a_set_grows_up_to_its_size_and_what_has_expired_makes_room() {
        let (set, key) = (VerifiedTokens::new(1 << 20), KeyId::from_uuid(1));
        let largest = (1 << 20) / size_of::<Entry>() as u32;
        assert!(set.0.lock().entries.len() < 1_000);
        for number in 0..largest / 2 {
            set.note(&token(number), &key, LATER, NOW);
        }
        let known = (0..largest / 2).filter(|number| set.has(&token(*number), &key, NOW)).count();
        assert!(known as u32 > largest / 2 - largest / 100, "{known} of {}", largest / 2);
        let much_later = LATER + std::time::Duration::from_secs(600);
        for number in largest..largest * 2 {
            set.note(&token(number), &key, much_later, LATER);
        }
        let entries = set.0.lock().entries.len();
        assert_eq!(entries, largest as usize);
        let known = (largest..largest * 2).filter(|number| set.has(&token(*number), &key, LATER)).count();
        assert!(known as u32 > largest * 95 / 100, "{known} of {largest}");
    }
}
