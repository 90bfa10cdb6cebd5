//! Epochs of versions: which start and which recovery of the server the ids come from that are the numbers of versions.
//!
//! A server assigns ids again that it has lost: after its disk was restored, after its machine lost power, and after one of its
//! processes was killed, when it recovers without a new start. So an epoch names, beside the history of the database, the
//! time of the server's start and a mark in an unlogged table. PostgreSQL empties that table in every recovery and leaves
//! it out of base backups. The first connection that finds it empty draws another mark.
//!
//! The epoch belongs to the connection that reads, because a connection ends with the server's start and with its recovery.
//! Behind a pooler it does not, so there each snapshot reads the epoch. A standby cannot read the table: a replica's
//! answer has the epoch of the log reader. Cursors of logs name the history alone, which a restart does not change.

use super::connection::Connection;
use super::notify::Signal;
use crate::remote::Session as _;
use crate::version::Epoch;
use crate::{Error, Row};
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// The text of an [`Origin`], as a column.
macro_rules! origin {
    () => {
        "CONCAT((SELECT number FROM change_log_history), ' ', \
         (SELECT oid FROM pg_database WHERE datname = current_database()), ' ', \
         CASE WHEN pg_is_in_recovery() THEN '' ELSE SUBSTR(pg_walfile_name(pg_current_wal_lsn()), 1, 8) END, ' ', \
         CAST(EXTRACT(EPOCH FROM pg_postmaster_start_time()) * 1000000 AS BIGINT), ' ', \
         (SELECT mark FROM change_log_boot))"
    };
}
pub(super) use origin;

pub(super) const TABLE: &str = "
CREATE UNLOGGED TABLE IF NOT EXISTS change_log_boot (only_row BIGINT PRIMARY KEY, mark BIGINT NOT NULL)";
/// The condition makes one of several connections that draw at once the only one.
pub(super) const DRAW: &str = "INSERT INTO change_log_boot (only_row, mark)
    VALUES (0, CAST(random() * 9007199254740991 AS BIGINT)) ON CONFLICT DO NOTHING";
pub(super) const ORIGIN: &str = concat!("SELECT ", origin!());
/// A connection with an epoch that the log reader has not read yet waits so long for it.
const READ_MAX: Duration = Duration::from_millis(100);

/// What tells one history of the database from another, beside the cluster: a restored dump has another database, a
/// promoted standby another timeline. Where neither differs, as after the restore of a disk, the number does: the first
/// instance that sees ids go back changes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct History {
    pub(super) number: i64,
    pub(super) database: i64,
    pub(super) timeline: String,
}

impl History {
    /// Whether nothing tells another history, in which ids have gone back, from this one: the database and the timeline are the
    /// same, and the number is that of this one or of one before it, which the copy of a disk may have.
    pub(super) fn covers(&self, other: &History) -> bool {
        (self.database, &self.timeline) == (other.database, &other.timeline) && self.number >= other.number
    }

    /// The name of this history in a cluster, for cursors. Every instance computes the same.
    pub(super) fn name(&self, cluster: Option<&str>) -> u64 {
        let History { number, database, timeline } = self;
        hash_of(&format!("{} {database} {timeline} {number}", cluster.unwrap_or_default()))
    }
}

/// Where the ids come from that the server assigns now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) history: History,
    /// The server's start, in microseconds.
    started: i64,
    /// `None` if the server has recovered since a mark was drawn.
    mark: Option<i64>,
}

impl Origin {
    pub(super) fn parse(text: &str) -> Option<Origin> {
        let mut parts = text.split(' ');
        let (number, database) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let history = History { number, database, timeline: parts.next()?.to_owned() };
        let started = parts.next()?.parse().ok()?;
        let mark = Some(parts.next()?).filter(|mark| !mark.is_empty()).map(str::parse).transpose().ok()?;
        parts.next().is_none().then_some(Origin { history, started, mark })
    }

    pub(super) fn read(row: &Row<'_>, column: usize) -> Result<Origin, Error> {
        let text: String = row.get(column)?;
        Origin::parse(&text).ok_or_else(|| Error::Database(format!("{text:?} is not the origin of ids")))
    }

