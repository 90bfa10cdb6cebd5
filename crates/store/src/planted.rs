//! Bugs on purpose: the checker of histories (`sarsen-bench-tools history`) must find each of them. And a fault of the disk,
//! for a test. They can be planted only with the feature `fault-injection`.

/// What the store does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A commit is published before it can be read (SQLite).
    PublishBeforeCommit = 1,
    /// The change log is followed by its sequence, so a commit that takes effect late is missed (MySQL). Every second
    /// commit takes effect late.
    OrderBySequence,
    /// No bug of the store: the disk does not flush the database file (SQLite).
    FlushFails,
}

#[cfg(feature = "fault-injection")]
static PLANTED: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// How long a planted bug keeps open the moment in which it shows.
#[cfg(feature = "fault-injection")]
const MOMENT: std::time::Duration = std::time::Duration::from_millis(40);

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

#[cfg(not(feature = "fault-injection"))]
pub(crate) const fn is_planted(_bug: Bug) -> bool {
    false
}

/// Waits while a planted bug can show.
pub(crate) fn wait() {
    #[cfg(feature = "fault-injection")]
    crate::threads::pause(MOMENT);
}
