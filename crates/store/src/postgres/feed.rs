//! What commands on PostgreSQL changed: logged in their transactions, published when they are durable.
//!
//! The log is a table, written with the change itself, so that other instances can follow it: that
//! tail, and with it versions that all instances share, comes with the work on several instances. For
//! now the one process publishes what it commits itself, before it answers.
//!
//! Versions: the sequence of the log gives each writing transaction a number when it is about to
//! commit. The process starts at the newest number given and counts its commits from there; it never
//! counts further than the sequence, so the next start begins where this one ended or later.

use super::connection::Connection;
use crate::changes::Feed;
use crate::tx::Connection as _;
use crate::{Error, Key, Row, Value, Version};
use parking_lot::Mutex;
use std::sync::Arc;

/// `xid` tells when a row may be read in order: numbers of `seq` are given before the commit, and so
/// arrive out of order.
const TABLE: &str = "CREATE TABLE IF NOT EXISTS change_log (
    xid XID8 NOT NULL DEFAULT pg_current_xact_id(),
    seq BIGSERIAL PRIMARY KEY,
    keys TEXT NOT NULL)";
const LOG: &str = "INSERT INTO change_log (keys) VALUES ($1) RETURNING CAST(xid AS TEXT)";
/// For a transaction that wrote what no key depends on: a number, but no row.
const NUMBER: &str = "SELECT CAST(pg_current_xact_id() AS TEXT), nextval('change_log_seq_seq')";
const NEWEST: &str = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM change_log_seq_seq";
/// Keeps the newest hundred thousand rows.
const TRIM: &str = "DELETE FROM change_log WHERE seq <= (SELECT last_value FROM change_log_seq_seq) - 100000";
/// How often a process trims the log, in commits.
const TRIM_EVERY: Version = 10_000;

/// Makes the log, and says which version the database has.
pub(super) fn prepare(connection: &mut Connection) -> Result<Version, Error> {
    connection.batch(TABLE)?;
    connection.batch(TRIM)?;
    let mut newest = 0_i64;
    connection.query(NEWEST, &[], &mut |row| {
        newest = Row::new(row).get(0)?;
        Ok(false)
    })?;
    Ok(newest.unsigned_abs())
}

/// Logs `keys` in the open transaction; the transaction's id, to ask for what became of it.
pub(super) fn log(connection: &mut Connection, keys: &[Key]) -> Result<String, Error> {
    let text = text_of(keys);
    let (sql, args) = if keys.is_empty() { (NUMBER, vec![]) } else { (LOG, vec![Value::from(&text)]) };
    let mut xid = String::new();
    connection.query(sql, &args, &mut |row| {
        xid = Row::new(row).get(0)?;
        Ok(false)
    })?;
    Ok(xid)
}

/// Removes old rows of the log, in a statement of its own.
pub(super) fn trim(connection: &mut Connection) -> Result<(), Error> {
    connection.batch(TRIM)
}

/// One key a line.
fn text_of(keys: &[Key]) -> String {
    let mut text = String::new();
    for (index, key) in keys.iter().enumerate() {
        if index > 0 {
            text.push('\n');
        }
        for letter in key.as_str().chars() {
            match letter {
                '\\' => text.push_str("\\\\"),
                '\n' => text.push_str("\\n"),
                // Not allowed in a TEXT of PostgreSQL.
                '\0' => text.push_str("\\0"),
                other => text.push(other),
            }
        }
    }
    text
}

/// The feed, for threads that commit side by side: lets them in one by one.
pub(super) struct Publisher {
    feed: Arc<Feed>,
    /// Held while the listeners hear of one commit, which is quick.
    turn: Mutex<()>,
}

impl Publisher {
    pub(super) fn new(feed: Arc<Feed>) -> Publisher {
        Publisher { feed, turn: Mutex::new(()) }
    }

    /// Publishes a commit that is durable. True when it is time to trim the log.
    pub(super) fn publish(&self, keys: Vec<Key>) -> bool {
        let _turn = self.turn.lock();
        let version = self.feed.version() + 1;
        self.feed.publish(version, keys);
        version.is_multiple_of(TRIM_EVERY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_lines_whatever_they_hold() {
        let keys = [Key::table("users"), Key::row("users", "email", "a\nb\\\0")];
        assert_eq!(text_of(&keys), "users\nusers.email=a\\nb\\\\\\0");
    }
}
