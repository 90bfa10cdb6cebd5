//! A connection as Sarsen uses it: one transaction after another, statements kept prepared.
//!
//! Settings and prepared statements live on the session. Behind a pooler nothing does: then settings are made for one
//! transaction (`SET LOCAL`), and each statement is sent as text, with the types that its arguments have. A connection
//! keeps the error inside of a transaction, so that its thread can distinguish a command that must run again from one
//! that failed by itself.
//!
//! Of commands that share a transaction, a statement that is to write one row is not waited for: it goes to the server
//! with the next one that is (`execute_one`). A wrong answer fails the transaction then. Where several commands run the
//! same insert or update one after another, the server gets one statement over arrays.

use super::address::Server;
use super::client::{Client, Prepared};
use super::epochs::{self, Epochs, Origin};
use super::errors::{closed, flushes_late, follows_another, is_lock_timeout, is_unsupported, translate};
use super::pg_snapshot::PgSnapshot;
use super::values::{Bound, for_each_row};
use super::{change_log, cluster, tx_mode};
use crate::remote::{Failure, ReconnectingSession, Session, SnapshotInfo, TxMode, contended};
use crate::tx::{self, Tables};
use crate::value::RowSource;
use crate::version::Epoch;
use crate::{Dialect, Error, Row, Sql, Value};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{SimpleQueryMessage, SimpleQueryRow, Statement};

/// Statements kept prepared on each connection; the program has a few hundred.
const STATEMENTS_MAX: usize = 1024;
/// Different statements that are not waited for, at most: what they take together is not known before the next one.
const QUEUED_MAX: usize = 8;
/// The same behind a pooler, where each row is a statement.
const QUEUED_ROWS_MAX: usize = 32;
/// Rows that one statement writes, at most.
const ROWS_MAX: usize = 256;

/// An open connection and what happened in its transaction.
pub(super) struct Connection {
    client: Client,
    /// Nothing may live on the session.
    pooled: bool,
    /// A transaction on a server in recovery is refused.
    is_primary: bool,
    /// A session may say how its commits are flushed.
    may_set_commit: bool,
    epochs: Arc<Epochs>,
    /// How many histories the server had when this was opened.
    histories_before: u64,
    /// That of the numbers of versions. `None` before it is known, on a replica, and where versions are not needed.
    epoch: Option<Epoch>,
    /// What the settings of the session are for; `None` before there are any, and behind a pooler.
    settings: Option<TxMode>,
    /// By text. Gone with the connection, as on the server.
    statements: HashMap<String, Statement>,
    /// By the text for one row: the statement for many, where there is one.
    over_rows: HashMap<String, Option<Statement>>,
    /// The last statements that are not waited for, if they can become one.
    rows: Option<Rows>,
    began: Instant,
    limit: Option<Duration>,
    /// What the open transaction can see, when it is for a query.
    snapshot: Option<PgSnapshot>,
    /// Where the ids of that snapshot come from, where it says so.
    origin: Option<Origin>,
    /// Several commands share the transaction, and are run one by one if it fails.
    is_batch: bool,
    /// The server followed another one when it was asked.
    in_recovery: bool,
    /// The worst that happened since the transaction began.
    failure: Option<(Failure, Error)>,
    /// A statement of the open transaction failed that was not waited for.
    failed_unwaited: bool,
}

/// What one statement may write for several commands.
struct Rows {
    one: Statement,
    many: Statement,
    /// The text of `one`.
    text: String,
    /// The number of arguments that say which row is changed. No two are for the same row.
    keys: usize,
    args: Vec<Vec<Value<'static>>>,
}

impl Rows {
    /// Whether this row can be written by the same statement.
    fn accept(&self, text: &str, args: &[Value<'static>]) -> bool {
        let is_new = || self.args.iter().all(|others| others.get(..self.keys) != args.get(..self.keys));
        self.text == text && self.args.len() < ROWS_MAX && (self.keys == 0 || is_new())
    }
}

impl Connection {
    /// Opens one, for a caller that does not retry.
    pub(super) fn connect(server: &Server) -> Result<Connection, Error> {
        Connection::open(server).map_err(|(_, error)| error)
    }

