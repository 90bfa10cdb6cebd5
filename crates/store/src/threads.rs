//! Helpers for database threads.

use crate::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
#[cfg(any(feature = "postgres", feature = "mysql"))]
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// From the panic of a thread until it begins again.
const AFTER_PANIC: Duration = Duration::from_millis(250);

/// Starts a thread with a name that debuggers and `ps` show.
pub(crate) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Error> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(run)
        .map_err(|error| Error::Open(format!("cannot start thread {name}: {error}")))
}

/// Runs the work of a thread until it returns. If it panics, which is a defect that the panic has named, it begins again: the
/// queue of a thread that has gone would be served by nobody.
pub(crate) fn again_after_panics(mut work: impl FnMut()) {
    while catch_unwind(AssertUnwindSafe(&mut work)).is_err() {
        tracing::error!(
            thread = std::thread::current().name(),
            "a database thread panicked and begins again"
        );
        pause(AFTER_PANIC);
    }
}

/// Blocks for `span`: before a retry, or to slow a commit down in a test.
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

/// Runs `work` on a thread that is not asynchronous, because the drivers block.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) fn on_its_own_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let (reply, answer) = sync_channel(1);
    let thread = spawn("sarsen-open", move || {
        let _ = reply.send(work());
    })?;
    let result =
        answer.recv().unwrap_or_else(|_| Err(Error::Open("opening the database panicked".to_owned())));
    let _ = thread.join();
    result
}
