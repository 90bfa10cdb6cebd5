//! The tokens of an issuer of OpenID Connect or OAuth 2.0, verified with the keys that it publishes.
//!
//! Promises:
//! - Keys are read when the first token comes, again when their `max-age` has passed, and when a token names a key that
//!   is not in the set; never more often than once a minute, and never twice at the same time. So tokens with invented
//!   key ids do not make this program send requests to the issuer.
//! - While the issuer does not answer, the keys that were read last stay in use. A token that is younger than they are, and has
//!   another key, is put off.
//! - The document of the issuer must name the issuer byte for byte, and no address that is less safe than its own.

use super::cache::{self, VerifiedTokens};
use super::http::{Address, Http};
use super::keys::Keys;
use super::token::{Accept, Refused, Token};
use super::{Misconfigured, refused};
use crate::caller::Authenticating;
use crate::{Authenticate, Caller, Problem};
use parking_lot::Mutex;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use store::Time;
use tokio::sync::{Mutex as Turn, OwnedMutexGuard};

/// The limits on the size of the issuer's documents, in bytes.
const DISCOVERY_SIZE_MAX: usize = 64 * 1024;
const KEYS_SIZE_MAX: usize = 256 * 1024;
/// For how long keys are fresh: what the issuer says, within these bounds.
const FRESH_MIN: Duration = Duration::from_secs(60);
const FRESH_MAX: Duration = Duration::from_secs(24 * 3600);
const FRESH_DEFAULT: Duration = Duration::from_secs(300);
/// The shortest time between two attempts to read the keys; the second one while there are none yet.
const PAUSE: Duration = Duration::from_secs(60);
const PAUSE_WITHOUT_KEYS: Duration = Duration::from_secs(2);
/// How many verified tokens are cached.
const CACHED_MAX: usize = 10_000;

/// Verifies the tokens of one issuer. Clones share keys and caches.
///
/// ```no_run
/// use live::auth::{Accept, Issuer};
///
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let issuer = Issuer::discover("https://id.example.com", Accept::audience("https://api.example.com"))?;
/// let app = live::App::new().authenticate(std::sync::Arc::new(issuer));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Issuer {
    inner: Arc<Inner>,
}

struct Inner {
    issuer: String,
    source: Source,
    accept: Accept,
    http: Http,
    state: Mutex<State>,
    /// When the keys are to be read again, in Unix milliseconds. Each request looks at it, without the lock.
    fresh_until: AtomicI64,
    /// Who holds it reads the keys.
    turn: Arc<Turn<()>>,
    verified: VerifiedTokens,
}

/// Where the keys are.
enum Source {
    /// In the set that the issuer's document names.
    Discovery(Address),
    /// At this address.
    Keys(Address),
}

#[derive(Default)]
struct State {
    keys: Option<Arc<Keys>>,
    /// The last attempt to read them.
    tried_at: Option<Time>,
    /// The last one that found them.
    read_at: Option<Time>,
    /// So many have ended.
    attempts: u64,
}

impl State {
    fn may_try(&self, now: Time) -> bool {
        let pause = if self.keys.is_some() { PAUSE } else { PAUSE_WITHOUT_KEYS };
        // A clock that was set back must not end the attempts.
        self.tried_at.is_none_or(|tried_at| now < tried_at || now.since(tried_at) >= pause)
    }
}

impl Issuer {
    /// An issuer whose document `/.well-known/openid-configuration` names its keys. `issuer` is the value of `iss`,
    /// byte for byte. Nothing is read before the first token; see [`Issuer::ready`].
    pub fn discover(issuer: &str, accept: Accept) -> Result<Issuer, Misconfigured> {
        let place = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        Issuer::new(issuer, Source::Discovery(address(&place)?), accept)
    }

    /// An issuer without such a document, whose key set (JWKS) is at `keys_url`.
    pub fn with_keys_at(issuer: &str, keys_url: &str, accept: Accept) -> Result<Issuer, Misconfigured> {
        Issuer::new(issuer, Source::Keys(address(keys_url)?), accept)
    }

