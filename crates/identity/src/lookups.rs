//! Caches for frequent reads: clients, verified access tokens and API keys, entitlements, users, statuses of organizations and
//! what their pages show, the key ring.
//!
//! The functions that read declare the keys of the rows that an entry depends on. A command that changes one of these
//! keys invalidates the entry. A revocation therefore takes effect in this process before the call that made it returns.

use crate::access::{self, Access, Terms};
use crate::api_keys::{self, ApiKey};
use crate::ids::{ClientId, KeyId, OrganizationId, ServiceId, UserId};
use crate::keys::Ring;
use crate::secrets::{self, Hash, SecretKey};
use crate::shared::Shared;
use crate::tokens;
use crate::users::{self, User};
use crate::verified_tokens::VerifiedTokens;
use crate::{Error, Result, Time, branding, clients, keys, organizations};
use std::sync::Arc;
use store::{Cache, CacheStats, Filled, Snapshot, Store};

pub use crate::entitlements::Entitlement;

/// The longest token that is hashed. One of an administrator of hundreds of organizations is shorter.
const TOKEN_LENGTH_MAX: usize = 16 * 1024;
/// The share of the memory of all caches that is for the signatures of tokens: one part in this many.
const VERIFIED_PART: usize = 8;

/// Half of the hash of a token.
type HalfHash = [u8; 16];

/// The caches. Clones share their entries.
#[derive(Clone)]
pub struct Lookups {
    store: Store,
    issuer: Arc<str>,
    secret_key: SecretKey,
    clients: Cache<ClientId, Arc<clients::Client>>,
    /// By half of the token's hash: enough that nobody finds another token with the same half.
    tokens: Cache<HalfHash, Access>,
    terms: Shared<Terms>,
    verified: VerifiedTokens,
    api_keys: Cache<Hash, Arc<ApiKey>>,
    entitlements: Cache<(UserId, ServiceId), Arc<Entitlement>>,
    users: Cache<UserId, Arc<User>>,
    organizations: Cache<OrganizationId, organizations::Status>,
    contacts: Cache<OrganizationId, Arc<str>>,
    rings: Cache<(), Ring>,
}

impl Lookups {
    /// Creates empty caches over `store`, for tokens of `issuer`.
    pub fn new(store: Store, issuer: &str, secret_key: SecretKey) -> Lookups {
        Lookups {
            clients: store.cache("clients"),
            tokens: store.cache("tokens"),
            terms: Shared::default(),
            verified: VerifiedTokens::new(store.reserve_cache_memory(VERIFIED_PART)),
            api_keys: store.cache("API keys"),
            entitlements: store.cache("entitlements"),
            users: store.cache("users"),
            organizations: store.cache("organizations"),
            contacts: store.cache("contacts"),
            rings: store.cache("keys"),
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
        let found = self.store.fill_anew(&self.clients, id, now, move |snapshot| {
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

    /// Gets the contact that the pages of an organization show; empty for none.
    pub async fn contact(&self, organization: &OrganizationId, now: Time) -> Result<Arc<str>> {
        let wanted = organization.clone();
        let found = self.store.fill(&self.contacts, organization.clone(), now, move |snapshot| {
            let value = branding::get(snapshot, &wanted)?.contact.into();
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
    pub async fn access(&self, token: &[u8], now: Time) -> Result<Option<Access>> {
        if token.len() > TOKEN_LENGTH_MAX {
            return Ok(None);
        }
        let hash = secrets::hash(token);
        if let Some(access) = self.tokens.get(&half(&hash), now) {
            return Ok(Some(access));
        }
        // Boxed because a miss is rare: the future of a hit stays small.
        Box::pin(self.verify_uncached(hash, token, now)).await
    }

    async fn verify_uncached(&self, hash: Hash, token: &[u8], now: Time) -> Result<Option<Access>> {
        let Ok(token) = std::str::from_utf8(token) else { return Ok(None) };
        let ring = self.ring(now).await?;
        let mut is_new = true;
        let verified = tokens::verify_access(&ring, &self.issuer, token, now, |key| {
            is_new = !self.verified.has(&hash, key, now);
            !is_new
        });
        let Some(tokens::Verified { claims, key }) = verified else { return Ok(None) };
        if is_new {
            self.verified.note(&hash, key, expiry(claims.exp), now);
        }
        let terms = self.terms.clone();
        let read = move |snapshot: &mut Snapshot<'_>| access::read(snapshot, &claims, &terms, now);
        self.store.fill_anew(&self.tokens, half(&hash), now, read).await
    }

    /// Notes an access token that `key` has just signed: its first request needs no verification of the signature.
    pub fn note_signed(&self, token: &str, key: &KeyId, exp: i64, now: Time) {
        self.verified.note(&secrets::hash(token.as_bytes()), key, expiry(exp), now);
    }

    /// The counters of the set of verified signatures.
    pub fn verified_stats(&self) -> CacheStats {
        self.verified.stats()
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
        let found = self.store.fill_anew(&self.api_keys, hash, now, move |snapshot| {
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

fn half(hash: &Hash) -> HalfHash {
    std::array::from_fn(|place| hash[place])
}

/// The time of an `exp`.
fn expiry(seconds: i64) -> Time {
    Time::from_millis(seconds.saturating_mul(1000))
}
