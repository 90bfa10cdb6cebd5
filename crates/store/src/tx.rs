//! What a command or a query can do with the database.

use crate::cause::Cause;
use crate::log::Appended;
use crate::value::RowSource;
use crate::version::Epoch;
use crate::{Dialect, Error, Key, Row, Sql, Time, Value, sql};

/// Milliseconds since 1970, at the moment of the statement.
static POSTGRES_CLOCK: Sql = sql("SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)");
static MYSQL_CLOCK: Sql = sql("SELECT CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)");

/// A back end's connection, as commands and queries use it.
pub(crate) trait Connection {
    fn dialect(&self) -> Dialect;
    /// Runs a statement. Returns the number of rows that matched.
    fn execute(&mut self, sql: &str, args: &[Value<'_>]) -> Result<u64, Error>;
    /// Runs a statement that is to write one row. Returns whether it did. A back end may answer before the server does,
    /// and fail the transaction if that was wrong.
    fn execute_one(&mut self, sql: &Sql, args: &[Value<'_>]) -> Result<bool, Error> {
        Ok(self.execute(sql.text(self.dialect()), args)? == 1)
    }
    /// Runs a statement of a migration that an earlier start may have run already; then it succeeds. Used where each
    /// such statement commits by itself.
    fn execute_again(&mut self, sql: &str) -> Result<(), Error> {
        self.execute(sql, &[]).map(drop)
    }
    /// Runs a SELECT and passes each row to `each`, which returns whether to continue.
    fn query(
        &mut self,
        sql: &str,
        args: &[Value<'_>],
        each: &mut dyn FnMut(&dyn RowSource) -> Result<bool, Error>,
    ) -> Result<(), Error>;
    /// Prepares a statement without running it.
    fn prepare(&mut self, sql: &Sql) -> Result<(), Error>;
    /// The number of the version that the open snapshot shows; `None` where the server has none.
    fn version_number(&mut self) -> Result<Option<u64>, Error>;
    /// The epoch of that number, where it belongs to the connection.
    fn epoch(&self) -> Option<Epoch> {
        None
    }
    /// The number before which the open snapshot has every commit.
    fn settled_number(&mut self) -> Result<Option<u64>, Error> {
        self.version_number()
    }
    /// Whether the transaction is open, or refuses by itself what comes after its end. SQLite ends one for an error (a full disk,
    /// an interrupt), and would commit each statement after that by itself.
    fn is_in_transaction(&self) -> bool {
        true
    }
    /// The tables that `sql` reads and writes, if the back end reports them (SQLite, while checking declarations).
    fn tables(&mut self, sql: &str) -> Option<Tables>;
}

/// The tables that a statement uses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tables {
    pub read: Vec<String>,
    pub written: Vec<String>,
}

/// The tables that the SELECTs of a query have read.
#[derive(Clone, Debug, Default)]
pub(crate) struct TablesRead {
    pub all: Vec<String>,
    /// Those of the SELECTs that have found a row.
    pub found: Vec<String>,
}

/// A consistent view of the database, for reading.
pub struct Snapshot<'c> {
    conn: &'c mut dyn Connection,
    /// What the running query has declared; `None` while nobody needs it.
    dependencies: Option<Vec<Key>>,
    /// The tables read so far; only while declarations are checked.
    pub(crate) tables_read: Option<TablesRead>,
    /// The first error of a statement, not of the function that read its rows.
    failed: Option<Error>,
    /// See [`Snapshot::set_time`].
    time: Option<Time>,
}

/// The transaction of a command: its reads and writes become durable together or not at all.
pub struct Tx<'c> {
    snapshot: Snapshot<'c>,
    changed: Vec<Key>,
    wrote: bool,
    /// Entries of logs, which are written at the end.
    pub(crate) appended: Vec<Appended>,
    tables_written: Vec<String>,
}

/// The effects of a command that succeeded.
#[derive(Default)]
pub(crate) struct Done {
    /// The keys that it declared.
    pub(crate) changed: Vec<Key>,
    pub(crate) wrote: bool,
    /// The tables in which it changed a row, while declarations are checked.
    pub(crate) tables_written: Vec<String>,
    /// The command, if it declared keys.
    pub(crate) cause: Cause,
}

impl<'c> Snapshot<'c> {
    pub(crate) fn new(conn: &'c mut dyn Connection, checked: bool) -> Snapshot<'c> {
        Snapshot {
            conn,
            dependencies: None,
            tables_read: checked.then(TablesRead::default),
            failed: None,
            time: None,
        }
    }

    /// Says what time it is for the queries that run in this snapshot. The store has no clock.
    pub fn set_time(&mut self, now: Time) {
        self.time = Some(now);
    }

    /// The time that was set; `None` if nobody has set it.
    pub fn time(&self) -> Option<Time> {
        self.time
    }

    /// Declares that the result depends on these keys. The function that reads the rows calls it, with keys that the
    /// table's module makes. The keys are made only for a result that is cached or watched.
    pub fn depends<K: IntoIterator<Item = Key>>(&mut self, keys: impl FnOnce() -> K) {
        if let Some(dependencies) = &mut self.dependencies {
            dependencies.extend(keys());
        }
    }

    /// Runs `query` and returns its result with the keys that it declared, without duplicates.
    pub fn recorded<T, E>(
        &mut self,
        query: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<(T, Vec<Key>), E> {
        self.dependencies = Some(Vec::new());
        let result = query(self);
        let mut keys = self.dependencies.take().unwrap_or_default();
        keys.sort_unstable();
        keys.dedup();
        Ok((result?, keys))
    }

    /// All rows, each converted by `read`.
    pub fn all<T>(
        &mut self,
        sql: &Sql,
        args: &[Value<'_>],
        read: impl Fn(&Row<'_>) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let mut rows = Vec::new();
        self.each(sql, args, |row| {
            rows.push(read(row)?);
            Ok(true)
        })?;
        Ok(rows)
    }

    /// The wall clock of the database server; `None` for a file. It shows how far the clocks of machines differ, and is
    /// used for nothing else.
    pub fn server_time(&mut self) -> Result<Option<Time>, Error> {
        let clock = match self.conn.dialect() {
            Dialect::Sqlite => return Ok(None),
            Dialect::Postgres => &POSTGRES_CLOCK,
            Dialect::Mysql => &MYSQL_CLOCK,
        };
        self.one(clock, &[], |row| row.get(0).map(Time::from_millis))
    }

    /// The first row, if there is one.
    pub fn one<T>(
        &mut self,
        sql: &Sql,
        args: &[Value<'_>],
        read: impl Fn(&Row<'_>) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        let mut first = None;
        self.each(sql, args, |row| {
            first = Some(read(row)?);
            Ok(false)
        })?;
        Ok(first)
    }

    /// Passes each row of a SELECT to `visit` until it returns `false`.
    pub fn each(
        &mut self,
        sql: &Sql,
        args: &[Value<'_>],
        mut visit: impl FnMut(&Row<'_>) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let text = sql.text(self.conn.dialect());
        if is_write(text) {
            return self.note(Err(Error::Database(format!("run this with `exec` or `exec_one`: {text}"))));
        }
        let (mut own, mut found) = (false, false);
        let result = self.conn.query(text, args, &mut |source| {
            found = true;
            visit(&Row::new(source)).inspect_err(|_| own = true)
        });
        if let Some(read) = &mut self.tables_read {
            let tables = self.conn.tables(text).unwrap_or_default().read;
            if found {
                read.found.extend_from_slice(&tables);
            }
            read.all.extend(tables);
        }
        if own { result } else { self.note(result) }
    }

    /// The number of the version that it shows; `None` on a server without versions.
    pub(crate) fn version_number(&mut self) -> Result<Option<u64>, Error> {
        self.conn.version_number()
    }

    pub(crate) fn epoch(&self) -> Option<Epoch> {
        self.conn.epoch()
    }

    /// The number before which it has every commit.
    pub(crate) fn settled_number(&mut self) -> Result<Option<u64>, Error> {
        self.conn.settled_number()
    }

    pub(crate) fn dialect(&self) -> Dialect {
        self.conn.dialect()
    }

    pub(crate) fn prepare(&mut self, sql: &Sql) -> Result<(), Error> {
        self.conn.prepare(sql)
    }

    fn note<T>(&mut self, result: Result<T, Error>) -> Result<T, Error> {
        if let Err(error) = &result {
            self.failed.get_or_insert_with(|| error.clone());
        }
        result
    }
}

/// Whether a statement writes, also behind a WITH. One that also returns rows (RETURNING) would pass for a read: its command
/// would be committed without an entry in the log, or left out of its batch although it wrote.
fn is_write(text: &str) -> bool {
    let begins_with = |text: &str, words: &[&str]| {
        let first = text.trim_start().split(|letter: char| !letter.is_ascii_alphanumeric()).next();
        words.iter().any(|word| first.unwrap_or_default().eq_ignore_ascii_case(word))
    };
    match begins_with(text, &["WITH"]) {
        // A part of it, or the statement behind the parts.
        true => {
            text.split(['(', ')']).any(|part| begins_with(part, &["INSERT", "UPDATE", "DELETE", "MERGE"]))
        }
        false => begins_with(text, &["INSERT", "UPDATE", "DELETE", "MERGE", "REPLACE"]),
    }
}

impl<'c> Tx<'c> {
    pub(crate) fn new(conn: &'c mut dyn Connection, checked: bool) -> Tx<'c> {
        let snapshot = Snapshot::new(conn, checked);
        Tx { snapshot, changed: Vec::new(), wrote: false, appended: Vec::new(), tables_written: Vec::new() }
    }

    /// Runs a statement that writes. Returns the number of rows that matched.
    pub fn exec(&mut self, sql: &Sql, args: &[Value<'_>]) -> Result<u64, Error> {
        self.require_transaction()?;
        self.wrote = true;
        let text = sql.text(self.snapshot.conn.dialect());
        let result = self.snapshot.conn.execute(text, args);
        let count = self.snapshot.note(result)?;
        if count > 0
            && let Some(tables) = self.tables(text)
        {
            self.tables_written.extend(tables.written);
        }
        Ok(count)
    }

    /// Runs a statement that is to write one row. Returns whether it did.
    ///
    /// On PostgreSQL, batched commands do not wait for the answer: they are told that a row was written, and the answers
    /// are checked before the commit. If one is different, these commands are undone and run again, the one in question in
    /// a transaction of its own, where it is told the truth. So a command that was told a wrong answer leaves no trace, as
    /// long as it has no effects outside of its transaction.
    pub fn exec_one(&mut self, sql: &Sql, args: &[Value<'_>]) -> Result<bool, Error> {
        // Whether it wrote a row in a table that is checked, only its count says.
        if self.tables(sql.text(self.snapshot.conn.dialect())).is_some() {
            return self.exec(sql, args).map(|count| count == 1);
        }
        self.require_transaction()?;
        self.wrote = true;
        let result = self.snapshot.conn.execute_one(sql, args);
        self.snapshot.note(result)
    }

    fn require_transaction(&self) -> Result<(), Error> {
        match &self.snapshot.failed {
            Some(error) if !self.snapshot.conn.is_in_transaction() => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// The tables of a statement, while declarations are checked.
    fn tables(&mut self, text: &str) -> Option<Tables> {
        self.snapshot.tables_read.is_some().then(|| self.snapshot.conn.tables(text)).flatten()
    }

    /// Whether a statement that writes was run.
    pub(crate) fn has_written(&self) -> bool {
        self.wrote
    }

    /// Locks a row with a [`crate::lock`] statement before the command decides about it.
    pub fn lock(&mut self, lock: &Sql, value: Value<'_>) -> Result<(), Error> {
        if lock.text(self.snapshot.conn.dialect()).is_empty() {
            return Ok(());
        }
        self.snapshot.each(lock, &[value], |_| Ok(true))
    }

    /// Declares that this command changed the rows of `key`.
    pub fn changed(&mut self, key: Key) {
        self.changed.push(key);
    }

    /// All rows; see [`Snapshot::all`].
    pub fn all<T>(
        &mut self,
        sql: &Sql,
        args: &[Value<'_>],
        read: impl Fn(&Row<'_>) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        self.snapshot.all(sql, args, read)
    }

    /// The first row; see [`Snapshot::one`].
    pub fn one<T>(
        &mut self,
        sql: &Sql,
        args: &[Value<'_>],
        read: impl Fn(&Row<'_>) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        self.snapshot.one(sql, args, read)
    }

    /// The same transaction for functions that only read.
    pub fn snapshot(&mut self) -> &mut Snapshot<'c> {
        &mut self.snapshot
    }

    /// The effects of a command that ran with this result; `None` if it returned an error. Fails if a statement of it
    /// failed, or if it did not declare what it changed: then its own result must not be used.
    pub(crate) fn finish(
        mut self,
        ran: Result<bool, Error>,
        name: &'static str,
        watched: &[&str],
    ) -> Result<Option<Done>, Error> {
        if !ran? {
            return Ok(None);
        }
        if self.snapshot.failed.is_none() {
            self.write_log()?;
        }
        if let Some(error) = self.snapshot.failed {
            return Err(error);
        }
        let undeclared = self.tables_written.iter().find(|table| {
            watched.contains(&table.as_str()) && !self.changed.iter().any(|key| key.table_name() == *table)
        });
        match undeclared {
            Some(table) => Err(Error::Undeclared { name, table: table.clone() }),
            None => {
                let Tx { changed, wrote, tables_written, .. } = self;
                let cause = if changed.is_empty() { Cause::Unknown } else { Cause::One(name) };
                Ok(Some(Done { changed, wrote, tables_written, cause }))
            }
        }
    }
}
