//! What became of a commit whose answer was lost: the server is asked, on a new connection.
//!
//! Each writing transaction leaves a row in the log of changes, whose number is known before the commit. A
//! question that takes the row waits while the transaction still lives; then the row is there, or it never
//! will be. A row of that number with another mark is another transaction's: a server that crashed has lost ours.

use super::change_log::LogEntry;
use super::connection::Connection;
use crate::remote::{CommitOutcome, ReconnectingSession, TxMode};
use crate::tx::Connection as _;
use crate::{Error, Row, Value};
use std::time::Instant;

const ROW: &str = "SELECT mark FROM change_log WHERE seq = ?1 FOR UPDATE";

/// Asks whether the row is there. An error while its transaction lives.
pub(super) fn ask(
    session: &mut ReconnectingSession<Connection>,
    entry: &LogEntry,
    until: Instant,
) -> Result<CommitOutcome, Error> {
    let connection = session.begin(TxMode::Log, until)?;
    let mut found = CommitOutcome::Aborted;
    let asked = connection.query(ROW, &[Value::Int(entry.seq.cast_signed())], &mut |row| {
        if Row::new(row).get::<i64>(0)? == entry.mark {
            found = CommitOutcome::Committed;
        }
        Ok(false)
    });
    session.roll_back();
    asked.map(|()| found)
}
