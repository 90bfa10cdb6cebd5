//! The changes of commands on MySQL: logged in their transactions, published when they are durable.
//!
//! The log is a table, written with the change itself, so that other instances can follow it (`tail.rs`).
//! Every transaction that wrote leaves a row, at least an empty one: the row also shows the outcome of a commit
//! whose response was lost (`outcome.rs`).
//!
//! Versions: the process takes a number of the log when it starts, and counts what it publishes from there.
//! Each publication has a row with a number of its own, so the next start begins where this one ended or
//! later.

use super::connection::Connection;
use crate::remote::key_text::text_of;
use crate::tx::Connection as _;
use crate::{Error, Key, Row, Value};
use std::fmt;

/// Numbers are given before the commit, and so arrive out of order.
const TABLE: &str = "CREATE TABLE IF NOT EXISTS change_log (
    seq BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    `keys` MEDIUMTEXT NOT NULL,
    mark BIGINT NOT NULL DEFAULT 0
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin";
/// A log of before there were marks: it lives for as long as its database.
const HAS_MARKS: &str = "SELECT COUNT(*) FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'change_log' AND column_name = 'mark'";
const ADD_MARKS: &str = "ALTER TABLE change_log ADD COLUMN mark BIGINT NOT NULL DEFAULT 0";
const LOG: &str = "INSERT INTO change_log (`keys`, mark) VALUES (?1, ?2)";
const NEWEST: &str = "SELECT COALESCE(MAX(seq), 0) FROM change_log";
const TRIM: &str = "DELETE FROM change_log WHERE seq <= ?1";
/// How many of the newest numbers are kept.
const KEPT: i64 = 100_000;

/// Makes the log. Returns the number from which this process counts.
pub(super) fn prepare(connection: &mut Connection) -> Result<u64, Error> {
    connection.execute(TABLE, &[])?;
    if number(connection, HAS_MARKS)? == 0 {
        connection.execute(ADD_MARKS, &[])?;
    }
    let started = write(connection, &[], 0)?.seq;
    trim(connection)?;
    Ok(started)
}

/// A row of the log: enough to find the outcome of its transaction. After a crash the server may give a lost number
/// to another transaction; only the mark identifies it.
pub(super) struct LogEntry {
    pub(super) seq: u64,
    pub(super) mark: i64,
}

impl fmt::Display for LogEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.seq.fmt(f)
    }
}

/// Logs `keys` in the open transaction, with a mark that no other one has.
pub(super) fn write(connection: &mut Connection, keys: &[Key], mark: i64) -> Result<LogEntry, Error> {
    connection.execute(LOG, &[Value::from(text_of(keys)), Value::Int(mark)])?;
    Ok(LogEntry { seq: connection.last_number(), mark })
}

/// The newest number that can be seen.
pub(super) fn newest(connection: &mut Connection) -> Result<i64, Error> {
    number(connection, NEWEST)
}

/// Removes old rows of the log.
pub(super) fn trim(connection: &mut Connection) -> Result<(), Error> {
    let newest = newest(connection)?;
    connection.execute(TRIM, &[Value::Int(newest - KEPT)]).map(drop)
}

fn number(connection: &mut Connection, sql: &str) -> Result<i64, Error> {
    let mut number = 0;
    connection.query(sql, &[], &mut |row| {
        number = Row::new(row).get(0)?;
        Ok(false)
    })?;
    Ok(number)
}
