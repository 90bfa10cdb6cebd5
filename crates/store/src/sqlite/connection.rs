//! A connection as Sarsen opens it: every setting made here, on each of them, and read back in a test.

use super::errors::{Constraints, translate, translate_commit};
use crate::engine::Shared;
use crate::tx::{self, Tables};
use crate::value::RowSource;
use crate::{Dialect, Error, Snapshot, Sql, Value, ValueRef};
use parking_lot::Mutex;
use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::types::{ToSql, ToSqlOutput, ValueRef as Raw};
use rusqlite::{OpenFlags, Statement};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Statements kept prepared on each connection; the program has a few hundred.
const STATEMENT_CACHE: usize = 1024;
/// Steps of SQLite's machine between two looks at the clock: about a tenth of a millisecond.
const STEPS_BETWEEN_LOOKS: i32 = 10_000;

/// How long the writer waits for a foreign program that writes. A little less than commands wait for the writer, so that
/// they are told what is wrong, and not that the server is busy.
pub(super) const BUSY_MAX: Duration = Duration::from_millis(900);

/// The number of the last commit.
const NUMBER: &str = "SELECT version FROM sarsen_version WHERE id = 1";

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Writer,
    Reader,
    Checkpointer,
}

/// An open connection with its time limit and the names of the schema's constraints.
pub(super) struct Connection {
    raw: rusqlite::Connection,
    /// Nanoseconds after `opened` at which a running statement is interrupted; 0 for never.
    deadline: Arc<AtomicU64>,
    opened: Instant,
    limit: Duration,
    constraints: Constraints,
    checker: Option<Checker>,
    /// What the connections of this process share.
    shared: Option<Arc<Shared>>,
}

/// Learns from SQLite's authorizer which tables each statement touches.
struct Checker {
    touched: Arc<Mutex<Tables>>,
    known: HashMap<String, Tables>,
}

