//! The runtime of a caller, which must have timers: a job that cannot start in time is given up.

use crate::Error;
use std::cell::Cell;
use std::panic::catch_unwind;
use std::time::Duration;
use tokio::runtime::{Handle, Id};

thread_local! {
    /// The last runtime that was found to have timers.
    static CHECKED: Cell<Option<Id>> = const { Cell::new(None) };
}

/// The runtime of the calling task. Any number of runtimes may use a store. Refuses a caller outside of tokio, or in a
/// runtime without timers, before anything is queued.
pub(crate) fn of_caller() -> Result<Handle, Error> {
    let handle = Handle::try_current().map_err(|_| Error::Runtime)?;
    if CHECKED.get() != Some(handle.id()) {
        // Tokio has no other way to find out.
        catch_unwind(|| drop(tokio::time::sleep(Duration::ZERO))).map_err(|_| Error::Runtime)?;
        CHECKED.set(Some(handle.id()));
    }
    Ok(handle)
}
