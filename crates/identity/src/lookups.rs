//! Caches for frequent reads: clients, verified access tokens and API keys, entitlements, users, organization statuses, the key
//! ring.
//!
//! The functions that read declare the keys of the rows that an entry depends on. A command that changes one of these
//! keys invalidates the entry. A revocation therefore takes effect in this process before the call that made it returns.

use crate::api_keys::{self, ApiKey};
use crate::ids::{ClientId, GrantId, OrganizationId, ServiceId, SessionId, UserId};
use crate::keys::Ring;
use crate::scopes::Scope;
use crate::secrets::{self, Hash, SecretKey};
use crate::tokens::{self, AccessClaims};
use crate::users::{self, User};
use crate::{Error, Result, Time, clients, grants, keys, organizations, revoked_tokens};
use std::sync::Arc;
use store::{Cache, Filled, Snapshot, Store};

pub use crate::entitlements::Entitlement;

const TOKENS_MAX: usize = 20_000;
/// The longest token that is hashed. One of an administrator of hundreds of organizations is shorter.
const TOKEN_LENGTH_MAX: usize = 16 * 1024;
const API_KEYS_MAX: usize = 5_000;
const ENTITLEMENTS_MAX: usize = 20_000;
const CLIENTS_MAX: usize = 5_000;
const USERS_MAX: usize = 20_000;
const ORGANIZATIONS_MAX: usize = 5_000;

/// A valid access token with the objects that it refers to.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    /// The user; `None` if the client acts on its own behalf.
    pub user: Option<UserId>,
    /// The user's session.
    pub session: Option<SessionId>,
    /// The grant of the token.
    pub grant: Option<GrantId>,
    /// The client that received the token.
    pub client: ClientId,
    /// The client's service.
    pub service: Option<ServiceId>,
    /// The client's organization.
    pub organization: OrganizationId,
    /// The audiences.
    pub audiences: Vec<String>,
    /// The granted scope. Of a client's own token, what the client still has of it.
    pub scope: Scope,
    /// The claims.
    pub claims: AccessClaims,
    /// The time of the user's authentication.
    pub authenticated_at: Option<Time>,
}

/// The caches. Clones share their entries.
#[derive(Clone)]
pub struct Lookups {
    store: Store,
    issuer: Arc<str>,
    secret_key: SecretKey,
    clients: Cache<ClientId, Arc<clients::Client>>,
    tokens: Cache<Hash, Arc<Access>>,
    api_keys: Cache<Hash, Arc<ApiKey>>,
    entitlements: Cache<(UserId, ServiceId), Arc<Entitlement>>,
    users: Cache<UserId, Arc<User>>,
    organizations: Cache<OrganizationId, organizations::Status>,
    rings: Cache<(), Ring>,
}

impl Lookups {
    /// Creates empty caches over `store`, for tokens of `issuer`.
    pub fn new(store: Store, issuer: &str, secret_key: SecretKey) -> Lookups {
        Lookups {
            clients: store.cache("clients", CLIENTS_MAX),
            tokens: store.cache("tokens", TOKENS_MAX),
            api_keys: store.cache("API keys", API_KEYS_MAX),
            entitlements: store.cache("entitlements", ENTITLEMENTS_MAX),
            users: store.cache("users", USERS_MAX),
            organizations: store.cache("organizations", ORGANIZATIONS_MAX),
            rings: store.cache("keys", 1),
            store,
            issuer: issuer.into(),
            secret_key,
        }
    }

    /// Gets the client with this id. An invalid or unknown id gives [`Error::NotFound`].
    pub async fn client(&self, id: &str, now: Time) -> Result<Arc<clients::Client>> {
        if let Some(client) = self.clients.get(id, now) {
            return Ok(client);
        }
        let id = ClientId::parse(id)?;
        let wanted = id.clone();
        let found = self.store.fill(&self.clients, id, now, move |snapshot| {
            let client = match clients::get(snapshot, &wanted) {
                // Changes with requests, so it is not cached.
                Ok(client) => clients::Client { pkce_used_at: None, ..client },
                Err(Error::NotFound { .. }) => return Ok(None),
                Err(error) => return Err(error),
            };
            Ok::<_, Error>(Some(Filled { value: Arc::new(client), until: Time::NEVER }))
        });
        found.await?.ok_or(Error::NotFound { what: "client" })
    }

    /// Gets the status of an organization.
    pub async fn status(&self, organization: &OrganizationId, now: Time) -> Result<organizations::Status> {
        let wanted = organization.clone();
        let found = self.store.fill(&self.organizations, organization.clone(), now, move |snapshot| {
            let value = organizations::get(snapshot, &wanted)?.status;
            Ok::<_, Error>(Some(Filled { value, until: Time::NEVER }))
        });
        found.await?.ok_or(Error::NotFound { what: "organization" })
    }

    /// Gets the published keys.
    pub async fn ring(&self, now: Time) -> Result<Ring> {
        let secret_key = self.secret_key.clone();
        let ring = self.store.fill(&self.rings, (), now, move |snapshot| {
            let value = keys::ring(snapshot, &secret_key, now)?;
            // The entry expires because keys retire at fixed times.
            Ok::<_, Error>(Some(Filled { value, until: now + keys::PUBLISH_AHEAD }))
        });
        ring.await?.ok_or_else(|| Error::Internal("no key ring".to_owned()))
    }

