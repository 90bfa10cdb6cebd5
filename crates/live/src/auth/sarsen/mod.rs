//! The tokens of a Sarsen server for one service, and the sessions behind them.
//!
//! A token is verified by the server's keys, like that of any issuer ([`super::Issuer`]). Whether its session still
//! lives, and which organizations the user administers now, is on the server's stream of events (`GET /api/live`):
//! `follow.rs` reads it with an API key of the service and writes what was revoked (`revocations.rs`) and who administers
//! what (`administers.rs`) into the back end's own database, so that requests and open streams depend on them like on any other row.
//!
//! Promises:
//! - When a session ends at the server, its streams here end as soon as the event has arrived, and no frame of a later
//!   version is sent.
//! - When a user's roles as an administrator change at the server, the claim `administers` of [`Caller`] changes, and the
//!   queries of open streams run again.
//! - While the stream of events is stale, requests with a token get 503 and their open streams end, unless
//!   [`WhenStale::Accept`] is chosen. Callers without a token notice nothing.

mod administers;
mod follow;
mod revocations;

pub(crate) use administers::TABLE as ADMINISTERS;
pub(crate) use revocations::TABLE as REVOCATIONS;

use super::http::{Address, Http};
use super::{Accept, Issuer, Misconfigured};
use crate::caller::{Authenticating, Following};
use crate::context::Context;
use crate::given::random;
use crate::{Authenticate, Caller, Problem};
use parking_lot::Mutex;
use revocations::Subject;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use store::{BootTime, Snapshot, Uptime};

/// The stream has a sign of life every 10 seconds.
const STALE_AFTER: Duration = Duration::from_secs(30);
/// Access tokens of Sarsen live for ten minutes.
const LIFETIME_MAX: Duration = Duration::from_secs(900);
const PAUSE_WHEN_STALE: Duration = Duration::from_secs(5);

/// What happens while it is not known whether sessions have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum WhenStale {
    /// Requests with a token get 503, and their open streams end.
    #[default]
    Refuse,
    /// Tokens are accepted until they expire.
    Accept,
}

/// Accepts the access tokens of one service of a Sarsen server. Clones share the state.
///
/// ```no_run
/// use live::auth::Sarsen;
///
/// # fn example(api_key: String) -> Result<(), Box<dyn std::error::Error>> {
/// let sarsen = Sarsen::new("https://id.example.com", "acme/sketch", &api_key)?;
/// let app = live::App::new().authenticate(std::sync::Arc::new(sarsen));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Sarsen {
    issuer: Issuer,
    when_stale: WhenStale,
    stale_after: Duration,
    uptime: Arc<dyn Uptime>,
    shared: Arc<Shared>,
}

struct Shared {
    http: Http,
    state: Address,
    live: Address,
    /// `Bearer` and the API key.
    authorization: String,
    /// The row that is there while this process is stale.
    own: Subject,
    /// The last sign of life of the stream, after what came before it was applied. By [`Sarsen::uptime`].
    heard_at: Mutex<Option<Duration>>,
    /// From before the row `own` is written until after it is removed. The row ends streams; a request that finds it
    /// would get 401, and its client would sign the user out.
    is_closed: AtomicBool,
}

impl Sarsen {
    /// The service is `organization/service`, as in the audience of its tokens. The API key is one of this service.
    pub fn new(issuer: &str, service: &str, api_key: &str) -> Result<Sarsen, Misconfigured> {
        Sarsen::accepting(issuer, Accept::audience(format!("service:{service}")), api_key)
    }

