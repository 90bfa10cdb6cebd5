//! Durable logs: entries with a payload, written in the transaction of a command and read in commit order.
//!
//! A named reader keeps its place in the database. It reads a page ([`Snapshot::log_page`]), acts on it, and moves its
//! place ([`Tx::keep_place`]) in the command that stores what it did, so that each entry takes effect once. Of several
//! readers with one name, one moves the place and the others learn that they came too late.
//!
//! Order: an entry stands behind each entry of a command whose changes its own command has seen or overwritten. The
//! order of commands that have nothing to do with each other is that of their numbers. No entry appears before the place
//! of a reader: on PostgreSQL a place is a snapshot, because numbers are given before the commit (`log_place.rs`); on
//! MySQL a counter row per log is locked until the commit; SQLite has one writer.

use crate::log_place::PgPlace;
use crate::{Dialect, Error, Key, Snapshot, Sql, Time, Tx, args, insert_if_absent, sql};

/// The longest payload, in bytes.
pub const PAYLOAD_MAX: usize = 1024 * 1024;
/// Entries that are trimmed at once.
const TRIM_MAX: usize = 500;

/// A log, by name. Make it a `static` with [`log`].
pub struct Log {
    pub(crate) name: &'static str,
}

/// The log with this name.
pub const fn log(name: &'static str) -> Log {
    Log { name }
}

impl Log {
    /// The key that changes with each new entry, for [`crate::Store::watch`].
    pub fn key(&self) -> Key {
        Key::row("sarsen_log", "log_name", self.name)
    }
}

/// An entry of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// A number that no other entry of the log has.
    pub number: i64,
    /// The time that the command gave.
    pub at: Time,
    /// The payload.
    pub payload: String,
}

/// Entries behind the place of a reader.
#[derive(Clone, Debug)]
pub struct LogPage {
    /// The entries, oldest first. Empty if there is nothing new.
    pub entries: Vec<LogEntry>,
    /// True if entries behind the reader's place may have been trimmed before it read them.
    pub missed: bool,
    before: Option<String>,
    after: String,
}

/// What a command has appended.
pub(crate) struct Appended {
    log: &'static str,
    at: Time,
    payload: String,
}

static COUNT_MYSQL: Sql =
    sql("INSERT INTO sarsen_log_counters (log_name, last_seq) VALUES (?1, LAST_INSERT_ID(1))
     ON DUPLICATE KEY UPDATE last_seq = LAST_INSERT_ID(last_seq + 1)");
static APPEND_MYSQL: Sql =
    sql("INSERT INTO sarsen_log (seq, log_name, at_ms, payload) VALUES (LAST_INSERT_ID(), ?1, ?2, ?3)");
static APPEND: Sql = sql("INSERT INTO sarsen_log (log_name, at_ms, payload) VALUES (?1, ?2, ?3)");
static PLACE: Sql = sql("SELECT place FROM sarsen_log_readers WHERE log_name = ?1 AND reader = ?2");
static KEEP_FIRST: Sql = insert_if_absent("sarsen_log_readers", &["log_name", "reader", "place"]);
static KEEP: Sql =
    sql("UPDATE sarsen_log_readers SET place = ?4 WHERE log_name = ?1 AND reader = ?2 AND place = ?3");
pub(crate) static AFTER: Sql =
    sql("SELECT seq, at_ms, payload FROM sarsen_log WHERE log_name = ?1 AND seq > ?2
     ORDER BY seq LIMIT ?3");
static OLDEST: Sql = sql("SELECT seq, at_ms FROM sarsen_log WHERE log_name = ?1 ORDER BY seq LIMIT ?2");
static TRIM: Sql = sql("DELETE FROM sarsen_log WHERE log_name = ?1 AND seq = ?2");
pub(crate) static TRIMMED: Sql = sql("SELECT last_seq FROM sarsen_log_trims WHERE log_name = ?1");
static NOTE_TRIM_FIRST: Sql = insert_if_absent("sarsen_log_trims", &["log_name", "last_seq"]);
static NOTE_TRIM: Sql =
    sql("UPDATE sarsen_log_trims SET last_seq = ?2 WHERE log_name = ?1 AND last_seq < ?2");

/// The tables of all logs, as each back end makes them at its start.
pub(crate) fn tables(dialect: Dialect) -> &'static [&'static str] {
    match dialect {
        Dialect::Sqlite => &[
            "CREATE TABLE IF NOT EXISTS sarsen_log (seq INTEGER PRIMARY KEY AUTOINCREMENT,
                 log_name TEXT NOT NULL, at_ms BIGINT NOT NULL, payload TEXT NOT NULL)",
            "CREATE INDEX IF NOT EXISTS sarsen_log_name ON sarsen_log (log_name, seq)",
            "CREATE TABLE IF NOT EXISTS sarsen_log_readers (log_name TEXT NOT NULL, reader TEXT NOT NULL,
                 place TEXT NOT NULL, PRIMARY KEY (log_name, reader)) WITHOUT ROWID",
            "CREATE TABLE IF NOT EXISTS sarsen_log_trims (log_name TEXT NOT NULL PRIMARY KEY,
                 last_seq BIGINT NOT NULL) WITHOUT ROWID",
        ],
        Dialect::Postgres => &[
            "CREATE TABLE IF NOT EXISTS sarsen_log (seq BIGSERIAL, log_name TEXT COLLATE \"C\" NOT NULL,
                 xid XID8 NOT NULL DEFAULT pg_current_xact_id(), at_ms BIGINT NOT NULL, payload TEXT NOT NULL,
                 PRIMARY KEY (log_name, seq), UNIQUE (log_name, xid, seq))",
            "CREATE TABLE IF NOT EXISTS sarsen_log_readers (log_name TEXT COLLATE \"C\" NOT NULL,
                 reader TEXT COLLATE \"C\" NOT NULL, place TEXT NOT NULL, PRIMARY KEY (log_name, reader))",
            "CREATE TABLE IF NOT EXISTS sarsen_log_trims (log_name TEXT COLLATE \"C\" NOT NULL PRIMARY KEY,
                 last_seq BIGINT NOT NULL)",
        ],
        Dialect::Mysql => &[
            "CREATE TABLE IF NOT EXISTS sarsen_log (log_name VARCHAR(64) NOT NULL, seq BIGINT NOT NULL,
                 at_ms BIGINT NOT NULL, payload MEDIUMTEXT NOT NULL, PRIMARY KEY (log_name, seq))
                 ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
            "CREATE TABLE IF NOT EXISTS sarsen_log_counters (log_name VARCHAR(64) NOT NULL PRIMARY KEY,
                 last_seq BIGINT NOT NULL) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
            "CREATE TABLE IF NOT EXISTS sarsen_log_readers (log_name VARCHAR(64) NOT NULL,
                 reader VARCHAR(64) NOT NULL, place TEXT NOT NULL, PRIMARY KEY (log_name, reader))
                 ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
            "CREATE TABLE IF NOT EXISTS sarsen_log_trims (log_name VARCHAR(64) NOT NULL PRIMARY KEY,
                 last_seq BIGINT NOT NULL) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        ],
    }
}

