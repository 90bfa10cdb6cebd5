//! A connection as Sarsen uses it: one transaction after another, statements kept prepared.
//!
//! Every setting is made for one transaction (`SET LOCAL`): nothing lives on the session but the
//! prepared statements; behind a pooler not even these: then each statement is sent as text, with the
//! types that its arguments have. A connection remembers what went wrong inside a transaction, so that its
//! thread can tell a command that must run again from one that failed by itself.

use super::address::Server;
use super::errors::{ended, refused, translate};
use super::seen::Seen;
use super::values::{Bound, hand_out, type_of};
use super::{cluster, log, purpose};
use crate::remote::{Link, Purpose, Session, Trouble, View, contended};
use crate::tx::{self, Tables};
use crate::value::RowSource;
use crate::{Dialect, Error, Value, Version};
use ::postgres::fallible_iterator::FallibleIterator as _;
use ::postgres::types::{ToSql, Type};
use ::postgres::{Client, SimpleQueryMessage, SimpleQueryRow, Statement};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Statements kept prepared on each connection; the program has a few hundred.
const STATEMENTS_MAX: usize = 1024;

/// An open connection and what happened in its transaction.
pub(super) struct Connection {
    client: Client,
    /// Nothing may live on the session.
    pooled: bool,
    /// By text. Gone with the connection, as on the server.
    statements: HashMap<String, Statement>,
    began: Instant,
    limit: Option<Duration>,
    /// What the open transaction can see, when it is for a query.
    view: Option<Seen>,
    /// The server followed another one when it was asked.
    follows: bool,
    /// The worst that happened since the transaction began.
    trouble: Option<(Trouble, Error)>,
}

impl Connection {
    /// Opens one, for who does not ask whether waiting may help.
    pub(super) fn reach(server: &Server) -> Result<Connection, Error> {
        Connection::open(server).map_err(|(_, error)| error)
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

    /// What can be seen, as the last of these statements says; and perhaps, whether the server follows another one.
    fn look(&mut self, sql: &str) -> Result<Seen, Error> {
        let row = self.first_row(sql)?;
        self.follows = row.as_ref().is_some_and(|row| row.len() > 1 && row.get(1) == Some("t"));
        row.and_then(|row| row.get(0).and_then(Seen::parse))
            .ok_or_else(|| Error::Database("a query began without a snapshot".to_owned()))
    }

    /// In the words of the server, and one journey.
    pub(super) fn first_row(&mut self, sql: &str) -> Result<Option<SimpleQueryRow>, Error> {
        let answers = self.client.simple_query(sql).map_err(|error| self.note(&error))?;
        Ok(answers.into_iter().find_map(|answer| match answer {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        }))
    }

    /// What can be seen now, outside of a transaction.
    fn now(&mut self) -> Result<Seen, Error> {
        (self.limit, self.trouble) = (None, None);
        self.look(purpose::LOOK)
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

impl Session for Connection {
    type Address = Server;

    /// Not to be called, nor dropped, on an asynchronous thread: the driver blocks.
    fn open(server: &Server) -> Result<Connection, (bool, Error)> {
        Ok(Connection {
            client: server.connect().map_err(|error| refused(&error))?,
            pooled: server.pooled,
            statements: HashMap::new(),
            began: Instant::now(),
            limit: None,
            view: None,
            follows: false,
            trouble: None,
        })
    }

    fn begin(&mut self, purpose: Purpose) -> Result<(), Error> {
        self.began = Instant::now();
        self.limit = purpose::limit(purpose);
        (self.trouble, self.view) = (None, None);
        if !matches!(purpose, Purpose::Query | Purpose::Replica) {
            return self.batch(purpose::begin(purpose));
        }
        self.view = Some(self.look(purpose::begin(purpose))?);
        Ok(())
    }

    /// Returns when the transaction is on disk. Refuses what the server would silently roll back: a
    /// transaction with a failed statement.
    fn commit(&mut self) -> Result<(), Error> {
        match &self.trouble {
            Some((_, error)) => Err(error.clone()),
            None => self.batch("COMMIT"),
        }
    }

    fn roll_back(&mut self) -> bool {
        !self.is_lost() && self.client.batch_execute("ROLLBACK").is_ok()
    }

    /// To meet another transaction is nothing wrong, in whatever words the server says so.
    fn trouble(&self) -> Option<(Trouble, Error)> {
        match &self.trouble {
            Some((Trouble::Again, _)) => Some((Trouble::Again, contended())),
            met => met.clone(),
        }
    }

    fn is_lost(&self) -> bool {
        self.client.is_closed() || matches!(self.trouble, Some((Trouble::Lost, _)))
    }

    fn view(&self) -> Option<View> {
        self.view.as_ref().map(|seen| View {
            whole: seen.horizon(),
            next: seen.next(),
            follows: self.follows,
        })
    }

    /// What the replica's snapshot shows can only be told from the log that is in it.
    fn is_ahead_of(&mut self, primary: &mut Link<Connection>) -> Result<bool, Error> {
        let Some(next) = self.view.as_ref().map(Seen::next) else { return Ok(false) };
        let primary = primary.ask(Connection::now)?;
        if primary.holds_all_before(next) { Ok(false) } else { log::shows_more(self, &primary) }
    }

    fn place(server: &Server) -> String {
        server.place()
    }

    fn cluster(&mut self) -> Result<Option<String>, Error> {
        cluster::of(self)
    }

    fn newest(&mut self) -> Option<Version> {
        // Who begins the next transaction notices a connection that was lost.
        self.now().ok().map(|seen| seen.next())
    }
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
