//! Pauses between attempts: each twice the one before, up to the longest, and drawn between half and all of it.
//!
//! The draw parts clients that failed together: without it they would all try again in the same moment.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

/// The pauses of one thing that is tried again.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    min: Duration,
    max: Duration,
    /// Attempts that have failed since the last success.
    failures: u32,
}

impl Backoff {
    /// The first pause is drawn up to `min`, no pause is longer than `max`.
    pub const fn new(min: Duration, max: Duration) -> Backoff {
        Backoff { min, max, failures: 0 }
    }

    /// The same after so many failures in a row, for a caller that counts them where others can read them.
    pub const fn after(self, failures: u32) -> Backoff {
        Backoff { failures, ..self }
    }

    /// The longest that the pause before the next attempt can be.
    pub fn peek(&self) -> Duration {
        self.min.saturating_mul(2_u32.saturating_pow(self.failures)).min(self.max)
    }

    /// Takes the pause before the next attempt.
    pub fn take(&mut self) -> Duration {
        let (half, drawn) = (self.peek() / 2, RandomState::new().hash_one(0) as u16);
        self.failures = self.failures.saturating_add(1);
        half + half * u32::from(drawn) / u32::from(u16::MAX)
    }

    /// An attempt has succeeded.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn pauses_double_up_to_the_longest_and_begin_again_after_a_success() {
        let mut backoff = Backoff::new(MS(5), MS(18));
        for longest in [5, 10, 18, 18] {
            assert_eq!(backoff.peek(), MS(longest));
            let pause = backoff.take();
            assert!(MS(longest) / 2 <= pause && pause <= MS(longest), "{pause:?} of {longest} ms");
        }
        backoff.reset();
        assert_eq!(backoff.peek(), MS(5));
        assert_eq!(backoff.after(u32::MAX).peek(), MS(18));
    }

    #[test]
    fn those_that_fail_together_do_not_try_again_together() {
        let pauses = (0..100).map(|_| Backoff::new(MS(1000), MS(1000)).take());
        let (early, late): (Vec<Duration>, Vec<Duration>) = pauses.partition(|pause| *pause < MS(750));
        // Of a fair draw less than one in 10^20 puts fewer than ten of a hundred into one half.
        assert!(early.len() >= 10 && late.len() >= 10, "{early:?} {late:?}");
    }
}
