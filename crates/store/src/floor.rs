//! The state that a caller has seen already, and must not be answered from before.
//!
//! A caller carries a version from one answer to the next request, which may reach another instance, or
//! one that reads from a replica. Whatever serves such a request runs inside [`not_before`]: caches that
//! have not heard that far are passed by, and so are replicas.

use crate::Version;
use std::future::Future;

tokio::task_local! {
    static FLOOR: Version;
}

/// Runs `work` so that none of its reads comes from a state before `version`, which [`crate::Store::shown`]
/// of any instance has given. Reads of tasks that it spawns are not concerned.
pub async fn not_before<F: Future>(version: Version, work: F) -> F::Output {
    FLOOR.scope(version, work).await
}

/// What the current task asks for; 0: nothing.
pub(crate) fn floor() -> Version {
    FLOOR.try_with(|version| *version).unwrap_or(0)
}
