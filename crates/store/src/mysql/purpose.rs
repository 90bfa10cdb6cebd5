//! What transactions are for, and the settings that each kind has.

use std::time::Duration;

/// A command may run this long: a lock is waited for a second, and that is told apart from slowness.
const COMMAND_LIMIT: Duration = Duration::from_millis(1500);
/// A query may run this long, as on SQLite.
const QUERY_LIMIT: Duration = Duration::from_secs(5);

/// What a transaction is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Command,
    Query,
    /// The program's own housekeeping: at start …
    Schema,
    /// … and with the log of changes.
    Log,
}

/// Whose server it is: they differ in how a limit of time is set, and in the name of a collation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Maker {
    MariaDb,
    MySql,
}

impl Purpose {
    /// The settings of the session. MySQL limits the time of a SELECT only; and it does not end a transaction
    /// whose program has fallen silent, as MariaDB does after 10 s.
    pub(super) fn settings(self, maker: Maker) -> String {
        let (isolation, lock_seconds) = match self {
            Purpose::Command | Purpose::Log => ("READ COMMITTED", 1),
            Purpose::Query => ("REPEATABLE READ", 1),
            Purpose::Schema => ("READ COMMITTED", 30),
        };
        let limit = self.limit().unwrap_or_default();
        let limits = match maker {
            Maker::MariaDb => {
                let silence_seconds = if self == Purpose::Schema { 0 } else { 10 };
                format!(
                    "max_statement_time = {}, idle_transaction_timeout = {silence_seconds}",
                    limit.as_secs_f64()
                )
            }
            Maker::MySql => format!("max_execution_time = {}", limit.as_millis()),
        };
        format!(
            "SET SESSION TRANSACTION ISOLATION LEVEL {isolation};
             SET SESSION innodb_lock_wait_timeout = {lock_seconds}, lock_wait_timeout = {lock_seconds}, {limits}"
        )
    }

    pub(super) fn begin(self) -> &'static str {
        match self {
            Purpose::Command | Purpose::Log => "START TRANSACTION READ WRITE",
            Purpose::Query => "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
            // A change of the schema commits by itself.
            Purpose::Schema => "DO 0",
        }
    }

    pub(super) fn limit(self) -> Option<Duration> {
        match self {
            Purpose::Command => Some(COMMAND_LIMIT),
            Purpose::Query | Purpose::Log => Some(QUERY_LIMIT),
            Purpose::Schema => None,
        }
    }
}
