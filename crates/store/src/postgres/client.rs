//! The asynchronous driver on a thread that may block.
//!
//! A runtime without threads of its own drives the connection while a caller waits. Statements can be queued: they go to
//! the server together with the next one, and all answers come back together, which saves the journeys between them.

use super::tls::{Encrypted, Tls};
use super::values::Bound;
use crate::Value;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Config, Error, Socket, Statement};

/// How long the server's answer to a statement may take, beyond the time that the statement may take.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// How long the farewell to the server may take.
const FAREWELL: Duration = Duration::from_millis(100);

/// The server's answer to a statement: how many rows matched.
type Answer = Pin<Box<dyn Future<Output = Matched> + Send>>;
pub(super) type Matched = Result<u64, Error>;

/// A connection. Not to be used, nor dropped, on an asynchronous thread.
pub(super) struct Client {
    // In this order, because the connection says goodbye when nobody can ask it any more.
    queued: Vec<Queued>,
    requests: Arc<tokio_postgres::Client>,
    connection: Connection,
    /// How long an answer may take; `None` for changes of the schema.
    answer_max: Option<Duration>,
}

/// Why there is no connection.
pub(super) enum NotConnected {
    /// The operating system has no resources.
    Machine(io::Error),
    Refused(Error),
    /// Nothing came in time.
    Silent,
}

/// A statement as the server knows it, or as text.
pub(super) enum Prepared {
    Named(Statement),
    Text(String),
}

/// A statement that is not waited for.
struct Queued {
    /// The rows that it is to write.
    rows: u64,
    answer: Answer,
}

struct Connection {
    runtime: Runtime,
    wire: Wire,
}

/// What arrives from the server.
struct Wire {
    /// `None` when it has ended.
    open: Option<tokio_postgres::Connection<Socket, Encrypted<Socket>>>,
    /// Why it has ended.
    ended_by: Option<Error>,
    /// The server's processes that have notified this connection.
    notified_by: VecDeque<i32>,
}

impl Client {
    /// Connects within `most`.
    pub(super) fn connect(config: &Config, tls: Tls, most: Duration) -> Result<Client, NotConnected> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(NotConnected::Machine)?;
        // The driver's own limit ends with TCP: a server that is suspended, or a proxy with none behind it, says nothing more.
        let connected = runtime.block_on(async { timeout(most, config.connect(tls)).await });
        let (requests, open) = match connected {
            Ok(Ok(connected)) => connected,
            Ok(Err(error)) => return Err(NotConnected::Refused(error)),
            Err(_) => {
                // The resolver of names may hang too, on a thread that cannot be stopped.
                runtime.shutdown_background();
                return Err(NotConnected::Silent);
            }
        };
        let wire = Wire { open: Some(open), ended_by: None, notified_by: VecDeque::new() };
        let connection = Connection { runtime, wire };
        let answer_max = Some(ANSWER_MAX);
        Ok(Client { queued: Vec::new(), requests: Arc::new(requests), connection, answer_max })
    }

    /// From now on the server has this long for each statement. One that does not answer then (it is suspended, its disk
    /// hangs, or a pooler has no connection for us) loses the connection.
    pub(super) fn limit(&mut self, work_max: Option<Duration>) {
        self.answer_max = work_max.map(|work| work + ANSWER_MAX);
    }

    /// Whether the connection has ended.
    pub(super) fn is_closed(&self) -> bool {
        self.connection.wire.open.is_none()
    }

    /// Queues a statement for the next journey. It is to write one row.
    pub(super) fn queue(&mut self, statement: Prepared, args: Vec<Value<'static>>) {
        let requests = self.requests.clone();
        let answer = Box::pin(async move {
            let bound: Vec<Bound<'_>> = args.iter().map(Bound).collect();
            match &statement {
                Prepared::Named(statement) => requests.execute_raw(statement, bound).await,
                Prepared::Text(text) => {
                    let typed = bound.iter().map(|bound| (bound as &(dyn ToSql + Sync), bound.own_type()));
                    let typed: Vec<(&(dyn ToSql + Sync), Type)> = typed.collect();
                    requests.execute_typed(text, &typed).await
                }
            }
        });
        self.queued.push(Queued { rows: 1, answer });
    }

    /// Queues a statement whose arguments are arrays. It is to write a row for each of these `rows`.
    pub(super) fn queue_rows(&mut self, statement: Statement, rows: Vec<Vec<Value<'static>>>) {
        let requests = self.requests.clone();
        let count = rows.len() as u64;
        let answer = Box::pin(async move {
            let mut columns: Vec<Vec<Bound<'_>>> = vec![Vec::new(); statement.params().len()];
            for row in &rows {
                columns.iter_mut().zip(row).for_each(|(column, value)| column.push(Bound(value)));
            }
            requests.execute_raw(&statement, columns).await
        });
        self.queued.push(Queued { rows: count, answer });
    }

    /// The number of queued statements.
    pub(super) fn queued(&self) -> usize {
        self.queued.len()
    }

    /// Forgets what is queued.
    pub(super) fn forget_queued(&mut self) {
        self.queued.clear();
    }

    /// Sends what is queued and `last` together, and waits for all answers: those to the queued statements, in their
    /// order, each after the rows that were to be written, and that to `last`.
    pub(super) fn run<T, F: Future<Output = Result<T, Error>>>(
        &mut self,
        last: impl FnOnce(Arc<tokio_postgres::Client>) -> F,
    ) -> (Vec<(u64, Matched)>, Result<T, Error>) {
        let last = last(self.requests.clone());
        let mut all = pin!(in_order(std::mem::take(&mut self.queued), last));
        let Connection { runtime, wire } = &mut self.connection;
        let answer_max = self.answer_max;
        let (queued, last) = runtime.block_on(async {
            let mut late = pin!(answer_max.map(sleep));
            poll_fn(|context| {
                // A connection that ends answers everything with an error.
                wire.drive(context);
                let answered = all.as_mut().poll(context);
                if answered.is_ready() || wire.open.is_none() {
                    return answered;
                }
                let late = late.as_mut().as_pin_mut();
                if late.is_some_and(|late| late.poll(context).is_ready()) {
                    wire.open = None;
                    return all.as_mut().poll(context);
                }
                Poll::Pending
            })
            .await
        });
        let last = last.map_err(|error| match wire.ended_by.take() {
            Some(cause) if error.is_closed() => cause,
            _ => error,
        });
        (queued, last)
    }

    /// Waits until a notification arrives, for `most` at most. Returns the number of the process that sent it, if one did.
    pub(super) fn next_notification(&mut self, most: Duration) -> Option<i32> {
        let Connection { runtime, wire } = &mut self.connection;
        let arrived = poll_fn(|context| {
            wire.drive(context);
            match wire.notified_by.pop_front() {
                None if wire.open.is_some() => Poll::Pending,
                arrived => Poll::Ready(arrived),
            }
        });
        runtime.block_on(async { timeout(most, arrived).await.ok().flatten() })
    }
}

