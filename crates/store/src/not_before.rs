//! The state that a caller has seen already, and must not be answered from before.
//!
//! A caller carries a version from one answer to the next request, which may reach another instance, or
//! one that reads from a replica. Whatever serves such a request runs inside [`not_before`]: caches that
//! have not heard that far are passed by, and so are replicas.
//!
//! A database that was restored has smaller versions than its callers carry. No state answers such a caller's version,
//! and the primary that was asked proves it: its newest state was shown, and is older.

use crate::Version;
use std::cell::Cell;
use std::future::Future;

struct Bound {
    version: Version,
    /// A read of this task was answered from a snapshot that was taken for it: by the primary, where none else has
    /// the version.
    fresh_read: Cell<bool>,
}

tokio::task_local! {
    static BOUND: Bound;
}

/// Runs `work` so that none of its reads comes from a state before `version`, which [`crate::Store::version_token`]
/// of any instance has given. Reads of tasks that it spawns are not concerned.
pub async fn not_before<F: Future>(version: Version, work: F) -> F::Output {
    BOUND.scope(Bound { version, fresh_read: Cell::new(false) }, work).await
}

/// What the current task asks for; 0: nothing.
pub(crate) fn min_version() -> Version {
    BOUND.try_with(|bound| bound.version).unwrap_or(0)
}

/// A read of the current task was answered from a new snapshot.
pub(crate) fn note_fresh_read() {
    // Most tasks ask for no version.
    let _ = BOUND.try_with(|bound| bound.fresh_read.set(true));
}

pub(crate) fn had_fresh_read() -> bool {
    BOUND.try_with(|bound| bound.fresh_read.get()).unwrap_or(false)
}
