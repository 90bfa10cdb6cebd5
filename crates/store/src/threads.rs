//! Database threads: how they start, how they wait.

use crate::Error;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Starts a thread that has a name in a debugger and in `ps`.
pub(crate) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Error> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(run)
        .map_err(|error| Error::Open(format!("cannot start thread {name}: {error}")))
}

/// Lets `span` pass: the wait before a new try, and the slow disk of a test.
pub(crate) fn pause(span: Duration) {
    let ends = Instant::now() + span;
    loop {
        let left = ends.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        std::thread::park_timeout(left);
    }
}