impl Drop for Connection {
    /// Says goodbye, so that the server does not have to find out.
    fn drop(&mut self) {
        let Connection { runtime, wire } = self;
        let ended = poll_fn(|context| {
            wire.drive(context);
            if wire.open.is_none() { Poll::Ready(()) } else { Poll::Pending }
        });
        // A server that does not take it finds out by itself.
        let _ = runtime.block_on(async { timeout(FAREWELL, ended).await });
    }
}

impl Wire {
    /// Sends and receives what is possible now.
    fn drive(&mut self, context: &mut Context<'_>) {
        while let Some(open) = &mut self.open {
            match open.poll_message(context) {
                Poll::Ready(Some(Ok(AsyncMessage::Notification(notification)))) => {
                    self.notified_by.push_back(notification.process_id());
                }
                Poll::Ready(Some(Ok(AsyncMessage::Notice(notice)))) => {
                    tracing::debug!(message = notice.message(), "the database says");
                }
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(Some(Err(error))) => (self.open, self.ended_by) = (None, Some(error)),
                Poll::Ready(None) => self.open = None,
                Poll::Pending => return,
            }
        }
    }
}

/// Sends all, then waits for the answers, which come in the same order.
async fn in_order<T>(
    mut queued: Vec<Queued>,
    last: impl Future<Output = Result<T, Error>>,
) -> (Vec<(u64, Matched)>, Result<T, Error>) {
    let mut last = pin!(last);
    // A request is sent when its future is polled for the first time.
    let (sent, last_sent) = poll_fn(|context| {
        let sent: Vec<_> = queued.iter_mut().map(|queued| queued.answer.as_mut().poll(context)).collect();
        Poll::Ready((sent, last.as_mut().poll(context)))
    })
    .await;
    let mut answers = Vec::with_capacity(queued.len());
    for (queued, sent) in queued.into_iter().zip(sent) {
        let matched = match sent {
            Poll::Ready(ended) => ended,
            Poll::Pending => queued.answer.await,
        };
        answers.push((queued.rows, matched));
    }
    let last = match last_sent {
        Poll::Ready(ended) => ended,
        Poll::Pending => last.await,
    };
    (answers, last)
}
