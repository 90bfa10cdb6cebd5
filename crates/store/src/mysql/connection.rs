//! A connection as Sarsen uses it: one transaction after another, statements kept prepared.
//!
//! Limits and isolation are settings of the session here. They are made when a transaction has another
//! purpose than the one before it, which is rare: a thread does mostly one kind of thing. A connection
//! remembers what went wrong inside a transaction and refuses all further statements of it: a deadlock has
//! ended it on the server, and what came next would be a transaction of its own.

use super::address::Server;
use super::client::Client;
use super::errors::{
    accepts_no_writes, connect_error, flushes_late, is_done_already, is_duplicate, is_no_table,
    is_unknown_variable, refuses_writes, translate,
};
use super::placeholders::{Positional, RowCount};
use super::tx_mode::{self, Vendor};
use super::values::{Read, bound};
use crate::remote::{Failure, Session, SnapshotInfo, TxMode};
use crate::tx::{self, Tables};
use crate::value::RowSource;
use crate::{Dialect, Error, Sql, Value};
use ::mysql_async::Statement;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Statements kept prepared on each connection; the program has a few hundred.
const STATEMENTS_MAX: usize = 1024;

/// Text is UTF-8, a backslash is a letter, a value that does not fit is an error, messages are in English.
const SESSION: &str = "SET NAMES utf8mb4 COLLATE utf8mb4_bin;
    SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,NO_BACKSLASH_ESCAPES',
        autocommit = 1, lc_messages = 'en_US', time_zone = '+00:00'";
/// What an acknowledged commit needs to be on disk: a setting, and whether it is right.
pub(super) const DURABILITY: [(&str, &str); 2] = [
    // 3 flushes more often than 1 does; 0 and 2 leave a second to chance.
    ("innodb_flush_log_at_trx_commit", "SELECT @@innodb_flush_log_at_trx_commit IN (1, 3)"),
    // After a crash the server undoes what its binary log does not hold.
    ("sync_binlog", "SELECT @@log_bin = 0 OR @@sync_binlog = 1"),
];
/// A server without Galera has no such variable, or says 0.
const IS_IN_CLUSTER: &str = "SELECT @@global.wsrep_on";
/// A node of a Galera cluster acknowledges a commit before the others have applied it. With this setting each statement of the
/// session waits until its own node has applied what was committed anywhere before it.
const WAIT_UNTIL_APPLIED: &str = "SET SESSION wsrep_sync_wait = 7";
/// Text: on MariaDB 12 `read_only` is one of several words.
const ABOUT_THE_SERVER: &str = "SELECT VERSION(), CAST(@@global.read_only AS CHAR)";

/// A statement on the server, and the text that it was made from.
struct Prepared {
    statement: Statement,
    text: Positional,
}

/// An open connection and what happened in its transaction.
pub(super) struct Connection {
    client: Client,
    vendor: Vendor,
    /// The server was a node of a Galera cluster when the connection was opened.
    is_in_cluster: bool,
    /// The server accepted no writes when the connection was opened. A replica does not, and its data may be old.
    is_read_only: bool,
    /// Of all connections to this address, and what it was when this one was opened.
    demotions: Arc<AtomicU64>,
    demotions_before: u64,
    /// What the session's settings are for.
    set_for: Option<TxMode>,
    /// By text. Gone with the connection, as on the server.
    statements: HashMap<String, Arc<Prepared>>,
    began: Instant,
    limit: Option<Duration>,
    /// The worst that happened since the transaction began.
    failure: Option<(Failure, Error)>,
}

impl Connection {
    fn connect(server: &Server) -> ::mysql_async::Result<Connection> {
        let demotions = server.demotions();
        let demotions_before = demotions.load(Relaxed);
        let mut client = server.connect()?;
        client.batch(SESSION)?;
        let told: Option<(String, String)> = client.first(ABOUT_THE_SERVER)?;
        let (version, read_only) = told.unwrap_or_default();
        let vendor = match version.contains("MariaDB") {
            true => Vendor::MariaDb,
            false => Vendor::MySql,
        };
        // A node that does not answer this question may be behind: then there is no connection.
        let is_in_cluster = match client.first::<Option<i64>>(IS_IN_CLUSTER) {
            Err(error) if is_unknown_variable(&error) => false,
            asked => asked?.flatten() == Some(1),
        };
        if is_in_cluster {
            client.batch(WAIT_UNTIL_APPLIED)?;
        }
        Ok(Connection {
            client,
            vendor,
            is_in_cluster,
            is_read_only: !matches!(&*read_only, "0" | "OFF"),
            demotions,
            demotions_before,
            set_for: None,
            statements: HashMap::new(),
            began: Instant::now(),
            limit: None,
            failure: None,
        })
    }

