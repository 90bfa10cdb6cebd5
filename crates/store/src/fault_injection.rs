//! Faults that a load test injects into a database server: a transaction that stays open, a standby that does not
//! replay, connections that end. Exists only with the feature `fault-injection`.
//!
//! The drivers block: call and drop nothing here on an asynchronous thread.

use crate::engine::Undo;
use crate::open::database;
use crate::{Error, Options};

/// A fault that lasts until this value is dropped.
pub struct Fault(Option<Undo>);

impl Fault {
    /// Ends the fault. Fails too if the fault had ended before.
    pub fn end(mut self) -> Result<(), Error> {
        self.0.take().map_or(Ok(()), |end| end())
    }
}

impl Drop for Fault {
    fn drop(&mut self) {
        if let Some(end) = self.0.take() {
            // A caller that needs the result calls `end`.
            let _ = end();
        }
    }
}

/// Opens a transaction on the server at `url`, writes a row of the change log in it and keeps it open. It is rolled back
/// at the end. The database must have been opened by a store before.
pub fn hold_transaction(url: &str) -> Result<Fault, Error> {
    let undo = database(&Options::new(url, &[]))?.hold_transaction(url)?;
    Ok(Fault(Some(undo)))
}

/// Ends about half of the connections to the database at `url`, whatever they do.
pub fn end_sessions(url: &str) -> Result<(), Error> {
    database(&Options::new(url, &[]))?.end_sessions(url)
}

/// Pauses the replay of the PostgreSQL standby at `url`, so that it falls behind its primary.
pub fn pause_replay(url: &str) -> Result<Fault, Error> {
    let undo = database(&Options::new(url, &[]))?.pause_replay(url)?;
    Ok(Fault(Some(undo)))
}
