//! A log line for an event that may happen thousands of times a second: written once in a while, with a count.

use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// How often the line is written.
pub struct LogInterval {
    at_most_every: Duration,
    state: Mutex<State>,
}

struct State {
    last: Option<Instant>,
    count: u64,
}

impl LogInterval {
    /// Once a minute.
    pub const fn minute() -> LogInterval {
        LogInterval::every(Duration::from_secs(60))
    }

    /// Once an hour.
    pub const fn hour() -> LogInterval {
        LogInterval::every(Duration::from_secs(3600))
    }

    /// Once a second.
    pub const fn second() -> LogInterval {
        LogInterval::every(Duration::from_secs(1))
    }

    /// At most once in this time.
    pub const fn every(at_most_every: Duration) -> LogInterval {
        LogInterval { at_most_every, state: Mutex::new(State { last: None, count: 0 }) }
    }

    /// Counts an event. Returns the number of events since the last line if a new line is due.
    pub fn due(&self, now: Instant) -> Option<u64> {
        let mut state = self.state.lock();
        state.count += 1;
        if state.last.is_some_and(|last| now.saturating_duration_since(last) < self.at_most_every) {
            return None;
        }
        state.last = Some(now);
        Some(std::mem::take(&mut state.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_event_is_written_at_once_and_a_minute_of_others_as_one() {
        let (interval, start) = (LogInterval::minute(), Instant::now());
        let due = |seconds| interval.due(start + Duration::from_secs(seconds));
        assert_eq!(due(0), Some(1));
        assert_eq!((due(1), due(59)), (None, None));
        assert_eq!(due(60), Some(3));
        assert_eq!(due(61), None);
    }
}
