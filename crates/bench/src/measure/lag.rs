//! The scheduling lag of the generator: the time from a timer of the operating system to the run of its task. The generator
//! adds this lag to every latency.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use hdrhistogram::Histogram;
use tokio::time::Instant;

const PROBE_INTERVAL: Duration = Duration::from_millis(5);
const LAG_NS_MAX: u64 = 60_000_000_000;

/// Wakes at an instant, with the precision of the kernel. The timers of tokio round up to milliseconds.
pub struct PreciseTimer {
    #[cfg(target_os = "linux")]
    timer: Option<tokio::net::unix::pipe::Receiver>,
}

impl PreciseTimer {
    /// Without such a timer it has a precision of milliseconds.
    #[cfg(target_os = "linux")]
    #[expect(clippy::new_without_default, reason = "it opens a descriptor and needs the runtime")]
    pub fn new() -> PreciseTimer {
        use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags).ok();
        // For tokio a timerfd is like a pipe: a descriptor that becomes readable. (`AsyncFd` would need `unsafe`.)
        let as_pipe = |timer| tokio::net::unix::pipe::Receiver::from_owned_fd_unchecked(timer).ok();
        PreciseTimer { timer: timer.and_then(as_pipe) }
    }

    #[cfg(not(target_os = "linux"))]
    #[expect(clippy::new_without_default, reason = "the same function on every system")]
    pub fn new() -> PreciseTimer {
        PreciseTimer {}
    }

    /// Returns at `at`, or at once when that has passed.
    pub async fn sleep_until(&self, at: Instant) {
        let pause = at.saturating_duration_since(Instant::now());
        if pause.is_zero() {
            tokio::task::yield_now().await;
            return;
        }
        if !self.sleep_precisely(pause).await {
            tokio::time::sleep_until(at).await;
        }
    }

    #[cfg(target_os = "linux")]
    async fn sleep_precisely(&self, pause: Duration) -> bool {
        use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};
        let Some(timer) = &self.timer else { return false };
        let Ok(value) = Timespec::try_from(pause) else { return false };
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let alarm = Itimerspec { it_interval: zero, it_value: value };
        if timerfd_settime(timer, TimerfdTimerFlags::empty(), &alarm).is_err() {
            return false;
        }
        loop {
            if timer.readable().await.is_err() {
                return false;
            }
            // How often it fired: once.
            let mut count = [0; 8];
            match timer.try_read(&mut count) {
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                other => return other.is_ok(),
            }
        }
    }

    #[cfg(not(target_os = "linux"))]
    async fn sleep_precisely(&self, _pause: Duration) -> bool {
        false
    }
}

/// Collects the lag. Clones share one histogram.
#[derive(Clone)]
pub struct LagProbe {
    lag_ns: Rc<RefCell<Histogram<u64>>>,
}

impl LagProbe {
    #[expect(clippy::new_without_default, reason = "a probe is made for one run, never by accident")]
    pub fn new() -> LagProbe {
        #[expect(clippy::expect_used, reason = "constant bounds that the crate accepts")]
        let histogram = Histogram::new_with_bounds(1, LAG_NS_MAX, 2).expect("constant bounds are valid");
        LagProbe { lag_ns: Rc::new(RefCell::new(histogram)) }
    }

    /// Records the lag of a task that was due at `due`.
    pub fn note(&self, due: Instant) {
        let lag = Instant::now().saturating_duration_since(due);
        let lag_ns = u64::try_from(lag.as_nanos()).unwrap_or(u64::MAX);
        self.lag_ns.borrow_mut().saturating_record(lag_ns.max(1));
    }

    /// Records the lag every few milliseconds, until it is dropped.
    pub async fn watch(self, from: Instant) {
        let timer = PreciseTimer::new();
        let mut due = from;
        loop {
            timer.sleep_until(due).await;
            self.note(due);
            due = (due + PROBE_INTERVAL).max(Instant::now());
        }
    }

    /// The p99 of the lag, in microseconds.
    pub fn p99_us(&self) -> f64 {
        self.lag_ns.borrow().value_at_quantile(0.99) as f64 / 1000.0
    }
}
