//! The scopes of programs that administer an organization. API keys and clients are stored with them and `programs` checks
//! them, so this is below all three.

use crate::organizations::{self, Organization};
use crate::scopes::Scope;
use crate::{Error, Result};

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
pub(crate) fn is_met(own: &Scope, needed: &str) -> bool {
    let writes = needed.strip_suffix(":read").map(|noun| Need::Write.scope(noun));
    own.contains(needed) || writes.is_some_and(|writes| own.contains(&writes))
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
