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

/// The scope for the addresses of clients: where the codes of users go, and users after a sign-out.
pub const CLIENT_REDIRECTS: &str = "clients:redirects";
/// The scope for the secrets of clients.
pub const CLIENT_SECRETS: &str = "clients:secrets";
/// The scope for links that sign users in or set their passwords.
pub const USER_LINKS: &str = "users:links";

/// What a program may be allowed in an organization. `x:write` includes `x:read`, and none of the others.
pub const SCOPES: &[&str] = &[
    "services:read",
    "services:write",
    "clients:read",
    "clients:write",
    CLIENT_REDIRECTS,
    CLIENT_SECRETS,
    "plans:read",
    "plans:write",
    "customers:read",
    "subscriptions:read",
    "subscriptions:write",
    "users:read",
    "users:write",
    USER_LINKS,
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
}

/// Whether a program with the scope `own` may do what needs the scope `needed`.
fn is_met(own: &Scope, needed: &str) -> bool {
    let writes = needed.strip_suffix(":read").map(|noun| Need::Write.scope(noun));
    own.contains(needed) || writes.is_some_and(|writes| own.contains(&writes))
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
