//! Durations, counted in buckets.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// The upper bounds of the buckets, in nanoseconds. One more bucket has what takes longer.
const BOUNDS: [u64; 16] = [
    100 * MICROSECOND,
    250 * MICROSECOND,
    500 * MICROSECOND,
    MILLISECOND,
    2_500 * MICROSECOND,
    5 * MILLISECOND,
    10 * MILLISECOND,
    25 * MILLISECOND,
    50 * MILLISECOND,
    100 * MILLISECOND,
    250 * MILLISECOND,
    500 * MILLISECOND,
    SECOND,
    2_500 * MILLISECOND,
    5 * SECOND,
    10 * SECOND,
];

/// Durations, from a tenth of a millisecond to ten seconds. An observation is two additions.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BOUNDS.len() + 1],
    sum_ns: AtomicU64,
}

impl Histogram {
    /// Counts one duration.
    pub fn observe(&self, took: Duration) {
        self.observe_many(1, took);
    }

    /// Counts `count` things that took `total` together, each as long as the others.
    pub fn observe_many(&self, count: u64, total: Duration) {
        let total = nanoseconds(total);
        let each = total / count.max(1);
        if let Some(bucket) = self.buckets.get(BOUNDS.partition_point(|bound| *bound < each)) {
            bucket.fetch_add(count, Relaxed);
        }
        self.sum_ns.fetch_add(total, Relaxed);
    }

    /// The number of durations so far.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.load(Relaxed)).sum()
    }

    pub(crate) fn shown(&self) -> Shown {
        let counts: Vec<u64> = self.buckets.iter().map(|bucket| bucket.load(Relaxed)).collect();
        let bounds = BOUNDS.iter().map(|bound| *bound as f64 / SECOND as f64).chain([f64::INFINITY]);
        Shown {
            sum: self.sum_ns.load(Relaxed) as f64 / SECOND as f64,
            count: counts.iter().sum(),
            buckets: bounds.zip(counts).collect(),
        }
    }
}

/// A histogram at one moment, in seconds.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) sum: f64,
    pub(crate) count: u64,
    /// Upper bounds, and what each bucket has beyond the one before.
    pub(crate) buckets: Vec<(f64, u64)>,
}

fn nanoseconds(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(SECOND).saturating_add(u64::from(duration.subsec_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_in_the_first_bucket_that_is_not_shorter() {
        let histogram = Histogram::default();
        for micros in [0, 100, 101, 1_000, 9_999_999, 10_000_000, 10_000_001] {
            histogram.observe(Duration::from_micros(micros));
        }
        histogram.observe_many(4, Duration::from_millis(4));
        let shown = histogram.shown();
        let filled: Vec<(f64, u64)> = shown.buckets.into_iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(filled, [(0.0001, 2), (0.00025, 1), (0.001, 5), (10.0, 2), (f64::INFINITY, 1)]);
        assert_eq!((shown.count, histogram.count()), (11, 11));
        assert!((shown.sum - 30.005_201).abs() < 1e-9, "{}", shown.sum);
    }
}