    fn new(issuer: &str, source: Source, accept: Accept) -> Result<Issuer, Misconfigured> {
        let inner = Inner {
            issuer: issuer.to_owned(),
            source,
            http: Http::new(accept.authorities.as_deref()).map_err(Misconfigured)?,
            accept,
            state: Mutex::default(),
            fresh_until: AtomicI64::new(i64::MAX),
            turn: Arc::default(),
            verified: VerifiedTokens::new(CACHED_MAX),
        };
        Ok(Issuer { inner: Arc::new(inner) })
    }

    /// Reads the keys now, for a program that should not start without its issuer.
    pub async fn ready(&self) -> Result<(), Problem> {
        let now = self.inner.now();
        if self.inner.keys().is_none() {
            self.inner.clone().fetch(now, |state| state.keys.is_none()).await;
        }
        self.inner.keys().map(drop).ok_or_else(|| self.inner.unavailable())
    }

    /// Verifies a token.
    pub async fn verify(&self, token: &str) -> Result<Arc<Caller>, Problem> {
        let inner = &self.inner;
        let now = inner.now();
        let hash = cache::hash(token);
        if let Some(caller) = inner.verified.get(&hash, now) {
            inner.refresh(now);
            return Ok(caller);
        }
        let parsed = Token::parse(token, &inner.accept).map_err(refused)?;
        let (keys, generation) = inner.clone().keys_with(&parsed.kid, now).await?;
        let unknown = Refused("The token is signed with a key that its issuer does not publish.");
        let Some(verifier) = keys.find(&parsed.kid) else {
            return Err(inner.not_looked_since(&parsed, now).unwrap_or_else(|| refused(unknown)));
        };
        let verified = parsed.verify(verifier, &inner.issuer, &inner.accept, now).map_err(refused)?;
        let until = verified.until;
        let caller = Arc::new(verified.into_caller());
        inner.verified.insert(hash, caller.clone(), until, now, generation);
        Ok(caller)
    }
}

impl Authenticate for Issuer {
    fn authenticate<'a>(&'a self, token: &'a str) -> Authenticating<'a> {
        Box::pin(async move { Ok(self.verify(token).await?.as_ref().clone()) })
    }
}

impl Inner {
    fn now(&self) -> Time {
        (self.accept.clock)()
    }

    fn keys(&self) -> Option<Arc<Keys>> {
        self.state.lock().keys.clone()
    }

    fn unavailable(&self) -> Problem {
        Problem::unavailable("The keys of the issuer cannot be read. Try again.", PAUSE_WITHOUT_KEYS)
    }

    /// Puts off a token with an unknown key that says to have been made after the keys were read: its key may be new, and invented
    /// tokens may have used up the attempt of this minute. A client that got 401 would sign its user out.
    fn not_looked_since(&self, token: &Token<'_>, now: Time) -> Option<Problem> {
        let (read_at, tried_at) = {
            let state = self.state.lock();
            (state.read_at?, state.tried_at?)
        };
        let is_later = token.issued_unverified().is_some_and(|issued| issued > read_at);
        is_later.then(|| {
            let detail = "The token is signed with a key that its issuer did not publish when its keys were read last. Try again.";
            Problem::unavailable(detail, PAUSE.saturating_sub(now.since(tried_at)).max(PAUSE_WITHOUT_KEYS))
        })
    }

    /// The keys, read again if this one is not among them. The generation is that of the cache for them.
    async fn keys_with(self: Arc<Inner>, kid: &str, now: Time) -> Result<(Arc<Keys>, u64), Problem> {
        let misses = |state: &State| state.keys.as_ref().is_none_or(|keys| keys.find(kid).is_none());
        if misses(&self.state.lock()) {
            self.clone().fetch(now, misses).await;
        } else {
            self.refresh(now);
        }
        let generation = self.verified.generation();
        let keys = self.keys().ok_or_else(|| self.unavailable())?;
        Ok((keys, generation))
    }

