//! The driver is asynchronous; the thread that owns a connection drives it here, one call at a time.
//!
//! Each call has a time limit, after which the connection counts as lost: the driver sets no limit on unanswered
//! packets itself, and without one a server that has vanished from the network would be noticed when TCP gives up,
//! after many minutes.

use ::mysql_async::prelude::{FromRow, Queryable as _};
use ::mysql_async::{Conn, DriverError, Opts, Params, Result, Row, Statement};
use std::io;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

/// How long connecting may take: TCP, TLS and authentication.
const CONNECT_MAX: Duration = Duration::from_secs(3);
/// How long the server may take to answer, beyond the time that it has for its work.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// How long closing may take. The server ends a connection that is simply cut as well.
const QUIT_MAX: Duration = Duration::from_millis(200);

/// A connection whose methods block. Not to be used, nor dropped, on an asynchronous thread.
pub(crate) struct Client {
    runtime: Runtime,
    /// `None` once it is being closed.
    conn: Option<Conn>,
    /// How long a call may take; `None` for changes of the schema.
    call_max: Option<Duration>,
}

impl Client {
    pub(crate) fn connect(opts: Opts) -> Result<Client> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let connecting = async { timeout(CONNECT_MAX, Conn::new(opts)).await };
        let conn = runtime.block_on(connecting).unwrap_or_else(|_| no_answer())?;
        Ok(Client { runtime, conn: Some(conn), call_max: Some(ANSWER_MAX) })
    }

    /// From now on the server has this long for each statement.
    pub(super) fn limit(&mut self, work_max: Option<Duration>) {
        self.call_max = work_max.map(|work| work + ANSWER_MAX);
    }

    /// Runs statements to the end of the last one, so that no error of a later one is lost.
    pub(crate) fn batch(&mut self, sql: &str) -> Result<()> {
        self.call(async |conn| conn.query_drop(sql).await)
    }

    /// The first row of a query without arguments.
    pub(crate) fn first<T: FromRow + Send + 'static>(&mut self, sql: &str) -> Result<Option<T>> {
        self.call(async |conn| conn.query_first(sql).await)
    }

    pub(super) fn prepare(&mut self, sql: &str) -> Result<Statement> {
        self.call(async |conn| conn.prep(sql).await)
    }

    pub(super) fn close(&mut self, statement: Statement) -> Result<()> {
        self.call(async |conn| conn.close(statement).await)
    }

    /// Runs a statement that writes; the server's count of rows.
    pub(super) fn execute(&mut self, statement: &Statement, params: Params) -> Result<u64> {
        self.call(async |conn| {
            let result = conn.exec_iter(statement, params).await?;
            let count = result.affected_rows();
            result.drop_result().await.map(|()| count)
        })
    }

    /// Runs a statement that reads, and gives each row to `each`.
    pub(super) fn query(
        &mut self,
        statement: &Statement,
        params: Params,
        each: impl FnMut(Row),
    ) -> Result<()> {
        self.call(async |conn| conn.exec_iter(statement, params).await?.for_each_and_drop(each).await)
    }

    /// The number that the last INSERT took.
    pub(super) fn last_insert_id(&self) -> u64 {
        self.conn.as_ref().and_then(Conn::last_insert_id).unwrap_or_default()
    }

    /// True when an error, of whatever kind, has ended the connection.
    pub(super) fn is_closed(&self) -> bool {
        self.conn.as_ref().is_none_or(Conn::is_disconnected)
    }

    fn call<T>(&mut self, work: impl AsyncFnOnce(&mut Conn) -> Result<T>) -> Result<T> {
        let Some(conn) = &mut self.conn else { return Err(DriverError::ConnectionClosed.into()) };
        let call_max = self.call_max;
        self.runtime.block_on(async {
            match call_max {
                Some(most) => timeout(most, work(conn)).await.unwrap_or_else(|_| no_answer()),
                None => work(conn).await,
            }
        })
    }
}

fn no_answer<T>() -> Result<T> {
    Err(io::Error::new(io::ErrorKind::TimedOut, "the server does not answer").into())
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some(conn) = self.conn.take() {
            // Whether or not the server receives the farewell, the connection ends.
            let _ = self.runtime.block_on(async { timeout(QUIT_MAX, conn.disconnect()).await });
        }
    }
}
