//! Keeps the write-ahead log small without making the writer wait for long.
//!
//! A connection of its own moves the log into the file as it grows (PASSIVE: it waits for nobody), and flushes the
//! file, which SQLite does only when the whole log was moved: it would all be flushed while the writer waits. The
//! log can start again from its beginning only when all of it was moved and nobody reads from it, so
//! when it is long and only a small tail is left, the writer moves that tail itself, between two
//! commits. Where commits come faster than pages can be moved, no tail would ever be small: a log that
//! is too long slows the writer down a little after each commit, until one is.
//! SQLite reports "could not" in a result row, not as an error: the row is read.
//!
//! When a flush of the file fails, the system may drop what was to be flushed and call the next flush a success. So from then
//! on nothing is moved any more, and the log, which has all commits, is kept as it is. The next start moves all of it again.

use super::connection::{BUSY_MAX, Connection, Role};
use super::lock::FileLock;
use crate::Error;
use crate::engine::Shared;
use crate::planted::{Bug, is_planted};
use crate::threads::pause;
use parking_lot::{Condvar, Mutex};
use rusqlite::hooks::Wal;
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Bytes of a frame of the log: a page and its header.
const FRAME_BYTES: u64 = 4096 + 24;
/// The checkpointer is woken each time the log has grown by this many pages (8 MiB): a page that changed
/// often meanwhile is moved once.
const MOVE_EVERY: u64 = 2048;
/// From this length on (64 MiB) the writer looks for a chance to start the log again: the seldomer, the less often
/// somebody waits for the file's flush.
const RESTART_FROM: u64 = 16 * 1024;
/// That is when no more than this is left to move (1 MiB).
const TAIL_MAX: u64 = 256;
/// From this length on (80 MiB) the writer lets a running checkpoint get ahead of it after each commit …
const SLOW_FROM: u64 = 20 * 1024;
/// … for no longer than this.
const SLOW_BY: Duration = Duration::from_millis(20);
/// At this length (104 MiB) the writer moves whatever is left: slower is better than without end.
const RESTART_AT_LAST: u64 = 26 * 1024;
/// … unless it is more than this (16 MiB) because a reader or a backup was in the way: that is not the disk's speed, and the
/// checkpointer moves it first.
const TAIL_AT_LAST: u64 = 4096;
/// At this length (1 GiB) writes are refused.
const FULL_AT: u64 = 256 * 1024;
/// How long the writer waits for readers when it starts the log again.
const READERS_WAIT: Duration = Duration::from_millis(50);
/// The age at which commits are moved, however few they are.
const MOVE_AFTER: Duration = Duration::from_secs(2);
/// After a reader was in the way, the next try.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// While what a reader has held back is moved, the next look.
const MOVE_AGAIN: Duration = Duration::from_millis(100);
/// So long the checkpointer has for that. If less than 16 MiB are never left, the disk is slow, and the writer moves it.
const HELD_FOR: Duration = Duration::from_secs(5);

/// Device and inode.
type Identity = (u64, u64);

/// Those of the database and of its log that have their names now.
fn identities(path: &Path) -> [Option<Identity>; 2] {
    [path.to_owned(), super::beside(path, "-wal")].map(|path| {
        let file = std::fs::metadata(path).ok()?;
        Some((file.dev(), file.ino()))
    })
}

pub(super) struct Checkpointer {
    path: PathBuf,
    /// It has the database, to be flushed.
    lock: Mutex<Option<Arc<FileLock>>>,
    /// Device and inode of the database and of its log, as this process has them open.
    identities: Mutex<[Option<Identity>; 2]>,
    /// One of the two was replaced or removed. What is written is lost at the end of the process.
    is_detached: AtomicBool,
    shared: Arc<Shared>,
    /// Pages in the log, as of the last commit.
    log_pages: Arc<AtomicU64>,
    /// Pages of it that are in the file already.
    moved_pages: AtomicU64,
    state: Mutex<State>,
    wake: Condvar,
    /// Held while a checkpoint runs: the writer's and the checkpointer's would refuse each other.
    running: Mutex<()>,
    /// Backups that run. Each holds a snapshot, so that the log cannot start again.
    backups: AtomicUsize,
}

