//! The change log: written in the transaction of each change, read by every instance, deleted from
//! its old end.
//!
//! A row holds the transaction's id and its keys. Ids and numbers are given out before the commit, so
//! rows do not appear in their order: a reader compares snapshots (`pg_snapshot.rs`).
//!
//! Every transaction that writes has a row, also without keys, with a mark of its own: a server that
//! crashed may give the id of a lost transaction to another one, and only the mark identifies it.
//!
//! Ids are numbers of versions. They compare within one epoch (`epochs.rs`).

use super::connection::Connection;
use super::epochs::{self, History, Origin, origin};
use super::errors::follows_another;
use super::pg_snapshot::PgSnapshot;
use crate::log_place;
use crate::remote::key_text::{keys_of, text_of};
use crate::tx::Connection as _;
use crate::{Error, Key, Row, Value};
use std::fmt;

const TABLES: &str = "
CREATE TABLE IF NOT EXISTS change_log (
    xid XID8 NOT NULL DEFAULT pg_current_xact_id(),
    seq BIGSERIAL,
    keys TEXT NOT NULL,
    mark BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (xid, seq));
CREATE TABLE IF NOT EXISTS change_log_cut (only_row BIGINT PRIMARY KEY, below BIGINT NOT NULL);
INSERT INTO change_log_cut (only_row, below) VALUES (0, 0) ON CONFLICT DO NOTHING;
CREATE TABLE IF NOT EXISTS change_log_history (only_row BIGINT PRIMARY KEY, number BIGINT NOT NULL);
INSERT INTO change_log_history (only_row, number) VALUES (0, 0) ON CONFLICT DO NOTHING";
const LOG: &str = "INSERT INTO change_log (keys, mark) VALUES ($1, $2) RETURNING CAST(xid AS TEXT)";
const FIND: &str = "SELECT 1 FROM change_log WHERE xid = CAST(CAST($1 AS TEXT) AS XID8) AND mark = $2";
/// The current snapshot, and where ids come from.
const NOW: &str = concat!("SELECT CAST(pg_current_snapshot() AS TEXT), ", origin!());
/// First the current snapshot, how far the log is cut off, whether the server follows another one, and where ids come from;
/// then every row that the snapshot before did not include. One statement, so one snapshot.
const NEWS: &str = concat!(
    "SELECT CAST(pg_current_snapshot() AS TEXT), (SELECT below FROM change_log_cut), pg_is_in_recovery(), NULL, NULL, ",
    origin!(),
    "
UNION ALL
SELECT NULL, NULL, NULL, CAST(xid AS TEXT), keys, NULL FROM change_log WHERE xid >= CAST($1 AS XID8)
UNION ALL
SELECT NULL, NULL, NULL, CAST(xid AS TEXT), keys, NULL FROM change_log WHERE xid = ANY (CAST($2 AS XID8[]))"
);
/// The first instance that notices begins the new history; the condition makes it the only one.
/// A disk may be restored from one copy again and again, each time with the number that the copy has: the clock tells the
/// histories apart.
const BEGIN_HISTORY: &str = "UPDATE change_log_history
    SET number = GREATEST(number + 1, CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)) WHERE number = $1";

/// Removes what no transaction of this cluster can have written: ids that are not assigned yet. They come from a dump of
/// another cluster. Counts what there was.
const START_ANEW: &str = "
WITH rows AS (DELETE FROM change_log WHERE xid >= pg_snapshot_xmax(pg_current_snapshot()) RETURNING 1),
    cut AS (UPDATE change_log_cut SET below = 0
        WHERE CAST(CAST(below AS TEXT) AS XID8) > pg_snapshot_xmax(pg_current_snapshot()) RETURNING 1)
SELECT (SELECT COUNT(*) FROM rows) + (SELECT COUNT(*) FROM cut)";

/// Any row that a snapshot cannot see. Its order keeps to the index, whatever the arguments are.
const MORE: &str = "
(SELECT 1 FROM change_log WHERE xid >= CAST(CAST($1 AS TEXT) AS XID8) ORDER BY xid, seq LIMIT 1)
UNION ALL
(SELECT 1 FROM change_log WHERE xid = ANY (CAST(CAST($2 AS TEXT) AS XID8[])) LIMIT 1)";

/// Who cuts notes how far, first: an instance that was away must find out what it missed. One at a time.
const NOTE_CUT: &str = "UPDATE change_log_cut SET below = GREATEST(below, $1)
    WHERE only_row IN (SELECT only_row FROM change_log_cut FOR UPDATE SKIP LOCKED)";
const CUT: &str = "DELETE FROM change_log WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM change_log WHERE xid < CAST(CAST($1 AS TEXT) AS XID8) LIMIT 5000))";
/// Rows that are cut off at once: a slice takes some ten milliseconds.
const SLICE: u64 = 5000;

/// One read of the log.
pub(super) struct News {
    /// What this read could see.
    pub(super) snapshot: PgSnapshot,
    /// Where the ids come from.
    pub(super) origin: Origin,
    /// Rows of transactions before this one may be gone.
    pub(super) cut_below: u64,
    /// Transactions that the read before could not see.
    pub(super) changes: Vec<(u64, Vec<Key>)>,
}

