//! Programs that administer an organization: its API keys, and machine clients to which an owner has granted scopes. Both
//! have the same scopes and are checked in the same way: when a request comes, and again in each command's transaction.
//! No program may do what only an owner may.

use crate::api_keys::{self, ApiKey};
use crate::audit::Actor;
use crate::ids::OrganizationId;
use crate::organizations::{self, Organization, Status};
use crate::program_scopes::is_met;
use crate::secrets::Random;
use crate::{Access, Error, Result, Time, clients};
use std::sync::Arc;
use store::Snapshot;

pub use crate::program_scopes::{CLIENT_REDIRECTS, CLIENT_SECRETS, Need, SCOPES, USER_LINKS, chosen};

/// A program that a request comes from.
#[derive(Clone)]
pub enum Program {
    /// It sent an API key.
    Key(Arc<ApiKey>),
    /// It sent an access token that a client got for itself.
    Client(Access),
}

impl Program {
    /// The organization of the program.
    pub fn organization(&self) -> &OrganizationId {
        match self {
            Program::Key(key) => &key.organization,
            Program::Client(access) => &access.terms.organization,
        }
    }

    /// Whether the program may do what needs this scope, such as `users:read`.
    pub fn allows(&self, needed: &str) -> bool {
        match self {
            Program::Key(key) => is_met(&key.scope, needed),
            Program::Client(access) => is_met(&access.terms.scope, needed),
        }
    }

    /// The program as the actor of a request.
    pub fn actor(&self, address: &str, now: Time, random: &dyn Random) -> Actor {
        match self {
            Program::Key(key) => Actor::api_key(&key.id, address, now, random),
            Program::Client(access) => Actor::client(&access.terms.client, address, now, random),
        }
    }

    /// Checks inside a command that the program still has all scopes that it needs. Returns the organization. A key or
    /// token that is no longer valid is [`Error::InvalidGrant`].
    pub fn require(
        &self,
        snapshot: &mut Snapshot<'_>,
        organization: &OrganizationId,
        needed: &[String],
        now: Time,
    ) -> Result<Organization> {
        let scope = match self {
            Program::Key(key) => api_keys::scope_now(snapshot, organization, &key.id, now)?,
            Program::Client(access) => clients::scope_now(snapshot, organization, access, now)?,
        };
        let organization = organizations::get(snapshot, organization)?;
        if organization.status != Status::Active {
            return Err(Error::InvalidGrant);
        }
        if needed.is_empty() || !needed.iter().all(|needed| is_met(&scope, needed)) {
            let problem = "This program lacks the scope; use an API key or a token that has it.";
            return Err(Error::Forbidden { problem });
        }
        Ok(organization)
    }
}