#[derive(Default)]
struct State {
    wanted: bool,
    /// Something was committed since the last checkpoint began.
    committed: bool,
    stopped: bool,
    /// Length of the log when a checkpoint was last asked for.
    asked_at: u64,
    /// What had been moved then.
    moved_at_asking: u64,
    /// The writer does not try before this.
    not_before: Option<Instant>,
    /// A reader or a backup was in the way: until then what it has held back is moved beside the writer.
    held_until: Option<Instant>,
    warned: bool,
}

/// A backup that runs.
pub(super) struct Hold<'a>(&'a AtomicUsize);

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Checkpointer {
    /// A connection is open, so that the log is there.
    pub(super) fn new(path: &Path, lock: Arc<FileLock>, shared: Arc<Shared>) -> Result<Checkpointer, Error> {
        Ok(Checkpointer {
            path: path.to_owned(),
            lock: Mutex::new(Some(lock)),
            identities: Mutex::new(identities(path)),
            is_detached: AtomicBool::new(false),
            shared,
            log_pages: Arc::default(),
            moved_pages: AtomicU64::new(0),
            // The schema of a new database is moved at once.
            state: Mutex::new(State { wanted: true, ..State::default() }),
            wake: Condvar::new(),
            running: Mutex::new(()),
            backups: AtomicUsize::new(0),
        })
    }

    /// Has the writer's connection report the length of the log after each commit.
    pub(super) fn watch(&self, writer: &mut Connection) -> Result<(), Error> {
        let pages = self.log_pages.clone();
        let report = move |_: &mut Wal, count: i32| {
            pages.store(u64::from(count.unsigned_abs()), Relaxed);
            Ok(())
        };
        let hooked = writer.raw().wal_hook(Some(report));
        hooked.map_err(|error| writer.error(error))
    }

    /// The checkpointer's thread.
    pub(super) fn run(&self) {
        let mut connection: Option<Connection> = None;
        while self.wait_until_wanted() {
            let _running = self.running.lock();
            if self.state.lock().stopped {
                return;
            }
            self.look_at_files();
            // What has the name now is not the database.
            let is_foreign = self.is_detached.load(Relaxed) && connection.is_none();
            if self.keeps_log() || is_foreign {
                continue;
            }
            let ready = match connection.take() {
                Some(connection) => Ok(connection),
                None => {
                    Connection::open(&self.path, Role::Checkpointer, false).map(|new| new.of(&self.shared))
                }
            };
            match ready.and_then(|mut ready| self.move_log(&mut ready, "PASSIVE").map(|_| ready)) {
                Ok(ready) => {
                    connection = Some(ready);
                    // Only so that little is left for the flush that counts, which SQLite makes and looks at.
                    if let Err(error) = self.flush_file() {
                        self.note_failed_flush(&error);
                    }
                }
                Err(error) => tracing::warn!(%error, "a checkpoint failed; the next one tries again"),
            }
        }
    }

    /// Whether a flush of the file has failed.
    fn keeps_log(&self) -> bool {
        self.shared.stats.flushes_failed.load(Relaxed) > 0
    }

    fn note_failed_flush(&self, error: &dyn std::fmt::Display) {
        self.shared.stats.flushes_failed.fetch_add(1, Relaxed);
        tracing::error!(
            %error,
            "the disk could not flush the database file; all commits are kept in the write-ahead log, which is moved at the \
             next start: check the disk, then restart"
        );
    }

    fn flush_file(&self) -> std::io::Result<()> {
        if is_planted(Bug::FlushFails) {
            return Err(std::io::Error::other("planted"));
        }
        self.lock.lock().as_ref().and_then(|lock| lock.database().map(File::sync_data)).unwrap_or(Ok(()))
    }

    /// When all connections are closed.
    pub(super) fn close_file(&self) {
        self.lock.lock().take();
    }

    /// Notices when somebody has put another file into the place of the database or of its log, or has removed one of them.
    fn look_at_files(&self) {
        let is_detached = identities(&self.path) != *self.identities.lock();
        if is_detached && !self.is_detached.swap(is_detached, Relaxed) {
            tracing::error!(
                database = %self.path.display(),
                "the database file or its write-ahead log was replaced or removed while it was in use; writes are refused, because \
                 they would be lost: stop the server, put the files into place, and start it again"
            );
        } else if !is_detached && self.is_detached.swap(is_detached, Relaxed) {
            tracing::warn!(
                "the database file and its write-ahead log are in their place again; writes go on"
            );
        }
    }

    fn detached(&self) -> Option<Error> {
        self.is_detached.load(Relaxed).then(|| Error::Unavailable {
            what: "the database file or its write-ahead log was replaced or removed while it was in use"
                .to_owned(),
            advice: "stop the server, put the files into place, and start it again".to_owned(),
        })
    }

    pub(super) fn stop(&self) {
        self.state.lock().stopped = true;
        self.wake.notify_all();
    }

    /// Waits for the backups that run, which have been told to stop: they have the file open.
    pub(super) fn wait_for_backups(&self, most: Duration) {
        let until = Instant::now() + most;
        while self.backups.load(Relaxed) > 0 && Instant::now() < until {
            pause(Duration::from_millis(5));
        }
    }

    /// Until the result is dropped, the writer does not try to start the log again.
    pub(super) fn hold(&self) -> Hold<'_> {
        self.backups.fetch_add(1, Relaxed);
        Hold(&self.backups)
    }

    /// Called by the writer after each commit.
    pub(super) fn between_commits(&self, writer: &mut Connection) {
        let pages = self.log_pages.load(Relaxed);
        self.shared.stats.wal_is(pages * FRAME_BYTES);
        let mut state = self.state.lock();
        if !state.committed {
            state.committed = true;
            self.wake.notify_one();
        }
        if pages < state.asked_at {
            (state.asked_at, state.moved_at_asking) = (0, 0); // The log has started again.
            self.moved_pages.store(0, Relaxed);
        }
        let is_copied = self.backups.load(Relaxed) > 0;
        if is_copied {
            state.held_until = Some(Instant::now() + HELD_FOR);
        }
        let due = state.not_before.is_none_or(|moment| Instant::now() >= moment) && !is_copied;
        let mut ask = pages >= state.asked_at + MOVE_EVERY;
        if pages >= RESTART_FROM && due && !self.keeps_log() {
            let began = Instant::now();
            let wait = if pages >= SLOW_FROM { SLOW_BY } else { Duration::ZERO };
            if let Some(_running) = self.running.try_lock_for(wait) {
                let moved = self.moved_pages.load(Relaxed);
                let tail = pages.saturating_sub(moved);
                let is_held = tail > TAIL_AT_LAST && state.held_until.is_some_and(|until| began < until);
                if tail <= TAIL_MAX || (pages >= RESTART_AT_LAST && !is_held) {
                    self.restart(writer, &mut state);
                    ask = false;
                } else if is_held {
                    state.not_before = Some(began + MOVE_AGAIN);
                    ask = true;
                } else {
                    // What has come meanwhile takes less time to move than what was there before.
                    ask |= moved > state.moved_at_asking;
                }
            }
            self.shared.stats.paused(began.elapsed());
        }
        if ask {
            state.asked_at = pages;
            state.moved_at_asking = self.moved_pages.load(Relaxed);
            state.wanted = true;
            self.wake.notify_one();
        }
    }

    /// Moves the tail and lets the next commit start the log again. The writer stands still meanwhile, and
    /// holds `running`.
    fn restart(&self, writer: &mut Connection, state: &mut State) {
        let now = Instant::now();
        let moved = self.with_wait(writer, READERS_WAIT, |writer| self.move_log(writer, "RESTART"));
        state.not_before = match moved {
            Ok(true) => None,
            Ok(false) => {
                state.held_until = Some(now + HELD_FOR);
                Some(now + TRY_AGAIN)
            }
            Err(error) => {
                tracing::warn!(%error, "a checkpoint failed; the next one tries again");
                Some(now + TRY_AGAIN)
            }
        };
        let long = self.log_pages.load(Relaxed) >= RESTART_AT_LAST && state.not_before.is_some();
        if long && !state.warned {
            tracing::warn!(
                bytes = self.log_pages.load(Relaxed) * FRAME_BYTES,
                "the write-ahead log grows because a program keeps an old read transaction open"
            );
        }
        state.warned = long;
    }

    /// Why writes are refused: the files are not in their place any more, or the log has reached its limit and cannot be moved.
    pub(super) fn refusal(&self, writer: &mut Connection) -> Option<Error> {
        if let Some(error) = self.detached() {
            // Without a commit nobody else asks for a look.
            self.state.lock().wanted = true;
            self.wake.notify_one();
            return Some(error);
        }
        if self.log_pages.load(Relaxed) < FULL_AT {
            return None;
        }
        if self.keeps_log() {
            return Some(Error::Unavailable {
                what: "the disk could not flush the database file, and the write-ahead log has reached 1 GiB"
                    .to_owned(),
                advice: "check the disk, then restart the server: the log has all commits".to_owned(),
            });
        }
        let mut state = self.state.lock();
        if state.not_before.is_none_or(|moment| Instant::now() >= moment)
            && let Some(_running) = self.running.try_lock()
        {
            let tail = self.log_pages.load(Relaxed).saturating_sub(self.moved_pages.load(Relaxed));
            if tail > TAIL_AT_LAST {
                // The checkpointer needs seconds for it, in which the writer can say that it is full.
                state.not_before = Some(Instant::now() + MOVE_AGAIN);
                state.wanted = true;
                self.wake.notify_one();
            } else {
                state.not_before = Some(Instant::now() + TRY_AGAIN);
                let moved = self.with_wait(writer, READERS_WAIT, |writer| self.move_log(writer, "RESTART"));
                if matches!(moved, Ok(true)) {
                    (state.held_until, state.not_before) = (None, None);
                    self.log_pages.store(0, Relaxed);
                    return None;
                }
            }
        }
        Some(Error::Unavailable {
            what: "the write-ahead log has reached 1 GiB".to_owned(),
            advice: "end the program that keeps a read transaction open on the database".to_owned(),
        })
    }

    /// Leaves an empty log behind.
    pub(super) fn at_close(&self, writer: &mut Connection) {
        let _running = self.running.lock();
        if self.keeps_log() {
            return;
        }
        let moved =
            self.with_wait(writer, Duration::from_secs(1), |writer| self.move_log(writer, "TRUNCATE"));
        if let Err(error) = moved {
            tracing::warn!(%error, "the write-ahead log was not moved at close; the next start does it");
        }
    }

    fn with_wait<T>(
        &self,
        writer: &mut Connection,
        wait: Duration,
        work: impl FnOnce(&mut Connection) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let set = writer.raw().busy_timeout(wait);
        set.map_err(|error| writer.error(error))?;
        let result = work(writer);
        let reset = writer.raw().busy_timeout(BUSY_MAX);
        reset.map_err(|error| writer.error(error))?;
        result
    }

    /// Runs a checkpoint; true when the whole log was moved and nobody was in the way.
    fn move_log(&self, connection: &mut Connection, mode: &str) -> Result<bool, Error> {
        let sql = format!("PRAGMA wal_checkpoint({mode})");
        let row = connection.raw().query_row(&sql, [], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
        });
        let (busy, log, moved) = row.map_err(|error| {
            let code = error.sqlite_error().map(|error| error.extended_code);
            if code == Some(rusqlite::ffi::SQLITE_IOERR_FSYNC) {
                self.note_failed_flush(&error);
            }
            connection.error(error)
        })?;
        self.moved_pages.store(moved.unsigned_abs(), Relaxed);
        self.shared.stats.checkpoints.fetch_add(1, Relaxed);
        Ok(busy == 0 && log == moved)
    }

    fn wait_until_wanted(&self) -> bool {
        let mut state = self.state.lock();
        while !state.wanted && !state.stopped {
            if state.committed {
                let waited = self.wake.wait_for(&mut state, MOVE_AFTER);
                state.wanted |= waited.timed_out();
            } else {
                self.wake.wait(&mut state);
            }
        }
        (state.wanted, state.committed) = (false, false);
        !state.stopped
    }
}
