//! What became of a commit whose answer was lost: the server is asked, on a new connection.
//!
//! Each writing transaction leaves a row in the log of changes, whose number is known before the commit. A
//! question that takes the row waits while the transaction still lives; then the row is there, or it never
//! will be.

use super::link::Link;
use super::purpose::Purpose;
use crate::threads::pause;
use crate::tx::Connection as _;
use crate::{Error, Value};
use std::time::{Duration, Instant};

/// How long the server is asked before the caller is told that nobody knows.
const PATIENCE: Duration = Duration::from_secs(3);
/// Between two questions.
const PAUSE: Duration = Duration::from_millis(20);

const ROW: &str = "SELECT seq FROM change_log WHERE seq = ?1 FOR UPDATE";

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Committed,
    Aborted,
    Unknown,
}

/// Asks until the transaction that took the number `seq` has ended.
pub(super) fn outcome(link: &mut Link, seq: u64) -> Outcome {
    let until = Instant::now() + PATIENCE;
    loop {
        match ask(link, seq, until) {
            Ok(true) => return Outcome::Committed,
            Ok(false) => return Outcome::Aborted,
            Err(error) => tracing::warn!(seq, %error, "cannot tell yet what became of a transaction"),
        }
        if Instant::now() + PAUSE > until {
            tracing::error!(seq, "what became of a transaction is unknown");
            return Outcome::Unknown;
        }
        pause(PAUSE);
    }
}

/// Whether the row is there. An error while its transaction lives.
fn ask(link: &mut Link, seq: u64, until: Instant) -> Result<bool, Error> {
    let connection = link.begin(Purpose::Log, until)?;
    let mut found = false;
    let asked = connection.query(ROW, &[Value::Int(seq.cast_signed())], &mut |_| {
        found = true;
        Ok(false)
    });
    link.roll_back();
    asked.map(|()| found)
}
