//! A connection to a server that is to be a replica, with the checks that it is one.
//!
//! A server that was promoted goes on taking connections, and writes of others; so each transaction says whether it
//! still follows another server, in the same journey as its snapshot. To which cluster it belongs cannot change under
//! an open connection, and is asked when one is opened.

use super::{ReconnectingSession, Session, SnapshotInfo, TxMode};
use crate::Error;
use std::sync::Arc;
use std::time::Instant;

pub(super) struct Standby<S: Session> {
    session: ReconnectingSession<S>,
    /// The connection of the link whose cluster is the primary's.
    checked_generation: u64,
}

/// Why it is not read from.
pub(super) enum Unusable {
    /// That may pass by itself.
    Unreachable(Error),
    /// Somebody has to do something about it.
    NotOurReplica(&'static str),
}

impl<S: Session> Standby<S> {
    pub(super) fn new(address: Arc<S::Address>) -> Standby<S> {
        Standby { session: ReconnectingSession::new(address), checked_generation: 0 }
    }

    /// A session with a transaction open, and what it can see. `primary` is asked only after a connection was opened.
    pub(super) fn begin(
        &mut self,
        primary: &mut ReconnectingSession<S>,
    ) -> Result<(&mut S, SnapshotInfo), Unusable> {
        let connection = self.session.begin(TxMode::Replica, Instant::now())?;
        let info =
            connection.snapshot_info().ok_or(Unusable::NotOurReplica("it does not tell what it shows"))?;
        let same = info.in_recovery
            && (self.checked_generation == self.session.generation() || self.is_in_cluster_of(primary)?);
        if !same {
            self.session.finish();
            return Err(Unusable::NotOurReplica(match info.in_recovery {
                true => "it belongs to another cluster than the primary",
                false => "it follows no server: it was promoted, or never was a standby",
            }));
        }
        self.checked_generation = self.session.generation();
        Ok((self.session.current()?, info))
    }

    fn is_in_cluster_of(&mut self, primary: &mut ReconnectingSession<S>) -> Result<bool, Error> {
        let replica_id = self.session.current().and_then(S::cluster);
        let same = replica_id.and_then(|replica_id| Ok(replica_id == primary.query(S::cluster)?));
        if same.is_err() {
            self.session.finish();
        }
        same
    }

    /// Ends the transaction.
    pub(super) fn finish(&mut self) {
        self.session.finish();
    }
}

impl From<Error> for Unusable {
    fn from(error: Error) -> Unusable {
        Unusable::Unreachable(error)
    }
}
