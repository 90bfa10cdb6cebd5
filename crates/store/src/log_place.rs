//! The place of a reader in a log on PostgreSQL.
//!
//! Numbers of entries are given before the commit, so an entry may appear behind one that was read. A place is a
//! snapshot: what it can see has been read. Between two snapshots entries are read in the order of their numbers, page
//! by page; a place in between has both snapshots and the number of the last entry that was read.
//!
//! A place ends behind the newest entry that its snapshot shows, not behind all ids that had been given then. An id whose
//! transaction left nothing durable is given again after a crash, or after a restore of the disk, and may then have an entry.
//!
//! Ids of transactions belong to one cluster. The rows and places of a dump that was restored into a younger cluster have
//! ids that it has not given yet; [`START_ANEW`] makes such rows new and forgets the places, so readers get every entry
//! again that is still kept.

use crate::log::{LogEntry, read};
use crate::{Error, Snapshot, Sql, args, sql};
use std::fmt;

/// Run at each start, before anything is read.
pub(crate) const START_ANEW: [&str; 2] = [
    "DELETE FROM sarsen_log_readers WHERE EXISTS (SELECT 1 FROM sarsen_log
         WHERE xid >= pg_snapshot_xmax(pg_current_snapshot()))
     OR CAST(SPLIT_PART(place, ':', 2) AS XID8) > pg_snapshot_xmax(pg_current_snapshot())",
    "UPDATE sarsen_log SET xid = pg_current_xact_id() WHERE xid >= pg_snapshot_xmax(pg_current_snapshot())",
];

static NOW: Sql = sql("SELECT CAST(pg_current_snapshot() AS TEXT),
     (SELECT CAST(CAST(xid AS TEXT) AS BIGINT) FROM sarsen_log WHERE log_name = ?1 ORDER BY xid DESC LIMIT 1)");
/// Entries that the first snapshot did not include and the second does, behind a number. The lower bound of ids keeps to
/// the index. A place that includes ids that were not given yet is none of this database; nothing is searched for it.
static BETWEEN: Sql = sql("SELECT seq, at_ms, payload FROM sarsen_log
     WHERE log_name = ?1
       AND pg_snapshot_xmax(CAST(CAST(?2 AS TEXT) AS PG_SNAPSHOT)) <= pg_snapshot_xmax(pg_current_snapshot())
       AND xid >= pg_snapshot_xmin(CAST(CAST(?2 AS TEXT) AS PG_SNAPSHOT))
       AND NOT pg_visible_in_snapshot(xid, CAST(CAST(?2 AS TEXT) AS PG_SNAPSHOT))
       AND pg_visible_in_snapshot(xid, CAST(CAST(?3 AS TEXT) AS PG_SNAPSHOT))
       AND seq > ?4
     ORDER BY seq LIMIT ?5");

/// What a reader has read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PgPlace {
    /// All that this snapshot includes …
    read: String,
    /// … and of what this one adds, the entries up to a number.
    part: Option<(String, i64)>,
    /// The largest number that was read.
    largest: i64,
}

impl PgPlace {
    /// `snapshot;largest` or `snapshot;largest;next snapshot;number`. Without a text: the beginning.
    pub(crate) fn parse(text: Option<&str>) -> Result<PgPlace, Error> {
        let Some(text) = text else { return Ok(PgPlace { read: "1:1:".to_owned(), part: None, largest: 0 }) };
        let broken = || Error::Database(format!("{text:?} is no place in a log"));
        let mut parts = text.split(';');
        let snapshot =
            |part: Option<&str>| part.filter(|part| is_snapshot(part)).map(str::to_owned).ok_or_else(broken);
        let read = snapshot(parts.next())?;
        let number = |part: Option<&str>| part.and_then(|part| part.parse().ok()).ok_or_else(broken);
        let largest = number(parts.next())?;
        let part = match parts.next() {
            None => None,
            next => Some((snapshot(next)?, number(parts.next())?)),
        };
        Ok(PgPlace { read, part, largest })
    }

    /// True if entries that were trimmed up to this number may not have been read.
    pub(crate) fn may_miss(&self, trimmed: i64) -> bool {
        trimmed > self.largest
    }
}

impl fmt::Display for PgPlace {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{};{}", self.read, self.largest)?;
        match &self.part {
            None => Ok(()),
            Some((next, number)) => write!(out, ";{next};{number}"),
        }
    }
}

