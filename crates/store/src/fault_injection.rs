//! What a load test does to a database server on purpose: a transaction that stays open, a standby whose replay
//! stands still. A program that serves needs nothing of it.
//!
//! The drivers block: nothing here may be called, nor dropped, on an asynchronous thread.

use crate::engine::Undo;
use crate::open::database;
use crate::{Error, Options};

/// Something that lasts until this value ends it.
pub struct Fault(Option<Undo>);

impl Fault {
    /// Brings things back in order. Fails also when the disturbance had ended before.
    pub fn end(mut self) -> Result<(), Error> {
        self.0.take().map_or(Ok(()), |end| end())
    }
}

impl Drop for Fault {
    fn drop(&mut self) {
        if let Some(end) = self.0.take() {
            // Who wants to know how it went calls `end`.
            let _ = end();
        }
    }
}

/// Opens a transaction on the server at `url` that has written a row of the log of changes, and keeps it open. It
/// is rolled back in the end. A store must have been opened on this database before.
pub fn hold_transaction(url: &str) -> Result<Fault, Error> {
    let undo = database(&Options::new(url, &[]))?.hold_transaction(url)?;
    Ok(Fault(Some(undo)))
}

/// Lets the PostgreSQL standby at `url` fall behind: what its primary writes is not replayed until the end.
pub fn pause_replay(url: &str) -> Result<Fault, Error> {
    let undo = database(&Options::new(url, &[]))?.pause_replay(url)?;
    Ok(Fault(Some(undo)))
}
