//! The limit of open files, which bounds connections: each needs a descriptor.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that are reserved for the database and outgoing calls.
const BESIDE: u64 = 256;

/// The number of connections for which there are descriptors, after the limit was raised as far as the system allows.
pub fn room() -> usize {
    let room = |limit: u64| limit - BESIDE.min(limit / 4);
    raise_limit().and_then(|limit| usize::try_from(room(limit)).ok()).unwrap_or(usize::MAX)
}

fn raise_limit() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "the limit of open files could not be raised");
        return limit.current;
    }
    limit.maximum
}
