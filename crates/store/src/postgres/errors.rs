//! PostgreSQL's errors in the store's words. The only place that reads an error of the driver.

use super::client::NotConnected;
use crate::Error;
use crate::remote::Failure;
use std::error::Error as _;
use std::io;
use std::time::Duration;
use tokio_postgres::error::{DbError, Severity, SqlState};

/// What went wrong, in the store's words, and what it means.
pub(super) fn translate(error: &tokio_postgres::Error, limit: Duration) -> (Failure, Error) {
    match error.as_db_error() {
        Some(server) => (failure(server), server_error(server, limit)),
        None if is_about_a_value(error) => (Failure::Fatal, Error::Database(full_text(error))),
        None => {
            let what = format!("the connection to the database was lost ({})", full_text(error));
            (
                Failure::ConnectionLost,
                unavailable(what, "check that the database server runs and can be reached"),
            )
        }
    }
}

/// Whether a lock was not free within the limit of the transaction.
pub(super) fn is_lock_timeout(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE)
}

/// Whether the server, or what stands before it, does not do what it was asked for.
pub(super) fn is_unsupported(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::FEATURE_NOT_SUPPORTED)
}

fn failure(server: &DbError) -> Failure {
    if *server.code() == SqlState::T_R_SERIALIZATION_FAILURE
        || *server.code() == SqlState::T_R_DEADLOCK_DETECTED
    {
        return Failure::Retryable;
    }
    match server.parsed_severity() {
        Some(Severity::Fatal | Severity::Panic) => Failure::ConnectionLost,
        _ if is_connection_error(server) => Failure::ConnectionLost,
        _ => Failure::Fatal,
    }
}

fn is_connection_error(server: &DbError) -> bool {
    server.code().code().starts_with("08")
}

fn server_error(server: &DbError, limit: Duration) -> Error {
    let code = server.code();
    if *code == SqlState::UNIQUE_VIOLATION {
        let named = |name: Option<&str>| name.unwrap_or("unknown").to_owned();
        return Error::Conflict { table: named(server.table()), constraint: named(server.constraint()) };
    }
    if *code == SqlState::QUERY_CANCELED {
        return Error::TooSlow { limit };
    }
    // A pooler that has no server says so with a class of its own.
    if is_connection_error(server) {
        let what = format!("the pooler before the database has no connection ({})", server.message());
        return unavailable(what, "check that the database server runs and can be reached");
    }
    if *code == SqlState::INSUFFICIENT_PRIVILEGE {
        let what = format!("the database user lacks a right ({})", server.message());
        return unavailable(what, "let it own the database, or grant it CREATE and USAGE on its schema");
    }
    match advice(code) {
        Some((what, advice)) => unavailable(what.to_owned(), advice),
        // The detail and the hint are left out: they hold values of rows.
        None => Error::Database(format!("{} ({})", server.message(), code.code())),
    }
}

/// A table of another user, in the words of the server when it is changed.
pub(super) fn not_owner(table: &str) -> Error {
    let what = format!("the database user lacks a right (must be owner of table {table})");
    unavailable(what, "give it its tables: ALTER TABLE … OWNER TO, or REASSIGN OWNED BY")
}

/// A prepared statement of somebody else is on the session, or ours is not.
const POOLED: &str = "the database URL leads to a pooler that lends a connection for one transaction";
const NAME_POOLER: &str = "add pooler=transaction to the URL";

const ENDED: &str = "the database server ended the connection";
const ASK_ITS_LOG: &str = "try again; if that goes on, see the server's log";

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
        (SqlState::ADMIN_SHUTDOWN, ENDED, ASK_ITS_LOG),
        (SqlState::CRASH_SHUTDOWN, "the database server has crashed and recovers", "see its log"),
        (SqlState::CANNOT_CONNECT_NOW, "the database server starts, stops or recovers", "wait for it"),
        (
            SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
            "a transaction stood still for too long and was ended",
            "see the program's log for a command that waits",
        ),
        (SqlState::DUPLICATE_PSTATEMENT, POOLED, NAME_POOLER),
        (SqlState::INVALID_SQL_STATEMENT_NAME, POOLED, NAME_POOLER),
        (SqlState::IO_ERROR, "the disk of the database reports an error", "see the server's log"),
    ];
    known.into_iter().find(|(state, ..)| state == code).map(|(_, what, advice)| (what, advice))
}

/// Why there is no connection, and whether waiting may help.
pub(super) fn not_connected(why: &NotConnected, limit: Duration) -> (bool, Error) {
    match why {
        NotConnected::Machine(error) => (true, no_resources(error)),
        NotConnected::Refused(error) => connect_error(error),
        NotConnected::Silent => {
            let what = format!("the database server did not take the connection within {limit:?}");
            (true, unavailable(what, "check that it runs, and what stands between"))
        }
    }
}

/// Names no password, like the driver.
fn connect_error(error: &tokio_postgres::Error) -> (bool, Error) {
    let Some(server) = error.as_db_error() else {
        let what = format!("there is no connection to the database server ({})", full_text(error));
        if error.to_string().starts_with("error performing TLS handshake") {
            return (false, unavailable(what, "check sslmode and sslrootcert of the database's URL"));
        }
        return (true, unavailable(what, "check that it runs, and the URL of the database"));
    };
    let code = server.code();
    let transient = [
        SqlState::TOO_MANY_CONNECTIONS,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        // A pooler that has no connection to the server, or too many clients.
        SqlState::PROTOCOL_VIOLATION,
    ];
    let what = format!("the database server refuses the connection: {} ({})", server.message(), code.code());
    (transient.contains(code), unavailable(what, "check user, password and database of the URL"))
}

/// The operating system refuses what a connection needs.
fn no_resources(error: &io::Error) -> Error {
    let what = format!("no connection to the database server can be opened ({error})");
    unavailable(what, "raise the limit of open files (ulimit -n)")
}

/// A connection that is closed from the other end.
pub(super) fn closed() -> Error {
    unavailable(ENDED.to_owned(), ASK_ITS_LOG)
}

/// A server that may lose what it acknowledged, and does not let a session ask for more.
pub(super) fn flushes_late() -> Error {
    unavailable(
        "the database server does not flush each commit to its disk, and forbids a session to ask for it"
            .to_owned(),
        "set synchronous_commit = on there",
    )
}

/// A server that is no primary: what it shows may be old.
pub(super) fn follows_another() -> Error {
    unavailable(
        "the database server follows another one and accepts no writes".to_owned(),
        "let the database URL lead to the primary",
    )
}

/// The driver's own complaint about an argument or a column: the connection is as good as before.
fn is_about_a_value(error: &tokio_postgres::Error) -> bool {
    let text = error.to_string();
    ["error serializing parameter", "error deserializing column", "error encoding message", "invalid column"]
        .iter()
        .any(|start| text.starts_with(start))
}

fn full_text(error: &tokio_postgres::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

fn unavailable(what: String, advice: &str) -> Error {
    Error::Unavailable { what, advice: advice.to_owned() }
}
