//! Resources of the generator: file descriptors and a core.

use crate::error::Error;

/// The server's core when pinned.
pub const SERVER_CORE: usize = 0;
/// The generator's core when pinned.
pub const GENERATOR_CORE: usize = 1;
/// Descriptors for everything that is not a connection of the load.
const DESCRIPTORS_SPARE: u64 = 200;

/// Raises the limit of file descriptors to its maximum, also for servers that are started later. `connections` must fit.
pub fn ensure_descriptors(connections: usize) -> Result<(), Error> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // The check below reports a failure.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    let wanted = connections as u64 + DESCRIPTORS_SPARE;
    match getrlimit(Resource::Nofile).current {
        Some(current) if current < wanted => Err(Error::Usage(format!(
            "{connections} connections need {wanted} file descriptors and this process may have {current}; \
             raise the hard limit (ulimit -Hn, LimitNOFILE) or use fewer connections"
        ))),
        _ => Ok(()),
    }
}

/// The connections that fit under the limit of file descriptors.
pub fn connections_max() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let fit = limit.maximum.map_or(u64::MAX, |maximum| maximum.saturating_sub(DESCRIPTORS_SPARE));
    usize::try_from(fit).unwrap_or(usize::MAX)
}

/// Pins the calling thread, and its children, to the core of the generator.
#[cfg(target_os = "linux")]
pub fn pin_generator() -> Result<(), Error> {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let what = || Error::io("cannot pin the generator to core 1");
    let allowed = sched_getaffinity(None).map_err(|error| what()(error.into()))?;
    if !allowed.is_set(SERVER_CORE) || !allowed.is_set(GENERATOR_CORE) {
        return Err(Error::Usage("--pin needs cores 0 and 1, and this process may not use both".to_owned()));
    }
    let mut set = CpuSet::new();
    set.set(GENERATOR_CORE);
    sched_setaffinity(None, &set).map_err(|error| what()(error.into()))
}

#[cfg(not(target_os = "linux"))]
pub fn pin_generator() -> Result<(), Error> {
    Err(Error::Usage("--pin works on Linux only".to_owned()))
}
