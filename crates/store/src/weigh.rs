//! What a value takes in memory, so that caches stay within their budget.

use crate::{Time, Version};
use std::sync::Arc;

/// A value that a cache may hold.
pub trait Weigh {
    /// The bytes that it has on the heap, beside its own size. What it shares with many others does not count.
    fn heap_bytes(&self) -> usize;
}

/// What the allocator takes for `bytes`: a header, and steps of 16.
pub const fn allocated(bytes: usize) -> usize {
    if bytes == 0 { 0 } else { (bytes + 8).next_multiple_of(16) }
}

/// The two counters of an `Arc`.
const COUNTERS: usize = 2 * size_of::<usize>();

macro_rules! nothing_on_the_heap {
    ($($name:ty),*) => { $(
        impl Weigh for $name {
            fn heap_bytes(&self) -> usize {
                0
            }
        }
    )* };
}

nothing_on_the_heap!((), bool, u8, u32, u64, i64, usize, Time, Version);

impl<T: Weigh, const N: usize> Weigh for [T; N] {
    fn heap_bytes(&self) -> usize {
        self.iter().map(Weigh::heap_bytes).sum()
    }
}

impl Weigh for String {
    fn heap_bytes(&self) -> usize {
        allocated(self.capacity())
    }
}

impl Weigh for Arc<str> {
    fn heap_bytes(&self) -> usize {
        allocated(COUNTERS + self.len())
    }
}

impl<T: Weigh> Weigh for Arc<T> {
    fn heap_bytes(&self) -> usize {
        allocated(COUNTERS + size_of::<T>()) + (**self).heap_bytes()
    }
}

impl<T: Weigh> Weigh for Option<T> {
    fn heap_bytes(&self) -> usize {
        self.as_ref().map_or(0, Weigh::heap_bytes)
    }
}

impl<T: Weigh> Weigh for Vec<T> {
    fn heap_bytes(&self) -> usize {
        allocated(self.capacity() * size_of::<T>()) + self.iter().map(Weigh::heap_bytes).sum::<usize>()
    }
}

impl<A: Weigh, B: Weigh> Weigh for (A, B) {
    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes() + self.1.heap_bytes()
    }
}
