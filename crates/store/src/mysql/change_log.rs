//! What commands on MySQL changed: logged in their transactions, published when they are durable.
//!
//! The log is a table, written with the change itself, so that other instances can follow it (`tail.rs`).
//! Every transaction that wrote leaves a row, if only an empty one: it also tells what became of a commit
//! whose answer was lost (`outcome.rs`).
//!
//! Versions: the process takes a number of the log when it starts, and counts what it publishes from there.
//! Each publication has a row with a number of its own, so the next start begins where this one ended or
//! later.

use super::connection::Connection;
use crate::changes::Feed;
use crate::tx::Connection as _;
use crate::{Error, Key, Row, Value, Version};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

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
/// How often a process trims the log, in commits.
const TRIM_EVERY: Version = 10_000;
/// Numbers of our own that the tail has not met; more only when it cannot reach the server.
const OWN_MAX: usize = 100_000;

/// Makes the log, and says which version the database has.
pub(super) fn prepare(connection: &mut Connection) -> Result<Version, Error> {
    connection.execute(TABLE, &[])?;
    if number(connection, HAS_MARKS)? == 0 {
        connection.execute(ADD_MARKS, &[])?;
    }
    let started = write(connection, &[], 0)?.seq;
    trim(connection)?;
    Ok(started)
}

/// A row of the log: enough to ask what became of its transaction. After a crash the server gives a number that it lost
/// to another one; only the mark tells.
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

/// One key a line.
pub(crate) fn text_of(keys: &[Key]) -> String {
    let escaped = |key: &Key| key.as_str().replace('\\', "\\\\").replace('\n', "\\n");
    keys.iter().map(escaped).collect::<Vec<_>>().join("\n")
}

/// The keys of a row.
pub(crate) fn keys_of(text: &str) -> Vec<Key> {
    // A key's text is a key of its own kind again, whatever it names.
    text.split('\n').filter(|line| !line.is_empty()).map(|line| Key::table(&unescaped(line))).collect()
}

fn unescaped(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        text.push(match letter {
            '\\' => letters.next().map_or('\\', |next| if next == 'n' { '\n' } else { next }),
            other => other,
        });
    }
    text
}

/// The feed, for threads that commit side by side and the one that follows the log: lets them in one by one.
pub(super) struct Publisher {
    feed: Arc<Feed>,
    /// Held while the listeners hear of one commit, which is quick.
    turn: Mutex<()>,
    /// Numbers of rows that this process publishes itself. Held for a look-up.
    own: Mutex<HashSet<u64>>,
}

impl Publisher {
    pub(super) fn new(feed: Arc<Feed>) -> Publisher {
        Publisher { feed, turn: Mutex::new(()), own: Mutex::new(HashSet::new()) }
    }

    /// Says, before the commit, that this process will publish the row itself.
    pub(super) fn note_own(&self, seq: u64) {
        let mut own = self.own.lock();
        if own.len() == OWN_MAX {
            // To publish a change twice costs a few cached entries, and nothing else.
            own.clear();
        }
        own.insert(seq);
    }

    /// Whether this process publishes that row itself. It is asked once for each.
    pub(super) fn take_own(&self, seq: u64) -> bool {
        self.own.lock().remove(&seq)
    }

    /// Forgets which numbers are our own: the server may have lost them, and given them to others.
    pub(super) fn forget_own(&self) {
        self.own.lock().clear();
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
        let keys = [Key::table("users"), Key::row("users", "email", "a\nb\\n\\"), Key::table("plans")];
        let text = text_of(&keys);
        assert_eq!(text, "users\nusers.email=a\\nb\\\\n\\\\\nplans");
        assert_eq!(keys_of(&text), keys);
        assert_eq!(keys_of(""), []);
    }

    #[test]
    fn a_row_of_our_own_is_known_once() {
        let publisher = Publisher::new(Arc::new(Feed::new(0)));
        publisher.note_own(7);
        assert_eq!(
            [publisher.take_own(7), publisher.take_own(7), publisher.take_own(8)],
            [true, false, false]
        );
    }
}
