//! The errors of MySQL and MariaDB in the store's words. The only place that reads an error of the driver.

use crate::Error;
use crate::remote::{Failure, contended};
use ::mysql_async::{DriverError, Error as Told, IoError, ServerError};
use std::time::Duration;

const DUPLICATE: [u16; 2] = [1062, 1586];
/// Deadlock, or a certification that failed (Galera); a row that has changed since the snapshot (MariaDB); a
/// table that somebody has altered meanwhile.
const COLLISION: [u16; 4] = [1213, 1020, 1412, 1615];
/// A lock, of a row or of a table, that was not free in time or at once.
const LOCKED: [u16; 2] = [1205, 3572];
/// MariaDB's limit of time, MySQL's, and a KILL QUERY by hand.
const TOO_SLOW: [u16; 3] = [1969, 3024, 1317];
/// Shutdown, a killed connection, a connection that was silent for too long, a network that failed, statements
/// that the server (or a proxy before it) has forgotten.
const LOST: [u16; 9] = [1053, 1927, 4031, 1158, 1159, 1160, 1161, 3169, 1243];
/// An unknown command. Galera took this number for its own (`is_without_cluster`).
const UNKNOWN_COMMAND: u16 = 1047;
/// The server has become read-only: it is the primary no more, and the connection leads to the wrong one.
const DEMOTED: [u16; 2] = [1290, 1836];
/// A table, column, key or foreign key that is there already; a table, column or key to be dropped that is not.
const DONE_ALREADY: [u16; 6] = [1050, 1060, 1061, 1826, 1051, 1091];
/// A right on a table, on the database, on the server.
const LACKS_RIGHT: [u16; 3] = [1142, 1044, 1227];
/// A table that is not there; the second to be dropped.
const NO_TABLE: [u16; 2] = [1146, 1051];
const UNKNOWN_VARIABLE: u16 = 1193;
/// Their messages hold a value of a row, behind a colon.
const WITH_VALUE: [u16; 3] = [1292, 1366, 1411];

/// What went wrong with `sql`, in the store's words, and what it means.
pub(super) fn translate(error: &Told, sql: &str, limit: Duration) -> (Failure, Error) {
    match error {
        Told::Server(told) => (failure(told), server_error(told, sql, limit)),
        _ if is_about_the_statement(error) => (Failure::Fatal, Error::Database(plain(error))),
        _ => {
            let what = format!("the connection to the database was lost ({})", plain(error));
            (
                Failure::ConnectionLost,
                unavailable(what, "check that the database server runs and can be reached"),
            )
        }
    }
}

/// True when a unique constraint refused the row.
pub(super) fn is_duplicate(error: &Told) -> bool {
    matches!(error, Told::Server(told) if DUPLICATE.contains(&told.code))
}

/// True when the server accepts no writes any more.
pub(super) fn refuses_writes(error: &Told) -> bool {
    matches!(error, Told::Server(told) if DEMOTED.contains(&told.code))
}

/// True when the table that is meant does not exist.
pub(super) fn is_no_table(error: &Told) -> bool {
    matches!(error, Told::Server(told) if NO_TABLE.contains(&told.code))
}

/// True when a change of the schema fails because it was made before.
pub(super) fn is_done_already(error: &Told) -> bool {
    matches!(error, Told::Server(told) if DONE_ALREADY.contains(&told.code))
}

/// True when the server has no variable of this name.
pub(super) fn is_unknown_variable(error: &Told) -> bool {
    matches!(error, Told::Server(told) if told.code == UNKNOWN_VARIABLE)
}

/// True for a node of Galera that does not see the majority of its cluster. A server or a proxy that does not have a command
/// uses the same number, and waiting does not help there.
fn is_without_cluster(told: &ServerError) -> bool {
    told.code == UNKNOWN_COMMAND && told.message.contains("WSREP")
}

fn failure(told: &ServerError) -> Failure {
    let code = told.code;
    if COLLISION.contains(&code) || LOCKED.contains(&code) {
        Failure::Retryable
    } else if LOST.contains(&code) || DEMOTED.contains(&code) || is_without_cluster(told) {
        Failure::ConnectionLost
    } else {
        Failure::Fatal
    }
}

