//! Entries of the log: ids only.

use super::EVENTS;
use crate::ids::{CustomerId, GrantId, ServiceId, SessionId, UserId};
use crate::{Error, Result, Time};
use serde::{Deserialize, Serialize};
use store::Tx;

/// What changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Entry {
    /// The subscriptions of a customer to plans that cover these services.
    Subscription { customer: String, services: Vec<String> },
    /// What a user may use of these services, because they left teams.
    Seats { user: String, services: Vec<String> },
    /// A session ended.
    Session { session: String },
    /// The sessions of a user that ended at this time.
    Sessions { user: String, ended_at: i64 },
    /// A grant was revoked.
    Grant { grant: String },
    /// The account of a user: its data, or whether it is suspended or deleted.
    User { user: String },
    /// The roles of a user as an administrator.
    Member { user: String },
    /// A service.
    Service { service: String },
    /// A plan that covers these services. `selects` if its price or its seats changed, which decide about the plan of
    /// users with several subscriptions, and about who has a seat.
    Plan { services: Vec<String>, selects: bool },
    /// Nothing.
    Tick,
}

impl Entry {
    pub(crate) fn subscription<'a>(
        customer: &CustomerId,
        services: impl IntoIterator<Item = &'a ServiceId>,
    ) -> Entry {
        Entry::Subscription { customer: customer.to_string(), services: texts(services) }
    }

    pub(crate) fn seats<'a>(user: &UserId, services: impl IntoIterator<Item = &'a ServiceId>) -> Entry {
        Entry::Seats { user: user.to_string(), services: texts(services) }
    }

    pub(crate) fn session(session: &SessionId) -> Entry {
        Entry::Session { session: session.to_string() }
    }

    pub(crate) fn sessions(user: &UserId, ended_at: Time) -> Entry {
        Entry::Sessions { user: user.to_string(), ended_at: ended_at.millis() }
    }

    pub(crate) fn grant(grant: &GrantId) -> Entry {
        Entry::Grant { grant: grant.to_string() }
    }

    pub(crate) fn user(user: &UserId) -> Entry {
        Entry::User { user: user.to_string() }
    }

    pub(crate) fn member(user: &UserId) -> Entry {
        Entry::Member { user: user.to_string() }
    }

    pub(crate) fn service(service: &ServiceId) -> Entry {
        Entry::Service { service: service.to_string() }
    }

    pub(crate) fn plan<'a>(services: impl IntoIterator<Item = &'a ServiceId>, selects: bool) -> Entry {
        Entry::Plan { services: texts(services), selects }
    }

    /// Reads a payload. A version of the server that is older than the entry does not know it, and skips it.
    pub(super) fn read(payload: &str) -> Option<Entry> {
        serde_json::from_str(payload).ok()
    }
}

fn texts<'a>(services: impl IntoIterator<Item = &'a ServiceId>) -> Vec<String> {
    services.into_iter().map(ServiceId::to_string).collect()
}

/// Appends an entry in the transaction of the command.
pub(crate) fn note(tx: &mut Tx<'_>, now: Time, entry: &Entry) -> Result<()> {
    let payload =
        serde_json::to_string(entry).map_err(|error| Error::Internal(format!("an event: {error}")))?;
    Ok(tx.append(&EVENTS, now, payload)?)
}
