//! Events: what products must learn of a change, in a durable log that commands write in their own transactions.
//!
//! An entry names what changed, by ids. The state itself is read when the event is delivered ([`deliver`]), so a state is
//! never older than its event, the log holds nothing that names a user, and a change of a plan is one entry, however many
//! subscribers the plan has.
//!
//! Each module writes the entries about its own table. Time changes nothing here: a subscription that ends on its date, or
//! a token that expires, has no event, because the state names the date.

mod delivery;
mod entry;
mod revoked;
mod state;

pub use delivery::{Delivered, Event, Listening, Page, begin, deliver};
pub(crate) use entry::{Entry, note};
pub use revoked::Revoked;
pub(crate) use revoked::{note_grant, note_session, note_sessions};
pub use state::{
    OfService, OfToken, Terms, UserAtService, UsersPlace, of_service, of_token, users_of_service,
};

use crate::{Result, Time};
use std::time::Duration;
use store::{Log, Tx, log};

/// The log.
pub static EVENTS: Log = log("events");
/// How long entries are kept.
pub const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);
/// The log gets an entry at least this often, so that a cursor of a quiet time stays valid.
const TICK: Duration = Duration::from_secs(24 * 3600);

/// Deletes entries that are older than [`KEPT`]. Returns whether there may be more.
pub fn tidy(tx: &mut Tx<'_>, now: Time) -> Result<bool> {
    if tx.snapshot().log_newest(&EVENTS)?.is_none_or(|newest| newest + TICK <= now) {
        note(tx, now, &Entry::Tick)?;
    }
    Ok(tx.trim_log(&EVENTS, now - KEPT)?)
}