fn server_error(told: &ServerError, sql: &str, limit: Duration) -> Error {
    if DUPLICATE.contains(&told.code) {
        return conflict(&told.message, sql);
    }
    if COLLISION.contains(&told.code) {
        return contended();
    }
    if TOO_SLOW.contains(&told.code) {
        return Error::TooSlow { limit };
    }
    if LACKS_RIGHT.contains(&told.code) {
        let what = format!("the database user lacks a right ({})", told.message);
        return unavailable(what, "grant it ALL on its database");
    }
    if is_without_cluster(told) {
        let what = "the database server has lost its cluster and answers nothing".to_owned();
        return unavailable(what, "see wsrep_cluster_status there, and the other nodes");
    }
    if let Some((what, advice)) = advice(told.code) {
        return unavailable(what.to_owned(), advice);
    }
    let message = match WITH_VALUE.contains(&told.code) {
        true => told.message.split(':').next().unwrap_or_default(),
        false => told.message.as_str(),
    };
    Error::Database(format!("{message} ({})", told.code))
}

/// `Duplicate entry 'ada-hello' for key 'notes_body'`: the key is the last thing in quotes. MySQL puts the
/// table before it, MariaDB does not name the table at all: the statement does.
fn conflict(message: &str, sql: &str) -> Error {
    let named = message.rsplit('\'').nth(1).unwrap_or("unknown");
    let key = named.rsplit('.').next().unwrap_or(named);
    let table = target(sql).to_owned();
    let constraint = if key == "PRIMARY" { format!("{table}_pkey") } else { key.to_owned() };
    Error::Conflict { table, constraint }
}

/// The table that a statement writes.
fn target(sql: &str) -> &str {
    let mut words = sql.split(|letter: char| letter.is_whitespace() || letter == '(');
    let found = words.find(|word| word.eq_ignore_ascii_case("INTO") || word.eq_ignore_ascii_case("UPDATE"));
    found.and_then(|_| words.find(|word| !word.is_empty())).unwrap_or("unknown")
}

/// Errors that an operator can do something about.
fn advice(code: u16) -> Option<(&'static str, &'static str)> {
    Some(match code {
        1021 | 1114 => ("the disk of the database is full", "free some space"),
        3 | 1026 | 1030 => ("the disk of the database reports an error", "see the server's log"),
        1037 | 1038 | 1041 => ("the database server is out of memory", "give it more, or fewer connections"),
        1040 | 1203 | 1226 => (
            "the database server takes no more connections",
            "raise its max_connections or close other programs",
        ),
        1461 => {
            ("the database server keeps no more statements prepared", "raise its max_prepared_stmt_count")
        }
        1290 | 1792 | 1836 => {
            ("the database cannot be written", "connect to the primary and check its read_only")
        }
        1205 | 3572 => (
            "a lock in the database was not free in time",
            "find the program or the slow command that holds it in information_schema.innodb_trx",
        ),
        1053 => ("the database server shuts down", "wait for it"),
        1927 => {
            ("the database server ended the connection", "try again; if that goes on, see the server's log")
        }
        4031 => (
            "a transaction stood still for too long and was ended",
            "see the program's log for a command that waits",
        ),
        _ => return None,
    })
}

/// Why there is no connection, and whether waiting may help. Names no password, like the server.
pub(super) fn connect_error(error: &Told) -> (bool, Error) {
    let Told::Server(told) = error else {
        if let Some(why) = about_tls(error) {
            let what = format!("there is no encrypted connection to the database server ({why})");
            return (false, unavailable(what, "check ssl-mode and ssl-ca of the database's URL"));
        }
        let what = format!("there is no connection to the database server ({})", plain(error));
        return (true, unavailable(what, "check that it runs, and the URL of the database"));
    };
    let transient = [1040, 1203, 1053].contains(&told.code) || is_without_cluster(told);
    let what = format!("the database server refuses the connection: {} ({})", told.message, told.code);
    (transient, unavailable(what, "check user, password and database of the URL"))
}

