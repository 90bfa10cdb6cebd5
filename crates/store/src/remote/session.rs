//! A connection to a database server, as the threads that own one need it: one transaction after another.
//!
//! A session remembers what went wrong inside a transaction, so that its thread can tell a command that must
//! run again from one that failed by itself.

use super::Link;
use crate::{Error, Version, tx};
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

    fn begin(&mut self, purpose: Purpose) -> Result<(), Error>;

    /// Returns when the transaction is on disk. Refuses to keep half of a transaction.
    fn commit(&mut self) -> Result<(), Error>;

    /// Undoes the transaction; false when the connection is of no more use.
    fn roll_back(&mut self) -> bool;

    /// The worst that happened since the transaction began, and what its caller is told.
    fn trouble(&self) -> Option<(Trouble, Error)>;

    fn is_lost(&self) -> bool;

    /// What the open transaction for a query can see; none where the server does not tell.
    fn view(&self) -> Option<View>;

    /// Whether the open transaction for a query, on a replica, shows a commit that the primary does not show yet: a
    /// commit may reach a replica before the primary has let go of it, and long before when it waits for another one.
    fn is_ahead_of(&mut self, _primary: &mut Link<Self>) -> Result<bool, Error> {
        Ok(false)
    }

    /// What all servers of a cluster have in common and no others; none where the server does not tell.
    fn cluster(&mut self) -> Result<Option<String>, Error> {
        Ok(None)
    }

    /// From which version on nobody can see anything yet, asked outside of a transaction; none where the server does not tell.
    fn newest(&mut self) -> Option<Version> {
        None
    }
}

/// What a snapshot can see.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    /// Every commit before this version.
    pub(crate) whole: Version,
    /// No commit from this version on.
    pub(crate) next: Version,
    /// The server follows another one. Only [`Purpose::Replica`] asks.
    pub(crate) follows: bool,
}

/// What a transaction is for. The settings that each kind has are the back end's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Command,
    Query,
    /// A query on a server that is said to be a replica.
    Replica,
    /// The program's own housekeeping: at start …
    Schema,
    /// … and with the log of changes.
    Log,
}

/// What an error means for the transaction that it happened in. Later is worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Trouble {
    /// It can only be rolled back.
    Failed,
    /// Another transaction was in the way: roll it back and run it again.
    Again,
    /// The connection is gone, or of no use; whatever was not committed is undone.
    Lost,
}

/// Collisions that did not end: nothing is wrong, but not now.
pub(crate) fn contended() -> Error {
    Error::Overloaded { retry_after: Duration::from_millis(100) }
}