    /// Verifies an access token. Returns `None` if it is invalid.
    pub async fn access(&self, token: &[u8], now: Time) -> Result<Option<Arc<Access>>> {
        if token.len() > TOKEN_LENGTH_MAX {
            return Ok(None);
        }
        let hash = secrets::hash(token);
        if let Some(access) = self.tokens.get(&hash, now) {
            return Ok(Some(access));
        }
        // Boxed because a miss is rare: the future of a hit stays small.
        Box::pin(self.verify_uncached(hash, token, now)).await
    }

    async fn verify_uncached(&self, hash: Hash, token: &[u8], now: Time) -> Result<Option<Arc<Access>>> {
        let Ok(token) = std::str::from_utf8(token) else { return Ok(None) };
        let ring = self.ring(now).await?;
        let Some(claims) = tokens::verify_access(&ring, &self.issuer, token, now) else { return Ok(None) };
        self.store
            .fill(&self.tokens, hash, now, move |snapshot| access_of(snapshot, claims.clone(), now))
            .await
    }

    /// Verifies an API key. Returns `None` if it is invalid.
    pub async fn api_key(&self, token: &[u8], now: Time) -> Result<Option<Arc<ApiKey>>> {
        if token.len() > TOKEN_LENGTH_MAX {
            return Ok(None);
        }
        let hash = secrets::hash(token);
        if let Some(key) = self.api_keys.get(&hash, now) {
            return Ok(Some(key));
        }
        let Some(presented) = api_keys::parse(token) else { return Ok(None) };
        let found = self.store.fill(&self.api_keys, hash, now, move |snapshot| {
            let Some(key) = api_keys::verify(snapshot, &presented, now)? else { return Ok(None) };
            let until = key.expires_at.unwrap_or(Time::NEVER);
            Ok::<_, Error>(Some(Filled { value: Arc::new(key), until }))
        });
        found.await
    }

    /// Gets the entitlement of `user` for `service`.
    pub async fn entitlement(
        &self,
        user: &UserId,
        service: &ServiceId,
        now: Time,
    ) -> Result<Arc<Entitlement>> {
        let key = (user.clone(), service.clone());
        let (user, service) = key.clone();
        let found = self.store.fill(&self.entitlements, key, now, move |snapshot| {
            let entitlement = crate::entitlements::of_user(snapshot, &user, &service, now)?;
            let until = entitlement.ends_at.unwrap_or(Time::NEVER);
            Ok::<_, Error>(Some(Filled { value: Arc::new(entitlement), until }))
        });
        found.await?.ok_or(Error::NotFound { what: "subscription" })
    }

    /// Whether the cache has a subscription of `user` to `service`. False does not mean that there is none.
    pub fn is_subscribed(&self, user: &UserId, service: &ServiceId, now: Time) -> bool {
        let found = self.entitlements.get(&(user.clone(), service.clone()), now);
        found.is_some_and(|entitlement| entitlement.is_subscribed)
    }

    /// Gets the user with this id.
    pub async fn user(&self, user: &UserId, now: Time) -> Result<Arc<User>> {
        let wanted = user.clone();
        let found = self.store.fill(&self.users, user.clone(), now, move |snapshot| {
            let value = Arc::new(users::get(snapshot, &wanted)?);
            Ok::<_, Error>(Some(Filled { value, until: Time::NEVER }))
        });
        found.await?.ok_or(Error::NotFound { what: "user" })
    }
}

fn access_of(
    snapshot: &mut Snapshot<'_>,
    claims: AccessClaims,
    now: Time,
) -> Result<Option<Filled<Arc<Access>>>> {
    let expires_at = Time::from_millis(claims.exp.saturating_mul(1000));
    let audiences = claims.aud.clone().into_list();
    let scope = Scope::parse(&claims.scope);
    let grant = claims.jti.split_once('.').and_then(|(grant, _)| GrantId::parse(grant).ok());
    if revoked_tokens::contains(snapshot, &claims.jti)? {
        return Ok(None);
    }
    let (access, until) = match grant {
        Some(id) => {
            let Some(grant) = grants::get(snapshot, &id)?.filter(|grant| grant.is_alive(now)) else {
                return Ok(None);
            };
            let until = expires_at.min(grant.session_expires_at);
            let access = Access {
                user: Some(grant.user),
                session: Some(grant.session),
                grant: Some(id),
                client: grant.client,
                service: grant.service,
                organization: grant.organization,
                audiences,
                scope,
                claims,
                authenticated_at: Some(grant.authenticated_at),
            };
            (access, until)
        }
        None => {
            let Ok(id) = ClientId::parse(&claims.client_id) else { return Ok(None) };
            let client = match clients::get(snapshot, &id) {
                Ok(client) => client,
                Err(Error::NotFound { .. }) => return Ok(None),
                Err(error) => return Err(error),
            };
            if organizations::get(snapshot, &client.organization)?.status != organizations::Status::Active {
                return Ok(None);
            }
            let scope = scope.within(&client.scope);
            let access = Access {
                user: None,
                session: None,
                grant: None,
                client: id,
                service: client.service,
                organization: client.organization,
                audiences,
                scope,
                claims,
                authenticated_at: None,
            };
            (access, expires_at)
        }
    };
    Ok(Some(Filled { value: Arc::new(access), until }))
}
