//! What a command or a query may do with the database.

use crate::value::RowSource;
use crate::{Dialect, Error, Key, Row, Sql, Value};

/// A back end's connection, as commands and queries need it.
pub(crate) trait Connection {
    fn dialect(&self) -> Dialect;
    /// Runs a statement; the count of rows that matched.
    fn execute(&mut self, sql: &str, args: &[Value<'_>]) -> Result<u64, Error>;
    /// Runs a statement of a migration that an earlier start may have run already: then it is done. Only where such
    /// statements commit one by one.
    fn execute_again(&mut self, sql: &str) -> Result<(), Error> {
        self.execute(sql, &[]).map(drop)
    }
    /// Runs a SELECT and hands each row to `each`, which says whether to go on.
    fn query(
        &mut self,
        sql: &str,
        args: &[Value<'_>],
        each: &mut dyn FnMut(&dyn RowSource) -> Result<bool, Error>,
    ) -> Result<(), Error>;
    /// Prepares a statement without running it.
    fn prepare(&mut self, sql: &str) -> Result<(), Error>;
    /// The tables that `sql` reads and writes, where the back end can tell (SQLite, when checking).
    fn tables(&mut self, sql: &str) -> Option<Tables>;
}

/// Which tables a statement touches.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tables {
    pub read: Vec<String>,
    pub written: Vec<String>,
}

/// A consistent view of the database, for reading.
pub struct Snapshot<'c> {
    conn: &'c mut dyn Connection,
    /// When declarations are checked: the tables read so far.
    pub(crate) tables_read: Option<Vec<String>>,
    /// The first error of a statement (not of the code that read its rows).
    failed: Option<Error>,
}

/// The inside of a command: reads and writes that become durable together, or not at all.
pub struct Tx<'c> {
    snapshot: Snapshot<'c>,
    changed: Vec<Key>,
    wrote: bool,
    tables_written: Vec<String>,
}

/// What a command did that is worth keeping.
pub(crate) struct Done {
    /// The keys that it declared.
    pub(crate) changed: Vec<Key>,
    pub(crate) wrote: bool,
}

impl<'c> Snapshot<'c> {
    pub(crate) fn new(conn: &'c mut dyn Connection, checked: bool) -> Snapshot<'c> {
        Snapshot { conn, tables_read: checked.then(Vec::new), failed: None }
    }

    /// Every row, made into `T` by `read`.
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

    /// Hands each row to `visit` until it answers `false`.
    pub fn each(
        &mut self,
        sql: &Sql,
        args: &[Value<'_>],
        mut visit: impl FnMut(&Row<'_>) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let text = sql.text(self.conn.dialect());
        if let Some(read) = &mut self.tables_read {
            read.extend(self.conn.tables(text).unwrap_or_default().read);
        }
        let mut own = false;
        let result =
            self.conn.query(text, args, &mut |source| visit(&Row::new(source)).inspect_err(|_| own = true));
        if own { result } else { self.note(result) }
    }

    pub(crate) fn prepare(&mut self, text: &str) -> Result<(), Error> {
        self.conn.prepare(text)
    }

    fn note<T>(&mut self, result: Result<T, Error>) -> Result<T, Error> {
        if let Err(error) = &result {
            self.failed.get_or_insert_with(|| error.clone());
        }
        result
    }
}

impl<'c> Tx<'c> {
    pub(crate) fn new(conn: &'c mut dyn Connection, checked: bool) -> Tx<'c> {
        let snapshot = Snapshot::new(conn, checked);
        Tx { snapshot, changed: Vec::new(), wrote: false, tables_written: Vec::new() }
    }

    /// Runs a statement that writes; the count of rows that matched.
    pub fn exec(&mut self, sql: &Sql, args: &[Value<'_>]) -> Result<u64, Error> {
        let text = sql.text(self.snapshot.conn.dialect());
        if self.snapshot.tables_read.is_some() {
            self.tables_written.extend(self.snapshot.conn.tables(text).unwrap_or_default().written);
        }
        self.wrote = true;
        let result = self.snapshot.conn.execute(text, args);
        self.snapshot.note(result)
    }

    /// Takes a row by a [`crate::lock`] statement before deciding about it.
    pub fn lock(&mut self, lock: &Sql, value: Value<'_>) -> Result<(), Error> {
        if lock.text(self.snapshot.conn.dialect()).is_empty() {
            return Ok(());
        }
        self.snapshot.each(lock, &[value], |_| Ok(true))
    }

    /// Declares that this command changed what `key` names.
    pub fn changed(&mut self, key: Key) {
        self.changed.push(key);
    }

    /// Every row; see [`Snapshot::all`].
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

    /// The same view for functions that only read.
    pub fn snapshot(&mut self) -> &mut Snapshot<'c> {
        &mut self.snapshot
    }

    /// What is to be kept of a command that ran so; `None` when it failed by itself. An error when its
    /// result must not be believed: a statement of it failed, or it did not declare what it changed.
    pub(crate) fn finish(
        self,
        ran: Result<bool, Error>,
        name: &'static str,
        watched: &[&str],
    ) -> Result<Option<Done>, Error> {
        if !ran? {
            return Ok(None);
        }
        if let Some(error) = self.snapshot.failed {
            return Err(error);
        }
        let undeclared = self.tables_written.iter().find(|table| {
            watched.contains(&table.as_str()) && !self.changed.iter().any(|key| key.table_name() == *table)
        });
        match undeclared {
            Some(table) => Err(Error::Undeclared { name, table: table.clone() }),
            None => Ok(Some(Done { changed: self.changed, wrote: self.wrote })),
        }
    }
}
