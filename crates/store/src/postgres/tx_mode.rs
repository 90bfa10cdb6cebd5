//! The settings that a transaction has, by what it is for.
//!
//! The server makes commands behave as if they ran one after another (SERIALIZABLE): of two that cannot both
//! be right, one fails.

use crate::remote::TxMode;
use std::time::Duration;

/// A command may run this long. Ten times what it may on SQLite: here each statement is a journey, and
/// a slow command holds up one of several connections, not everybody.
const COMMAND_LIMIT: Duration = Duration::from_secs(1);
/// A query may run this long, as on SQLite.
const QUERY_LIMIT: Duration = Duration::from_secs(5);

/// The current snapshot.
pub(super) const SNAPSHOT: &str = "SELECT CAST(pg_current_snapshot() AS TEXT)";

/// Begins the transaction with all of its settings, in one journey to the server. A lock is waited
/// for a little less long than a command may run, so that it is told apart from slowness. A program
/// that falls silent in a transaction loses it, and its locks, after 10 s. A query begins with what it can see.
pub(super) fn begin(mode: TxMode) -> &'static str {
    match mode {
        TxMode::Command => {
            "BEGIN ISOLATION LEVEL SERIALIZABLE;
             SET LOCAL synchronous_commit = on;
             SET LOCAL statement_timeout = 1000;
             SET LOCAL lock_timeout = 900;
             SET LOCAL idle_in_transaction_session_timeout = 10000"
        }
        // Asked after the snapshot was taken: a server that is a primary then was one at the snapshot.
        TxMode::Query | TxMode::Replica => {
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
             SET LOCAL statement_timeout = 5000;
             SET LOCAL idle_in_transaction_session_timeout = 10000;
             SELECT CAST(pg_current_snapshot() AS TEXT), pg_is_in_recovery()"
        }
        TxMode::Log => {
            "BEGIN ISOLATION LEVEL READ COMMITTED;
             SET LOCAL synchronous_commit = off;
             SET LOCAL statement_timeout = 5000;
             SET LOCAL lock_timeout = 500"
        }
        TxMode::Schema => {
            "BEGIN ISOLATION LEVEL READ COMMITTED;
             SET LOCAL synchronous_commit = on;
             SET LOCAL statement_timeout = 0;
             SET LOCAL lock_timeout = 30000"
        }
    }
}

pub(super) fn limit(mode: TxMode) -> Option<Duration> {
    match mode {
        TxMode::Command => Some(COMMAND_LIMIT),
        TxMode::Query | TxMode::Replica | TxMode::Log => Some(QUERY_LIMIT),
        TxMode::Schema => None,
    }
}
