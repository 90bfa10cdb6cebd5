//! What became of a commit whose answer was lost: the server is asked, on a new connection.
//!
//! The status of the transaction's id alone would lie after a crash: an id that the server had not
//! written down by then is given out again, and what another transaction did with it is no answer. So
//! "committed" is believed when the transaction's own mark is in the log.

use super::connection::Connection;
use super::log::{self, Entry};
use crate::remote::{Link, Outcome, Purpose};
use crate::tx::Connection as _;
use crate::{Error, Row, Value};
use std::time::Instant;

/// An id that is not smaller than one that is given out now was lost in a crash, with all that it did.
const STATUS: &str = "SELECT CASE
    WHEN CAST(CAST($1 AS TEXT) AS XID8) >= pg_current_xact_id() THEN 'aborted'
    ELSE pg_xact_status(CAST(CAST($1 AS TEXT) AS XID8)) END";

/// Asks once; unknown while the transaction has not ended.
pub(super) fn ask(link: &mut Link<Connection>, entry: &Entry, until: Instant) -> Result<Outcome, Error> {
    let status = status(link, &entry.xid, until)?;
    match status.as_str() {
        // In a later snapshot, which sees what the first could not.
        "committed" if is_logged(link, entry, until)? => Ok(Outcome::Committed),
        "committed" | "aborted" => Ok(Outcome::Aborted),
        _ => {
            tracing::debug!(%entry, status, "a transaction whose answer was lost has not ended");
            Ok(Outcome::Unknown)
        }
    }
}

fn is_logged(link: &mut Link<Connection>, entry: &Entry, until: Instant) -> Result<bool, Error> {
    let connection = link.begin(Purpose::Query, until)?;
    let found = log::holds(connection, entry);
    link.finish();
    found
}

/// `committed`, `aborted`, `in progress`; `forgotten` when it is too long ago.
fn status(link: &mut Link<Connection>, xid: &str, until: Instant) -> Result<String, Error> {
    let connection = link.begin(Purpose::Query, until)?;
    let mut status = None;
    let asked = connection.query(STATUS, &[Value::from(xid)], &mut |row| {
        status = Row::new(row).get(0)?;
        Ok(false)
    });
    link.finish();
    asked.map(|()| status.unwrap_or_else(|| "forgotten".to_owned()))
}
