//! What can go wrong in the store.
//!
//! Policy: a variant says whose turn it is. `Overloaded`, `TooSlow`, `Unavailable` and `Stopped` are the
//! server's state (503); `Conflict` is for the domain to translate by the constraint's name;
//! `OutcomeUnknown` must be told honestly; the rest are defects and go to the log.

use std::time::Duration;

/// The error of every operation of this crate.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The writer cannot start this in time. Nothing was done; try again after `retry_after`.
    #[error("the database is busy; try again in {} ms", retry_after.as_millis())]
    Overloaded {
        /// When a new try has a fair chance.
        retry_after: Duration,
    },
    /// A unique constraint refused the row.
    #[error("{constraint} on {table} does not allow this twice")]
    Conflict {
        /// The table that refused.
        table: String,
        /// The constraint's name as the migrations give it; `<table>_pkey` for a primary key.
        constraint: String,
    },
    /// The database cannot do this now: disk full, read-only, locked by another program, unreachable.
    #[error("{what}; {advice}")]
    Unavailable {
        /// What is wrong.
        what: String,
        /// What an operator can do.
        advice: String,
    },
    /// A statement ran longer than it may.
    #[error("a database operation took longer than {} ms and was stopped", limit.as_millis())]
    TooSlow {
        /// The limit that it passed.
        limit: Duration,
    },
    /// The connection was lost, or the disk failed, while the commit was under way: it may or may not have happened.
    #[error("the connection or the disk was lost during commit; whether the change was made is unknown")]
    OutcomeUnknown,
    /// A command panicked; its transaction was rolled back.
    #[error("command {command} failed unexpectedly")]
    Panicked {
        /// The command's name.
        command: &'static str,
    },
    /// The store is shutting down.
    #[error("the database is closing")]
    Stopped,
    /// A stored value does not have the type that the code reads.
    #[error("column {column}: expected {expected}, found {found}")]
    WrongType {
        /// Position in the row, from 0.
        column: usize,
        /// What the code asked for.
        expected: &'static str,
        /// What the database holds.
        found: &'static str,
    },
    /// A command changed, or a query read, a watched table without declaring a key of it.
    #[error("{name} touches table {table} without declaring it")]
    Undeclared {
        /// The command or query.
        name: &'static str,
        /// The table.
        table: String,
    },
    /// The database cannot be opened or migrated.
    #[error("{0}")]
    Open(String),
    /// Anything else that the database says: a defect.
    #[error("database: {0}")]
    Database(String),
}

impl Error {
    /// True when nothing was done and the same call may succeed later.
    pub fn is_temporary(&self) -> bool {
        matches!(
            self,
            Error::Overloaded { .. } | Error::TooSlow { .. } | Error::Unavailable { .. } | Error::Stopped
        )
    }

    /// The name of the violated constraint, when that is what happened.
    pub fn conflict(&self) -> Option<&str> {
        match self {
            Error::Conflict { constraint, .. } => Some(constraint),
            _ => None,
        }
    }
}
