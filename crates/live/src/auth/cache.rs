//! Verified tokens, by the SHA-256 of their text. A token that comes again costs a hash instead of a signature.
//!
//! The cache holds no token. An entry ends when its token expires, or when the keys that verified it are replaced.

use crate::Caller;
use aws_lc_rs::digest;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use store::Time;

/// The hash of a token.
pub(super) type TokenHash = [u8; 32];

/// Hashes a token.
pub(super) fn hash(token: &str) -> TokenHash {
    let digest = digest::digest(&digest::SHA256, token.as_bytes());
    let mut hash = TokenHash::default();
    hash.copy_from_slice(digest.as_ref());
    hash
}

/// A bounded cache. Locked for a few operations on a map, never across an await.
pub(super) struct VerifiedTokens {
    capacity: usize,
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    by_hash: HashMap<TokenHash, Entry>,
    /// Counts the key sets. A result that was verified with an earlier set is not stored.
    generation: u64,
}

struct Entry {
    caller: Arc<Caller>,
    until: Time,
    /// Read since the last sweep, so it survives the next one.
    is_used: bool,
}

impl VerifiedTokens {
    pub(super) fn new(capacity: usize) -> VerifiedTokens {
        VerifiedTokens { capacity: capacity.max(1), entries: Mutex::default() }
    }

    /// The caller, if the token was verified before and has not expired.
    pub(super) fn get(&self, hash: &TokenHash, now: Time) -> Option<Arc<Caller>> {
        let mut entries = self.entries.lock();
        let entry = entries.by_hash.get_mut(hash).filter(|entry| entry.until > now)?;
        entry.is_used = true;
        Some(entry.caller.clone())
    }

    /// The current generation, to be read before the keys.
    pub(super) fn generation(&self) -> u64 {
        self.entries.lock().generation
    }

    /// Stores a caller, unless the keys have been replaced since `generation` was read.
    pub(super) fn insert(
        &self,
        hash: TokenHash,
        caller: Arc<Caller>,
        until: Time,
        now: Time,
        generation: u64,
    ) {
        let mut entries = self.entries.lock();
        if entries.generation != generation {
            return;
        }
        if entries.by_hash.len() >= self.capacity {
            entries.make_room(self.capacity, now);
        }
        entries.by_hash.insert(hash, Entry { caller, until, is_used: false });
    }

    /// Removes all entries: the keys have been replaced.
    pub(super) fn clear(&self) {
        let mut entries = self.entries.lock();
        entries.generation += 1;
        entries.by_hash = HashMap::new();
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.entries.lock().by_hash.len()
    }
}

impl Entries {
    /// Removes expired entries and those that were not read since the last time. If too few are left out, an arbitrary
    /// half goes, so that the next tokens find room without a sweep each.
    fn make_room(&mut self, capacity: usize, now: Time) {
        self.by_hash.retain(|_, entry| std::mem::take(&mut entry.is_used) && entry.until > now);
        let mut excess = self.by_hash.len().saturating_sub(capacity / 2);
        self.by_hash.retain(|_, _| {
            let stays = excess == 0;
            excess = excess.saturating_sub(1);
            stays
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(subject: &str) -> Arc<Caller> {
        Arc::new(Caller { subject: Some(subject.to_owned()), ..Caller::default() })
    }

    #[test]
    fn entries_end_with_their_token_and_with_the_keys() {
        let cache = VerifiedTokens::new(10);
        let at = Time::from_millis;
        let generation = cache.generation();
        cache.insert(hash("a"), caller("ada"), at(100), at(0), generation);
        assert_eq!(cache.get(&hash("a"), at(99)).expect("cached").subject.as_deref(), Some("ada"));
        assert!(cache.get(&hash("a"), at(100)).is_none(), "expired");
        assert!(cache.get(&hash("b"), at(0)).is_none());
        cache.clear();
        assert!(cache.get(&hash("a"), at(0)).is_none(), "verified by a key that is gone");
        cache.insert(hash("a"), caller("ada"), at(100), at(0), generation);
        assert!(cache.get(&hash("a"), at(0)).is_none(), "verified before the keys were replaced");
    }

    #[test]
    fn a_full_cache_keeps_what_is_in_use() {
        let cache = VerifiedTokens::new(100);
        let at = Time::from_millis;
        cache.insert(hash("hot"), caller("hot"), at(1000), at(20), 0);
        for number in 0..1000 {
            let until = at(if number % 2 == 0 { 10 } else { 1000 });
            cache.insert(hash(&number.to_string()), caller("x"), until, at(20), 0);
            assert!(cache.len() <= 100);
            assert!(cache.get(&hash("hot"), at(20)).is_some(), "it is read all the time");
        }
    }

    #[test]
    fn a_full_cache_finds_room_when_all_is_in_use() {
        let cache = VerifiedTokens::new(100);
        let at = Time::from_millis;
        for number in 0..1000 {
            cache.insert(hash(&number.to_string()), caller("x"), at(1000), at(0), 0);
            assert!(cache.get(&hash(&number.to_string()), at(0)).is_some());
            assert!(cache.len() <= 100);
        }
    }
}
