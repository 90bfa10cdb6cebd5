//! SQLite's errors in the store's words. The only place that reads a text of SQLite.

use crate::Error;
use rusqlite::ErrorCode;
use std::collections::HashMap;
use std::time::Duration;

/// The unique constraints of the schema: "table.column, table.column" as SQLite reports them → name.
#[derive(Default)]
pub(super) struct Constraints(HashMap<String, String>);

impl Constraints {
    /// Reads the names of all unique indexes; a primary key is called `<table>_pkey`, as elsewhere.
    pub(super) fn read(connection: &rusqlite::Connection) -> rusqlite::Result<Constraints> {
        let mut statement = connection.prepare(
            "SELECT m.name, l.name, l.origin, (SELECT group_concat(m.name || '.' || i.name, ', ')
                 FROM pragma_index_info(l.name) AS i)
             FROM sqlite_schema AS m, pragma_index_list(m.name) AS l
             WHERE m.type = 'table' AND l.\"unique\" = 1",
        )?;
        let rows = statement.query_map([], |row| {
            let (table, index): (String, String) = (row.get(0)?, row.get(1)?);
            let (origin, columns): (String, String) = (row.get(2)?, row.get(3)?);
            Ok((columns, if origin == "pk" { format!("{table}_pkey") } else { index }))
        })?;
        rows.collect::<rusqlite::Result<HashMap<_, _>>>().map(Constraints)
    }
}

/// What went wrong, in the store's words.
pub(super) fn translate(error: rusqlite::Error, constraints: &Constraints, limit: Duration) -> Error {
    let rusqlite::Error::SqliteFailure(failure, text) = &error else {
        return Error::Database(error.to_string());
    };
    let unavailable =
        |what: &str, advice: &str| Error::Unavailable { what: what.to_owned(), advice: advice.to_owned() };
    match failure.code {
        ErrorCode::ConstraintViolation => conflict(text.as_deref().unwrap_or_default(), constraints),
        ErrorCode::DiskFull => unavailable("the disk of the database is full", "free some space"),
        ErrorCode::ReadOnly => unavailable("the database cannot be written", "its disk or file is read-only"),
        ErrorCode::SystemIoFailure if is_write(failure) => unavailable(
            "the disk of the database cannot be written",
            "it has become read-only or fails; see the log of the system",
        ),
        ErrorCode::SystemIoFailure => unavailable(
            "the disk of the database reports an error",
            "check the disk, its free space and the log of the system",
        ),
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            unavailable("another program is writing to the database", "close it")
        }
        ErrorCode::CannotOpen => {
            unavailable("the database file cannot be opened", "check path and permissions")
        }
        ErrorCode::OperationInterrupted => Error::TooSlow { limit },
        _ => Error::Database(error.to_string()),
    }
}

/// Whether the system refused to write to the file.
fn is_write(failure: &rusqlite::ffi::Error) -> bool {
    failure.extended_code == rusqlite::ffi::SQLITE_IOERR_WRITE
}

/// An error of COMMIT. After a disk error the outcome is unknown until the next start, except after a refused write:
/// the commit frame is the last one that is written, so the log has none. (SQLite writes more frames after it only for
/// disks without SQLITE_IOCAP_POWERSAFE_OVERWRITE, which it assumes for all disks here.)
pub(super) fn translate_commit(error: rusqlite::Error, constraints: &Constraints, limit: Duration) -> Error {
    match error.sqlite_error() {
        Some(failure) if failure.code == ErrorCode::SystemIoFailure && !is_write(failure) => {
            tracing::error!(%error, "the disk failed while a transaction was committed");
            Error::OutcomeUnknown
        }
        _ => translate(error, constraints, limit),
    }
}

/// `UNIQUE constraint failed: users.organization_id, users.email` → the constraint's name.
fn conflict(text: &str, constraints: &Constraints) -> Error {
    let Some(columns) = text.strip_prefix("UNIQUE constraint failed: ") else {
        return Error::Database(text.to_owned());
    };
    let table = columns.split('.').next().unwrap_or_default().to_owned();
    let constraint = constraints.0.get(columns).cloned().unwrap_or_else(|| columns.to_owned());
    Error::Conflict { table, constraint }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_fails_in_a_commit_leaves_its_outcome_open_and_a_full_one_does_not() {
        let said = |code: i32| {
            let error = rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None);
            translate_commit(error, &Constraints::default(), Duration::ZERO)
        };
        assert!(matches!(said(rusqlite::ffi::SQLITE_IOERR_FSYNC), Error::OutcomeUnknown));
        for not_taken in [rusqlite::ffi::SQLITE_FULL, rusqlite::ffi::SQLITE_IOERR_WRITE] {
            assert!(matches!(said(not_taken), Error::Unavailable { .. }));
        }
    }
}
