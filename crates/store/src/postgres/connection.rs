//! A connection as Sarsen uses it: one transaction after another, statements kept prepared.
//!
//! Every setting is made for one transaction (`SET LOCAL`): nothing lives on the session but the
//! prepared statements; behind a pooler not even these: then each statement is sent as text, with the
//! types that its arguments have. A connection remembers what went wrong inside a transaction, so that its
//! thread can tell a command that must run again from one that failed by itself.

use super::address::Server;
use super::errors::{Trouble, ended, refused, translate};
use super::values::{Bound, type_of};
use crate::tx::{self, Tables};
use crate::value::RowSource;
use crate::{Dialect, Error, Row, Value};
use ::postgres::fallible_iterator::FallibleIterator as _;
use ::postgres::types::{ToSql, Type};
use ::postgres::{Client, RowIter, Statement};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Statements kept prepared on each connection; the program has a few hundred.
const STATEMENTS_MAX: usize = 1024;
/// A command may run this long. Ten times what it may on SQLite: here each statement is a journey, and
/// a slow command holds up one of several connections, not everybody.
const COMMAND_LIMIT: Duration = Duration::from_secs(1);
/// A query may run this long, as on SQLite.
const QUERY_LIMIT: Duration = Duration::from_secs(5);

/// What a transaction is for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    Command,
    Query,
    /// The program's own housekeeping: at start …
    Schema,
    /// … and later.
    Trim,
}

impl Purpose {
    /// Begins the transaction with all of its settings, in one journey to the server. A lock is waited
    /// for a little less long than a command may run, so that it is told apart from slowness. A program
    /// that falls silent in a transaction loses it, and its locks, after 10 s.
    fn begin(self) -> &'static str {
        match self {
            Purpose::Command => {
                "BEGIN ISOLATION LEVEL SERIALIZABLE;
                 SET LOCAL synchronous_commit = on;
                 SET LOCAL statement_timeout = 1000;
                 SET LOCAL lock_timeout = 900;
                 SET LOCAL idle_in_transaction_session_timeout = 10000"
            }
            Purpose::Query => {
                "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
                 SET LOCAL statement_timeout = 5000;
                 SET LOCAL idle_in_transaction_session_timeout = 10000"
            }
            Purpose::Trim => {
                "BEGIN ISOLATION LEVEL READ COMMITTED;
                 SET LOCAL synchronous_commit = off;
                 SET LOCAL statement_timeout = 5000;
                 SET LOCAL lock_timeout = 500"
            }
            Purpose::Schema => {
                "BEGIN ISOLATION LEVEL READ COMMITTED;
                 SET LOCAL synchronous_commit = on;
                 SET LOCAL statement_timeout = 0;
                 SET LOCAL lock_timeout = 30000"
            }
        }
    }

    fn limit(self) -> Option<Duration> {
        match self {
            Purpose::Command => Some(COMMAND_LIMIT),
            Purpose::Query | Purpose::Trim => Some(QUERY_LIMIT),
            Purpose::Schema => None,
        }
    }
}

/// An open connection and what happened in its transaction.
pub(super) struct Connection {
    client: Client,
    /// Nothing may live on the session.
    pooled: bool,
    /// By text. Gone with the connection, as on the server.
    statements: HashMap<String, Statement>,
    began: Instant,
    limit: Option<Duration>,
    /// The worst that happened since the transaction began.
    trouble: Option<(Trouble, Error)>,
}

impl Connection {
    /// Not to be called, nor dropped, on an asynchronous thread: the driver blocks.
    pub(super) fn open(server: &Server) -> Result<Connection, ::postgres::Error> {
        Ok(Connection {
            client: server.connect()?,
            pooled: server.pooled,
            statements: HashMap::new(),
            began: Instant::now(),
            limit: None,
            trouble: None,
        })
    }

    /// The same, for who does not ask whether waiting may help.
    pub(super) fn reach(server: &Server) -> Result<Connection, Error> {
        Connection::open(server).map_err(|error| refused(&error).1)
    }

    pub(super) fn begin(&mut self, purpose: Purpose) -> Result<(), Error> {
        self.began = Instant::now();
        self.limit = purpose.limit();
        self.trouble = None;
        self.batch(purpose.begin())
    }

    /// Returns when the transaction is on disk. Refuses what the server would silently roll back: a
    /// transaction with a failed statement.
    pub(super) fn commit(&mut self) -> Result<(), Error> {
        match &self.trouble {
            Some((_, error)) => Err(error.clone()),
            None => self.batch("COMMIT"),
        }
    }

    /// Undoes the transaction; false when the connection is of no more use.
    pub(super) fn roll_back(&mut self) -> bool {
        !self.is_lost() && self.client.batch_execute("ROLLBACK").is_ok()
    }

    /// The worst that happened since the transaction began.
    pub(super) fn trouble(&self) -> Option<(Trouble, Error)> {
        self.trouble.clone()
    }

    pub(super) fn is_lost(&self) -> bool {
        self.client.is_closed() || matches!(self.trouble, Some((Trouble::Lost, _)))
    }

    /// Runs statements that have no arguments and give no rows.
    pub(super) fn batch(&mut self, sql: &str) -> Result<(), Error> {
        let result = self.client.batch_execute(sql);
        result.map_err(|error| self.note(&error))
    }

    /// Runs statements outside of a transaction.
    pub(super) fn alone(&mut self, sql: &str) -> Result<(), Error> {
        (self.limit, self.trouble) = (None, None);
        self.batch(sql)
    }

