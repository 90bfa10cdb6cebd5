//! Entries of the log: ids only.
//!
//! An entry names the services or the organization that it concerns, so that delivery to any other service reads nothing.
//! An entry names all that ended, because its rows may be deleted before the entry is delivered. Entries that an earlier
//! version wrote, which are kept for seven days, have `None` there ([`super::revoked::completed`]).

use super::EVENTS;
use crate::ids::{CustomerId, OrganizationId, ServiceId, UserId};
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
    /// A session of a user ended, which had grants at these services.
    Session { session: String, user: Option<String>, services: Option<Vec<String>> },
    /// The sessions of a user that ended at this time; of many, some in each of several entries.
    Sessions { user: String, ended_at: i64, ended: Option<Vec<Ended>> },
    /// A grant of a user at a service was revoked.
    Grant { grant: String, user: Option<String>, service: Option<String> },
    /// The account of a user: its data, or whether it is suspended or deleted.
    User { user: String, organization: Option<String> },
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

/// Sessions that ended and had grants at a service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ended {
    pub(super) service: String,
    pub(super) sessions: Vec<String>,
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

    pub(crate) fn user(user: &UserId, organization: &OrganizationId) -> Entry {
        Entry::User { user: user.to_string(), organization: Some(organization.to_string()) }
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

    /// The services that it names.
    pub(super) fn services(&self) -> Vec<&str> {
        match self {
            Entry::Subscription { services, .. }
            | Entry::Seats { services, .. }
            | Entry::Plan { services, .. }
            | Entry::Session { services: Some(services), .. } => {
                services.iter().map(String::as_str).collect()
            }
            Entry::Sessions { ended: Some(ended), .. } => {
                ended.iter().map(|ended| ended.service.as_str()).collect()
            }
            Entry::Service { service } | Entry::Grant { service: Some(service), .. } => vec![service],
            _ => Vec::new(),
        }
    }

    /// Whether a payload may be an entry that has revoked tokens. It takes less time than to read it.
    pub(super) fn may_revoke(payload: &str) -> bool {
        ["\"session\"", "\"sessions\"", "\"grant\""].iter().any(|kind| payload.contains(kind))
    }

    /// Whether it has revoked tokens at a service, or was written by an earlier version and may have.
    pub(super) fn may_revoke_at(&self, service: &ServiceId) -> bool {
        match self {
            Entry::Session { services: None, .. }
            | Entry::Sessions { ended: None, .. }
            | Entry::Grant { service: None, .. } => true,
            Entry::Session { .. } | Entry::Sessions { .. } | Entry::Grant { .. } => {
                self.services().contains(&service.as_str())
            }
            _ => false,
        }
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