    /// The setting for which the server may lose a commit that it has acknowledged. A server that does not report its settings
    /// is trusted.
    fn without_durability(&mut self) -> Option<&'static str> {
        let mut is_wrong =
            |question: &str| matches!(self.client.first::<Option<i64>>(question), Ok(Some(Some(0))));
        DURABILITY.iter().find_map(|(setting, question)| is_wrong(question).then_some(*setting))
    }

    /// Forgets what went wrong: for a question that need not be answered.
    pub(super) fn clear_statement_failure(&mut self) {
        self.failure.take_if(|(failure, _)| *failure == Failure::Fatal);
    }

    pub(super) fn vendor(&self) -> Vendor {
        self.vendor
    }

    pub(super) fn is_in_cluster(&self) -> bool {
        self.is_in_cluster
    }

    /// The number that the last INSERT took.
    pub(super) fn last_number(&self) -> u64 {
        self.client.last_insert_id()
    }

    /// Runs statements that have no arguments and give no rows.
    pub(super) fn batch(&mut self, sql: &str) -> Result<(), Error> {
        let result = self.client.batch(sql);
        result.map_err(|error| self.note(&error, sql))
    }

    /// Fails if the server refuses a statement about a table that does not exist for another reason than that: it looks at
    /// rights first.
    pub(super) fn check_right(&mut self, sql: &str) -> Result<(), Error> {
        match self.client.batch(sql) {
            Err(error) if is_no_table(&error) => Ok(()),
            ran => ran.map_err(|error| self.note(&error, sql)),
        }
    }

    /// Remembers what went wrong; the worst is kept.
    fn note(&mut self, error: &::mysql_async::Error, sql: &str) -> Error {
        if refuses_writes(error) {
            self.demotions.fetch_add(1, Relaxed);
        }
        let (failure, error) = translate(error, sql, self.limit.unwrap_or_default());
        self.fail(failure, error)
    }

    fn fail(&mut self, failure: Failure, error: Error) -> Error {
        if self.failure.as_ref().is_none_or(|(known, _)| *known < failure) {
            self.failure = Some((failure, error.clone()));
        }
        error
    }

    /// The server stops a statement that is too slow; many quick ones are counted here, and on MySQL one
    /// that writes.
    fn check_time(&mut self) -> Result<(), Error> {
        match self.limit {
            Some(limit) if self.began.elapsed() > limit => {
                Err(self.fail(Failure::Fatal, Error::TooSlow { limit }))
            }
            _ => Ok(()),
        }
    }

    /// The statement, prepared now or before, after a look at what happened so far, at the clock and at the
    /// arguments' number.
    fn prepared(&mut self, sql: &str, args: usize) -> Result<Arc<Prepared>, Error> {
        if let Some((_, error)) = &self.failure {
            return Err(error.clone());
        }
        self.check_time()?;
        let prepared = match self.statements.get(sql) {
            Some(prepared) => prepared.clone(),
            None => {
                let text = Positional::of(sql);
                let statement = self.client.prepare(&text.sql).map_err(|error| self.note(&error, sql))?;
                if self.statements.len() == STATEMENTS_MAX {
                    self.forget_statements();
                }
                let prepared = Arc::new(Prepared { statement, text });
                self.statements.insert(sql.to_owned(), prepared.clone());
                prepared
            }
        };
        let expected = prepared.text.args;
        if expected != args {
            let text = format!("{expected} arguments expected, {args} given: {sql}");
            return Err(self.fail(Failure::Fatal, Error::Database(text)));
        }
        Ok(prepared)
    }

    /// Migrations say `utf8mb4_bin`; columns get the collation that compares by every byte.
    fn collated<'s>(&self, sql: &'s str) -> Cow<'s, str> {
        match self.set_for {
            Some(TxMode::Schema) => Cow::Owned(sql.replace("utf8mb4_bin", self.vendor.collation())),
            _ => Cow::Borrowed(sql),
        }
    }

    fn forget_statements(&mut self) {
        for (_, prepared) in std::mem::take(&mut self.statements) {
            // It is closed with the connection otherwise.
            let _ = self.client.close(prepared.statement.clone());
        }
    }
}

impl Session for Connection {
    type Address = Server;

