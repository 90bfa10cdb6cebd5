//! What became of a commit whose answer was lost: the server is asked, on a new connection.
//!
//! Each writing transaction leaves a row in the log of changes, whose number is known before the commit. A
//! question that takes the row waits while the transaction still lives; then the row is there, or it never
//! will be.

use super::connection::Connection;
use crate::remote::{Link, Outcome, Purpose};
use crate::tx::Connection as _;
use crate::{Error, Value};
use std::time::Instant;

const ROW: &str = "SELECT seq FROM change_log WHERE seq = ?1 FOR UPDATE";

/// Asks whether the row is there. An error while its transaction lives.
pub(super) fn ask(link: &mut Link<Connection>, seq: u64, until: Instant) -> Result<Outcome, Error> {
    let connection = link.begin(Purpose::Log, until)?;
    let mut found = Outcome::Aborted;
    let asked = connection.query(ROW, &[Value::Int(seq.cast_signed())], &mut |_| {
        found = Outcome::Committed;
        Ok(false)
    });
    link.roll_back();
    asked.map(|()| found)
}
