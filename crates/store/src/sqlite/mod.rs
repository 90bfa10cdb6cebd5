//! SQLite: one writing thread that commits in groups, readers beside it, a checkpointer behind it.
//!
//! - `connection.rs`: how every connection is opened, and statements over it.
//! - `writer.rs`: the one writer. `checkpoint.rs`: keeps the write-ahead log small.
//! - `errors.rs`: the only place that reads SQLite's error texts. `lock.rs`: one process owns a file.
//! - `migrated_tables.rs`: the tables that the migrations make.
//! - `copy.rs`, `inspect.rs`, `replace.rs`: backup, check and restore of a file. `schema.rs`: whether its schema is right.

mod checkpoint;
mod checksum;
mod connection;
mod copy;
mod errors;
mod inspect;
mod lock;
mod migrated_tables;
mod replace;
mod schema;
mod writer;

#[cfg(feature = "fault-injection")]
use crate::engine::Undo;
use crate::engine::{Backend, Database, Look, Opened, Shared};
use crate::job::Query;
use crate::mark::MarkKey;
use crate::threads::{again_after_panics, spawn};
use crate::tx::Connection as _;
use crate::version::Epoch;
use crate::{Dialect, Error, Options, Snapshot, Sql, log, migrate};
use checkpoint::Checkpointer;
use connection::{Connection, Role};
pub(crate) use copy::copy;
pub use inspect::Inspection;
pub(crate) use inspect::{compare_schema, inspect, read};
use lock::FileLock;
pub(crate) use migrated_tables::migrated_tables;
use parking_lot::{Condvar, Mutex};
pub(crate) use replace::replace;
pub use schema::SchemaDifferences;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use writer::Writer;

/// A point read may take this long: it is a handful of look-ups.
const POINT_LIMIT: Duration = Duration::from_secs(1);
/// A scan may take this long.
const SCAN_LIMIT: Duration = Duration::from_secs(5);
/// Connections kept for point reads, at least; there is one for each processor. More are opened when more threads read at
/// once.
const IDLE_CONNECTIONS_MIN: usize = 8;
/// How long a stop waits for point reads: what one may take, and a little more.
const READS_WAIT: Duration = Duration::from_millis(1500);

/// SQLite, as a kind of database.
pub(crate) struct Sqlite;

struct PointReads {
    /// Connections for them, most recently used last; `None` once closed.
    idle: Option<Vec<Connection>>,
    running: usize,
}

/// An open file.
struct SqliteBackend {
    path: PathBuf,
    shared: Arc<Shared>,
    /// Held for a push or a pop.
    point_reads: Mutex<PointReads>,
    /// The last point read after the close has ended.
    reads_ended: Condvar,
    idle_max: usize,
    checkpointer: Arc<Checkpointer>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    lock: Mutex<Option<Arc<FileLock>>>,
    /// Ends a backup that is under way.
    closed: AtomicBool,
}

impl Database for Sqlite {
    fn look(&self, options: &Options, query: Look) -> Result<(), Error> {
        read(&path_of(&options.url)?, query)
    }

