//! The number of writes with an `Idempotency-Key` of each caller: bounded, because each leaves a row with an answer for a
//! day. Counted in memory, by quarters of an hour.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::Duration;

const WINDOW_MS: i64 = 15 * 60 * 1000;

/// See the module.
#[derive(Default)]
pub struct KeyedWrites(Mutex<Window>);

#[derive(Default)]
struct Window {
    number: i64,
    by_caller: HashMap<String, usize>,
}

/// The bytes of an answer that count as one write.
const ANSWER_BYTES: usize = 16 * 1024;

impl KeyedWrites {
    /// Counts the answer that a write has left: a longer one as several writes.
    pub fn charge(&self, caller: &str, answer_bytes: usize) {
        if let Some(count) = self.0.lock().by_caller.get_mut(caller) {
            *count = count.saturating_add(answer_bytes / ANSWER_BYTES);
        }
    }

    /// Counts a write of a caller at `now_ms` (Unix milliseconds), or returns the time until the next quarter of an hour.
    pub fn admit(&self, caller: &str, most: usize, now_ms: i64) -> Result<(), Duration> {
        let mut window = self.0.lock();
        let number = now_ms.div_euclid(WINDOW_MS);
        if window.number != number {
            *window = Window { number, by_caller: HashMap::new() };
        }
        match window.by_caller.get_mut(caller) {
            Some(count) if *count >= most => {
                let left = WINDOW_MS - now_ms.rem_euclid(WINDOW_MS);
                Err(Duration::from_millis(left.unsigned_abs()))
            }
            Some(count) => {
                *count += 1;
                Ok(())
            }
            None => {
                window.by_caller.insert(caller.to_owned(), 1);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_with_too_many_waits_for_the_next_quarter_and_others_do_not() {
        let (writes, start) = (KeyedWrites::default(), WINDOW_MS * 1000);
        let minutes = |count: i64| count * 60_000;
        for _ in 0..3 {
            assert_eq!(writes.admit("ada", 3, start), Ok(()));
        }
        assert_eq!(writes.admit("ada", 3, start + minutes(5)), Err(Duration::from_secs(600)));
        assert_eq!(writes.admit("grace", 3, start + minutes(5)), Ok(()));
        assert_eq!(writes.admit("ada", 3, start + minutes(15)), Ok(()));
        // What it leaves counts too.
        writes.charge("ada", ANSWER_BYTES - 1);
        assert_eq!(writes.admit("ada", 3, start + minutes(15)), Ok(()));
        writes.charge("ada", 2 * ANSWER_BYTES);
        assert_eq!(writes.admit("ada", 3, start + minutes(15)), Err(Duration::from_secs(900)));
    }
}
