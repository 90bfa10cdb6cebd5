//! A transaction that stays open, and connections that end: on purpose, for a load test.

use super::address::Address;
use super::change_log;
use super::connection::Connection;
use crate::engine::Undo;
use crate::remote::{Session as _, TxMode};
use crate::tx::Connection as _;
use crate::{Error, Row};

const SESSIONS: &str = "SELECT id FROM information_schema.processlist
    WHERE db = DATABASE() AND id <> CONNECTION_ID() AND RAND() < 0.5";

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

pub(super) fn end_sessions(address: Address) -> Result<(), Error> {
    let opened = Connection::open(&address.server()?);
    let mut connection = opened.map_err(|(_, error)| error)?;
    connection.begin(TxMode::Schema)?;
    let mut sessions: Vec<i64> = Vec::new();
    connection.query(SESSIONS, &[], &mut |row| {
        sessions.push(Row::new(row).get(0)?);
        Ok(true)
    })?;
    for session in sessions {
        // It may have ended by itself.
        let _ = connection.batch(&format!("KILL CONNECTION {session}"));
    }
    Ok(())
}
