//! Programs that administer an organization: its API keys, and machine clients to which an owner has granted scopes. Both
//! have the same scopes and are checked in the same way: when a request comes, and again in each command's transaction.
//! No program may do what only an owner may.

use crate::api_keys::{self, ApiKey};
use crate::audit::Actor;
use crate::ids::OrganizationId;
use crate::organizations::{self, Organization, Status};
use crate::scopes::Scope;
use crate::secrets::Random;
use crate::{Access, Error, Result, Time, clients};
use std::sync::Arc;
use store::Snapshot;

/// What a program may be allowed in an organization. `x:write` includes `x:read`.
pub const SCOPES: &[&str] = &[
    "services:read",
    "services:write",
    "clients:read",
    "clients:write",
    "plans:read",
    "plans:write",
    "customers:read",
    "subscriptions:read",
    "subscriptions:write",
    "users:read",
    "users:write",
    "audit:read",
    "billing:read",
    "billing:write",
];

/// Whether a request reads or changes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// It reads.
    Read,
    /// It changes something.
    Write,
}

impl Need {
    /// The scope that covers this need for objects of a kind, such as `users:write`.
    pub fn scope(self, noun: &str) -> String {
        match self {
            Need::Read => format!("{noun}:read"),
            Need::Write => format!("{noun}:write"),
        }
    }

    /// Whether a program with this scope may do it.
    fn is_met(self, scope: &Scope, noun: &str) -> bool {
        scope.contains(&Need::Write.scope(noun))
            || (self == Need::Read && scope.contains(&Need::Read.scope(noun)))
    }
}

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

    /// Whether the program may do this with objects of a kind, such as `users`.
    pub fn allows(&self, noun: &str, need: Need) -> bool {
        match self {
            Program::Key(key) => need.is_met(&key.scope, noun),
            Program::Client(access) => need.is_met(&access.terms.scope, noun),
        }
    }

    /// The program as the actor of a request.
    pub fn actor(&self, address: &str, now: Time, random: &dyn Random) -> Actor {
        match self {
            Program::Key(key) => Actor::api_key(&key.id, address, now, random),
            Program::Client(access) => Actor::client(&access.terms.client, address, now, random),
        }
    }

    /// Checks inside a command that the program still may. Returns the organization. A key or token that is no longer
    /// valid is [`Error::InvalidGrant`].
    pub fn require(
        &self,
        snapshot: &mut Snapshot<'_>,
        organization: &OrganizationId,
        noun: &str,
        need: Need,
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
        if !need.is_met(&scope, noun) {
            let problem = "This program lacks the scope; use an API key or a token that has it.";
            return Err(Error::Forbidden { problem });
        }
        Ok(organization)
    }
}

/// Refuses programs that administer `platform`: its administrators can sign in as users who administer other organizations,
/// and only platform owners may be that. A key of a service of `platform` administers nothing.
pub(crate) fn refuse_platform(organization: &Organization) -> Result<()> {
    if organization.slug != organizations::PLATFORM {
        return Ok(());
    }
    let problem = "programs cannot administer the organization platform; use another organization";
    Err(Error::refused("platform_has_no_keys", problem))
}

/// Checks requested scopes against those that there are.
pub fn chosen(requested: &[String], known: &[&str]) -> Result<Scope> {
    if requested.is_empty() {
        return Err(Error::wrong("missing", "scopes", format!("name some of {}", known.join(", "))));
    }
    if let Some(unknown) = requested.iter().find(|scope| !known.contains(&scope.as_str())) {
        let problem = format!("{unknown:?} is not a scope here; use some of {}", known.join(", "));
        return Err(Error::wrong("not_allowed", "scopes", problem));
    }
    Ok(Scope::parse(&requested.join(" ")))
}