    /// Runs statements that have no arguments and give no rows.
    pub(super) fn batch(&mut self, sql: &str) -> Result<(), Error> {
        self.ask(|client| async move { client.batch_execute(sql).await })
    }

    /// Runs statements outside of a transaction.
    pub(super) fn batch_outside_tx(&mut self, sql: &str) -> Result<(), Error> {
        (self.limit, self.failure) = (None, None);
        self.client.limit(Some(tx_mode::QUERY_LIMIT));
        self.batch(sql)
    }

    /// The same for statements that may read a whole log.
    pub(super) fn long_batch_outside_tx(&mut self, sql: &str) -> Result<(), Error> {
        (self.limit, self.failure) = (None, None);
        self.client.limit(None);
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
        self.client.limit(Some(tx_mode::QUERY_LIMIT));
        self.query_text(sql, args, each)
    }

    /// Runs a query that is sent as text, with the types that its arguments have.
    fn query_text(
        &mut self,
        sql: &str,
        args: &[Value<'_>],
        each: &mut dyn FnMut(&dyn RowSource) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let typed = args.iter().map(|value| (Bound(value), Bound(value).own_type()));
        self.ask(|client| async move { for_each_row(client.query_typed_raw(sql, typed).await?, each).await })?
    }

    /// Sends a request, with the statements that are not waited for before it, and waits for all answers.
    fn ask<T, F: Future<Output = Result<T, tokio_postgres::Error>>>(
        &mut self,
        request: impl FnOnce(Arc<tokio_postgres::Client>) -> F,
    ) -> Result<T, Error> {
        self.queue_rows();
        let (queued, answer) = self.client.run(request);
        let mut failed = None;
        for (rows, matched) in queued {
            let error = match matched {
                Ok(matched) if matched == rows => continue,
                Ok(matched) => {
                    let text = format!("statements that were to write {rows} rows matched {matched}");
                    self.fail(Failure::Fatal, Error::Database(text))
                }
                Err(error) => self.note(&error),
            };
            self.failed_unwaited = true;
            failed.get_or_insert(error);
        }
        let answer = answer.map_err(|error| self.note(&error));
        failed.map_or(answer, Err)
    }

    /// Queues the rows that were gathered for one statement.
    fn queue_rows(&mut self) {
        let Some(Rows { one, many, mut args, .. }) = self.rows.take() else { return };
        match args.pop() {
            Some(args_of_one) if args.is_empty() => self.client.queue(Prepared::Named(one), args_of_one),
            Some(last) => {
                args.push(last);
                self.client.queue_rows(many, args);
            }
            None => {}
        }
    }

    /// The statement that does for many rows what `one`, which is `sql`, does for one.
    fn over_rows(&mut self, sql: &Sql, one: &Statement) -> Result<Option<Statement>, Error> {
        let text = sql.text(Dialect::Postgres);
        if let Some(known) = self.over_rows.get(text) {
            return Ok(known.clone());
        }
        let many = match over_rows_text(sql, one) {
            Some(many) => Some(self.ask(|client| async move { client.prepare(&many).await })?),
            None => None,
        };
        if self.over_rows.len() == STATEMENTS_MAX {
            self.over_rows.clear();
        }
        self.over_rows.insert(text.to_owned(), many.clone());
        Ok(many)
    }

    /// Waits for a wake-up, for `most` at most; true when one came that `own` did not send.
    pub(super) fn wait_for_notification(&mut self, most: Duration, own: i32) -> Result<bool, Error> {
        let Some(first) = self.client.next_notification(most) else {
            return if self.client.is_closed() { Err(closed()) } else { Ok(false) };
        };
        let mut foreign = first != own;
        while let Some(next) = self.client.next_notification(Duration::ZERO) {
            foreign |= next != own;
        }
        Ok(foreign)
    }

    /// Remembers what went wrong; the worst is kept.
    fn note(&mut self, error: &tokio_postgres::Error) -> Error {
        let (failure, told) = translate(error, self.limit.unwrap_or_default());
        // A batch waits for a lock for a moment only.
        let is_contended = self.is_batch && is_lock_timeout(error);
        self.fail(if is_contended { Failure::Retryable } else { failure }, told)
    }

    fn fail(&mut self, failure: Failure, error: Error) -> Error {
        if self.failure.as_ref().is_none_or(|(known, _)| *known < failure) {
            self.failure = Some((failure, error.clone()));
        }
        error
    }

    /// What can be seen, as the last of these statements says; perhaps also whether the server follows another one, and where
    /// its ids come from.
    fn read_snapshot(&mut self, sql: &str) -> Result<PgSnapshot, Error> {
        let row = self.first_row(sql)?;
        self.in_recovery = row.as_ref().is_some_and(|row| row.len() > 1 && row.get(1) == Some("t"));
        let origin = row.as_ref().filter(|row| row.len() > 2).and_then(|row| row.get(2));
        self.origin = origin.and_then(Origin::parse);
        row.and_then(|row| row.get(0).and_then(PgSnapshot::parse))
            .ok_or_else(|| Error::Database("a query began without a snapshot".to_owned()))
    }

    /// In the words of the server, and one journey.
    pub(super) fn first_row(&mut self, sql: &str) -> Result<Option<SimpleQueryRow>, Error> {
        let answers = self.ask(|client| async move { client.simple_query(sql).await })?;
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

    /// Asks whether a session may say how its commits are flushed. Where it may not, the server itself must flush them. The error says
    /// whether it may pass.
    fn learn_commit_setting(&mut self) -> Result<(), (bool, Error)> {
        let asked =
            self.client.run(|client| async move { client.batch_execute(tx_mode::MAY_SET_COMMIT).await });
        match asked.1 {
            Ok(()) => return Ok(()),
            Err(error) if is_unsupported(&error) => self.may_set_commit = false,
            Err(error) => return Err((true, self.note(&error))),
        }
        let told = self.batch("ROLLBACK").and_then(|()| self.first_row(tx_mode::COMMIT_SETTING));
        let told = told.map_err(|error| (true, error))?;
        let is_off = told.is_none_or(|row| row.get(0) == Some("off"));
        if is_off && self.is_primary { Err((false, flushes_late())) } else { Ok(()) }
    }

    /// Whether [`tx_mode::MAY_SET_COMMIT`] was allowed.
    pub(super) fn may_set_commit(&self) -> bool {
        self.may_set_commit
    }

    /// Reads the epoch outside of a transaction, and draws the server's mark if there is none.
    fn read_epoch(&mut self) -> Result<(), Error> {
        let mut origin = self.origin_outside_tx()?;
        if !origin.is_marked() {
            epochs::draw(self)?;
            origin = self.origin_outside_tx()?;
        }
        self.epochs.wait_until_read(origin.epoch());
        self.epoch = Some(origin.epoch());
        Ok(())
    }

    fn origin_outside_tx(&mut self) -> Result<Origin, Error> {
        let mut origin = None;
        self.query_outside_tx(epochs::ORIGIN, &[], &mut |row| {
            origin = Some(Origin::read(&Row::new(row), 0)?);
            Ok(false)
        })?;
        origin.ok_or_else(|| Error::Database("the server gave no origin of its ids".to_owned()))
    }

    /// What can be seen now, outside of a transaction.
    fn current_snapshot(&mut self) -> Result<PgSnapshot, Error> {
        (self.limit, self.failure) = (None, None);
        self.client.limit(Some(tx_mode::QUERY_LIMIT));
        self.read_snapshot(tx_mode::SNAPSHOT)
    }

    fn prepare_text(&mut self, text: &str) -> Result<Statement, Error> {
        let prepared = self.ask(|client| async move { client.prepare(text).await });
        prepared.map_err(|error| match error {
            Error::Database(about) => Error::Database(format!("{about}: {text}")),
            other => other,
        })
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
                let statement = self.ask(|client| async move { client.prepare(sql).await })?;
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
        let histories_before = server.epochs.histories();
        let mut connection = Connection {
            client: server.connect()?,
            epochs: server.epochs.clone(),
            histories_before,
            epoch: None,
            pooled: server.pooled,
            is_primary: server.is_primary,
            may_set_commit: true,
            settings: None,
            statements: HashMap::new(),
            over_rows: HashMap::new(),
            rows: None,
            began: Instant::now(),
            limit: None,
            snapshot: None,
            origin: None,
            is_batch: false,
            in_recovery: false,
            failure: None,
            failed_unwaited: false,
        };
        if server.is_primary {
            connection.check_primary().map_err(|error| (true, error))?;
        }
        connection.learn_commit_setting()?;
        Ok(connection)
    }

    fn begin(&mut self, mode: TxMode) -> Result<(), Error> {
        (self.failure, self.snapshot, self.rows) = (None, None, None);
        if self.epochs.histories() != self.histories_before {
            return Err(self.fail(Failure::ConnectionLost, closed()));
        }
        let is_versioned = self.is_primary
            && self.epochs.are_followed()
            && matches!(mode, TxMode::Command | TxMode::Batch | TxMode::Query);
        if is_versioned && self.epoch.is_none() {
            let read = self.read_epoch();
            read.map_err(|error| self.fail(Failure::ConnectionLost, error))?;
        }
        self.began = Instant::now();
        self.limit = tx_mode::limit(mode);
        self.client.limit(self.limit);
        (self.failed_unwaited, self.is_batch) = (false, mode == TxMode::Batch);
        if !self.pooled && self.settings != Some(mode.of_session()) {
            let set = self.batch(&tx_mode::set_for_session(mode.of_session(), self.may_set_commit));
            set.map_err(|error| self.fail(Failure::ConnectionLost, error))?;
            self.settings = Some(mode.of_session());
        }
        let begin = match self.pooled {
            true => Cow::Owned(tx_mode::begin_with_settings(mode, self.may_set_commit, is_versioned)),
            false => Cow::Borrowed(tx_mode::begin(mode, self.may_set_commit)),
        };
        if !matches!(mode, TxMode::Query | TxMode::Replica) {
            // A connection on which no transaction begins is replaced: behind a pooler it may lead to a standby.
            let begun = self.batch(&begin);
            return begun.map_err(|error| self.fail(Failure::ConnectionLost, error));
        }
        // What fails after its BEGIN leaves a transaction open that refuses everything: the connection is replaced.
        let begun = self.read_snapshot(&begin);
        let snapshot = begun.map_err(|error| self.fail(Failure::ConnectionLost, error))?;
        if self.in_recovery && self.is_primary {
            return Err(self.fail(Failure::ConnectionLost, follows_another()));
        }
        let origin = self.origin.take();
        if let Some(origin) = origin.filter(|origin| Some(origin.epoch()) != self.epoch) {
            if !origin.is_marked() {
                // A mark is drawn outside of a transaction.
                self.batch("ROLLBACK").map_err(|error| self.fail(Failure::ConnectionLost, error))?;
                self.read_epoch().map_err(|error| self.fail(Failure::ConnectionLost, error))?;
                return self.begin(mode);
            }
            self.epochs.wait_until_read(origin.epoch());
            self.epoch = Some(origin.epoch());
        }
        self.snapshot = Some(snapshot);
        Ok(())
    }

    /// Returns when the transaction is on disk. Refuses what the server would silently roll back: a
    /// transaction with a failed statement.
    fn commit(&mut self) -> Result<(), Error> {
        self.queue_rows();
        if self.failure.is_none() && self.client.queued() > 0 {
            self.ask(|_| async { Ok(()) })?;
        }
        match &self.failure {
            Some((_, error)) => Err(error.clone()),
            None => self.batch("COMMIT"),
        }
    }

    fn roll_back(&mut self) -> bool {
        self.rows = None;
        self.client.forget_queued();
        !self.is_lost()
            && self.client.run(|client| async move { client.batch_execute("ROLLBACK").await }).1.is_ok()
    }

    /// A conflict with another transaction is not a failure, whichever error the server reports.
    fn failure(&self) -> Option<(Failure, Error)> {
        match &self.failure {
            Some((Failure::Retryable, _)) => Some((Failure::Retryable, contended())),
            met => met.clone(),
        }
    }

    fn failed_unwaited(&self) -> bool {
        self.failed_unwaited
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
        let bound: Vec<Bound<'_>> = args.iter().map(Bound).collect();
        if self.pooled {
            self.check_time()?;
            let typed = bound.iter().map(|value| (value as &(dyn ToSql + Sync), value.own_type()));
            let typed: Vec<(&(dyn ToSql + Sync), Type)> = typed.collect();
            return self.ask(|client| async move { client.execute_typed(sql, &typed).await });
        }
        let statement = self.prepared(sql, args.len())?;
        self.ask(|client| async move { client.execute_raw(&statement, bound).await })
    }

    fn execute_one(&mut self, sql: &Sql, args: &[Value<'_>]) -> Result<bool, Error> {
        let text = sql.text(Dialect::Postgres);
        let queued_max = if self.pooled { QUEUED_ROWS_MAX } else { QUEUED_MAX };
        if !self.is_batch || self.client.queued() >= queued_max {
            return Ok(self.execute(text, args)? == 1);
        }
        let kept =
            |args: &[Value<'_>]| -> Vec<Value<'static>> { args.iter().map(Value::to_static).collect() };
        if self.pooled {
            self.check_time()?;
            self.client.queue(Prepared::Text(text.to_owned()), kept(args));
            return Ok(true);
        }
        let one = self.prepared(text, args.len())?;
        let args = kept(args);
        match &mut self.rows {
            Some(rows) if rows.accept(text, &args) => rows.args.push(args),
            _ => {
                self.queue_rows();
                match self.over_rows(sql, &one)? {
                    Some(many) => {
                        let (text, keys) = (text.to_owned(), sql.key_arguments());
                        self.rows = Some(Rows { one, many, text, keys, args: vec![args] });
                    }
                    None => self.client.queue(Prepared::Named(one), args),
                }
            }
        }
        Ok(true)
    }

    fn query(
        &mut self,
        sql: &str,
        args: &[Value<'_>],
        each: &mut dyn FnMut(&dyn RowSource) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        if self.pooled {
            self.check_time()?;
            return self.query_text(sql, args, each);
        }
        let statement = self.prepared(sql, args.len())?;
        let bound = args.iter().map(Bound);
        self.ask(
            |client| async move { for_each_row(client.query_raw(&statement, bound).await?, each).await },
        )?
    }

    fn prepare(&mut self, sql: &Sql) -> Result<(), Error> {
        let text = sql.text(Dialect::Postgres);
        let one = self.prepare_text(text)?;
        over_rows_text(sql, &one).map_or(Ok(()), |many| self.prepare_text(&many).map(drop))
    }

    fn version_number(&mut self) -> Result<Option<u64>, Error> {
        Ok(self.snapshot.as_ref().map(PgSnapshot::xmax))
    }

    fn epoch(&self) -> Option<Epoch> {
        self.epoch
    }

    fn settled_number(&mut self) -> Result<Option<u64>, Error> {
        Ok(self.snapshot.as_ref().map(PgSnapshot::xmin))
    }

    /// The server does not report it.
    fn tables(&mut self, _sql: &str) -> Option<Tables> {
        None
    }
}

/// The text of the statement that does for many rows what `one`, which is `sql`, does for one.
fn over_rows_text(sql: &Sql, one: &Statement) -> Option<String> {
    sql.over_rows(&one.params().iter().map(Type::name).collect::<Vec<_>>())
}
