//! A connection to what is to be a replica, which is asked for proof.
//!
//! A server that was promoted goes on taking connections, and writes of others; so each transaction says whether it
//! still follows another server, in the same journey as its snapshot. To which cluster it belongs cannot change under
//! an open connection, and is asked when one is opened.

use super::{Link, Purpose, Session, View};
use crate::Error;
use std::sync::Arc;
use std::time::Instant;

pub(super) struct Standby<S: Session> {
    link: Link<S>,
    /// The connection of the link whose cluster is the primary's.
    known: u64,
}

/// Why it is not read from.
pub(super) enum Unusable {
    /// That may pass by itself.
    Away(Error),
    /// Somebody has to do something about it.
    Stranger(&'static str),
}

impl<S: Session> Standby<S> {
    pub(super) fn new(address: Arc<S::Address>) -> Standby<S> {
        Standby { link: Link::new(address), known: 0 }
    }

    /// A session with a transaction open, and what it can see. `primary` is asked only after a connection was opened.
    pub(super) fn begin(&mut self, primary: &mut Link<S>) -> Result<(&mut S, View), Unusable> {
        let session = self.link.begin(Purpose::Replica, Instant::now())?;
        let view = session.view().ok_or(Unusable::Stranger("it does not tell what it shows"))?;
        let same =
            view.follows && (self.known == self.link.opened() || self.is_of_the_cluster_of(primary)?);
        if !same {
            self.link.finish();
            return Err(Unusable::Stranger(match view.follows {
                true => "it belongs to another cluster than the primary",
                false => "it follows no server: it was promoted, or never was a standby",
            }));
        }
        self.known = self.link.opened();
        Ok((self.link.current()?, view))
    }

    fn is_of_the_cluster_of(&mut self, primary: &mut Link<S>) -> Result<bool, Error> {
        let own = self.link.current().and_then(S::cluster);
        let both = own.and_then(|own| Ok(own == primary.ask(S::cluster)?));
        if both.is_err() {
            self.link.finish();
        }
        both
    }

    /// Ends the transaction.
    pub(super) fn finish(&mut self) {
        self.link.finish();
    }
}

impl From<Error> for Unusable {
    fn from(error: Error) -> Unusable {
        Unusable::Away(error)
    }
}
