//! A connection to a database server, as the threads that own one need it: one transaction after another.
//!
//! A session keeps the error inside of a transaction, so that its thread can distinguish a command that must
//! run again from one that failed by itself.

use super::ReconnectingSession;
use crate::{Error, tx};
use std::time::Duration;

/// An open connection.
pub(crate) trait Session: tx::Connection + Sized + Send + 'static {
    /// What it connects to.
    type Address: Send + Sync + 'static;

    /// Where that is, for the log.
    fn place(_address: &Self::Address) -> String {
        String::new()
    }

    /// The error says whether it may pass.
    fn open(address: &Self::Address) -> Result<Self, (bool, Error)>;

    fn begin(&mut self, mode: TxMode) -> Result<(), Error>;

    /// Returns when the transaction is on disk. Refuses to keep half of a transaction.
    fn commit(&mut self) -> Result<(), Error>;

    /// Undoes the transaction; false when the connection is of no more use.
    fn roll_back(&mut self) -> bool;

    /// The worst that happened since the transaction began, and what its caller is told.
    fn failure(&self) -> Option<(Failure, Error)>;

    /// Whether what happened is about a statement that nobody waited for: then it is not known whose it was.
    fn failed_unwaited(&self) -> bool {
        false
    }

    fn is_lost(&self) -> bool;

    /// The snapshot of the open query; none if the server does not report it.
    fn snapshot_info(&self) -> Option<SnapshotInfo>;

    /// Whether the open transaction for a query, on a replica, shows a commit that the primary does not show yet: a
    /// commit may reach a replica before the primary has let go of it, and long before when it waits for another one.
    fn is_ahead_of(&mut self, _primary: &mut ReconnectingSession<Self>) -> Result<bool, Error> {
        Ok(false)
    }

    /// The id that all servers of a cluster share; none if the server does not report it.
    fn cluster(&mut self) -> Result<Option<String>, Error> {
        Ok(None)
    }

    /// The first version that no transaction can see yet, read outside of a transaction; none if the server does not report it.
    fn newest(&mut self) -> Option<u64> {
        None
    }
}

/// What a snapshot can see.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SnapshotInfo {
    /// Every commit before this version.
    pub(crate) horizon: u64,
    /// No commit from this version on.
    pub(crate) end: u64,
    /// The server follows another one. Only [`TxMode::Replica`] asks.
    pub(crate) in_recovery: bool,
}

/// What a transaction is for. The settings that each kind has are the back end's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TxMode {
    Command,
    /// Several commands. If it fails, each is run by itself.
    Batch,
    Query,
    /// A query on a server that is said to be a replica.
    Replica,
    /// The program's own housekeeping: at start …
    Schema,
    /// … and with the log of changes.
    Log,
}

impl TxMode {
    /// Whose settings its session has. A batch differs from a command in its beginning only.
    pub(crate) fn of_session(self) -> TxMode {
        if self == TxMode::Batch { TxMode::Command } else { self }
    }
}

/// What an error means for the transaction that it happened in. Later is worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Failure {
    /// It can only be rolled back.
    Fatal,
    /// Another transaction was in the way: roll it back and run it again.
    Retryable,
    /// The connection is gone, or of no use; whatever was not committed is undone.
    ConnectionLost,
}

/// Collisions that did not end: nothing is wrong, but not now.
pub(crate) fn contended() -> Error {
    Error::Overloaded { retry_after: Duration::from_millis(100) }
}
