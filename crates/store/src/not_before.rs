//! Reads that must not be older than a version.
//!
//! A client sends the version of the last response with its next request, which may reach another instance, or one that
//! reads from a replica. The server runs such a request inside [`not_before`]: caches that do not cover the version are
//! bypassed, and so are replicas.
//!
//! After a restore from a backup, versions may be smaller than those that clients send. No state then covers a client's
//! version, and a read from the primary proves it: the primary's newest state is older.

use crate::Version;
use std::cell::Cell;
use std::future::Future;

struct Bound {
    version: Version,
    /// A read of this task used a new snapshot of the primary.
    fresh_read: Cell<bool>,
}

tokio::task_local! {
    static BOUND: Bound;
}

/// Runs `work` so that none of its reads returns a state older than `version`, a result of
/// [`crate::Store::version_token`] on any instance. Tasks that `work` spawns are not affected.
pub async fn not_before<F: Future>(version: Version, work: F) -> F::Output {
    BOUND.scope(Bound { version, fresh_read: Cell::new(false) }, work).await
}

/// The version that the current task requires.
pub(crate) fn min_version() -> Option<Version> {
    BOUND.try_with(|bound| bound.version).ok()
}

/// Records that a read of the current task used a new snapshot.
pub(crate) fn note_fresh_read() {
    // Most tasks require no version.
    let _ = BOUND.try_with(|bound| bound.fresh_read.set(true));
}

pub(crate) fn had_fresh_read() -> bool {
    BOUND.try_with(|bound| bound.fresh_read.get()).unwrap_or(false)
}
