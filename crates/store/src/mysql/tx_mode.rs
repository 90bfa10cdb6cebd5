//! The settings that a transaction has, by what it is for.
//!
//! Commands run at READ COMMITTED: one that reads in order to decide takes the row that it decides about first
//! (`Tx::lock`), and so waits for the one before it. Of two that wait for each other, one fails.

use crate::remote::TxMode;
use std::time::Duration;

/// A command may run this long: a lock is waited for a second, and that is told apart from slowness.
const COMMAND_LIMIT: Duration = Duration::from_millis(1500);
/// A query may run this long, as on SQLite.
const QUERY_LIMIT: Duration = Duration::from_secs(5);
/// The steps of a recursive query. MySQL fails above its own limit of 1,000, and MariaDB leaves rows out.
const RECURSIONS_MAX: u32 = 1_000_000;

/// Whose server it is: they differ in how a limit of time is set, and in the name of a collation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Vendor {
    MariaDb,
    MySql,
}

impl Vendor {
    /// That of all columns: it compares by every byte. `utf8mb4_bin` takes no notice of spaces at the end.
    pub(super) fn collation(self) -> &'static str {
        match self {
            Vendor::MariaDb => "utf8mb4_nopad_bin",
            Vendor::MySql => "utf8mb4_0900_bin",
        }
    }
}

/// The settings of the session. MySQL limits the time of a SELECT only; and it does not end a transaction
/// whose program has fallen silent, as MariaDB does after 10 s.
///
/// Arguments get the collation of the columns, by SET NAMES alone: with another one, MariaDB reads and sorts everything
/// that `WHERE a = ?1 ORDER BY a, b` finds, though an index has it in that order. A server whose version has not been
/// looked at yet may not know that collation.
pub(super) fn settings(mode: TxMode, vendor: Vendor) -> String {
    let (isolation, lock_seconds) = match mode {
        TxMode::Command | TxMode::Batch | TxMode::Log => ("READ COMMITTED", 1),
        TxMode::Query | TxMode::Replica => ("REPEATABLE READ", 1),
        TxMode::Schema => ("READ COMMITTED", 30),
    };
    let limit = limit(mode).unwrap_or_default();
    let limits = match vendor {
        Vendor::MariaDb => {
            let silence_seconds = if mode == TxMode::Schema { 0 } else { 10 };
            format!(
                "max_statement_time = {}, idle_transaction_timeout = {silence_seconds},
                 max_recursive_iterations = {RECURSIONS_MAX}",
                limit.as_secs_f64()
            )
        }
        Vendor::MySql => {
            format!("max_execution_time = {}, cte_max_recursion_depth = {RECURSIONS_MAX}", limit.as_millis())
        }
    };
    let collation = match mode {
        TxMode::Schema => String::new(),
        _ => format!("SET NAMES utf8mb4 COLLATE {};\n", vendor.collation()),
    };
    format!(
        "{collation}SET SESSION TRANSACTION ISOLATION LEVEL {isolation};
         SET SESSION innodb_lock_wait_timeout = {lock_seconds}, lock_wait_timeout = {lock_seconds}, {limits}"
    )
}

pub(super) fn begin(mode: TxMode) -> &'static str {
    match mode {
        TxMode::Command | TxMode::Batch | TxMode::Log => "START TRANSACTION READ WRITE",
        TxMode::Query | TxMode::Replica => "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
        // A change of the schema commits by itself.
        TxMode::Schema => "DO 0",
    }
}

pub(super) fn limit(mode: TxMode) -> Option<Duration> {
    match mode {
        TxMode::Command | TxMode::Batch => Some(COMMAND_LIMIT),
        TxMode::Query | TxMode::Replica | TxMode::Log => Some(QUERY_LIMIT),
        TxMode::Schema => None,
    }
}