impl Tx<'_> {
    /// Appends an entry. It is written when the command ends: whoever waits for a row that this command has changed
    /// appends behind it.
    pub fn append(&mut self, log: &Log, at: Time, payload: impl Into<String>) -> Result<(), Error> {
        let payload = payload.into();
        if payload.len() > PAYLOAD_MAX {
            let text = format!(
                "an entry of the log {} has {} bytes; the limit is {PAYLOAD_MAX}",
                log.name,
                payload.len()
            );
            return Err(Error::Database(text));
        }
        self.changed(log.key());
        self.appended.push(Appended { log: log.name, at, payload });
        Ok(())
    }

    /// Writes what was appended, as the last thing that the command does.
    pub(crate) fn write_log(&mut self) -> Result<(), Error> {
        for Appended { log, at, payload } in std::mem::take(&mut self.appended) {
            let args = args![log, at, &payload];
            if self.snapshot().dialect() == Dialect::Mysql {
                self.exec(&COUNT_MYSQL, args![log])?;
                self.exec(&APPEND_MYSQL, args)?;
            } else {
                self.exec(&APPEND, args)?;
            }
        }
        Ok(())
    }

    /// Moves the place of a reader behind a page. Returns false if another reader with this name has moved it since the
    /// page was read; then the command should fail, so that nothing takes effect twice.
    pub fn keep_place(&mut self, log: &Log, reader: &str, page: &LogPage) -> Result<bool, Error> {
        let moved = match &page.before {
            None => self.exec(&KEEP_FIRST, args![log.name, reader, &page.after])?,
            Some(before) if *before == page.after => return Ok(true),
            Some(before) => self.exec(&KEEP, args![log.name, reader, before, &page.after])?,
        };
        Ok(moved == 1)
    }

    /// Deletes the oldest entries that are older than `before`, up to a few hundred. Returns whether there may be more. The
    /// newest entry stays: it shows where the log ends.
    pub fn trim_log(&mut self, log: &Log, before: Time) -> Result<bool, Error> {
        let mut old: Vec<i64> = Vec::new();
        self.snapshot().each(&OLDEST, args![log.name, TRIM_MAX as i64 + 1], |row| {
            old.push(row.get(0)?);
            Ok(row.get::<Time>(1)? < before)
        })?;
        // One that is not old, or the newest of those that were looked at.
        old.pop();
        let Some(last) = old.last() else { return Ok(false) };
        self.exec(&NOTE_TRIM_FIRST, args![log.name, 0])?;
        self.exec(&NOTE_TRIM, args![log.name, *last])?;
        for number in &old {
            self.exec(&TRIM, args![log.name, *number])?;
        }
        Ok(old.len() == TRIM_MAX)
    }
}

impl Snapshot<'_> {
    /// Reads up to `most` entries behind the place of a reader; from the oldest one if it has no place yet.
    pub fn log_page(&mut self, log: &Log, reader: &str, most: usize) -> Result<LogPage, Error> {
        self.depends(|| [log.key()]);
        let before: Option<String> = self.one(&PLACE, args![log.name, reader], |row| row.get(0))?;
        let trimmed: i64 = self.one(&TRIMMED, args![log.name], |row| row.get(0))?.unwrap_or_default();
        if self.dialect() == Dialect::Postgres {
            let place = PgPlace::parse(before.as_deref())?;
            let missed = before.is_some() && place.may_miss(trimmed);
            let (entries, after) = self.page_behind(log.name, place, most)?;
            let entries = entries.into_iter().map(|(entry, _)| entry).collect();
            return Ok(LogPage { entries, missed, before, after: after.to_string() });
        }
        let after = match &before {
            None => 0,
            Some(text) => {
                text.parse().map_err(|_| Error::Database(format!("{text:?} is no place in a log")))?
            }
        };
        let entries = self.all(&AFTER, args![log.name, after, most as i64], read)?;
        let missed = before.is_some() && after < trimmed;
        let last = entries.last().map_or(after, |entry| entry.number);
        Ok(LogPage { entries, missed, before, after: last.to_string() })
    }
}

/// Reads an entry from its first three columns.
pub(crate) fn read(row: &crate::Row<'_>) -> Result<LogEntry, Error> {
    Ok(LogEntry { number: row.get(0)?, at: row.get(1)?, payload: row.get(2)? })
}
