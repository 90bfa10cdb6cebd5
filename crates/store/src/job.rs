//! A command or query on its way to a database thread and back.

use crate::{Error, Snapshot, Tx, Version};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

const WAITING: u8 = 0;
const STARTED: u8 = 1;
const GIVEN_UP: u8 = 2;

/// Who got there first: the thread that starts the job, or the caller that gives up waiting.
#[derive(Clone, Default)]
pub(crate) struct Start(Arc<AtomicU8>);

impl Start {
    /// The database thread's claim; false when the caller has gone.
    pub(crate) fn claim(&self) -> bool {
        self.0.compare_exchange(WAITING, STARTED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The caller's claim; false when the job has started, so that its answer must be awaited.
    pub(crate) fn give_up(&self) -> bool {
        self.0.compare_exchange(WAITING, GIVEN_UP, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// A command, its caller's type forgotten.
pub(crate) trait Command: Send {
    fn name(&self) -> &'static str;
    /// Whether it may share a transaction with others of its kind.
    fn is_batchable(&self) -> bool;
    /// The runtime in which its caller waits; `None` when no caller does.
    fn runtime(&self) -> Option<&Handle>;
    /// Claims the start; false when nobody waits for it any more.
    fn start(&self) -> bool;
    /// Runs it, perhaps not for the first time. `Ok(true)`: keep what it did; `Ok(false)`: it failed by
    /// itself, undo what it did. `Err`: it panicked. The result is kept for [`Command::reply`].
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<bool, Error>;
    /// Tells the caller: the kept result, or `error` in its place.
    fn reply(self: Box<Self>, error: Option<Error>);
}

/// A query for a reader thread, its caller's type forgotten.
pub(crate) trait Query: Send {
    /// Claims the start, once for all threads that it may be handed to; false when nobody waits for it any more.
    fn start(&mut self) -> bool;
    /// Whether it is a look-up that may share a snapshot with others of its kind.
    fn is_point(&self) -> bool;
    /// The state that its snapshot must have.
    fn needed(&self) -> Version;
    /// Runs it, perhaps not for the first time. The result is kept for [`Query::reply`].
    fn run(&mut self, snapshot: &mut Snapshot<'_>);
    /// Tells the caller: the kept result, or `error` in its place.
    fn reply(self: Box<Self>, error: Option<Error>);
}

/// What a query is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueryKind {
    /// It may share a snapshot with others of its kind: it is quick.
    Point,
    /// It has a snapshot of the primary for itself.
    Scan,
    /// A replica may answer it.
    List,
}

pub(crate) struct CommandOf<T, E, F> {
    pub(crate) name: &'static str,
    pub(crate) batchable: bool,
    pub(crate) function: F,
    pub(crate) result: Option<Result<T, E>>,
    /// `None` when nobody wants to know.
    pub(crate) reply: Option<oneshot::Sender<Result<T, E>>>,
    pub(crate) runtime: Option<Handle>,
    pub(crate) start: Start,
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

    fn start(&self) -> bool {
        let gone = self.reply.as_ref().is_some_and(oneshot::Sender::is_closed);
        !gone && self.start.claim()
    }

    fn run(&mut self, tx: &mut Tx<'_>) -> Result<bool, Error> {
        // The command has no state of its own but its captured arguments, and is dropped after a panic.
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
            // A caller that has gone meanwhile does not need its answer.
            let _ = reply.send(result);
        }
    }
}

pub(crate) struct QueryOf<T, E, F> {
    pub(crate) function: F,
    pub(crate) point: bool,
    pub(crate) needed: Version,
    pub(crate) result: Option<Result<T, E>>,
    pub(crate) reply: oneshot::Sender<Result<T, E>>,
    pub(crate) start: Start,
    pub(crate) started: bool,
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

    fn needed(&self) -> Version {
        self.needed
    }

    fn run(&mut self, snapshot: &mut Snapshot<'_>) {
        self.result = Some(guarded(&mut self.function, snapshot));
    }

    fn reply(self: Box<Self>, error: Option<Error>) {
        let result = error.map_or(self.result, |error| Some(Err(error.into())));
        // A caller that has gone meanwhile does not need its answer.
        let _ = self.reply.send(result.unwrap_or_else(|| Err(Error::Stopped.into())));
    }
}

/// A query that can run only once, as one that may be asked to again.
pub(crate) fn once<T, E: From<Error>>(
    query: impl FnOnce(&mut Snapshot<'_>) -> Result<T, E>,
) -> impl FnMut(&mut Snapshot<'_>) -> Result<T, E> {
    let mut query = Some(query);
    move |snapshot| match query.take() {
        Some(query) => query(snapshot),
        None => Err(Error::Stopped.into()),
    }
}

/// Runs a query; a panic in it is an error for its caller and for nobody else.
pub(crate) fn guarded<T, E: From<Error>>(
    query: impl FnOnce(&mut Snapshot<'_>) -> Result<T, E>,
    snapshot: &mut Snapshot<'_>,
) -> Result<T, E> {
    catch_unwind(AssertUnwindSafe(|| query(snapshot)))
        .unwrap_or_else(|_| Err(Error::Panicked { command: "query" }.into()))
}
