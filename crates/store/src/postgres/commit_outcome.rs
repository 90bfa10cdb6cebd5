//! What became of a commit whose answer was lost: the server is asked, on a new connection.
//!
//! The status of the transaction's id alone would lie after a crash: an id that the server had not
//! written down by then is given out again, and what another transaction did with it is no answer. So
//! "committed" is believed when the transaction's own mark is in the log.

use super::change_log::{self, LogEntry};
use super::connection::Connection;
use crate::remote::{CommitOutcome, ReconnectingSession, TxMode};
use crate::tx::Connection as _;
use crate::{Error, Row, Value};
use std::time::Instant;

/// An id that is not smaller than one that is given out now was lost in a crash, with all that it did.
const STATUS: &str = "SELECT CASE
    WHEN CAST(CAST($1 AS TEXT) AS XID8) >= pg_current_xact_id() THEN 'aborted'
    ELSE pg_xact_status(CAST(CAST($1 AS TEXT) AS XID8)) END";

/// Asks once; unknown while the transaction has not ended.
pub(super) fn ask(
    session: &mut ReconnectingSession<Connection>,
    entry: &LogEntry,
    until: Instant,
) -> Result<CommitOutcome, Error> {
    let status = status(session, &entry.xid, until)?;
    match status.as_str() {
        // In a later snapshot, which sees what the first could not.
        "committed" if is_logged(session, entry, until)? => Ok(CommitOutcome::Committed),
        "committed" | "aborted" => Ok(CommitOutcome::Aborted),
        _ => {
            tracing::debug!(%entry, status, "a transaction whose answer was lost has not ended");
            Ok(CommitOutcome::Unknown)
        }
    }
}

fn is_logged(
    session: &mut ReconnectingSession<Connection>,
    entry: &LogEntry,
    until: Instant,
) -> Result<bool, Error> {
    let connection = session.begin(TxMode::Query, until)?;
    let found = change_log::is_visible(connection, entry);
    session.finish();
    found
}

/// `committed`, `aborted`, `in progress`; `forgotten` when it is too long ago.
fn status(session: &mut ReconnectingSession<Connection>, xid: &str, until: Instant) -> Result<String, Error> {
    let connection = session.begin(TxMode::Query, until)?;
    let mut status = None;
    let asked = connection.query(STATUS, &[Value::from(xid)], &mut |row| {
        status = Row::new(row).get(0)?;
        Ok(false)
    });
    session.finish();
    asked.map(|()| status.unwrap_or_else(|| "forgotten".to_owned()))
}