    /// Runs one query outside of a transaction, planned for what the tables hold now.
    pub(super) fn query_alone(
        &mut self,
        sql: &str,
        args: &[Value<'_>],
        each: &mut dyn FnMut(&dyn RowSource) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        (self.limit, self.trouble) = (None, None);
        let rows = self.client.query_typed_raw(sql, args.iter().map(|value| (Bound(value), type_of(value))));
        let ended = rows.and_then(|rows| hand_out(rows, each));
        ended.map_err(|error| self.note(&error))?
    }

    /// The number of the server's process at the other end.
    pub(super) fn server_process(&mut self) -> Result<i32, Error> {
        let mut number = 0_i64;
        self.query_alone("SELECT pg_backend_pid()", &[], &mut |row| {
            number = Row::new(row).get(0)?;
            Ok(false)
        })?;
        i32::try_from(number).map_err(|_| Error::Database("a process number that is too large".to_owned()))
    }

    /// Waits for a wake-up, for `most` at most; true when one came that `own` did not send.
    pub(super) fn heard(&mut self, most: Duration, own: i32) -> Result<bool, Error> {
        let began = Instant::now();
        let first = self.client.notifications().timeout_iter(most).next();
        let Some(first) = first.map_err(|error| self.note(&error))? else {
            // The driver says the same of a time that is over and of a connection that is.
            return if began.elapsed() < most / 2 { Err(ended()) } else { Ok(false) };
        };
        let mut foreign = first.process_id() != own;
        let mut notifications = self.client.notifications();
        let mut others = notifications.iter();
        while let Ok(Some(next)) = others.next() {
            foreign |= next.process_id() != own;
        }
        Ok(foreign)
    }

    /// Remembers what went wrong; the worst is kept.
    fn note(&mut self, error: &::postgres::Error) -> Error {
        let (trouble, error) = translate(error, self.limit.unwrap_or_default());
        self.fail(trouble, error)
    }

    fn fail(&mut self, trouble: Trouble, error: Error) -> Error {
        if self.trouble.as_ref().is_none_or(|(known, _)| *known < trouble) {
            self.trouble = Some((trouble, error.clone()));
        }
        error
    }

    /// The server stops a statement that is too slow; many quick ones are counted here.
    fn in_time(&mut self) -> Result<(), Error> {
        match self.limit {
            Some(limit) if self.began.elapsed() > limit => {
                Err(self.fail(Trouble::Failed, Error::TooSlow { limit }))
            }
            _ => Ok(()),
        }
    }

    /// The statement, prepared now or before, after a look at the clock and at the arguments' number.
    fn ready(&mut self, sql: &str, args: usize) -> Result<Statement, Error> {
        self.in_time()?;
        let statement = match self.statements.get(sql) {
            Some(statement) => statement.clone(),
            None => {
                let prepared = self.client.prepare(sql);
                let statement = prepared.map_err(|error| self.note(&error))?;
                if self.statements.len() == STATEMENTS_MAX {
                    self.statements.clear();
                }
                self.statements.insert(sql.to_owned(), statement.clone());
                statement
            }
        };
        let expected = statement.params().len();
        if expected != args {
            let text = format!("{expected} arguments expected, {args} given: {sql}");
            return Err(self.fail(Trouble::Failed, Error::Database(text)));
        }
        Ok(statement)
    }
}

/// Hands out rows until `each` has had enough, but reads to the end: an error on the way there ends the
/// transaction on the server, and a COMMIT would not say so.
fn hand_out(
    mut rows: RowIter<'_>,
    each: &mut dyn FnMut(&dyn RowSource) -> Result<bool, Error>,
) -> Result<Result<(), Error>, ::postgres::Error> {
    let mut wanted = Ok(true);
    while let Some(row) = rows.next()? {
        if matches!(wanted, Ok(true)) {
            wanted = each(&row);
        }
    }
    Ok(wanted.map(|_| ()))
}

impl tx::Connection for Connection {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn execute(&mut self, sql: &str, args: &[Value<'_>]) -> Result<u64, Error> {
        if self.pooled {
            self.in_time()?;
            let bound: Vec<Bound<'_>> = args.iter().map(Bound).collect();
            let typed = bound.iter().map(|value| (value as &(dyn ToSql + Sync), type_of(value.0)));
            let typed: Vec<(&(dyn ToSql + Sync), Type)> = typed.collect();
            let count = self.client.execute_typed(sql, &typed);
            return count.map_err(|error| self.note(&error));
        }
        let statement = self.ready(sql, args.len())?;
        let bound: Vec<Bound<'_>> = args.iter().map(Bound).collect();
        let bound: Vec<&(dyn ToSql + Sync)> = bound.iter().map(|value| value as _).collect();
        let count = self.client.execute(&statement, &bound);
        count.map_err(|error| self.note(&error))
    }

    fn query(
        &mut self,
        sql: &str,
        args: &[Value<'_>],
        each: &mut dyn FnMut(&dyn RowSource) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let rows = if self.pooled {
            self.in_time()?;
            self.client.query_typed_raw(sql, args.iter().map(|value| (Bound(value), type_of(value))))
        } else {
            let statement = self.ready(sql, args.len())?;
            self.client.query_raw(&statement, args.iter().map(Bound))
        };
        let ended = rows.and_then(|rows| hand_out(rows, each));
        ended.map_err(|error| self.note(&error))?
    }

    fn prepare(&mut self, sql: &str) -> Result<(), Error> {
        let prepared = self.client.prepare(sql);
        prepared.map(|_| ()).map_err(|error| match self.note(&error) {
            Error::Database(text) => Error::Database(format!("{text}: {sql}")),
            other => other,
        })
    }

    /// The server does not tell.
    fn tables(&mut self, _sql: &str) -> Option<Tables> {
        None
    }
}
