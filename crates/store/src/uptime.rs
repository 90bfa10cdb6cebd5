//! A clock that also counts the time in which the machine was suspended.
//!
//! Caches are trusted for a moment after the change log was read. `std::time::Instant` does not advance on Linux while
//! the machine is suspended, so after a resume that moment would not be over.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Time since some moment in the past. It never goes back.
pub trait Uptime: Send + Sync {
    /// Now.
    fn now(&self) -> Duration;
}

/// The time since the machine was started (`CLOCK_BOOTTIME`).
pub struct BootTime;

/// On other systems than Linux `CLOCK_MONOTONIC` counts suspension.
#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::Monotonic;

impl Uptime for BootTime {
    fn now(&self) -> Duration {
        let time = clock_gettime(CLOCK);
        Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn the_boot_time_is_that_of_the_system() {
        let told = || {
            let text = std::fs::read_to_string("/proc/uptime").expect("Linux");
            let seconds: f64 = text.split(' ').next().expect("a number").parse().expect("a number");
            Duration::from_secs_f64(seconds)
        };
        // The file has hundredths.
        let hundredth = Duration::from_millis(10);
        let (before, now) = (told(), BootTime.now());
        assert!(before <= now + hundredth && now <= told() + hundredth * 2, "{before:?} {now:?}");
    }
}