    pub(super) fn is_marked(&self) -> bool {
        self.mark.is_some()
    }

    /// The epoch of versions whose numbers are these ids. Every instance computes the same. Where the database can only be
    /// read, no mark can be drawn, and no id is assigned.
    pub(super) fn epoch(&self) -> Epoch {
        let Origin { history: History { number, database, timeline }, started, mark } = self;
        Epoch(hash_of(&format!("{number} {database} {timeline} {started} {}", mark.unwrap_or_default())))
    }
}

/// FNV-1a.
fn hash_of(text: &str) -> u64 {
    let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, hash)
}

/// Draws a mark, outside of a transaction, unless there is one. Fails only with the connection.
pub(super) fn draw(connection: &mut Connection) -> Result<(), Error> {
    match connection.batch_outside_tx(DRAW) {
        Err(error) if connection.is_lost() => Err(error),
        Err(error) => {
            tracing::warn!(%error, "no mark of the server's recovery can be written");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// What the connections to a primary and the thread that reads its log know of each other.
#[derive(Default)]
pub(super) struct Epochs {
    /// How often the log has told another history of the database: connections from before may lead to the server before.
    histories: AtomicU64,
    /// The epoch in which the log was read last.
    read: Mutex<Option<Epoch>>,
    has_read: Condvar,
    /// Wakes the log reader, where there is one.
    wake_reader: OnceLock<Arc<Signal>>,
}

impl Epochs {
    pub(super) fn histories(&self) -> u64 {
        self.histories.load(Ordering::Acquire)
    }

    pub(super) fn begin_history(&self) {
        self.histories.fetch_add(1, Ordering::Release);
    }

    /// The log is followed from now on.
    pub(super) fn follow(&self, wake_reader: Arc<Signal>) {
        // Called once, before the first connection begins a transaction.
        let _ = self.wake_reader.set(wake_reader);
    }

    /// Whether versions are needed: a program that only looks at the database follows no log.
    pub(super) fn are_followed(&self) -> bool {
        self.wake_reader.get().is_some()
    }

    pub(super) fn note_read(&self, epoch: Epoch) {
        *self.read.lock() = Some(epoch);
        self.has_read.notify_all();
    }

    /// Waits a moment until the log was read in this epoch: what is returned before that is held against the numbers of
    /// another one.
    pub(super) fn wait_until_read(&self, epoch: Epoch) {
        let Some(wake_reader) = self.wake_reader.get() else { return };
        let until = Instant::now() + READ_MAX;
        let mut read = self.read.lock();
        while *read != Some(epoch) {
            wake_reader.raise();
            if self.has_read.wait_until(&mut read, until).timed_out() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_of_a_disk_belongs_to_this_history_or_to_one_before() {
        let at = |number, timeline: &str| History { number, database: 16_384, timeline: timeline.to_owned() };
        let now = at(1_000, "1");
        // Restored for the first time, and again from the same copy after that had begun the history 1,000.
        assert!(now.covers(&at(1_000, "1")) && now.covers(&at(0, "1")));
        // Another instance was first, and a promoted standby tells by itself.
        assert!(!now.covers(&at(1_001, "1")) && !now.covers(&at(1_000, "2")));
    }

    #[test]
    fn a_start_and_a_recovery_begin_an_epoch_and_leave_the_history() {
        let parse = |text| Origin::parse(text).expect("an origin");
        let now = parse("3 16384 00000001 1800000000000000 7");
        for other in ["3 16384 00000001 1800000000000001 7", "3 16384 00000001 1800000000000000 8"] {
            let other = parse(other);
            assert_eq!(other.history.name(Some("c")), now.history.name(Some("c")));
            assert_ne!(other.epoch(), now.epoch());
        }
        assert_ne!(parse("4 16384 00000001 1800000000000000 7").epoch(), now.epoch());
        assert!(!parse("3 16384  1800000000000000 ").is_marked());
        for wrong in ["", "3 16384 1", "x 16384 1 1 1", "3 16384 1 1 x", "3 16384 1 1 1 1"] {
            assert_eq!(Origin::parse(wrong), None, "{wrong:?}");
        }
    }
}