    fn rehearse_open(&self, options: &Options) -> Result<Option<&'static str>, Error> {
        FileLock::rehearse(&path_of(&options.url)?).map(|()| None)
    }

    fn open(&self, options: Options) -> Result<Opened, Error> {
        let path = path_of(&options.url)?;
        let lock = Arc::new(FileLock::own(&path)?);
        let mut connection = Connection::open(&path, Role::Writer, options.check)?;
        let number = prepare_schema(&mut connection, &options)?;
        // A copied file cannot be told from the original, so every start begins an epoch.
        let epoch = Epoch::of_this_process();

        let batch_max = options.writer.batch_max;
        let shared = Arc::new(Shared::new(options, epoch, number, 1, batch_max));
        let checkpointer = Arc::new(Checkpointer::new(&path, lock.clone(), shared.clone())?);
        let mut threads = vec![spawn("sarsen-checkpoint", {
            let checkpointer = checkpointer.clone();
            move || again_after_panics(|| checkpointer.run())
        })?];
        let connection = connection.of(&shared);
        let writer = Writer::new(path.clone(), connection, shared.clone(), checkpointer.clone(), number)?;
        threads.push(spawn("sarsen-writer", move || writer.run())?);
        for _ in 0..shared.options.readers.max(1) {
            let (path, shared) = (path.clone(), shared.clone());
            threads.push(spawn("sarsen-reader", move || {
                again_after_panics(|| answer_queries(&path, &shared));
            })?);
        }
        let backend = SqliteBackend {
            path,
            shared: shared.clone(),
            point_reads: Mutex::new(PointReads { idle: Some(Vec::new()), running: 0 }),
            reads_ended: Condvar::new(),
            idle_max: std::thread::available_parallelism().map_or(1, usize::from).max(IDLE_CONNECTIONS_MIN),
            checkpointer,
            threads: Mutex::new(threads),
            lock: Mutex::new(Some(lock)),
            closed: AtomicBool::new(false),
        };
        Ok((shared, Box::new(backend)))
    }

    #[cfg(feature = "testing")]
    fn check_url(&self, url: &str) -> Result<(), Error> {
        path_of(url).map(drop)
    }

    #[cfg(feature = "fault-injection")]
    fn hold_transaction(&self, _url: &str) -> Result<Undo, Error> {
        let text = "an open transaction on SQLite would block every writer; give the URL of a server";
        Err(Error::Open(text.to_owned()))
    }
}

/// `sqlite:PATH` → `PATH`. Forms that other libraries read in another way are refused: they would be files of strange names.
fn path_of(url: &str) -> Result<PathBuf, Error> {
    let path = url.strip_prefix("sqlite:").unwrap_or_default();
    let expected = "expected sqlite:PATH, such as sqlite:board.db or sqlite:/var/lib/board/board.db";
    let problem = match path {
        "" => expected.to_owned(),
        _ if path.contains(":memory:") => {
            format!(
                "a database in memory is not supported, because an answer says that it is on disk; {expected}"
            )
        }
        _ if path.contains('?') => format!("parameters after `?` are not supported; {expected}"),
        _ if path.starts_with("//") && !path.starts_with("///") => {
            format!("the path begins with `//`; {expected}")
        }
        _ => return Ok(real_path(Path::new(path))),
    };
    Err(Error::Open(problem))
}

/// The file that a path names in the end, if the path is a symbolic link: SQLite keeps its log beside that one, and so is
/// the lock, which two names must share. Links of folders need no look.
pub(crate) fn real_path(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    // As many as the system follows; of a circle, opening the file is the error.
    for _ in 0..40 {
        let Ok(target) = std::fs::read_link(&path) else { break };
        path = path.parent().map_or_else(|| target.clone(), |folder| folder.join(&target));
    }
    path
}

/// A file that belongs to the database at `path`.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// A point read that runs.
struct Running<'a> {
    backend: &'a SqliteBackend,
    /// None while it may not be used again.
    connection: Option<Connection>,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut reads = self.backend.point_reads.lock();
        match (&mut reads.idle, self.connection.take()) {
            (Some(idle), Some(connection)) if idle.len() < self.backend.idle_max => idle.push(connection),
            // Closed before the read counts as ended.
            (_, connection) => drop(connection),
        }
        reads.running -= 1;
        if reads.running == 0 {
            self.backend.reads_ended.notify_all();
        }
    }
}

impl SqliteBackend {
    fn with_reader<T>(&self, work: impl FnOnce(&mut Connection) -> Result<T, Error>) -> Result<T, Error> {
        let mut running = {
            let mut reads = self.point_reads.lock();
            let connection = reads.idle.as_mut().ok_or(Error::Stopped)?.pop();
            reads.running += 1;
            Running { backend: self, connection }
        };
        let mut connection = match running.connection.take() {
            Some(connection) => connection,
            None => Connection::open(&self.path, Role::Reader, self.shared.options.check)?.of(&self.shared),
        };
        let result = work(&mut connection);
        if result.is_ok() && !connection.in_transaction() {
            running.connection = Some(connection);
        }
        result
    }
}

