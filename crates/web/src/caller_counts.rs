//! How often each caller did something in a stretch of time, in memory: writes with an `Idempotency-Key`, each of which
//! leaves a row with an answer for a day, or calls.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::Duration;

/// See the module.
pub struct CallerCounts {
    length_ms: i64,
    window: Mutex<Window>,
}

#[derive(Default)]
struct Window {
    number: i64,
    by_caller: HashMap<String, usize>,
}

/// The bytes of an answer that count as one write.
const ANSWER_BYTES: usize = 16 * 1024;
/// Callers that are counted at most; of more the rest is not, until the next window. Each takes about a hundred bytes.
const CALLERS_MAX: usize = 1_000_000;

impl CallerCounts {
    /// Counts in windows of this length, which begin at the same times for all.
    pub fn in_windows_of(length: Duration) -> CallerCounts {
        let length_ms = i64::try_from(length.as_millis()).unwrap_or(i64::MAX).max(1);
        CallerCounts { length_ms, window: Mutex::default() }
    }

    /// For writes with an `Idempotency-Key`.
    pub fn in_quarters_of_an_hour() -> CallerCounts {
        CallerCounts::in_windows_of(Duration::from_secs(15 * 60))
    }

    /// Counts the answer that a write has left: a longer one as several writes.
    pub fn charge(&self, caller: &str, answer_bytes: usize) {
        if let Some(count) = self.window.lock().by_caller.get_mut(caller) {
            *count = count.saturating_add(answer_bytes / ANSWER_BYTES);
        }
    }

    /// Counts so many of a caller at `now_ms` (Unix milliseconds), or returns the time until the next window.
    pub fn admit(&self, caller: &str, count: usize, most: usize, now_ms: i64) -> Result<(), Duration> {
        self.admit_each([(caller, most)].into_iter(), count, now_ms)
    }

    /// The same for a caller with several names, each of which has its own limit: all are counted or none.
    pub fn admit_each<'c>(
        &self,
        callers: impl Iterator<Item = (&'c str, usize)> + Clone,
        count: usize,
        now_ms: i64,
    ) -> Result<(), Duration> {
        let mut window = self.window.lock();
        let number = now_ms.div_euclid(self.length_ms);
        if window.number != number {
            *window = Window { number, by_caller: HashMap::new() };
        }
        let is_above = |(caller, most): (&str, usize)| {
            window.by_caller.get(caller).copied().unwrap_or_default().saturating_add(count) > most
        };
        if callers.clone().any(is_above) {
            let left = self.length_ms - now_ms.rem_euclid(self.length_ms);
            return Err(Duration::from_millis(left.unsigned_abs()));
        }
        for (caller, _) in callers {
            let has_room = window.by_caller.len() < CALLERS_MAX;
            match window.by_caller.get_mut(caller) {
                Some(counted) => *counted += count,
                None if has_room => {
                    window.by_caller.insert(caller.to_owned(), count);
                }
                None => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW_MS: i64 = 15 * 60 * 1000;

    #[test]
    fn a_caller_with_too_many_waits_for_the_next_window_and_others_do_not() {
        let (writes, start) = (CallerCounts::in_quarters_of_an_hour(), WINDOW_MS * 1000);
        let minutes = |count: i64| count * 60_000;
        for _ in 0..3 {
            assert_eq!(writes.admit("ada", 1, 3, start), Ok(()));
        }
        assert_eq!(writes.admit("ada", 1, 3, start + minutes(5)), Err(Duration::from_secs(600)));
        assert_eq!(writes.admit("grace", 1, 3, start + minutes(5)), Ok(()));
        assert_eq!(writes.admit("ada", 1, 3, start + minutes(15)), Ok(()));
        // What it leaves counts too.
        writes.charge("ada", ANSWER_BYTES - 1);
        assert_eq!(writes.admit("ada", 1, 3, start + minutes(15)), Ok(()));
        writes.charge("ada", 2 * ANSWER_BYTES);
        assert_eq!(writes.admit("ada", 1, 3, start + minutes(15)), Err(Duration::from_secs(900)));
        // All of them or none.
        assert_eq!(writes.admit("grace", 4, 3, start + minutes(15)), Err(Duration::from_secs(900)));
        assert_eq!(writes.admit("grace", 3, 3, start + minutes(15)), Ok(()));
        let both = [("net", 9), ("site", 3)].into_iter();
        assert_eq!(writes.admit_each(both.clone(), 4, start), Err(Duration::from_secs(900)));
        assert_eq!(writes.admit_each(both, 3, start), Ok(()));
        assert_eq!(writes.admit("net", 7, 9, start), Err(Duration::from_secs(900)));
        assert_eq!(writes.admit("net", 6, 9, start), Ok(()));
    }
}
