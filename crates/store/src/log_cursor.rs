//! Cursors: places in a log that are kept outside of the database, by clients that may come back after days.
//!
//! A cursor holds more than a place, because a client may come back to another history of the database, as after a restore
//! from a backup. It names the last entry that was read, which must still be there with the same time. On PostgreSQL,
//! where a place is made of transaction ids, it also names the history ([`crate::Store::log_history`]).

use crate::log::{AFTER, Log, LogEntry, TRIMMED, read};
use crate::log_place::PgPlace;
use crate::{Dialect, Error, Snapshot, Sql, Time, args, sql};
use std::fmt;

static NEWEST: Sql = sql("SELECT seq, at_ms FROM sarsen_log WHERE log_name = ?1 ORDER BY seq DESC LIMIT 1");
static AT: Sql = sql("SELECT at_ms FROM sarsen_log WHERE log_name = ?1 AND seq = ?2");
static BEFORE: Sql = sql("SELECT seq, at_ms, payload FROM sarsen_log WHERE log_name = ?1 AND seq < ?2
     ORDER BY seq DESC LIMIT ?3");
/// Entries that [`Snapshot::log_since`] reads at once.
const SLICE: i64 = 500;

/// A place in a log, as text (`Display`, `parse`) for a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogCursor {
    history: u64,
    /// The last entry that was read, and its time; 0 if there was none.
    last: i64,
    at: Time,
    /// Elsewhere the number of the last entry is the place.
    place: Option<PgPlace>,
}

/// Entries behind a cursor.
#[derive(Clone, Debug)]
pub struct LogSlice {
    /// The entries, oldest first, each with the cursor behind it.
    pub entries: Vec<(LogEntry, LogCursor)>,
    /// The cursor behind all of them.
    pub end: LogCursor,
}

impl LogCursor {
    /// Reads the text of a cursor; `None` if it is none.
    pub fn parse(text: &str) -> Option<LogCursor> {
        let mut parts = text.splitn(4, '-');
        let history = u64::from_str_radix(parts.next()?, 16).ok()?;
        let number = |part: Option<&str>| part?.parse().ok().filter(|number: &i64| *number >= 0);
        let (last, at) = (number(parts.next())?, number(parts.next())?);
        let place = parts
            .next()
            .map(|place| PgPlace::parse(Some(place)).ok())
            .map_or(Some(None), |place| place.map(Some))?;
        Some(LogCursor { history, last, at: Time::from_millis(at), place })
    }

    /// The history that it belongs to.
    pub fn history(&self) -> u64 {
        self.history
    }

    fn behind(&self, entry: &LogEntry, place: Option<PgPlace>) -> LogCursor {
        LogCursor { history: self.history, last: entry.number, at: entry.at, place }
    }
}

impl fmt::Display for LogCursor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:x}-{}-{}", self.history, self.last, self.at.millis())?;
        self.place.as_ref().map_or(Ok(()), |place| write!(out, "-{place}"))
    }
}

impl Snapshot<'_> {
    /// The cursor behind every entry that this snapshot shows. `history` is [`crate::Store::log_history`].
    pub fn log_end(&mut self, log: &Log, history: u64) -> Result<LogCursor, Error> {
        self.depends(|| [log.key()]);
        let newest = self.one(&NEWEST, args![log.name], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let (last, at) = newest.unwrap_or((0, Time::from_millis(0)));
        let place = match self.dialect() {
            Dialect::Postgres => {
                let trimmed: i64 = self.one(&TRIMMED, args![log.name], |row| row.get(0))?.unwrap_or_default();
                Some(self.place_now(log.name, trimmed.max(last))?)
            }
            _ => None,
        };
        Ok(LogCursor { history, last, at, place })
    }

    /// Reads up to `most` entries behind a cursor. Returns `None` if the cursor belongs to another history than `history`, or
    /// if entries behind it may have been trimmed: then the client has to begin anew.
    pub fn log_behind(
        &mut self,
        log: &Log,
        cursor: &LogCursor,
        history: u64,
        most: usize,
    ) -> Result<Option<LogSlice>, Error> {
        self.depends(|| [log.key()]);
        let trimmed: i64 = self.one(&TRIMMED, args![log.name], |row| row.get(0))?.unwrap_or_default();
        if cursor.history != history || !self.is_last_there(log, cursor)? {
            return Ok(None);
        }
        match (self.dialect(), &cursor.place) {
            (Dialect::Postgres, Some(place)) => {
                if place.may_miss(trimmed) {
                    return Ok(None);
                }
                let (found, end) = self.page_behind(log.name, place.clone(), most)?;
                let entries: Vec<_> = found
                    .into_iter()
                    .map(|(entry, place)| {
                        let behind = cursor.behind(&entry, Some(place));
                        (entry, behind)
                    })
                    .collect();
                let last = entries.last().map_or_else(|| cursor.clone(), |(_, behind)| behind.clone());
                Ok(Some(LogSlice { entries, end: LogCursor { place: Some(end), ..last } }))
            }
            (Dialect::Postgres, None) | (_, Some(_)) => Ok(None),
            (_, None) => {
                if cursor.last < trimmed {
                    return Ok(None);
                }
                let found = self.all(&AFTER, args![log.name, cursor.last, most as i64], read)?;
                let entries: Vec<_> = found
                    .into_iter()
                    .map(|entry| {
                        let behind = cursor.behind(&entry, None);
                        (entry, behind)
                    })
                    .collect();
                let end = entries.last().map_or_else(|| cursor.clone(), |(_, behind)| behind.clone());
                Ok(Some(LogSlice { entries, end }))
            }
        }
    }

    fn is_last_there(&mut self, log: &Log, cursor: &LogCursor) -> Result<bool, Error> {
        if cursor.last == 0 {
            return Ok(true);
        }
        let at: Option<Time> = self.one(&AT, args![log.name, cursor.last], |row| row.get(0))?;
        Ok(at == Some(cursor.at))
    }

    /// Calls `visit` with the entries from `since` on, newest first.
    pub fn log_since(
        &mut self,
        log: &Log,
        since: Time,
        mut visit: impl FnMut(LogEntry),
    ) -> Result<(), Error> {
        let mut before = i64::MAX;
        loop {
            let found = self.all(&BEFORE, args![log.name, before, SLICE], read)?;
            let (count, mut is_over) = (found.len(), true);
            for entry in found {
                before = entry.number;
                if entry.at >= since {
                    is_over = false;
                    visit(entry);
                }
            }
            // One that is older may lie among newer ones: its command had its time from a job that took long.
            if is_over || count < SLICE as usize {
                return Ok(());
            }
        }
    }

    /// The time of the newest entry.
    pub fn log_newest(&mut self, log: &Log) -> Result<Option<Time>, Error> {
        self.one(&NEWEST, args![log.name], |row| row.get(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_back_from_its_text_and_nothing_else_is_one() {
        for text in ["0-0-0", "0-12-1800000000000", "feed-7-5-10:20:12,15;77;30:30:;80"] {
            assert_eq!(LogCursor::parse(text).expect("a cursor").to_string(), text);
        }
        for text in ["", "0", "0-1", "x-1-1", "0--1-1", "0-1-x", "0-1-1-", "0-1-1-10:20:;x", "0-1-1 "] {
            assert_eq!(LogCursor::parse(text), None, "{text:?}");
        }
    }
}