impl Backend for SqliteBackend {
    fn inline(&self, read: &mut dyn FnMut(&mut Snapshot<'_>)) -> Result<bool, Error> {
        self.with_reader(|connection| {
            connection.in_snapshot(POINT_LIMIT, self.shared.options.check, read)?;
            Ok(true)
        })
    }

    fn prepare(&self, sql: &Sql) -> Result<(), Error> {
        self.with_reader(|connection| connection.prepare(sql))
    }

    fn explain(&self, sql: &Sql) -> Result<Option<String>, Error> {
        self.with_reader(|connection| connection.explain(sql.text(connection.dialect())).map(Some))
    }

    fn disk_free(&self) -> Option<u64> {
        let stat = rustix::fs::statvfs(&self.path).ok()?;
        Some(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn backup(&self, target: &Path, key: &MarkKey) -> Result<u64, Error> {
        let _held = self.checkpointer.hold();
        copy::copy_until(&self.path, target, key, Some(&self.shared), &self.closed)
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        self.shared.commands.close();
        self.shared.queries.close();
        let mut reads = self.point_reads.lock();
        reads.idle.take();
        // Closing the file takes the locks of this process away (POSIX), also from a read that runs.
        self.reads_ended.wait_while_for(&mut reads, |reads| reads.running > 0, READS_WAIT);
        drop(reads);
        self.checkpointer.stop();
        for thread in self.threads.lock().drain(..) {
            // A thread that panicked has said so already.
            let _ = thread.join();
        }
        self.checkpointer.wait_for_backups(READS_WAIT);
        self.checkpointer.close_file();
        self.lock.lock().take();
    }
}

impl Drop for SqliteBackend {
    /// A store that is dropped lets go of its file, as one that is closed.
    fn drop(&mut self) {
        let here = std::thread::current().id();
        let is_own = self.threads.lock().iter().any(|thread| thread.thread().id() == here);
        if is_own {
            // A command had the last handle. Its thread cannot wait for itself.
            self.shared.commands.close();
            self.shared.queries.close();
            self.checkpointer.stop();
        } else {
            self.close();
        }
    }
}

/// Migrates the schema. Returns the number of the last commit.
fn prepare_schema(connection: &mut Connection, options: &Options) -> Result<u64, Error> {
    connection.batch("BEGIN IMMEDIATE")?;
    connection.batch(
        "CREATE TABLE IF NOT EXISTS sarsen_version (id INTEGER PRIMARY KEY, version BIGINT NOT NULL)",
    )?;
    connection.batch("INSERT OR IGNORE INTO sarsen_version (id, version) VALUES (1, 0)")?;
    log::tables(Dialect::Sqlite).iter().try_for_each(|table| connection.batch(table))?;
    migrate::migrate(connection, options.schema())?;
    connection.batch("COMMIT")?;
    connection.learn_constraints()?;
    connection.number()
}

/// A reader thread: takes queries until the queue closes.
fn answer_queries(path: &Path, shared: &Arc<Shared>) {
    let mut connection = None;
    let mut taken: VecDeque<Box<dyn Query>> = VecDeque::new();
    while let Some(_turn) = shared.queries.take_turn(&mut taken, 1) {
        for mut query in taken.drain(..) {
            shared.queries.started(&query);
            if query.start() {
                connection = answer(query, connection.take(), path, shared);
            }
        }
    }
}

/// Answers one query, and gives the connection back unless it is broken.
fn answer(
    mut query: Box<dyn Query>,
    connection: Option<Connection>,
    path: &Path,
    shared: &Arc<Shared>,
) -> Option<Connection> {
    let check = shared.options.check;
    let open = || Connection::open(path, Role::Reader, check).map(|opened| opened.of(shared));
    let opened = connection.map_or_else(open, Ok);
    let mut connection = match opened {
        Ok(connection) => connection,
        Err(error) => {
            query.reply(Some(error));
            return None;
        }
    };
    let began = Instant::now();
    let mut has_run = false;
    let ran = connection.in_snapshot(SCAN_LIMIT, check, &mut |snapshot| {
        query.run(snapshot);
        has_run = true;
    });
    if !query.is_background() {
        shared.queries.timings.record_run(1, began.elapsed());
    }
    match ran {
        Ok(()) => {
            query.reply(None);
            return Some(connection);
        }
        Err(error) if has_run => {
            tracing::warn!(%error, "a snapshot could not be ended; its connection is dropped");
            query.reply(None);
        }
        Err(error) => query.reply(Some(error)),
    }
    None
}
