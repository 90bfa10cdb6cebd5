//! Values that many cached entries have in common, each once in memory.

use parking_lot::Mutex;
use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;
use store::{Weigh, allocated};

/// The most values that are remembered. Those of services have one for each client and scope, or plan and status.
const VALUES_MAX: usize = 4096;

/// Values that entries share. Clones share them too.
pub struct Shared<T>(Arc<Mutex<HashSet<Arc<T>>>>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Shared(self.0.clone())
    }
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Shared(Arc::default())
    }
}

impl<T: Hash + Eq> Shared<T> {
    /// The value that equals this one, or this one.
    pub fn share(&self, value: T) -> Arc<T> {
        let mut known = self.0.lock();
        if let Some(value) = known.get::<T>(value.borrow()) {
            return value.clone();
        }
        if known.len() >= VALUES_MAX {
            // Entries keep what they have, and new ones share again.
            known.clear();
        }
        let value = Arc::new(value);
        known.insert(value.clone());
        value
    }
}

/// The bytes that a shared value costs an entry: nothing, if others have it.
pub fn shared_bytes<T: Weigh>(value: &Arc<T>) -> usize {
    // The set and this entry have one each: nobody else has this value so far.
    let is_first = Arc::strong_count(value) <= 2;
    if is_first { allocated(2 * size_of::<usize>() + size_of::<T>()) + (**value).heap_bytes() } else { 0 }
}
