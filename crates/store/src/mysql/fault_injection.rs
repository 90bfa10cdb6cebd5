//! A transaction that stays open: on purpose, for a load test.

use super::address::Address;
use super::change_log;
use super::connection::Connection;
use crate::Error;
use crate::engine::Undo;
use crate::remote::{Session as _, TxMode};

/// The row takes a number of the log, which every instance misses from now on. The settings are those of changes to
/// the schema: only these may be silent for as long as they like.
pub(super) fn hold_transaction(address: Address) -> Result<Undo, Error> {
    let opened = Connection::open(&address.server()?);
    let mut connection = opened.map_err(|(_, error)| error)?;
    connection.begin(TxMode::Schema)?;
    connection.batch("START TRANSACTION READ WRITE")?;
    change_log::write(&mut connection, &[], 0)?;
    Ok(Box::new(move || {
        connection.batch("SELECT 1")?;
        connection.batch("ROLLBACK")
    }))
}
