//! Bugs on purpose: the checker of histories (`sarsen-bench-tools history`) must find each of them. They can be planted only
//! with the feature `fault-injection`. The store has some of its own.

/// What live queries do wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A run that failed counts as one with an equal result.
    FailedRunIsUnchanged = 1,
    /// A client that comes back gets `same`, whatever it holds.
    SameOnReturn,
    /// Row changes are sent to every stream that takes them, whatever it holds. Streams wait before they send, so that they
    /// pass over frames.
    AnyBase,
    /// A change between a run and its watch is not noticed.
    GapAfterRun,
}

#[cfg(feature = "fault-injection")]
static PLANTED: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// Plants a bug in this process.
#[cfg(feature = "fault-injection")]
pub fn plant(bug: Bug) {
    PLANTED.store(bug as u8, std::sync::atomic::Ordering::Relaxed);
}

/// Whether this bug is planted.
#[cfg(feature = "fault-injection")]
pub(crate) fn is_planted(bug: Bug) -> bool {
    PLANTED.load(std::sync::atomic::Ordering::Relaxed) == bug as u8
}

/// Whether a stream waits before it sends a frame, so that a planted bug can show: it may send for ten of eighty
/// milliseconds.
#[cfg(feature = "fault-injection")]
pub(crate) fn holds_frames() -> bool {
    static BEGAN: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
    is_planted(Bug::AnyBase) && BEGAN.elapsed().as_millis() % 80 >= 10
}

#[cfg(not(feature = "fault-injection"))]
pub(crate) const fn holds_frames() -> bool {
    false
}

#[cfg(not(feature = "fault-injection"))]
pub(crate) const fn is_planted(_bug: Bug) -> bool {
    false
}