impl Snapshot<'_> {
    /// The place behind every entry that this snapshot shows, where `largest` is the largest number among them.
    pub(crate) fn place_now(&mut self, log: &str, largest: i64) -> Result<PgPlace, Error> {
        Ok(PgPlace { read: self.read_now(log)?, part: None, largest })
    }

    /// What this snapshot has of a log.
    fn read_now(&mut self, log: &str) -> Result<String, Error> {
        let now =
            self.one(&NOW, args![log], |row| Ok((row.get::<String>(0)?, row.get::<Option<i64>>(1)?)))?;
        let (snapshot, newest) = now.unwrap_or_default();
        let next = newest.map_or(1, |newest| newest.unsigned_abs() + 1);
        up_to(&snapshot, next).ok_or_else(|| Error::Database(format!("{snapshot:?} is no snapshot")))
    }

    /// The entries behind a place, each with the place behind it, and the place behind them all.
    pub(crate) fn page_behind(
        &mut self,
        log: &str,
        place: PgPlace,
        most: usize,
    ) -> Result<(Vec<(LogEntry, PgPlace)>, PgPlace), Error> {
        let (mut place, mut entries) = (place, Vec::new());
        // First the rest of a part, if there is one, then what this snapshot adds.
        while entries.len() < most {
            let is_rest = place.part.is_some();
            let (next, number) = match place.part.take() {
                Some(part) => part,
                None => (self.read_now(log)?, 0),
            };
            let room = most - entries.len();
            let found = self.all(&BETWEEN, args![log, &place.read, &next, number, room as i64], read)?;
            let last = found.last().map_or(number, |entry| entry.number);
            let is_full = found.len() == room;
            for entry in found {
                place.largest = place.largest.max(entry.number);
                let behind = PgPlace { part: Some((next.clone(), entry.number)), ..place.clone() };
                entries.push((entry, behind));
            }
            if is_full {
                place.part = Some((next, last));
                break;
            }
            place.read = next;
            if !is_rest {
                break;
            }
        }
        Ok((entries, place))
    }
}

/// Whether PostgreSQL reads this as a snapshot: `xmin:xmax:xip,xip,…`, as clients may have sent anything.
fn is_snapshot(text: &str) -> bool {
    let mut parts = text.splitn(3, ':');
    let mut id = || parts.next().and_then(id_of);
    let (Some(xmin), Some(xmax)) = (id(), id()) else { return false };
    let Some(running) = parts.next() else { return false };
    let mut last = xmin;
    let mut is_next = |id: u64| id >= std::mem::replace(&mut last, id) && id < xmax;
    xmin <= xmax && (running.is_empty() || running.split(',').all(|id| id_of(id).is_some_and(&mut is_next)))
}

/// An id of a transaction; no other text, such as `+1`.
fn id_of(text: &str) -> Option<u64> {
    let id = text.parse().ok().filter(|id| (1..=i64::MAX.unsigned_abs()).contains(id))?;
    text.starts_with(|first: char| first.is_ascii_digit()).then_some(id)
}

/// A snapshot without the transactions from `next` on.
fn up_to(snapshot: &str, next: u64) -> Option<String> {
    let mut parts = snapshot.splitn(3, ':');
    let (xmin, xmax): (u64, u64) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let xmax = xmax.min(next);
    let is_before = |id: &&str| id.parse::<u64>().is_ok_and(|id| id < xmax);
    let running: Vec<&str> = parts.next()?.split(',').filter(is_before).collect();
    Some(format!("{}:{xmax}:{}", xmin.min(xmax), running.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_ends_behind_the_newest_entry() {
        for (snapshot, next, expected) in [
            ("10:20:12,15", 30, "10:20:12,15"),
            ("10:20:12,15", 14, "10:14:12"),
            ("10:20:12,15", 12, "10:12:"),
            ("10:20:12,15", 7, "7:7:"),
            ("10:20:", 1, "1:1:"),
        ] {
            assert_eq!(up_to(snapshot, next).as_deref(), Some(expected), "{snapshot} {next}");
        }
        assert_eq!((up_to("", 1), up_to("1:x:", 1), up_to("1:2", 1)), (None, None, None));
    }

    #[test]
    fn a_place_reads_back_from_its_text_and_nothing_else_is_one() {
        for text in ["1:1:;0", "10:20:12,15;77", "10:20:12;77;30:30:;80"] {
            assert_eq!(PgPlace::parse(Some(text)).expect("a place").to_string(), text);
        }
        for text in [
            "",
            ";",
            "10:20:",
            "10:20:;x",
            "10:20:;1;30:30:",
            "x;0",
            "0:20:;0",
            "20:10:;0",
            "10:20:9;0",
            "10:20:20;0",
            "10:20:12,11;0",
            "10:20:12,;0",
            "10:20:+12;0",
            "10:20;0",
            "10:99999999999999999999:;0",
            "10:20:;1;x;30",
        ] {
            assert!(PgPlace::parse(Some(text)).is_err(), "{text:?}");
        }
        assert_eq!(PgPlace::parse(None).expect("the beginning").to_string(), "1:1:;0");
    }
}