    /// The same with other rules for tokens: another clock, authority or type.
    pub fn accepting(issuer: &str, accept: Accept, api_key: &str) -> Result<Sarsen, Misconfigured> {
        let address = |path: &str| {
            Address::parse(&format!("{}{path}", issuer.trim_end_matches('/'))).map_err(Misconfigured)
        };
        if api_key.is_empty() || !api_key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Misconfigured(
                "the API key is empty or has spaces; use one as it was printed".to_owned(),
            ));
        }
        let shared = Shared {
            http: Http::new(accept.authorities.as_deref()).map_err(Misconfigured)?,
            // The first page has all that was revoked.
            state: address("/api/service/state?limit=1")?,
            live: address("/api/live")?,
            authorization: format!("Bearer {api_key}"),
            own: Subject::stale(&random()),
            heard_at: Mutex::default(),
            is_closed: AtomicBool::new(false),
        };
        let issuer = Issuer::discover(issuer, accept.lifetime_max(LIFETIME_MAX))?;
        Ok(Sarsen {
            issuer,
            when_stale: WhenStale::default(),
            stale_after: STALE_AFTER,
            uptime: Arc::new(BootTime),
            shared: Arc::new(shared),
        })
    }

    /// What happens while the stream is stale. The default is [`WhenStale::Refuse`].
    pub fn when_stale(self, when_stale: WhenStale) -> Sarsen {
        Sarsen { when_stale, ..self }
    }

    /// How long the stream may be silent. The default is 30 seconds; the server sends something every 10.
    pub fn stale_after(self, stale_after: Duration) -> Sarsen {
        Sarsen { stale_after, ..self }
    }

    /// Another clock for the silence of the stream, for tests. The default one also counts the time in which the machine
    /// is suspended.
    pub fn uptime(self, uptime: Arc<dyn Uptime>) -> Sarsen {
        Sarsen { uptime, ..self }
    }

    /// Whether all that the server has revoked is known here.
    pub fn is_fresh(&self) -> bool {
        let heard_at = *self.shared.heard_at.lock();
        heard_at.is_some_and(|heard_at| self.is_recent(heard_at))
    }

    fn is_recent(&self, moment: Duration) -> bool {
        self.uptime.now().saturating_sub(moment) < self.stale_after
    }
}

impl Authenticate for Sarsen {
    fn authenticate<'a>(&'a self, token: &'a str) -> Authenticating<'a> {
        Box::pin(async move {
            let caller = self.issuer.verify(token).await?;
            self.refusal().map_or_else(|| Ok(caller.as_ref().clone()), Err)
        })
    }

    fn refusal(&self) -> Option<Problem> {
        let is_open = || self.is_fresh() && !self.shared.is_closed.load(Ordering::Acquire);
        (self.when_stale == WhenStale::Refuse && !is_open()).then(|| {
            let detail = "It is not known which sessions have ended. Try again.";
            Problem::unavailable(detail, PAUSE_WHEN_STALE)
        })
    }

    fn has_standing(&self) -> bool {
        true
    }

    fn standing(&self, snapshot: &mut Snapshot<'_>, caller: &Caller) -> Result<Option<Caller>, Problem> {
        if caller.subject.is_none() && caller.claims.is_empty() {
            // Nothing can be revoked of a caller without a token.
            return Ok(Some(caller.clone()));
        }
        let subjects = Subject::of_caller(caller).into_iter().chain([self.shared.own.clone()]);
        for subject in subjects {
            if revocations::is_revoked(snapshot, &subject)? {
                return Ok(None);
            }
        }
        let administers = match &caller.subject {
            Some(user) => administers::of_user(snapshot, user)?,
            None => None,
        };
        let caller = caller.clone();
        Ok(Some(match administers {
            Some(list) => caller.with_claim("administers", list),
            None => caller,
        }))
    }

    /// Not again after an interruption: all instances would leave at once.
    fn is_ready(&self) -> bool {
        self.when_stale == WhenStale::Accept || self.shared.heard_at.lock().is_some()
    }

    fn is_fresh(&self) -> bool {
        Sarsen::is_fresh(self)
    }

    fn follow(&self, context: &Context) -> Option<Following> {
        Some(Box::pin(follow::run(self.clone(), context.clone())))
    }
}
