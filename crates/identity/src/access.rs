//! What a valid access token allows, as the caches hold it: there may be a million, so each is small.

use crate::ids::{AuditId, ClientId, GrantId, OrganizationId, ServiceId, SessionId, UserId};
use crate::scopes::Scope;
use crate::shared::{Common, Shared};
use crate::tokens::AccessClaims;
use crate::{Error, Result, Time, clients, grants, organizations, revoked_tokens, tokens};
use store::{Filled, Snapshot, Weigh};

/// A valid access token with the objects that it refers to.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    holder: Holder,
    /// In Unix seconds.
    expires_at: u32,
    /// What it has in common with other tokens of its client.
    pub terms: Common<Terms>,
}

/// The user or the client of a token. An id is the bytes of its UUID.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Holder {
    /// Tokens of users are revoked with their grants.
    User { user: [u8; 16], session: [u8; 16], grant: [u8; 16] },
    /// A client on its own behalf.
    Client { jti: [u8; 16] },
}

/// Client, audience and scope of a token.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    /// The client that received the token.
    pub client: ClientId,
    /// The client's service.
    pub service: Option<ServiceId>,
    /// The client's organization.
    pub organization: OrganizationId,
    /// The slug of the organization, if the token names it.
    pub organization_slug: Option<String>,
    /// The slug of the service, if the token names it.
    pub service_slug: Option<String>,
    /// The audiences.
    pub audiences: Vec<String>,
    /// The granted scope. Of a client's own token, what the client still has of it.
    pub scope: Scope,
}

impl Access {
    /// The user; `None` if the client acts on its own behalf.
    pub fn user(&self) -> Option<UserId> {
        match self.holder {
            Holder::User { user, .. } => Some(UserId::from_bytes(user)),
            Holder::Client { .. } => None,
        }
    }

    /// The user's session.
    pub fn session(&self) -> Option<SessionId> {
        match self.holder {
            Holder::User { session, .. } => Some(SessionId::from_bytes(session)),
            Holder::Client { .. } => None,
        }
    }

    /// The grant of the token.
    pub fn grant(&self) -> Option<GrantId> {
        match self.holder {
            Holder::User { grant, .. } => Some(GrantId::from_bytes(grant)),
            Holder::Client { .. } => None,
        }
    }

    /// The `jti` of a token with which a client acts on its own behalf.
    pub fn own_jti(&self) -> Option<String> {
        match self.holder {
            Holder::User { .. } => None,
            Holder::Client { jti } => Some(tokens::jti_of(&AuditId::from_bytes(jti)).to_owned()),
        }
    }

    /// When the token expires.
    pub fn expires_at(&self) -> Time {
        Time::from_millis(i64::from(self.expires_at) * 1000)
    }
}

impl Weigh for Access {
    fn heap_bytes(&self) -> usize {
        self.terms.heap_bytes()
    }
}

impl Weigh for Terms {
    fn heap_bytes(&self) -> usize {
        let slugs = self.organization_slug.heap_bytes() + self.service_slug.heap_bytes();
        let ids = self.client.heap_bytes() + self.service.heap_bytes() + self.organization.heap_bytes();
        ids + slugs + self.audiences.heap_bytes() + self.scope.heap_bytes()
    }
}

/// Reads the state of a token whose signature, issuer and times are right. `None` if it was revoked.
pub(crate) fn read(
    snapshot: &mut Snapshot<'_>,
    claims: &AccessClaims,
    shared: &Shared<Terms>,
    now: Time,
) -> Result<Option<Filled<Access>>> {
    let grant = claims.jti.split_once('.').and_then(|(grant, _)| GrantId::parse(grant).ok());
    match grant {
        Some(id) => of_user(snapshot, claims, &id, shared, now),
        None => of_client(snapshot, claims, shared),
    }
}

fn of_user(
    snapshot: &mut Snapshot<'_>,
    claims: &AccessClaims,
    id: &GrantId,
    shared: &Shared<Terms>,
    now: Time,
) -> Result<Option<Filled<Access>>> {
    let Some(grant) = grants::get(snapshot, id)?.filter(|grant| grant.is_alive(now)) else {
        return Ok(None);
    };
    let ids = (grant.user.to_bytes(), grant.session.to_bytes(), id.to_bytes());
    let (Some(user), Some(session), Some(id)) = ids else { return Ok(None) };
    let scope = Scope::parse(&claims.scope);
    let value = Access {
        holder: Holder::User { user, session, grant: id },
        expires_at: expiry(claims),
        terms: shared.share(terms(claims, grant.client, grant.service, grant.organization, scope)),
    };
    let until = value.expires_at().min(grant.session_expires_at);
    Ok(Some(Filled { value, until }))
}

fn of_client(
    snapshot: &mut Snapshot<'_>,
    claims: &AccessClaims,
    shared: &Shared<Terms>,
) -> Result<Option<Filled<Access>>> {
    if revoked_tokens::contains(snapshot, &claims.jti)? {
        return Ok(None);
    }
    let Ok(id) = ClientId::parse(&claims.client_id) else { return Ok(None) };
    let client = match clients::get(snapshot, &id) {
        Ok(client) => client,
        Err(Error::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    if organizations::get(snapshot, &client.organization)?.status != organizations::Status::Active {
        return Ok(None);
    }
    let Some(jti) = tokens::id_of_jti(&claims.jti).and_then(|id| id.to_bytes()) else { return Ok(None) };
    let scope = Scope::parse(&claims.scope).within(&client.scope);
    let value = Access {
        holder: Holder::Client { jti },
        expires_at: expiry(claims),
        terms: shared.share(terms(claims, id, client.service, client.organization, scope)),
    };
    let until = value.expires_at();
    Ok(Some(Filled { value, until }))
}

fn terms(
    claims: &AccessClaims,
    client: ClientId,
    service: Option<ServiceId>,
    organization: OrganizationId,
    scope: Scope,
) -> Terms {
    Terms {
        client,
        service,
        organization,
        organization_slug: claims.org.clone(),
        service_slug: claims.service.clone(),
        audiences: claims.aud.clone().into_list(),
        scope,
    }
}

/// In Unix seconds, which fit into 32 bits until 2106.
fn expiry(claims: &AccessClaims) -> u32 {
    u32::try_from(claims.exp.max(0)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_is_small_because_there_may_be_a_million() {
        assert!(size_of::<Access>() <= 64, "{}", size_of::<Access>());
    }
}
