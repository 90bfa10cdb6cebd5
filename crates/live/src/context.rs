//! What routes and tasks can reach: the database, the time, and the caller of a request.

use crate::app::Registry;
use crate::background::WorkMetrics;
use crate::caller::{Caller, earlier};
use crate::engine::Engine;
use crate::given::{random, state_of};
use crate::stream::Standing;
use crate::{Given, Limits, Problem};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use std::any::Any;
use std::sync::{Arc, Once};
use store::{Read, Store, Time};

/// A token that no authenticator reads is named in the log once.
static UNREAD_TOKEN: Once = Once::new();

/// What routes and tasks can reach.
#[derive(Clone)]
pub struct Context(pub(crate) Arc<Parts>);

pub(crate) struct Parts {
    pub(crate) store: Store,
    pub(crate) engine: Arc<Engine>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) limits: Limits,
    pub(crate) streams: crate::http::Streams,
    pub(crate) streams_stopped: tokio::sync::watch::Receiver<bool>,
    pub(crate) operator_token: Option<String>,
    pub(crate) canary: crate::http::canary::Canary,
    pub(crate) requests: crate::backend::RequestMetrics,
    pub(crate) work: WorkMetrics,
    pub(crate) calls: web::CallerCounts,
    pub(crate) keyed_calls: web::CallerCounts,
    pub(crate) unread: crate::http::Unread,
    pub(crate) problem_page: Option<fn(&Problem) -> String>,
    /// The id of this process.
    pub(crate) instance: String,
    pub(crate) standings: store::Cache<String, Option<Caller>>,
    /// The present time; an argument of everything below.
    pub(crate) clock: Arc<dyn Fn() -> Time + Send + Sync>,
}

impl Context {
    /// The database.
    pub fn store(&self) -> &Store {
        &self.0.store
    }

    /// Now.
    pub fn now(&self) -> Time {
        (self.0.clock)()
    }

    /// What was given to [`crate::App::with`].
    pub fn state<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        state_of(&self.0.registry.state)
    }

    /// What a mutation would be given.
    pub fn given(&self) -> Given {
        Given::new(self.now(), random(), &self.0.registry)
    }

    /// The caller of a request, by its bearer token, as the database sees them now. A request without one has an anonymous
    /// caller.
    pub async fn caller(&self, headers: &HeaderMap) -> Result<Caller, Problem> {
        match headers.get(AUTHORIZATION) {
            None => Ok(Caller::anonymous()),
            Some(_) => Ok(self.caller_with_token(headers).await?.now),
        }
    }

    /// The same, with what the token says.
    pub(crate) async fn caller_with_token(&self, headers: &HeaderMap) -> Result<Standing, Problem> {
        let authenticated = self.authenticated(headers).await?;
        let now = match headers.contains_key(AUTHORIZATION) {
            true => self.standing(authenticated.clone()).await?,
            false => authenticated.clone(),
        };
        Ok(Standing { authenticated, now })
    }

    async fn authenticated(&self, headers: &HeaderMap) -> Result<Caller, Problem> {
        let mut sent = headers.get_all(AUTHORIZATION).iter();
        let Some(header) = sent.next() else { return Ok(Caller::anonymous()) };
        if sent.next().is_some() {
            return Err(Problem::invalid(
                "authorization",
                "There is more than one Authorization header. Send one.",
            ));
        }
        let Some(authenticator) = &self.0.registry.authenticator else {
            UNREAD_TOKEN.call_once(|| {
                tracing::warn!("a request has a token, but the app reads none; add `App::authenticate`");
            });
            return Ok(Caller::anonymous());
        };
        let token = header.to_str().ok().and_then(|text| text.split_once(' '));
        let Some((_, token)) = token.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")) else {
            return Err(Problem::unauthenticated());
        };
        authenticator.authenticate(token.trim()).await
    }

    /// The caller as the database sees them now; 401 if their session has ended.
    pub(crate) async fn standing(&self, caller: Caller) -> Result<Caller, Problem> {
        let authenticator = self.0.registry.authenticator.as_ref().filter(|auth| auth.has_standing());
        let Some(authenticator) = authenticator.cloned() else { return Ok(caller) };
        let key = crate::stream::standing_key(&caller);
        let (expires, asked) = (caller.expires, caller);
        let now = self.now();
        let read = move |snapshot: &mut store::Snapshot<'_>| {
            snapshot.set_time(now);
            let value = Caller::read(&*authenticator, snapshot, &asked)?;
            let until = value.as_ref().and_then(|caller| caller.expires).unwrap_or(Time::NEVER);
            Ok::<_, Problem>(Some(store::Filled { value, until }))
        };
        let standing = self.0.store.fill(&self.0.standings, key, now, read).await?.flatten();
        self.living(standing, expires, now)
    }

    /// The caller that was read, unless their session has ended. `expires` is the end of the token.
    fn living(&self, read: Option<Caller>, expires: Option<Time>, now: Time) -> Result<Caller, Problem> {
        let Some(read) = read else {
            let refusal = self.0.registry.authenticator.as_ref().and_then(|one| one.refusal());
            return Err(refusal.unwrap_or_else(Context::session_ended));
        };
        let living = Some(read).filter(|caller| !caller.has_ended(now)).ok_or_else(Context::session_ended)?;
        Ok(Caller { expires: earlier(expires, living.expires), ..living })
    }

    /// The caller of a request as the database of the primary has them, whatever this process has cached.
    pub(crate) async fn caller_read_anew(&self, headers: &HeaderMap) -> Result<Standing, Problem> {
        let authenticated = self.authenticated(headers).await?;
        let authenticator = self.0.registry.authenticator.as_ref().filter(|auth| auth.has_standing());
        let Some(authenticator) = authenticator.cloned() else {
            return Ok(Standing { now: authenticated.clone(), authenticated });
        };
        let (expires, asked) = (authenticated.expires, authenticated.clone());
        let now = self.now();
        let read = move |snapshot: &mut store::Snapshot<'_>| {
            snapshot.set_time(now);
            Caller::read(&*authenticator, snapshot, &asked)
        };
        let present = self.0.store.point(read).await?;
        Ok(Standing { authenticated, now: self.living(present, expires, now)? })
    }

    pub(crate) fn session_ended() -> Problem {
        Problem::invalid_token("The session of the token has ended. Sign in again.")
    }

    /// Runs a query, in a state not older than `version`. A replica may answer queries that are not points.
    pub(crate) fn read(is_point: bool, version: Option<store::Version>) -> Read {
        let read = if is_point { Read::default().point() } else { Read::default().from_replica() };
        version.map_or(read, |version| read.not_older_than(version))
    }
}
