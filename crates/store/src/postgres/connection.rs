//! A connection as Sarsen uses it: one transaction after another, statements kept prepared.
//!
//! Every setting is made for one transaction (`SET LOCAL`): nothing lives on the session but the
//! prepared statements; behind a pooler not even these: then each statement is sent as text, with the
//! types that its arguments have. A connection keeps the error inside of a transaction, so that its
//! thread can distinguish a command that must run again from one that failed by itself.

use super::address::Server;
use super::errors::{closed, connect_error, follows_another, translate};
use super::pg_snapshot::PgSnapshot;
use super::values::{Bound, for_each_row, type_of};
use super::{change_log, cluster, tx_mode};
use crate::remote::{Failure, ReconnectingSession, Session, SnapshotInfo, TxMode, contended};
use crate::tx::{self, Tables};
use crate::value::RowSource;
use crate::{Dialect, Error, Value};
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
    /// A transaction on a server in recovery is refused.
    is_primary: bool,
    /// By text. Gone with the connection, as on the server.
    statements: HashMap<String, Statement>,
    began: Instant,
    limit: Option<Duration>,
    /// What the open transaction can see, when it is for a query.
    snapshot: Option<PgSnapshot>,
    /// The server followed another one when it was asked.
    in_recovery: bool,
    /// The worst that happened since the transaction began.
    failure: Option<(Failure, Error)>,
}

impl Connection {
    /// Opens one, for a caller that does not retry.
    pub(super) fn connect(server: &Server) -> Result<Connection, Error> {
        Connection::open(server).map_err(|(_, error)| error)
    }

    /// Runs statements that have no arguments and give no rows.
    pub(super) fn batch(&mut self, sql: &str) -> Result<(), Error> {
        let result = self.client.batch_execute(sql);
        result.map_err(|error| self.note(&error))
    }

    /// Runs statements outside of a transaction.
    pub(super) fn batch_outside_tx(&mut self, sql: &str) -> Result<(), Error> {
        (self.limit, self.failure) = (None, None);
        self.batch(sql)
    }

