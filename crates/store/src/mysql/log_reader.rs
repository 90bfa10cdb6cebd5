//! Follows the change log, so that this process sees the commits of other instances.
//!
//! A number of the log is given before its transaction commits, so rows appear out of order. A row is
//! published at first sight. A number that is missing below it is remembered, and asked for again until its
//! row appears, or until it is certain that it never will: then nobody holds a lock on it any more.
//!
//! A server that crashed may give out numbers again that it had lost, also those of rows that were read. So all state
//! from a broken connection is dropped, and every cache is emptied. Missing numbers are kept: asking for them harms nobody.

use super::change_log;
use super::connection::Connection;
use super::publisher::Publisher;
use crate::engine::Shared;
use crate::planted::{Bug, is_planted};
use crate::remote::key_text::keys_of;
use crate::remote::{Failure, ReconnectingSession, TxMode};
use crate::threads::again_after_panics;
use crate::tx::Connection as _;
use crate::{Error, Key, Row, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Rows of one look, at most.
const ROWS_MAX: usize = 1000;
/// The missing numbers of one query: usually there are few. Each length is a prepared statement.
const GAP_BATCHES: [usize; 2] = [16, 512];
/// The most missing numbers, but for our own. Of more, most are of no transaction: then every cache is emptied.
const MISSING_MAX: usize = 10_000;
/// How long a missing number is asked for before anybody asks why it is missing. Between taking its number
/// and locking its row a transaction does nothing that could take so long.
const MISSING_CHECK_AFTER: Duration = Duration::from_secs(10);
/// So many numbers before the newest may belong to transactions that are in their commit: at our start, and after a gap.
const LOOK_BACK: u64 = 2000;
/// So many old missing numbers are looked into at once.
const CHECKS_MAX: usize = 20;

/// From the newest row that was seen on, which is there as long as nobody replaces the log: trimming leaves it.
const NEW: &str = "SELECT seq, `keys` FROM change_log WHERE seq >= ?1 ORDER BY seq LIMIT ?2";
const OLDEST: &str = "SELECT seq, '' FROM change_log ORDER BY seq LIMIT 1";
/// Zero rows when the number was never used, an error while somebody holds it.
const LOCK_ROW: &str = "SELECT seq FROM change_log WHERE seq = ?1 FOR UPDATE NOWAIT";

/// A number without a row.
#[derive(Clone, Copy)]
struct Missing {
    since: Instant,
    /// It is of a commit of ours whose outcome is not known. It is asked for until that is certain, whatever else is missing.
    is_ours: bool,
}

pub(super) struct LogReader {
    session: ReconnectingSession<Connection>,
    /// The connection of the link over which the rest was learnt.
    generation: u64,
    shared: Arc<Shared>,
    publisher: Arc<Publisher>,
    /// Rows up to here were seen, but for those that are missing.
    cursor: u64,
    missing: BTreeMap<u64, Missing>,
    /// Until the first read has ended: nothing is cached from before it, so nothing is published.
    is_starting: bool,
    is_disconnected: bool,
}

impl LogReader {
    pub(super) fn new(
        session: ReconnectingSession<Connection>,
        shared: Arc<Shared>,
        publisher: Arc<Publisher>,
    ) -> LogReader {
        LogReader {
            session,
            generation: 0,
            shared,
            publisher,
            cursor: 0,
            missing: BTreeMap::new(),
            is_starting: true,
            is_disconnected: false,
        }
    }

    /// Learns which numbers are missing, before anything else reads from the database.
    pub(super) fn start(&mut self) -> Result<(), Error> {
        self.restart()?;
        self.poll().map(drop)
    }

    /// Learns what there is, and publishes none of it.
    fn restart(&mut self) -> Result<(), Error> {
        let newest = self.session.begin(TxMode::Log, Instant::now()).and_then(change_log::newest);
        self.session.finish();
        let generation = self.session.generation();
        // The numbers that are missing are still asked for: what was under way may commit yet. So may what took a number
        // while there was no connection.
        let newest = newest?.unsigned_abs();
        let from = newest.saturating_sub(LOOK_BACK);
        self.cursor = if self.cursor <= newest && self.cursor > 0 { self.cursor.min(from) } else { from };
        self.publisher.forget_own();
        self.is_starting = true;
        while self.read()? {}
        self.is_starting = false;
        self.generation = generation;
        Ok(())
    }

    /// Follows the log until the other end of `stop` is dropped.
    pub(super) fn run(mut self, stop: &Receiver<()>) {
        let mut is_first = true;
        again_after_panics(|| {
            if !std::mem::take(&mut is_first) {
                // The next connection reads all that may have been missed.
                self.session.forget();
            }
            self.follow(stop);
        });
    }

    fn follow(&mut self, stop: &Receiver<()>) {
        loop {
            let more = match self.poll() {
                Ok(more) => {
                    self.is_disconnected = false;
                    more
                }
                Err(error) => {
                    // What failed may be another database by now: the next connection begins anew.
                    self.session.forget();
                    if !std::mem::replace(&mut self.is_disconnected, true) {
                        tracing::warn!(%error, "changes of other instances are not heard of at the moment");
                    }
                    false
                }
            };
            let wait = if more { Duration::ZERO } else { self.shared.options.following.poll };
            if stop.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    }

    /// Reads the log once; true when there is more to read at once. Caches stay fresh for a while
    /// from the beginning of a complete read.
    fn poll(&mut self) -> Result<bool, Error> {
        if self.session.generation() != self.generation {
            self.restart()?;
            self.publish_everything();
        }
        let began = self.shared.feed.uptime();
        if self.read()? || self.session.generation() != self.generation {
            return Ok(true);
        }
        // The version is this instance's own: the log's numbers are no order of commits.
        self.shared.feed.advance(0, began, self.shared.options.following.lag_max);
        Ok(false)
    }

    /// Publishes new rows; true when there were more than fit into one read.
    fn read(&mut self) -> Result<bool, Error> {
        let ours = Missing { since: Instant::now(), is_ours: true };
        self.missing.extend(self.publisher.take_late().into_iter().map(|seq| (seq, ours)));
        let missed: Vec<u64> = self.missing.keys().copied().collect();
        let [few, many] = GAP_BATCHES;
        let length = if missed.len() > few { many } else { few };
        for some in missed.chunks(length) {
            // Zero is the number of no row.
            let padded = some.iter().copied().chain(std::iter::repeat(0)).take(length);
            let args: Vec<Value<'_>> = padded.map(|seq| Value::Int(seq.cast_signed())).collect();
            for (seq, keys) in self.rows(&of_numbers(length), &args)? {
                self.missing.remove(&seq);
                self.publish(seq, &keys);
            }
        }
        let args = [Value::Int(self.cursor.cast_signed()), Value::Int(ROWS_MAX as i64)];
        let mut rows = self.rows(NEW, &args)?;
        if rows.is_empty() && self.cursor > 0 {
            return Err(Error::Database("the log of changes has lost its newest rows".to_owned()));
        }
        let more = rows.len() == ROWS_MAX;
        rows.retain(|(seq, _)| *seq > self.cursor);
        if let Some((first, _)) = rows.first()
            && *first > self.cursor + 1
        {
            self.notice_trim(*first)?;
        }
        for (seq, keys) in rows {
            self.advance_cursor(seq);
            self.publish(seq, &keys);
        }
        self.drop_rolled_back()?;
        Ok(more)
    }

    /// Rows behind the cursor that were trimmed, because this process was suspended for long, are not rows that were rolled
    /// back: it is not known what they changed.
    fn notice_trim(&mut self, first: u64) -> Result<(), Error> {
        let oldest = self.rows(OLDEST, &[])?.first().map(|(oldest, _)| *oldest);
        if oldest.is_some_and(|oldest| oldest > self.cursor + 1) && !self.is_starting {
            tracing::warn!(
                "changes were removed from the log before they were read; all that is cached is read anew"
            );
            self.forget_missing();
            self.cursor = first - 1;
            self.publish_everything();
        }
        Ok(())
    }

    fn rows(&mut self, sql: &str, args: &[Value<'_>]) -> Result<Vec<(u64, String)>, Error> {
        let connection = self.session.begin(TxMode::Log, Instant::now())?;
        let mut rows = Vec::new();
        let read = connection.query(sql, args, &mut |row| {
            let row = Row::new(row);
            rows.push((row.get::<i64>(0)?.unsigned_abs(), row.get(1)?));
            Ok(true)
        });
        self.session.finish();
        read.map(|()| rows)
    }

    /// Moves the cursor to `seq`, and remembers the numbers on the way.
    fn advance_cursor(&mut self, seq: u64) {
        let (mut first, mut last) = (self.cursor + 1..seq, seq..seq);
        self.cursor = seq;
        if is_planted(Bug::OrderBySequence) {
            return;
        }
        if self.missing.len() as u64 + (first.end - first.start) > MISSING_MAX as u64 {
            tracing::warn!("too much of the log of changes is missing; all that is cached is read anew");
            // Of the transactions that are in their commit, which are still to be heard of, the numbers are among those that were
            // missing before, or right behind these, or among the newest.
            first.end = first.end.min(first.start + LOOK_BACK);
            last.start = first.end.max(seq.saturating_sub(LOOK_BACK));
            let most = MISSING_MAX - 2 * LOOK_BACK as usize;
            if let Some(oldest) = self.missing.keys().rev().nth(most).copied() {
                self.missing.retain(|seq, missing| missing.is_ours || *seq > oldest);
            }
            self.publish_everything();
        }
        let gap = Missing { since: Instant::now(), is_ours: false };
        let publisher = &self.publisher;
        self.missing
            .extend(first.chain(last).filter(|seq| !publisher.take_published(*seq)).map(|seq| (seq, gap)));
    }

    /// For when it is not known what they changed, and everything is published.
    fn forget_missing(&mut self) {
        self.missing.retain(|_, missing| missing.is_ours);
    }

    /// For when it is not known what changed.
    fn publish_everything(&self) {
        self.publisher.publish(vec![Key::everything()]);
    }

    fn publish(&self, seq: u64, keys: &str) {
        if !self.publisher.take_own(seq) && !self.is_starting && !keys.is_empty() {
            self.publisher.publish(keys_of(keys));
        }
    }

    /// Forgets numbers that were taken by transactions that are no more.
    fn drop_rolled_back(&mut self) -> Result<(), Error> {
        let old = self.missing.iter().filter(|(_, missing)| missing.since.elapsed() > MISSING_CHECK_AFTER);
        let old: Vec<u64> = old.map(|(seq, _)| *seq).take(CHECKS_MAX).collect();
        for seq in old {
            let connection = self.session.begin(TxMode::Log, Instant::now())?;
            let mut is_there = false;
            let asked = connection.query(LOCK_ROW, &[Value::Int(seq.cast_signed())], &mut |_| {
                is_there = true;
                Ok(false)
            });
            match (asked, self.session.roll_back()) {
                (Ok(()), _) if !is_there => {
                    self.missing.remove(&seq);
                    // Should it have been ours.
                    self.publisher.take_own(seq);
                }
                // It is seen with the next look.
                (Ok(()), _) => {}
                // It lives. Asked again when as much time has gone by.
                (Err(_), Some((Failure::Retryable, _))) => {
                    if let Some(missing) = self.missing.get_mut(&seq) {
                        missing.since = Instant::now();
                    }
                }
                (Err(error), _) => return Err(error),
            }
        }
        Ok(())
    }
}

fn of_numbers(count: usize) -> String {
    let places: Vec<String> = (1..=count).map(|number| format!("?{number}")).collect();
    format!("SELECT seq, `keys` FROM change_log WHERE seq IN ({})", places.join(", "))
}
