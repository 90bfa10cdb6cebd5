//! What a valid access token allows, as the caches hold it: there may be a million, so each is small.

use crate::ids::{ClientId, GrantId, OrganizationId, ServiceId, SessionId, UserId};
use crate::scopes::Scope;
use crate::tokens::AccessClaims;
use crate::{Error, Result, Time, clients, grants, organizations, revoked_tokens};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::num::NonZeroU128;
use std::sync::Arc;
use store::{Filled, Snapshot, Weigh, allocated};

/// The most terms that are shared. Tokens of services have one for each client and scope.
const SHARED_MAX: usize = 4096;

/// A valid access token with the objects that it refers to.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    /// The user; `None` if the client acts on its own behalf.
    pub user: Option<UserId>,
    session: Option<NonZeroU128>,
    grant: Option<NonZeroU128>,
    /// The `jti` of a token with which a client acts on its own behalf. Tokens of users are revoked with their grants.
    pub own_jti: Option<Arc<str>>,
    /// When the token expires.
    pub expires_at: Time,
    /// What it has in common with other tokens of its client.
    pub terms: Arc<Terms>,
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
    /// The user's session.
    pub fn session(&self) -> Option<SessionId> {
        self.session.map(|uuid| SessionId::from_uuid(uuid.get()))
    }

    /// The grant of the token.
    pub fn grant(&self) -> Option<GrantId> {
        self.grant.map(|uuid| GrantId::from_uuid(uuid.get()))
    }
}

impl Weigh for Access {
    fn heap_bytes(&self) -> usize {
        // The set and this access have one each: nobody else has these terms so far.
        let is_first = Arc::strong_count(&self.terms) <= 2;
        let terms = if is_first { allocated(size_of::<Terms>()) + self.terms.heap_bytes() } else { 0 };
        self.user.heap_bytes() + self.own_jti.heap_bytes() + terms
    }
}

impl Weigh for Terms {
    fn heap_bytes(&self) -> usize {
        let slugs = self.organization_slug.heap_bytes() + self.service_slug.heap_bytes();
        let ids = self.client.heap_bytes() + self.service.heap_bytes() + self.organization.heap_bytes();
        ids + slugs + self.audiences.heap_bytes() + self.scope.heap_bytes()
    }
}

/// Terms of cached tokens, each once. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct SharedTerms(Arc<Mutex<HashSet<Arc<Terms>>>>);

impl SharedTerms {
    fn share(&self, terms: Terms) -> Arc<Terms> {
        let mut known = self.0.lock();
        if let Some(terms) = known.get(&terms) {
            return terms.clone();
        }
        if known.len() >= SHARED_MAX {
            // Entries keep what they have, and new ones share again.
            known.clear();
        }
        let terms = Arc::new(terms);
        known.insert(terms.clone());
        terms
    }
}

/// Reads the state of a token whose signature, issuer and times are right. `None` if it was revoked.
pub(crate) fn read(
    snapshot: &mut Snapshot<'_>,
    claims: &AccessClaims,
    shared: &SharedTerms,
    now: Time,
) -> Result<Option<Filled<Arc<Access>>>> {
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
    shared: &SharedTerms,
    now: Time,
) -> Result<Option<Filled<Arc<Access>>>> {
    let Some(grant) = grants::get(snapshot, id)?.filter(|grant| grant.is_alive(now)) else {
        return Ok(None);
    };
    let expires_at = expiry(claims);
    let scope = Scope::parse(&claims.scope);
    let access = Access {
        session: grant.session.to_uuid().and_then(NonZeroU128::new),
        grant: id.to_uuid().and_then(NonZeroU128::new),
        own_jti: None,
        expires_at,
        terms: shared.share(terms(claims, grant.client, grant.service, grant.organization, scope)),
        user: Some(grant.user),
    };
    Ok(Some(Filled { value: Arc::new(access), until: expires_at.min(grant.session_expires_at) }))
}

fn of_client(
    snapshot: &mut Snapshot<'_>,
    claims: &AccessClaims,
    shared: &SharedTerms,
) -> Result<Option<Filled<Arc<Access>>>> {
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
    let scope = Scope::parse(&claims.scope).within(&client.scope);
    let until = expiry(claims);
    let access = Access {
        user: None,
        session: None,
        grant: None,
        own_jti: Some(claims.jti.as_str().into()),
        expires_at: until,
        terms: shared.share(terms(claims, id, client.service, client.organization, scope)),
    };
    Ok(Some(Filled { value: Arc::new(access), until }))
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

fn expiry(claims: &AccessClaims) -> Time {
    Time::from_millis(claims.exp.saturating_mul(1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_is_small_because_there_may_be_a_million() {
        assert!(size_of::<Access>() <= 80, "{}", size_of::<Access>());
    }
}