/// An error of TLS or of the server's certificate. A retry does not help.
fn about_tls(error: &Told) -> Option<String> {
    // The handshake begins with the first bytes that are sent, and fails as they do: somewhere inside.
    let mut cause: Option<&(dyn std::error::Error + 'static)> = match error {
        Told::Io(IoError::Tls(inner)) => return Some(inner.to_string()),
        Told::Driver(DriverError::NoClientSslFlagFromServer) => return Some("it offers no TLS".to_owned()),
        Told::Io(IoError::Io(inner)) => Some(inner),
        _ => None,
    };
    while let Some(error) = cause {
        let io = error.downcast_ref::<std::io::Error>().and_then(|error| error.get_ref());
        if let Some(told) = io.and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            return Some(told.to_string());
        }
        cause = error.source();
    }
    None
}

/// A server whose `read_only` is set.
pub(super) fn accepts_no_writes() -> Error {
    unavailable("the database cannot be written".to_owned(), "connect to the primary and check its read_only")
}

/// A server that may lose what it acknowledged.
pub(super) fn flushes_late(setting: &str) -> Error {
    let what = "the database server does not flush each commit to its disk".to_owned();
    Error::Unavailable { what, advice: format!("set {setting} = 1 there") }
}

/// The driver's own complaint about a statement or its arguments, found before anything was sent.
fn is_about_the_statement(error: &Told) -> bool {
    matches!(
        error,
        Told::Driver(
            DriverError::PacketTooLarge
                | DriverError::StmtParamsMismatch { .. }
                | DriverError::StmtParamsNumberExceedsLimit { .. }
        )
    )
}

/// The driver's words without its brackets.
fn plain(error: &Told) -> String {
    match error {
        Told::Io(IoError::Io(inner)) => inner.to_string(),
        Told::Io(IoError::Tls(inner)) => inner.to_string(),
        Told::Driver(inner) => inner.to_string(),
        other => other.to_string(),
    }
}

fn unavailable(what: String, advice: &str) -> Error {
    Error::Unavailable { what, advice: advice.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(code: u16, message: &str) -> Told {
        Told::Server(ServerError { state: "HY000".to_owned(), code, message: message.to_owned() })
    }

    fn translated(code: u16, message: &str) -> (Failure, Error) {
        translate(&told(code, message), "INSERT INTO notes (id) VALUES (?)", Duration::from_secs(1))
    }

    #[test]
    fn a_duplicate_is_named_as_on_other_databases() {
        let named = |message: &str| match translated(1062, message).1 {
            Error::Conflict { table, constraint } => (table, constraint),
            other => panic!("{other:?}"),
        };
        let expected = |constraint: &str| ("notes".to_owned(), constraint.to_owned());
        assert_eq!(named("Duplicate entry 'a' for key 'PRIMARY'"), expected("notes_pkey"));
        assert_eq!(named("Duplicate entry 'a' for key 'notes.PRIMARY'"), expected("notes_pkey"));
        assert_eq!(named("Duplicate entry 'it's for key 'x'' for key 'notes_body'"), expected("notes_body"));
    }

    #[test]
    fn the_statement_names_its_table() {
        assert_eq!(target("INSERT /* if absent */ INTO notes (id) VALUES (?)"), "notes");
        assert_eq!(target("UPDATE notes SET id = ?"), "notes");
        assert_eq!(target("INSERT INTO notes(id) VALUES (?)"), "notes");
        assert_eq!(target("COMMIT"), "unknown");
    }

    #[test]
    fn what_another_transaction_spoilt_may_run_again() {
        assert_eq!(translated(1213, "Deadlock found").0, Failure::Retryable);
        assert!(matches!(
            translated(1205, "Lock wait timeout"),
            (Failure::Retryable, Error::Unavailable { .. })
        ));
        assert_eq!(translated(1927, "Connection was killed").0, Failure::ConnectionLost);
        assert!(matches!(
            translated(1047, "WSREP has not yet prepared node for application use"),
            (Failure::ConnectionLost, Error::Unavailable { .. })
        ));
        assert!(matches!(translated(1047, "Unknown command"), (Failure::Fatal, Error::Database(_))));
        assert!(matches!(translated(1969, "interrupted"), (Failure::Fatal, Error::TooSlow { .. })));
    }

    #[test]
    fn values_of_rows_are_left_out() {
        let text = translated(1366, "Incorrect string value: 'hunter2' for column 'x'").1.to_string();
        assert_eq!(text, "database: Incorrect string value (1366)");
        let text = translated(1406, "Data too long for column 'body' at row 1").1.to_string();
        assert_eq!(text, "database: Data too long for column 'body' at row 1 (1406)");
    }
}
