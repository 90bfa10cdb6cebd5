//! Values that many cached entries have in common, each once in memory.
//!
//! The memory of shared values is bounded, because no entry counts it: only small ones are shared, and only so many. Any
//! other value belongs to its entry, which counts it.

use parking_lot::Mutex;
use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;
use store::{Weigh, allocated};

/// The most values that are shared: of services, one for each client and scope, or plan and status.
const VALUES_MAX: usize = 1024;
/// The largest value that is shared, in bytes. All of them take 2 MiB.
const VALUE_BYTES_MAX: usize = 2048;

/// Shared values. Clones are the same set.
pub struct Shared<T>(Arc<Mutex<Set<T>>>);

struct Set<T> {
    known: HashSet<Known<T>>,
    /// Values that found no room since the set was last looked through.
    refused: usize,
}

/// A value that is shared, or belongs to one entry. Clones are the same value.
#[derive(Debug)]
pub struct Common<T>(Arc<Inner<T>>);

#[derive(Debug)]
struct Inner<T> {
    value: T,
    is_shared: bool,
}

/// A value in the set, found by what it equals.
struct Known<T>(Common<T>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Shared(self.0.clone())
    }
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Shared(Arc::new(Mutex::new(Set { known: HashSet::new(), refused: 0 })))
    }
}

impl<T: Hash + Eq + Weigh> Shared<T> {
    /// The shared value that equals this one; or this one, shared if it is small and there is room.
    pub fn share(&self, value: T) -> Common<T> {
        if value.heap_bytes() > VALUE_BYTES_MAX {
            return Common::new(value, false);
        }
        let mut set = self.0.lock();
        if let Some(known) = set.known.get(&value) {
            return known.0.clone();
        }
        if set.known.len() >= VALUES_MAX && set.refused.is_multiple_of(VALUES_MAX) {
            set.known.retain(|known| Arc::strong_count(&known.0.0) > 1);
        }
        let has_room = set.known.len() < VALUES_MAX;
        set.refused = if has_room { 0 } else { set.refused + 1 };
        let value = Common::new(value, has_room);
        if has_room {
            set.known.insert(Known(value.clone()));
        }
        value
    }
}

impl<T> Common<T> {
    fn new(value: T, is_shared: bool) -> Common<T> {
        Common(Arc::new(Inner { value, is_shared }))
    }
}

impl<T> Clone for Common<T> {
    fn clone(&self) -> Self {
        Common(self.0.clone())
    }
}

impl<T> Deref for Common<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T: PartialEq> PartialEq for Common<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0.value == other.0.value
    }
}

impl<T: Weigh> Weigh for Common<T> {
    fn heap_bytes(&self) -> usize {
        if self.0.is_shared {
            return 0;
        }
        allocated(2 * size_of::<usize>() + size_of::<Inner<T>>()) + self.0.value.heap_bytes()
    }
}

impl<T: PartialEq> PartialEq for Known<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<T: Eq> Eq for Known<T> {}

impl<T: Hash> Hash for Known<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.0.value.hash(state);
    }
}

impl<T> Borrow<T> for Known<T> {
    fn borrow(&self) -> &T {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_one_and_weigh_nothing() {
        let shared = Shared::default();
        let [one, other] = [0; 2].map(|_| shared.share("pro".to_owned()));
        assert!(Arc::ptr_eq(&one.0, &other.0) && one.heap_bytes() == 0 && *one == "pro");
        assert!(!Arc::ptr_eq(&one.0, &shared.share("free".to_owned()).0));
    }

    #[test]
    fn large_values_belong_to_their_entries() {
        let shared = Shared::default();
        let large = || shared.share("x".repeat(VALUE_BYTES_MAX + 1));
        let [one, other] = [large(), large()];
        assert!(!Arc::ptr_eq(&one.0, &other.0) && one.heap_bytes() > VALUE_BYTES_MAX);
        assert!(shared.0.lock().known.is_empty());
    }

    #[test]
    fn a_full_set_shares_what_it_has_and_makes_room_for_others_when_values_leave() {
        let shared = Shared::default();
        let values: Vec<_> = (0..VALUES_MAX).map(|number| shared.share(number.to_string())).collect();
        let more = shared.share("more".to_owned());
        assert!(more.heap_bytes() > 0, "no room");
        assert_eq!(shared.share("7".to_owned()).heap_bytes(), 0);
        drop(values);
        let rest: Vec<_> = (0..2 * VALUES_MAX).map(|_| shared.share("more".to_owned())).collect();
        assert_eq!(rest.last().map(Weigh::heap_bytes), Some(0));
        assert_eq!(shared.0.lock().known.len(), 1);
    }
}