    fn open(server: &Server) -> Result<Connection, (bool, Error)> {
        let mut connection = Connection::connect(server).map_err(|error| connect_error(&error))?;
        if connection.is_read_only {
            return Err((true, accepts_no_writes()));
        }
        // Another server than at the start may answer now.
        if let Some(setting) = connection.without_durability() {
            return Err((true, flushes_late(setting)));
        }
        Ok(connection)
    }

    fn begin(&mut self, mode: TxMode) -> Result<(), Error> {
        self.began = Instant::now();
        self.limit = tx_mode::limit(mode);
        self.client.limit(self.limit);
        self.failure = None;
        // A server that became a replica goes on answering queries, from data that may be old.
        if self.demotions.load(Relaxed) != self.demotions_before {
            return Err(self.fail(Failure::ConnectionLost, accepts_no_writes()));
        }
        let session = mode.of_session();
        if self.set_for != Some(session) {
            self.set_for = None;
            self.batch(&tx_mode::settings(session, self.vendor))?;
            self.set_for = Some(session);
        }
        self.batch(tx_mode::begin(mode))
    }

    fn commit(&mut self) -> Result<(), Error> {
        match &self.failure {
            Some((_, error)) => Err(error.clone()),
            None => self.batch("COMMIT"),
        }
    }

    fn roll_back(&mut self) -> bool {
        !self.is_lost() && self.client.batch("ROLLBACK").is_ok()
    }

    fn failure(&self) -> Option<(Failure, Error)> {
        self.failure.clone()
    }

    fn is_lost(&self) -> bool {
        self.client.is_closed() || matches!(self.failure, Some((Failure::ConnectionLost, _)))
    }

    fn snapshot_info(&self) -> Option<SnapshotInfo> {
        None
    }
}

impl tx::Connection for Connection {
    fn dialect(&self) -> Dialect {
        Dialect::Mysql
    }

    fn execute(&mut self, sql: &str, args: &[Value<'_>]) -> Result<u64, Error> {
        let prepared = self.prepared(&self.collated(sql), args.len())?;
        let params = bound(args, &prepared.text.order);
        let counted = self.client.execute(&prepared.statement, params);
        match (counted, prepared.text.count) {
            (Ok(count), RowCount::Upserted) => Ok(count.min(1)),
            (Ok(count), _) => Ok(count),
            // The server has undone this statement, and nothing else of the transaction.
            (Err(error), RowCount::IfAbsent) if is_duplicate(&error) => Ok(0),
            (Err(error), _) => Err(self.note(&error, sql)),
        }
    }

    fn execute_again(&mut self, sql: &str) -> Result<(), Error> {
        let text = self.collated(sql).into_owned();
        match self.client.batch(&text) {
            Err(error) if is_done_already(&error) => Ok(()),
            ran => ran.map_err(|error| self.note(&error, sql)),
        }
    }

    /// Reads to the end also when `each` has had enough: the next statement needs a quiet connection.
    fn query(
        &mut self,
        sql: &str,
        args: &[Value<'_>],
        each: &mut dyn FnMut(&dyn RowSource) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let prepared = self.prepared(sql, args.len())?;
        let mut wanted = Ok(true);
        let params = bound(args, &prepared.text.order);
        let ended = self.client.query(&prepared.statement, params, |row| {
            if matches!(wanted, Ok(true)) {
                wanted = each(&Read::new(row));
            }
        });
        ended.map_err(|error| self.note(&error, sql))?;
        wanted.map(|_| ())
    }

    fn execute_one(&mut self, sql: &Sql, args: &[Value<'_>]) -> Result<bool, Error> {
        let matched = self.execute(sql.text(Dialect::Mysql), args)?;
        Ok(matched == 1 || (matched == 2 && sql.is_upsert()))
    }

    /// Ends the transaction: one that only reads refuses even to prepare a statement that writes.
    fn prepare(&mut self, sql: &Sql) -> Result<(), Error> {
        let sql = sql.text(Dialect::Mysql);
        let ended = self.client.batch("ROLLBACK");
        let prepared = ended.and_then(|()| self.client.prepare(&Positional::of(sql).sql));
        let closed = prepared.and_then(|statement| self.client.close(statement));
        closed.map_err(|error| match self.note(&error, sql) {
            Error::Database(text) => Error::Database(format!("{text}: {sql}")),
            other => other,
        })
    }

    /// Instances on MySQL have no versions in common.
    fn version_number(&mut self) -> Result<Option<u64>, Error> {
        Ok(None)
    }

    /// The server does not report it.
    fn tables(&mut self, _sql: &str) -> Option<Tables> {
        None
    }
}
