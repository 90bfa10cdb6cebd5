//! A transaction that stays open: on purpose, for a load test.

use super::address::Address;
use super::connection::Connection;
use super::feed;
use crate::Error;
use crate::disturb::End;
use crate::remote::{Purpose, Session as _};

/// The row takes a number of the log, which every instance misses from now on. The settings are those of changes to
/// the schema: only these may be silent for as long as they like.
pub(crate) fn hold_transaction(address: Address) -> Result<End, Error> {
    let opened = Connection::open(&address.server()?);
    let mut connection = opened.map_err(|(_, error)| error)?;
    connection.begin(Purpose::Schema)?;
    connection.batch("START TRANSACTION READ WRITE")?;
    feed::log(&mut connection, &[], 0)?;
    Ok(Box::new(move || {
        connection.batch("SELECT 1")?;
        connection.batch("ROLLBACK")
    }))
}