impl Connection {
    /// Opens a file that exists: if it was moved away under a running program, an empty one in its place would hide that.
    pub(super) fn open(path: &Path, role: Role, check: bool) -> Result<Connection, Error> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_EXRESCODE;
        let raw = rusqlite::Connection::open_with_flags(path, flags)
            .map_err(|error| Error::Open(format!("cannot open {}: {error}", path.display())))?;
        let mut connection = Connection::new(raw, Constraints::default());
        connection.set_up(role, check)?;
        Ok(connection)
    }

    /// Without any setting.
    pub(super) fn new(raw: rusqlite::Connection, constraints: Constraints) -> Connection {
        Connection {
            raw,
            deadline: Arc::default(),
            opened: Instant::now(),
            limit: Duration::ZERO,
            constraints,
            checker: None,
            shared: None,
        }
    }

    /// Makes it one of the connections that share this.
    pub(super) fn of(mut self, shared: &Arc<Shared>) -> Connection {
        self.shared = Some(shared.clone());
        self
    }

    fn set_up(&mut self, role: Role, check: bool) -> Result<(), Error> {
        self.raw.set_prepared_statement_cache_capacity(STATEMENT_CACHE);
        // Without this SQLite parses and plans a prepared statement again whenever an argument that a plan could use is new.
        let stable_plans = self.raw.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true);
        stable_plans.map_err(|error| self.error(error))?;
        // The writer has the file to itself; what it may meet is a foreign program, briefly.
        let busy = if role == Role::Checkpointer { Duration::ZERO } else { BUSY_MAX };
        self.raw.busy_timeout(busy).map_err(|error| self.error(error))?;
        self.batch(
            "PRAGMA journal_mode = WAL;
             PRAGMA synchronous = FULL;
             PRAGMA foreign_keys = ON;
             PRAGMA wal_autocheckpoint = 0;
             PRAGMA temp_store = MEMORY;
             PRAGMA mmap_size = 0;
             PRAGMA trusted_schema = OFF;
             PRAGMA journal_size_limit = 134217728;",
        )?;
        self.batch(match role {
            Role::Writer => "PRAGMA cache_size = -2048;",
            Role::Reader => "PRAGMA cache_size = -1024; PRAGMA query_only = ON;",
            Role::Checkpointer => "PRAGMA cache_size = -64;",
        })?;
        let (deadline, opened) = (self.deadline.clone(), self.opened);
        let late = move || {
            let at = deadline.load(Ordering::Relaxed);
            at != 0 && opened.elapsed().as_nanos() as u64 > at
        };
        self.raw.progress_handler(STEPS_BETWEEN_LOOKS, Some(late)).map_err(|error| self.error(error))?;
        self.learn_constraints()?;
        if check {
            let touched = Arc::new(Mutex::new(Tables::default()));
            let touched_by_statement = touched.clone();
            let record = move |context: AuthContext<'_>| {
                match context.action {
                    AuthAction::Read { table_name, .. } => {
                        touched_by_statement.lock().read.push(table_name.to_owned())
                    }
                    AuthAction::Insert { table_name }
                    | AuthAction::Delete { table_name }
                    | AuthAction::Update { table_name, .. } => {
                        touched_by_statement.lock().written.push(table_name.to_owned())
                    }
                    _ => {}
                }
                Authorization::Allow
            };
            self.raw.authorizer(Some(record)).map_err(|error| self.error(error))?;
            self.checker = Some(Checker { touched, known: HashMap::new() });
        }
        Ok(())
    }

    /// Reads the constraints' names again, after the schema has changed.
    pub(super) fn learn_constraints(&mut self) -> Result<(), Error> {
        self.constraints = Constraints::read(&self.raw).map_err(|error| self.error(error))?;
        Ok(())
    }

    /// Runs several statements without arguments.
    pub(super) fn batch(&self, sql: &str) -> Result<(), Error> {
        self.raw.execute_batch(sql).map_err(|error| self.error(error))
    }

    /// Runs one fixed statement that gives no rows, kept prepared.
    pub(super) fn run(&self, sql: &'static str) -> Result<(), Error> {
        let result =
            self.raw.prepare_cached(sql).and_then(|mut statement| statement.raw_execute().map(|_| ()));
        result.map_err(|error| self.error(error))
    }

    /// Returns when the transaction is on disk.
    pub(super) fn commit(&self) -> Result<(), Error> {
        let result =
            self.raw.prepare_cached("COMMIT").and_then(|mut commit| commit.raw_execute().map(|_| ()));
        result.map_err(|error| translate_commit(error, &self.constraints, self.limit))
    }

    /// From now on a statement that runs past `limit` is interrupted.
    pub(super) fn limit(&mut self, limit: Duration) {
        self.limit = limit;
        let at = (self.opened.elapsed() + limit).as_nanos() as u64;
        self.deadline.store(at, Ordering::Relaxed);
    }

    /// From now on no statement is interrupted.
    pub(super) fn no_limit(&self) {
        self.deadline.store(0, Ordering::Relaxed);
    }

    /// Runs `read` in one snapshot that ends with it.
    pub(super) fn in_snapshot(
        &mut self,
        limit: Duration,
        check: bool,
        read: &mut dyn FnMut(&mut Snapshot<'_>),
    ) -> Result<(), Error> {
        self.limit(limit);
        self.run("BEGIN")?;
        read(&mut Snapshot::new(self, check));
        self.no_limit();
        // An interrupt has ended it already.
        if self.in_transaction() { self.run("COMMIT") } else { Ok(()) }
    }

    /// False when SQLite has dropped the whole transaction by itself.
    pub(super) fn in_transaction(&self) -> bool {
        !self.raw.is_autocommit()
    }

    pub(super) fn raw(&mut self) -> &mut rusqlite::Connection {
        &mut self.raw
    }

    /// The number of the last commit that can be seen.
    pub(super) fn number(&mut self) -> Result<u64, Error> {
        let mut number = 0_i64;
        tx::Connection::query(self, NUMBER, &[], &mut |row| {
            number = crate::Row::new(row).get(0)?;
            Ok(false)
        })?;
        Ok(number.unsigned_abs())
    }

    /// The steps of the query plan, one a line.
    pub(super) fn explain(&self, sql: &str) -> Result<String, Error> {
        let explain = || {
            let mut statement = self.raw.prepare(&format!("EXPLAIN QUERY PLAN {sql}"))?;
            // The plan does not depend on the arguments; those that are not given are NULL.
            let mut rows = statement.raw_query();
            let mut lines = Vec::new();
            while let Some(row) = rows.next()? {
                lines.push(row.get::<_, String>(3)?);
            }
            Ok(lines.join("\n"))
        };
        explain().map_err(|error| self.error(error))
    }

    pub(super) fn error(&self, error: rusqlite::Error) -> Error {
        translate(error, &self.constraints, self.limit)
    }
}

impl Drop for Connection {
    /// The last connection of a process moves the log and deletes it. After a failed flush the log may be the only place
    /// where commits are.
    fn drop(&mut self) {
        let keeps_log = self
            .shared
            .as_ref()
            .is_some_and(|shared| shared.stats.flushes_failed.load(Ordering::Relaxed) > 0);
        if keeps_log
            && let Err(error) = self.raw.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
        {
            tracing::error!(%error, "the write-ahead log may be deleted although it is needed");
        }
    }
}

