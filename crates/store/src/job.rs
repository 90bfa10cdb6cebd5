//! Commands and queries on their way to a database thread and back.

use crate::{Error, Snapshot, Tx};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

const WAITING: u8 = 0;
const STARTED: u8 = 1;
const GIVEN_UP: u8 = 2;

/// Decides between the thread that starts a job and the caller that gives up waiting for it.
#[derive(Clone, Default)]
pub(crate) struct Start(Arc<AtomicU8>);

impl Start {
    /// Claims the job for a database thread. Returns `false` if the caller has given up.
    pub(crate) fn claim(&self) -> bool {
        self.0.compare_exchange(WAITING, STARTED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Claims the job for its caller. Returns `false` if the job has started, so that its result must be awaited.
    pub(crate) fn give_up(&self) -> bool {
        self.0.compare_exchange(WAITING, GIVEN_UP, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// A command, without the types of its result.
pub(crate) trait Command: Send {
    fn name(&self) -> &'static str;
    /// Whether it may share a transaction with other batchable commands.
    fn is_batchable(&self) -> bool;
    /// The runtime in which its caller waits; `None` if no caller does.
    fn runtime(&self) -> Option<&Handle>;
    /// When it was made, if its wait is measured.
    fn queued_at(&self) -> Option<Instant> {
        None
    }
    /// Claims the start. Returns `false` if the caller has given up.
    fn start(&self) -> bool;
    /// Runs the command, possibly again. `Ok(true)`: keep its changes. `Ok(false)`: it returned an error, undo its
    /// changes. `Err`: it panicked. The result is kept for [`Command::reply`].
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<bool, Error>;
    /// Sends the caller the kept result, or `error` instead.
    fn reply(self: Box<Self>, error: Option<Error>);
}

/// A query for a reader thread, without the types of its result.
pub(crate) trait Query: Send {
    /// Claims the start, once for all threads that it may be passed to. Returns `false` if the caller has given up.
    fn start(&mut self) -> bool;
    /// Whether it is a point read, which may share a snapshot with others.
    fn is_point(&self) -> bool;
    /// Whether it yields to the queries of users.
    fn is_background(&self) -> bool;
    /// When it was made, if its wait is measured.
    fn queued_at(&self) -> Option<Instant> {
        None
    }
    /// The number of the version that its snapshot must include.
    fn needed(&self) -> u64;
    /// Runs the query, possibly again. The result is kept for [`Query::reply`].
    fn run(&mut self, snapshot: &mut Snapshot<'_>);
    /// Sends the caller the kept result, or `error` instead.
    fn reply(self: Box<Self>, error: Option<Error>);
}

/// How a query may be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueryKind {
    /// It is quick, so it may share a snapshot with other point reads.
    Point,
    /// It has a snapshot of the primary for itself.
    Scan,
    /// A replica may answer it.
    List,
}

/// Where and when a query is run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) kind: QueryKind,
    /// The number of the version that its snapshot must have reached.
    pub(crate) needed: u64,
    /// Users come first.
    pub(crate) background: bool,
}

impl Plan {
    pub(crate) fn of(kind: QueryKind) -> Plan {
        Plan { kind, needed: 0, background: false }
    }
}

pub(crate) struct CommandOf<T, E, F> {
    pub(crate) name: &'static str,
    pub(crate) batchable: bool,
    pub(crate) function: F,
    pub(crate) result: Option<Result<T, E>>,
    /// `None` if the result is not needed.
    pub(crate) reply: Option<oneshot::Sender<Result<T, E>>>,
    pub(crate) runtime: Option<Handle>,
    pub(crate) start: Start,
    pub(crate) queued_at: Instant,
}

impl<T, E, F> Command for CommandOf<T, E, F>
where
    F: Fn(&mut Tx<'_>) -> Result<T, E> + Send,
    E: From<Error> + Send,
    T: Send,
{
    fn name(&self) -> &'static str {
        self.name
    }

    fn is_batchable(&self) -> bool {
        self.batchable
    }

    fn runtime(&self) -> Option<&Handle> {
        self.runtime.as_ref()
    }

    fn queued_at(&self) -> Option<Instant> {
        Some(self.queued_at)
    }

    fn start(&self) -> bool {
        let gone = self.reply.as_ref().is_some_and(oneshot::Sender::is_closed);
        !gone && self.start.claim()
    }

    fn run(&mut self, tx: &mut Tx<'_>) -> Result<bool, Error> {
        // The command has no state but its captured arguments, so it may also run again after a panic.
        let result = catch_unwind(AssertUnwindSafe(|| (self.function)(tx)))
            .map_err(|_| Error::Panicked { command: self.name })?;
        let keep = result.is_ok();
        self.result = Some(result);
        Ok(keep)
    }

    fn reply(self: Box<Self>, error: Option<Error>) {
        let CommandOf { name, result, reply, .. } = *self;
        let result = match (error, result) {
            (None, Some(result)) => result,
            (Some(error), _) => Err(error.into()),
            (None, None) => Err(Error::Panicked { command: name }.into()),
        };
        if let Some(reply) = reply {
            // The caller may have given up.
            let _ = reply.send(result);
        }
    }
}

pub(crate) struct QueryOf<T, E, F> {
    pub(crate) function: F,
    pub(crate) point: bool,
    pub(crate) background: bool,
    pub(crate) needed: u64,
    pub(crate) result: Option<Result<T, E>>,
    pub(crate) reply: oneshot::Sender<Result<T, E>>,
    pub(crate) start: Start,
    pub(crate) started: bool,
    pub(crate) queued_at: Instant,
}

impl<T, E, F> Query for QueryOf<T, E, F>
where
    F: FnMut(&mut Snapshot<'_>) -> Result<T, E> + Send,
    E: From<Error> + Send,
    T: Send,
{
    fn start(&mut self) -> bool {
        self.started = !self.reply.is_closed() && (self.started || self.start.claim());
        self.started
    }

    fn is_point(&self) -> bool {
        self.point
    }

    fn is_background(&self) -> bool {
        self.background
    }

    fn queued_at(&self) -> Option<Instant> {
        Some(self.queued_at)
    }

    fn needed(&self) -> u64 {
        self.needed
    }

    fn run(&mut self, snapshot: &mut Snapshot<'_>) {
        self.result = Some(guarded(&mut self.function, snapshot));
    }

    fn reply(self: Box<Self>, error: Option<Error>) {
        let result = error.map_or(self.result, |error| Some(Err(error.into())));
        // The caller may have given up.
        let _ = self.reply.send(result.unwrap_or_else(|| Err(Error::Stopped.into())));
    }
}

/// Makes a query that can run only once fit where a query may run again.
pub(crate) fn once<T, E: From<Error>>(
    query: impl FnOnce(&mut Snapshot<'_>) -> Result<T, E>,
) -> impl FnMut(&mut Snapshot<'_>) -> Result<T, E> {
    let mut query = Some(query);
    move |snapshot| match query.take() {
        Some(query) => query(snapshot),
        None => Err(Error::Stopped.into()),
    }
}

/// Runs a query and turns a panic into an error for its caller.
pub(crate) fn guarded<T, E: From<Error>>(
    query: impl FnOnce(&mut Snapshot<'_>) -> Result<T, E>,
    snapshot: &mut Snapshot<'_>,
) -> Result<T, E> {
    catch_unwind(AssertUnwindSafe(|| query(snapshot)))
        .unwrap_or_else(|_| Err(Error::Panicked { command: "query" }.into()))
}