    /// Runs one query outside of a transaction, planned for what the tables hold now.
    pub(super) fn query_outside_tx(
        &mut self,
        sql: &str,
        args: &[Value<'_>],
        each: &mut dyn FnMut(&dyn RowSource) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        (self.limit, self.failure) = (None, None);
        let rows = self.client.query_typed_raw(sql, args.iter().map(|value| (Bound(value), type_of(value))));
        let ended = rows.and_then(|rows| for_each_row(rows, each));
        ended.map_err(|error| self.note(&error))?
    }

    /// Waits for a wake-up, for `most` at most; true when one came that `own` did not send.
    pub(super) fn wait_for_notification(&mut self, most: Duration, own: i32) -> Result<bool, Error> {
        let began = Instant::now();
        let first = self.client.notifications().timeout_iter(most).next();
        let Some(first) = first.map_err(|error| self.note(&error))? else {
            // The driver says the same of a time that is over and of a connection that is.
            return if began.elapsed() < most / 2 { Err(closed()) } else { Ok(false) };
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
        let (failure, error) = translate(error, self.limit.unwrap_or_default());
        self.fail(failure, error)
    }

    fn fail(&mut self, failure: Failure, error: Error) -> Error {
        if self.failure.as_ref().is_none_or(|(known, _)| *known < failure) {
            self.failure = Some((failure, error.clone()));
        }
        error
    }

    /// What can be seen, as the last of these statements says; and perhaps, whether the server follows another one.
    fn read_snapshot(&mut self, sql: &str) -> Result<PgSnapshot, Error> {
        let row = self.first_row(sql)?;
        self.in_recovery = row.as_ref().is_some_and(|row| row.len() > 1 && row.get(1) == Some("t"));
        row.and_then(|row| row.get(0).and_then(PgSnapshot::parse))
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

    /// Fails if the server follows another one: it may be behind, and refuses writes.
    fn check_primary(&mut self) -> Result<(), Error> {
        let row = self.first_row("SELECT pg_is_in_recovery()")?;
        match row.is_some_and(|row| row.get(0) == Some("t")) {
            true => Err(follows_another()),
            false => Ok(()),
        }
    }

    /// What can be seen now, outside of a transaction.
    fn current_snapshot(&mut self) -> Result<PgSnapshot, Error> {
        (self.limit, self.failure) = (None, None);
        self.read_snapshot(tx_mode::SNAPSHOT)
    }

    /// The server stops a statement that is too slow; many quick ones are counted here.
    fn check_time(&mut self) -> Result<(), Error> {
        match self.limit {
            Some(limit) if self.began.elapsed() > limit => {
                Err(self.fail(Failure::Fatal, Error::TooSlow { limit }))
            }
            _ => Ok(()),
        }
    }

    /// The statement, prepared now or before, after a look at the clock and at the arguments' number.
    fn prepared(&mut self, sql: &str, args: usize) -> Result<Statement, Error> {
        self.check_time()?;
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
            return Err(self.fail(Failure::Fatal, Error::Database(text)));
        }
        Ok(statement)
    }
}

impl Session for Connection {
    type Address = Server;

    /// Not to be called, nor dropped, on an asynchronous thread: the driver blocks.
    fn open(server: &Server) -> Result<Connection, (bool, Error)> {
        let mut connection = Connection {
            client: server.connect().map_err(|error| connect_error(&error))?,
            pooled: server.pooled,
            is_primary: server.is_primary,
            statements: HashMap::new(),
            began: Instant::now(),
            limit: None,
            snapshot: None,
            in_recovery: false,
            failure: None,
        };
        if server.is_primary {
            connection.check_primary().map_err(|error| (true, error))?;
        }
        Ok(connection)
    }

    fn begin(&mut self, mode: TxMode) -> Result<(), Error> {
        self.began = Instant::now();
        self.limit = tx_mode::limit(mode);
        (self.failure, self.snapshot) = (None, None);
        if !matches!(mode, TxMode::Query | TxMode::Replica) {
            // A connection on which no transaction begins is replaced: behind a pooler it may lead to a standby.
            let begun = self.batch(tx_mode::begin(mode));
            return begun.map_err(|error| self.fail(Failure::ConnectionLost, error));
        }
        let snapshot = self.read_snapshot(tx_mode::begin(mode))?;
        if self.in_recovery && self.is_primary {
            return Err(self.fail(Failure::ConnectionLost, follows_another()));
        }
        self.snapshot = Some(snapshot);
        Ok(())
    }

    /// Returns when the transaction is on disk. Refuses what the server would silently roll back: a
    /// transaction with a failed statement.
    fn commit(&mut self) -> Result<(), Error> {
        match &self.failure {
            Some((_, error)) => Err(error.clone()),
            None => self.batch("COMMIT"),
        }
    }

    fn roll_back(&mut self) -> bool {
        !self.is_lost() && self.client.batch_execute("ROLLBACK").is_ok()
    }

    /// A conflict with another transaction is not a failure, whichever error the server reports.
    fn failure(&self) -> Option<(Failure, Error)> {
        match &self.failure {
            Some((Failure::Retryable, _)) => Some((Failure::Retryable, contended())),
            met => met.clone(),
        }
    }

    fn is_lost(&self) -> bool {
        self.client.is_closed() || matches!(self.failure, Some((Failure::ConnectionLost, _)))
    }

    fn snapshot_info(&self) -> Option<SnapshotInfo> {
        self.snapshot.as_ref().map(|snapshot| SnapshotInfo {
            horizon: snapshot.xmin(),
            end: snapshot.xmax(),
            in_recovery: self.in_recovery,
        })
    }

    /// What the replica's snapshot shows can only be told from the log that is in it.
    fn is_ahead_of(&mut self, primary: &mut ReconnectingSession<Connection>) -> Result<bool, Error> {
        let Some(next) = self.snapshot.as_ref().map(PgSnapshot::xmax) else { return Ok(false) };
        let primary = primary.query(Connection::current_snapshot)?;
        if primary.includes_all_before(next) { Ok(false) } else { change_log::shows_more(self, &primary) }
    }

    fn place(server: &Server) -> String {
        server.place()
    }

    fn cluster(&mut self) -> Result<Option<String>, Error> {
        cluster::of(self)
    }

    fn newest(&mut self) -> Option<u64> {
        // Who begins the next transaction notices a connection that was lost.
        self.current_snapshot().ok().map(|snapshot| snapshot.xmax())
    }
}

impl tx::Connection for Connection {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn execute(&mut self, sql: &str, args: &[Value<'_>]) -> Result<u64, Error> {
        if self.pooled {
            self.check_time()?;
            let bound: Vec<Bound<'_>> = args.iter().map(Bound).collect();
            let typed = bound.iter().map(|value| (value as &(dyn ToSql + Sync), type_of(value.0)));
            let typed: Vec<(&(dyn ToSql + Sync), Type)> = typed.collect();
            let count = self.client.execute_typed(sql, &typed);
            return count.map_err(|error| self.note(&error));
        }
        let statement = self.prepared(sql, args.len())?;
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
            self.check_time()?;
            self.client.query_typed_raw(sql, args.iter().map(|value| (Bound(value), type_of(value))))
        } else {
            let statement = self.prepared(sql, args.len())?;
            self.client.query_raw(&statement, args.iter().map(Bound))
        };
        let ended = rows.and_then(|rows| for_each_row(rows, each));
        ended.map_err(|error| self.note(&error))?
    }

    fn prepare(&mut self, sql: &str) -> Result<(), Error> {
        let prepared = self.client.prepare(sql);
        prepared.map(|_| ()).map_err(|error| match self.note(&error) {
            Error::Database(text) => Error::Database(format!("{text}: {sql}")),
            other => other,
        })
    }

    fn version_number(&mut self) -> Result<Option<u64>, Error> {
        Ok(self.snapshot.as_ref().map(PgSnapshot::xmax))
    }

    fn settled_number(&mut self) -> Result<Option<u64>, Error> {
        Ok(self.snapshot.as_ref().map(PgSnapshot::xmin))
    }

    /// The server does not report it.
    fn tables(&mut self, _sql: &str) -> Option<Tables> {
        None
    }
}
