//! Errors of the store.
//!
//! Policy: the variant decides who has to act. `Overloaded`, `TooSlow`, `Unavailable` and `Stopped` are a state of the
//! server (503). The domain translates `Conflict` by the constraint's name. `OutcomeUnknown` is reported as such. All
//! others are defects and go to the log.

use std::time::Duration;

/// The error of every operation of this crate.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The writer cannot start the command in time. Nothing was done; try again after `retry_after`.
    #[error("the database is busy; try again in {} ms", retry_after.as_millis())]
    Overloaded {
        /// The time after which a retry is likely to succeed.
        retry_after: Duration,
    },
    /// The row violates a unique constraint.
    #[error("unique constraint {constraint} on {table} violated")]
    Conflict {
        /// The table of the constraint.
        table: String,
        /// The constraint's name in the migrations; `<table>_pkey` for a primary key.
        constraint: String,
    },
    /// The database cannot do this at the moment: disk full, read-only, locked by another program, or unreachable.
    #[error("{what}; {advice}")]
    Unavailable {
        /// What is wrong.
        what: String,
        /// What an operator can do about it.
        advice: String,
    },
    /// A statement exceeded its time limit.
    #[error("a database operation took longer than {} ms and was stopped", limit.as_millis())]
    TooSlow {
        /// The limit.
        limit: Duration,
    },
    /// The connection or the disk failed during COMMIT, so the changes may or may not have been made.
    #[error(
        "the connection or the disk failed during commit; whether the change was made is unknown, so read the data \
         before you try again"
    )]
    OutcomeUnknown,
    /// A command panicked; its transaction was rolled back.
    #[error("command {command} failed unexpectedly")]
    Panicked {
        /// The command's name.
        command: &'static str,
    },
    /// The caller is not in a tokio runtime, or in one without timers. Nothing was done.
    #[error(
        "the store needs a tokio runtime with timers; build the runtime with `enable_time` and call the store in it"
    )]
    Runtime,
    /// The store is shutting down.
    #[error("the database is closing")]
    Stopped,
    /// A stored value has another type than the one that the code reads.
    #[error("column {column}: expected {expected}, found {found}")]
    WrongType {
        /// Position in the row, from 0.
        column: usize,
        /// The type that the code reads.
        expected: &'static str,
        /// The type of the stored value.
        found: &'static str,
    },
    /// A command changed, or a query found, rows of a watched table without declaring a key of it.
    #[error(
        "{name} uses table {table} without declaring a key of it: call `tx.changed` in a command and `snapshot.depends` in a \
         query, with a key of each row, or do not watch the table"
    )]
    Undeclared {
        /// The command or query.
        name: &'static str,
        /// The table.
        table: String,
    },
    /// A command changed what a cached query reads, but one of them did not declare the key. Only with
    /// [`crate::Options::check`].
    #[error("cached {cache} are wrong after a commit: a changed key or a dependency was not declared")]
    StaleCache {
        /// The cache's name.
        cache: &'static str,
    },
    /// A newer program has changed the schema. An older one would not keep its rules.
    #[error("the database has schema {found}, this program knows up to {known}; start the newer program")]
    NewerSchema {
        /// The number of the last migration of the database.
        found: i64,
        /// The number of the last migration of this program.
        known: i64,
    },
    /// The database cannot be opened or migrated.
    #[error("{0}")]
    Open(String),
    /// Any other error of the database. It is a defect.
    #[error("database: {0}")]
    Database(String),
}

impl Error {
    /// True if nothing was done and a retry may succeed.
    pub fn is_temporary(&self) -> bool {
        matches!(
            self,
            Error::Overloaded { .. } | Error::TooSlow { .. } | Error::Unavailable { .. } | Error::Stopped
        )
    }

    /// The name of the violated constraint, if any.
    pub fn conflict(&self) -> Option<&str> {
        match self {
            Error::Conflict { constraint, .. } => Some(constraint),
            _ => None,
        }
    }
}
