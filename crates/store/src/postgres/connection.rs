//! A connection as Sarsen uses it: one transaction after another, statements kept prepared.
//!
//! Every setting is made for one transaction (`SET LOCAL`): nothing lives on the session but the
//! prepared statements. A connection remembers what went wrong inside a transaction, so that its
//! thread can tell a command that must run again from one that failed by itself.

use super::errors::{Trouble, translate};
use super::values::Bound;
use crate::tx::{self, Tables};
use crate::value::RowSource;
use crate::{Dialect, Error, Value};
use ::postgres::fallible_iterator::FallibleIterator as _;
use ::postgres::types::ToSql;
use ::postgres::{Client, Config, NoTls, Statement};
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
    /// By text. Gone with the connection, as on the server.
    statements: HashMap<String, Statement>,
    began: Instant,
    limit: Option<Duration>,
    /// The worst that happened since the transaction began.
    trouble: Option<(Trouble, Error)>,
}

impl Connection {
    /// Not to be called, nor dropped, on an asynchronous thread: the driver blocks.
    pub(super) fn open(config: &Config) -> Result<Connection, ::postgres::Error> {
        Ok(Connection {
            client: config.connect(NoTls)?,
            statements: HashMap::new(),
            began: Instant::now(),
            limit: None,
            trouble: None,
        })
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

impl tx::Connection for Connection {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn execute(&mut self, sql: &str, args: &[Value<'_>]) -> Result<u64, Error> {
        let statement = self.ready(sql, args.len())?;
        let bound: Vec<Bound<'_>> = args.iter().map(Bound).collect();
        let bound: Vec<&(dyn ToSql + Sync)> = bound.iter().map(|value| value as _).collect();
        let count = self.client.execute(&statement, &bound);
        count.map_err(|error| self.note(&error))
    }

    /// Reads to the end also when `each` has had enough: an error on the way there ends the
    /// transaction on the server, and a COMMIT would not say so.
    fn query(
        &mut self,
        sql: &str,
        args: &[Value<'_>],
        each: &mut dyn FnMut(&dyn RowSource) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let statement = self.ready(sql, args.len())?;
        let rows = self.client.query_raw(&statement, args.iter().map(Bound));
        let mut wanted = Ok(true);
        let ended = rows.and_then(|mut rows| {
            while let Some(row) = rows.next()? {
                if matches!(wanted, Ok(true)) {
                    wanted = each(&row);
                }
            }
            Ok(())
        });
        ended.map_err(|error| self.note(&error))?;
        wanted.map(|_| ())
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