impl News {
    /// True if the log has ids that this cluster has not assigned yet: it was restored from a dump of another one.
    pub(super) fn is_foreign(&self) -> bool {
        let next = self.snapshot.xmax();
        self.cut_below > next || self.changes.iter().any(|(xid, _)| *xid >= next)
    }
}

/// Makes the log, and returns what can be seen of it and where its ids come from.
pub(super) fn prepare(connection: &mut Connection) -> Result<(PgSnapshot, Origin), Error> {
    for statements in [TABLES, epochs::TABLE, epochs::DRAW] {
        connection.batch(statements)?;
    }
    let mut removed = 0_i64;
    connection.query(START_ANEW, &[], &mut |row| {
        removed = Row::new(row).get(0)?;
        Ok(false)
    })?;
    if removed > 0 {
        tracing::warn!("the change log came with a dump of another cluster; it starts anew");
    }
    let mut now = None;
    connection.query(NOW, &[], &mut |row| {
        let row = Row::new(row);
        let text: String = row.get(0)?;
        let snapshot = PgSnapshot::parse(&text).ok_or_else(|| unreadable(&text))?;
        now = Some((snapshot, Origin::read(&row, 1)?));
        Ok(false)
    })?;
    now.ok_or_else(no_snapshot)
}

/// Begins another history, outside of a transaction, unless another instance has done so since `before` was read.
pub(super) fn begin_history(connection: &mut Connection, before: &History) -> Result<(), Error> {
    connection.query_outside_tx(BEGIN_HISTORY, &[Value::Int(before.number)], &mut |_| Ok(true))
}

/// A transaction in the log: enough to ask what became of it.
pub(super) struct LogEntry {
    pub(super) xid: String,
    mark: i64,
}

impl fmt::Display for LogEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.xid)
    }
}

/// Logs `keys` in the open transaction, with a mark that no other one has.
pub(super) fn write(connection: &mut Connection, keys: &[Key], mark: i64) -> Result<LogEntry, Error> {
    let mut xid = String::new();
    connection.query(LOG, &[Value::from(&text_of(keys)), Value::Int(mark)], &mut |row| {
        xid = Row::new(row).get(0)?;
        Ok(false)
    })?;
    Ok(LogEntry { xid, mark })
}

/// True when the open transaction can see the entry.
pub(super) fn is_visible(connection: &mut Connection, entry: &LogEntry) -> Result<bool, Error> {
    let mut found = false;
    connection.query(FIND, &[Value::from(&entry.xid), Value::Int(entry.mark)], &mut |_| {
        found = true;
        Ok(false)
    })?;
    Ok(found)
}

/// True when the open transaction can see a commit that `other` cannot.
pub(super) fn shows_more(connection: &mut Connection, other: &PgSnapshot) -> Result<bool, Error> {
    let (next, running) = (other.xmax().to_string(), other.xip_array());
    let mut found = false;
    connection.query(MORE, &[Value::from(&next), Value::from(&running)], &mut |_| {
        found = true;
        Ok(false)
    })?;
    Ok(found)
}

/// Reads the rows that have appeared since `before`. Fails on a standby, whose state may be old.
pub(super) fn news(connection: &mut Connection, before: &PgSnapshot) -> Result<News, Error> {
    let (next, running) = (before.xmax().to_string(), before.xip_array());
    let (mut first, mut cut_below, mut changes) = (None, 0, Vec::new());
    connection.query_outside_tx(NEWS, &[Value::from(&next), Value::from(&running)], &mut |row| {
        let row = Row::new(row);
        if let Some(text) = row.get::<Option<String>>(0)? {
            let snapshot = PgSnapshot::parse(&text).ok_or_else(|| unreadable(&text))?;
            first = Some((snapshot, Origin::read(&row, 5)?));
            cut_below = row.get::<i64>(1)?.unsigned_abs();
            if row.get(2)? {
                return Err(follows_another());
            }
        } else {
            let xid: String = row.get(3)?;
            changes.push((xid.parse().map_err(|_| unreadable(&xid))?, keys_of(&row.get::<String>(4)?)));
        }
        Ok(true)
    })?;
    let (snapshot, origin) = first.ok_or_else(no_snapshot)?;
    Ok(News { snapshot, origin, cut_below, changes })
}

/// Removes the rows of another cluster, outside of a transaction.
pub(super) fn start_anew(connection: &mut Connection) -> Result<(), Error> {
    // What tells that the log is foreign goes last: if this is interrupted, the next read begins it again.
    let of_logs = log_place::START_ANEW.iter().copied();
    of_logs.chain([START_ANEW]).try_for_each(|statement| connection.long_batch_outside_tx(statement))
}

/// Cuts off one slice of the rows before `below`, in the open transaction. True when there may be more;
/// false also when another instance is at it.
pub(super) fn cut(connection: &mut Connection, below: u64) -> Result<bool, Error> {
    if connection.execute(NOTE_CUT, &[Value::Int(below as i64)])? == 0 {
        return Ok(false);
    }
    let gone = connection.execute(CUT, &[Value::from(below.to_string())])?;
    Ok(gone == SLICE)
}

fn no_snapshot() -> Error {
    Error::Database("the log of changes gave no snapshot".to_owned())
}

fn unreadable(text: &str) -> Error {
    Error::Database(format!("{text:?} is neither a snapshot nor the id of a transaction"))
}
