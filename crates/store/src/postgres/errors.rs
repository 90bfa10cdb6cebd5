//! PostgreSQL's errors in the store's words. The only place that reads an error of the driver.

use crate::Error;
use crate::remote::Trouble;
use ::postgres::error::{DbError, Severity, SqlState};
use std::error::Error as _;
use std::time::Duration;

/// What went wrong, in the store's words, and what it means.
pub(super) fn translate(error: &::postgres::Error, limit: Duration) -> (Trouble, Error) {
    match error.as_db_error() {
        Some(told) => (trouble(told), told_by_server(told, limit)),
        None if is_about_a_value(error) => (Trouble::Failed, Error::Database(full_text(error))),
        None => {
            let what = format!("the connection to the database was lost ({})", full_text(error));
            (Trouble::Lost, unavailable(what, "check that the database server runs and can be reached"))
        }
    }
}

fn trouble(told: &DbError) -> Trouble {
    if *told.code() == SqlState::T_R_SERIALIZATION_FAILURE || *told.code() == SqlState::T_R_DEADLOCK_DETECTED
    {
        return Trouble::Again;
    }
    match told.parsed_severity() {
        Some(Severity::Fatal | Severity::Panic) => Trouble::Lost,
        _ => Trouble::Failed,
    }
}

fn told_by_server(told: &DbError, limit: Duration) -> Error {
    let code = told.code();
    if *code == SqlState::UNIQUE_VIOLATION {
        let named = |name: Option<&str>| name.unwrap_or("unknown").to_owned();
        return Error::Conflict { table: named(told.table()), constraint: named(told.constraint()) };
    }
    if *code == SqlState::QUERY_CANCELED {
        return Error::TooSlow { limit };
    }
    match advice(code) {
        Some((what, advice)) => unavailable(what.to_owned(), advice),
        // The detail and the hint are left out: they hold values of rows.
        None => Error::Database(format!("{} ({})", told.message(), code.code())),
    }
}

/// Errors that an operator can do something about.
fn advice(code: &SqlState) -> Option<(&'static str, &'static str)> {
    let known = [
        (SqlState::DISK_FULL, "the disk of the database is full", "free some space"),
        (
            SqlState::OUT_OF_MEMORY,
            "the database server is out of memory",
            "give it more, or fewer connections",
        ),
        (
            SqlState::TOO_MANY_CONNECTIONS,
            "the database server takes no more connections",
            "raise its max_connections or close other programs",
        ),
        (
            SqlState::READ_ONLY_SQL_TRANSACTION,
            "the database cannot be written",
            "connect to the primary and check default_transaction_read_only",
        ),
        (
            SqlState::LOCK_NOT_AVAILABLE,
            "a lock in the database was not free in time",
            "find the program or the slow command that holds it in pg_stat_activity",
        ),
        (SqlState::ADMIN_SHUTDOWN, "the database server ended the connection", "try again"),
        (SqlState::CRASH_SHUTDOWN, "the database server has crashed and recovers", "see its log"),
        (SqlState::CANNOT_CONNECT_NOW, "the database server starts, stops or recovers", "wait for it"),
        (
            SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
            "a transaction stood still for too long and was ended",
            "see the program's log for a command that waits",
        ),
        (SqlState::IO_ERROR, "the disk of the database reports an error", "see the server's log"),
    ];
    known.into_iter().find(|(state, ..)| state == code).map(|(_, what, advice)| (what, advice))
}

/// Why there is no connection, and whether waiting may help. Names no password, like the driver.
pub(super) fn refused(error: &::postgres::Error) -> (bool, Error) {
    let Some(told) = error.as_db_error() else {
        let what = format!("there is no connection to the database server ({})", full_text(error));
        if error.to_string().starts_with("error performing TLS handshake") {
            return (false, unavailable(what, "check sslmode and sslrootcert of the database's URL"));
        }
        return (true, unavailable(what, "check that it runs, and the URL of the database"));
    };
    let code = told.code();
    let passing = [
        SqlState::TOO_MANY_CONNECTIONS,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        // A pooler that has no connection to the server, or too many clients.
        SqlState::PROTOCOL_VIOLATION,
    ];
    let what = format!("the database server refuses the connection: {} ({})", told.message(), code.code());
    (passing.contains(code), unavailable(what, "check user, password and database of the URL"))
}

/// A connection that is closed from the other end.
pub(super) fn ended() -> Error {
    unavailable("the database server ended the connection".to_owned(), "try again")
}

/// The driver's own complaint about an argument or a column: the connection is as good as before.
fn is_about_a_value(error: &::postgres::Error) -> bool {
    let text = error.to_string();
    ["error serializing parameter", "error deserializing column", "error encoding message", "invalid column"]
        .iter()
        .any(|start| text.starts_with(start))
}

fn full_text(error: &::postgres::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

fn unavailable(what: String, advice: &str) -> Error {
    Error::Unavailable { what, advice: advice.to_owned() }
}
