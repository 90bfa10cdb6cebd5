//! What became of a commit whose answer was lost: the server is asked, on a new connection.
//!
//! The status of the transaction's id alone would lie after a crash: an id that the server had not
//! written down by then is given out again, and what another transaction did with it is no answer. So
//! "committed" is believed when the transaction's own mark is in the log.

use super::connection::Purpose;
use super::link::Link;
use super::log::{self, Entry};
use crate::threads::pause;
use crate::tx::Connection as _;
use crate::{Error, Row, Value};
use std::time::{Duration, Instant};

/// How long the server is asked before the caller is told that nobody knows.
const PATIENCE: Duration = Duration::from_secs(3);
/// Between two questions about a transaction that still runs.
const PAUSE: Duration = Duration::from_millis(20);

/// An id that is not smaller than one that is given out now was lost in a crash, with all that it did.
const STATUS: &str = "SELECT CASE
    WHEN CAST(CAST($1 AS TEXT) AS XID8) >= pg_current_xact_id() THEN 'aborted'
    ELSE pg_xact_status(CAST(CAST($1 AS TEXT) AS XID8)) END";

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Committed,
    Aborted,
    Unknown,
}

/// Asks until the transaction has ended. Its old server process may not have noticed yet that
/// nobody listens: then it still counts as running.
pub(super) fn outcome(link: &mut Link, entry: &Entry) -> Outcome {
    let xid = entry.xid.as_str();
    let until = Instant::now() + PATIENCE;
    loop {
        match ask(link, xid, until) {
            // In a later snapshot, which sees what the first could not.
            Ok(status) if status == "committed" => match is_logged(link, entry, until) {
                Ok(true) => return Outcome::Committed,
                Ok(false) => return Outcome::Aborted,
                Err(error) => tracing::warn!(xid, %error, "cannot ask what became of a transaction"),
            },
            Ok(status) if status == "aborted" => return Outcome::Aborted,
            Ok(status) => tracing::debug!(xid, status, "a transaction whose answer was lost has not ended"),
            Err(error) => tracing::warn!(xid, %error, "cannot ask what became of a transaction"),
        }
        if Instant::now() + PAUSE > until {
            tracing::error!(xid, "what became of a transaction is unknown");
            return Outcome::Unknown;
        }
        pause(PAUSE);
    }
}

fn is_logged(link: &mut Link, entry: &Entry, until: Instant) -> Result<bool, Error> {
    let connection = link.begin(Purpose::Query, until)?;
    let found = log::holds(connection, entry);
    link.finish();
    found
}

/// `committed`, `aborted`, `in progress`; `forgotten` when it is too long ago.
fn ask(link: &mut Link, xid: &str, until: Instant) -> Result<String, Error> {
    let connection = link.begin(Purpose::Query, until)?;
    let mut status = None;
    let asked = connection.query(STATUS, &[Value::from(xid)], &mut |row| {
        status = Row::new(row).get(0)?;
        Ok(false)
    });
    link.finish();
    asked.map(|()| status.unwrap_or_else(|| "forgotten".to_owned()))
}