    /// Reads the keys if that is still needed and allowed when it is this call's turn.
    async fn fetch(self: Arc<Inner>, now: Time, is_needed: impl Fn(&State) -> bool) {
        // Without a turn where the answer is known, so that these calls do not queue behind a slow issuer.
        let is_due = |state: &State| is_needed(state) && state.may_try(now);
        if !is_due(&self.state.lock()) && self.turn.try_lock().is_ok() {
            return;
        }
        let attempts = self.state.lock().attempts;
        let turn = self.turn.clone().lock_owned().await;
        // A call that waited for the attempt of another one takes its outcome, so each waits for a silent issuer once.
        let is_due = |state: &State| is_due(state) && state.attempts == attempts;
        let is_due = is_due(&self.state.lock());
        if is_due {
            // A task of its own: a client that hangs up does not end it.
            let _ = tokio::spawn(self.read_keys(now, turn)).await;
        }
    }

    /// Reads the keys beside the request if they are stale.
    fn refresh(self: &Arc<Inner>, now: Time) {
        let is_due = || self.is_stale(now) && self.state.lock().may_try(now);
        if !is_due() {
            return;
        }
        let Ok(turn) = self.turn.clone().try_lock_owned() else { return };
        if is_due() {
            drop(tokio::spawn(self.clone().read_keys(now, turn)));
        }
    }

    fn is_stale(&self, now: Time) -> bool {
        let until = Time::from_millis(self.fresh_until.load(Ordering::Relaxed));
        // No keys are fresh for longer: the clock was ahead when they were read.
        until <= now || until > now + FRESH_MAX
    }

    async fn read_keys(self: Arc<Inner>, now: Time, turn: OwnedMutexGuard<()>) {
        self.state.lock().tried_at = Some(now);
        match self.download().await {
            Ok((keys, fresh)) => {
                let mut state = self.state.lock();
                self.fresh_until.store((now + fresh).millis(), Ordering::Relaxed);
                state.read_at = Some(now);
                if state.keys.as_deref() != Some(&keys) {
                    state.keys = Some(Arc::new(keys));
                    // After the new keys are in place: what the old ones verify from now on is not stored.
                    self.verified.clear();
                    tracing::info!(issuer = self.issuer, "the keys of the issuer have been read");
                }
            }
            Err(error) => {
                tracing::warn!(issuer = self.issuer, error, "the keys of the issuer could not be read")
            }
        }
        self.state.lock().attempts += 1;
        drop(turn);
    }

    /// Reads the key set, and for how long it is fresh.
    async fn download(&self) -> Result<(Keys, Duration), String> {
        let place = match &self.source {
            Source::Keys(place) => place.clone(),
            Source::Discovery(place) => self.keys_address(place).await?,
        };
        let document = self.http.document(&place, KEYS_SIZE_MAX).await?;
        let fresh = document.max_age.unwrap_or(FRESH_DEFAULT).clamp(FRESH_MIN, FRESH_MAX);
        Ok((Keys::parse(&document.bytes)?, fresh))
    }

    async fn keys_address(&self, place: &Address) -> Result<Address, String> {
        let document = self.http.document(place, DISCOVERY_SIZE_MAX).await?;
        let document: Value = serde_json::from_slice(&document.bytes)
            .map_err(|error| format!("the document of the issuer is not JSON: {error}"))?;
        let text = |name: &str| document.get(name).and_then(Value::as_str);
        match text("issuer") {
            Some(issuer) if issuer == self.issuer => {}
            other => {
                return Err(format!(
                    "the document of the issuer names the issuer {:?}; configure exactly that, or correct the issuer",
                    other.unwrap_or_default()
                ));
            }
        }
        place.named(text("jwks_uri").ok_or("the document of the issuer has no `jwks_uri`")?)
    }
}

fn address(text: &str) -> Result<Address, Misconfigured> {
    Address::parse(text).map_err(Misconfigured)
}
