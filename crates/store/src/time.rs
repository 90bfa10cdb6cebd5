//! Time as an integer: Unix milliseconds, UTC.

use std::time::Duration;

/// A point in time, in milliseconds since 1970-01-01T00:00:00Z. It is always an argument; this crate reads no clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

impl Time {
    /// Later than every other time: for entries that do not expire.
    pub const NEVER: Time = Time(i64::MAX);

    /// From Unix milliseconds.
    pub const fn from_millis(millis: i64) -> Time {
        Time(millis)
    }

    /// Unix milliseconds.
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// Whole Unix seconds, as in JWT claims.
    pub const fn seconds(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// The time since `earlier`; zero if it is in the future.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl std::ops::Add<Duration> for Time {
    type Output = Time;
    fn add(self, span: Duration) -> Time {
        Time(self.0.saturating_add(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
    }
}

impl std::ops::Sub<Duration> for Time {
    type Output = Time;
    fn sub(self, span: Duration) -> Time {
        Time(self.0.saturating_sub(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
    }
}