impl tx::Connection for Connection {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    fn execute(&mut self, sql: &str, args: &[Value<'_>]) -> Result<u64, Error> {
        let result = self.raw.prepare_cached(sql).and_then(|mut statement| {
            bind(&mut statement, args)?;
            statement.raw_execute()
        });
        result.map(|count| count as u64).map_err(|error| self.error(error))
    }

    fn query(
        &mut self,
        sql: &str,
        args: &[Value<'_>],
        each: &mut dyn FnMut(&dyn RowSource) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let mut statement = self.raw.prepare_cached(sql).map_err(|error| self.error(error))?;
        if !statement.readonly() {
            return Err(Error::Database(format!("run this with `exec` or `exec_one`: {sql}")));
        }
        bind(&mut statement, args).map_err(|error| self.error(error))?;
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next().map_err(|error| self.error(error))? {
            if !each(row)? {
                break;
            }
        }
        Ok(())
    }

    fn prepare(&mut self, sql: &Sql) -> Result<(), Error> {
        let text = sql.text(Dialect::Sqlite);
        self.raw.prepare(text).map(|_| ()).map_err(|error| Error::Database(format!("{error}: {text}")))
    }

    fn version_number(&mut self) -> Result<Option<u64>, Error> {
        self.number().map(Some)
    }

    fn is_in_transaction(&self) -> bool {
        self.in_transaction()
    }

    fn tables(&mut self, sql: &str) -> Option<Tables> {
        let checker = self.checker.as_mut()?;
        if !checker.known.contains_key(sql) {
            *checker.touched.lock() = Tables::default();
            // Prepared once more, past the cache, so that the authorizer is asked about it.
            if let Err(error) = self.raw.prepare(sql) {
                tracing::debug!(%error, "a statement that cannot be checked will fail when it runs");
            }
            let touched = std::mem::take(&mut *checker.touched.lock());
            checker.known.insert(sql.to_owned(), touched);
        }
        checker.known.get(sql).cloned()
    }
}

fn bind(statement: &mut Statement<'_>, args: &[Value<'_>]) -> rusqlite::Result<()> {
    let expected = statement.parameter_count();
    if expected != args.len() {
        return Err(rusqlite::Error::InvalidParameterCount(args.len(), expected));
    }
    for (index, value) in args.iter().enumerate() {
        statement.raw_bind_parameter(index + 1, Bound(value))?;
    }
    Ok(())
}

struct Bound<'a>(&'a Value<'a>);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.0 {
            Value::Null => Raw::Null,
            Value::Int(number) => Raw::Integer(*number),
            Value::Real(number) => Raw::Real(*number),
            Value::Text(text) => Raw::Text(text.as_bytes()),
            Value::Blob(bytes) => Raw::Blob(bytes),
        }))
    }
}

impl RowSource for rusqlite::Row<'_> {
    fn value(&self, column: usize) -> Result<ValueRef<'_>, Error> {
        let raw = self.get_ref(column).map_err(|error| Error::Database(error.to_string()))?;
        Ok(match raw {
            Raw::Null => ValueRef::Null,
            Raw::Integer(number) => ValueRef::Int(number),
            Raw::Real(number) => ValueRef::Real(number),
            Raw::Text(bytes) => ValueRef::Text(
                std::str::from_utf8(bytes).map_err(|error| Error::Database(format!("text: {error}")))?,
            ),
            Raw::Blob(bytes) => ValueRef::Blob(bytes),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pragma(connection: &Connection, name: &str) -> String {
        let sql = format!("PRAGMA {name}");
        connection
            .raw
            .query_row(&sql, [], |row| Ok(format!("{:?}", row.get_ref(0)?)))
            .expect("every pragma answers")
    }

    #[test]
    fn every_connection_has_every_setting() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("settings.db");
        std::fs::File::create(&path).expect("creates");
        for role in [Role::Writer, Role::Reader, Role::Checkpointer, Role::Reader] {
            let connection = Connection::open(&path, role, false).expect("opens");
            assert_eq!(pragma(&connection, "journal_mode"), "Text([119, 97, 108])");
            assert_eq!(pragma(&connection, "synchronous"), "Integer(2)", "2 is FULL");
            assert_eq!(pragma(&connection, "foreign_keys"), "Integer(1)");
            assert_eq!(pragma(&connection, "wal_autocheckpoint"), "Integer(0)");
            assert_eq!(pragma(&connection, "trusted_schema"), "Integer(0)");
            let query_only = if role == Role::Reader { "Integer(1)" } else { "Integer(0)" };
            assert_eq!(pragma(&connection, "query_only"), query_only);
        }
    }
}
