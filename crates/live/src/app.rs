//! An app: queries, mutations, routes, tasks, and how callers are recognised.

use crate::caller::{Authenticate, Caller, earlier};
use crate::engine::Engine;
use crate::query::{MutationEntry, QueryEntry};
use crate::stream::Standing;
use crate::work::effects::EffectEntry;
use crate::work::repeated::{Every, LOOK, When};
use crate::work::tasks::TaskEntry;
use crate::work::{Effect, State, WorkMetrics};
use crate::{Mutation, Problem, Query, Task, once, openapi, typescript};
use axum::Router;
use axum::handler::Handler;
use axum::middleware::from_fn;
use http::header::AUTHORIZATION;
use http::{HeaderMap, StatusCode};
use std::any::{Any, TypeId};
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Once};
use std::time::Duration;
use store::{Log, Migration, Read, Store, Time};

/// What one client, and all together, may take. All of them are settings.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Streams of this process. Callers without a token have at most half of them.
    pub streams_max: usize,
    /// Streams of one user.
    pub streams_per_caller_max: usize,
    /// Streams without a token from one network (an IPv4 address, or a /64 of IPv6).
    pub streams_per_network_max: usize,
    /// Subscriptions of one stream.
    pub subscriptions_max: usize,
    /// Subscriptions of all streams of one user, or of one network without a token; of IPv6 the /48.
    pub subscriptions_per_caller_max: usize,
    /// Bytes of one answer of a live query.
    pub frame_bytes_max: usize,
    /// Bytes of the answers that one user's live queries have, or those of one network without a token. An answer that several
    /// of its streams watch counts once. As many bytes may wait in the answers of calls that the caller has not read.
    pub answer_bytes_per_caller_max: usize,
    /// Bytes of all answers that are kept, and of the arguments that lead to them. Above it, live queries that nobody
    /// watches yet are refused, and calls of queries with long answers; above half of it those of callers without a token,
    /// where callers may have one.
    pub answer_bytes_max: usize,
    /// Runs of live queries at a time. Of them an eighth may be queries that are no points; two where a server keeps the
    /// database.
    pub runs_max: usize,
    /// Calls of one user, or of one network without a token, in ten seconds. No limit unless it is set.
    pub calls_per_caller_max: usize,
    /// Mutations with an `Idempotency-Key` of one user, or of one network without a token, in a quarter of an hour: the answer of
    /// each is kept for a day.
    pub keyed_calls_per_caller_max: usize,
    /// Bytes of the body of a request. JSON may have a value, and a form a field, for every 16 of them.
    pub body_bytes_max: usize,
    /// How often a stream without changes sends a comment.
    pub heartbeat: Duration,
    /// How long a long poll is held.
    pub poll_time: Duration,
    /// Clients come back within this time when the server stops.
    pub return_time: Duration,
    /// A command that runs longer is named in the log and counted.
    pub slow_command: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            streams_max: 20_000,
            streams_per_caller_max: 100,
            streams_per_network_max: 1_000,
            subscriptions_max: 500,
            subscriptions_per_caller_max: 10_000,
            frame_bytes_max: 1024 * 1024,
            answer_bytes_per_caller_max: 64 * 1024 * 1024,
            answer_bytes_max: 512 * 1024 * 1024,
            runs_max: 64,
            calls_per_caller_max: usize::MAX,
            keyed_calls_per_caller_max: 10_000,
            body_bytes_max: 256 * 1024,
            heartbeat: Duration::from_secs(15),
            poll_time: Duration::from_secs(25),
            return_time: Duration::from_secs(5),
            slow_command: Duration::from_millis(100),
        }
    }
}

/// The length of the name of a query or a mutation.
const NAME_MAX: usize = 100;
/// What the names of queries begin with that every app has.
const RESERVED: &str = "live.";

/// A token that no authenticator reads is named in the log once.
static UNREAD_TOKEN: Once = Once::new();

/// Gives a router its handler of paths that have no route.
pub(crate) type Fallback = Box<dyn FnOnce(Router<Context>) -> Router<Context> + Send>;

/// What a mutation is given from outside, the same each time that it runs.
pub struct Given {
    /// Now.
    pub now: Time,
    random: [u8; 32],
    drawn: Cell<u64>,
    state: Arc<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
}

impl Given {
    pub(crate) fn new(now: Time, random: [u8; 32], registry: &Registry) -> Given {
        Given::with_state(now, random, registry.state.clone())
    }

    /// For commands that are not an app's: without a state. `random` is drawn for each command.
    pub fn at(now: Time, random: [u8; 32]) -> Given {
        Given::with_state(now, random, State::default())
    }

    pub(crate) fn with_state(now: Time, random: [u8; 32], state: State) -> Given {
        Given { now, random, drawn: Cell::new(0), state }
    }

    /// Random bytes. Each call returns others; a command that runs again gets the same ones in the same order.
    pub fn random(&self) -> [u8; 32] {
        let number = self.drawn.replace(self.drawn.get() + 1);
        let mut input = [0; 40];
        input[..32].copy_from_slice(&self.random);
        input[32..].copy_from_slice(&number.to_be_bytes());
        sha256(&input)
    }

    /// A new id such as `user_01jd3…`: the time, then randomness, so that later ids are greater.
    pub fn id(&self, prefix: &str) -> String {
        const LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
        let random = self.random();
        let millis = self.now.millis().unsigned_abs();
        let mut text = String::with_capacity(prefix.len() + 27);
        text.push_str(prefix);
        text.push('_');
        for shift in (0..10).rev() {
            text.push(char::from(LETTERS[(millis >> (shift * 5) & 31) as usize]));
        }
        for byte in random.iter().take(16) {
            text.push(char::from(LETTERS[usize::from(byte & 31)]));
        }
        text
    }

    /// What was given to [`App::with`].
    pub fn state<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        state_of(&self.state)
    }
}

fn state_of<T: Any + Send + Sync>(state: &HashMap<TypeId, Arc<dyn Any + Send + Sync>>) -> Option<Arc<T>> {
    state.get(&TypeId::of::<T>()).cloned()?.downcast().ok()
}

pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes).as_ref());
    hash
}

/// A back end in the making.
#[derive(Default)]
#[must_use = "an app does nothing until it is served"]
pub struct App {
    pub(crate) registry: Registry,
    pub(crate) routes: Router<Context>,
    pub(crate) fallback: Option<Fallback>,
    pub(crate) problem_page: Option<fn(&Problem) -> String>,
    pub(crate) migrations: &'static [Migration],
    pub(crate) watched: &'static [&'static str],
    pub(crate) every: Vec<ForContext>,
    pub(crate) effects: Vec<EffectEntry>,
    /// A name that two queries or mutations have, or two tasks, or two kinds of repeated work.
    pub(crate) duplicate: Option<&'static str>,
    /// A name that no query and no mutation may have.
    pub(crate) wrong_name: Option<&'static str>,
}

/// What an app answers, by name.
#[derive(Default)]
pub(crate) struct Registry {
    pub(crate) queries: BTreeMap<&'static str, QueryEntry>,
    pub(crate) mutations: BTreeMap<&'static str, MutationEntry>,
    pub(crate) tasks: BTreeMap<&'static str, TaskEntry>,
    pub(crate) authenticator: Option<Arc<dyn Authenticate>>,
    pub(crate) state: State,
}

/// Repeated work, once there is a [`Context`] for it.
pub(crate) struct ForContext {
    pub(crate) name: &'static str,
    pub(crate) of: Box<dyn FnOnce(Context) -> Every + Send>,
}

impl Registry {
    pub(crate) fn query(&self, name: &str) -> Result<&QueryEntry, Problem> {
        self.queries.get(name).ok_or_else(|| {
            let detail = match self.mutations.contains_key(name) {
                true => format!("{name:?} is a mutation. Only queries can be subscribed to."),
                false => format!("There is no query {name:?}."),
            };
            Problem::new(StatusCode::NOT_FOUND, "unknown_query", detail)
        })
    }
}

impl App {
    /// An app without anything.
    pub fn new() -> App {
        App::default()
    }

    /// Notes the name of a query or a mutation: both are called at the same path.
    fn note_call(&mut self, name: &'static str) {
        if self.registry.queries.contains_key(name) || self.registry.mutations.contains_key(name) {
            self.duplicate.get_or_insert(name);
        }
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
        let is_good = (1..=NAME_MAX).contains(&name.len()) && name.chars().all(is_letter);
        if !is_good || name.starts_with('.') || name.starts_with(RESERVED) {
            self.wrong_name.get_or_insert(name);
        }
    }

    /// Adds a query.
    pub fn query<Q: Query>(mut self) -> App {
        self.note_call(Q::NAME);
        self.registry.queries.insert(Q::NAME, QueryEntry::of::<Q>());
        self
    }

    /// Adds a mutation.
    pub fn mutation<M: Mutation>(mut self) -> App {
        self.note_call(M::NAME);
        self.registry.mutations.insert(M::NAME, MutationEntry::of::<M>());
        self
    }

    /// Adds work that [`crate::later`] may plan.
    pub fn task<T: Task>(mut self) -> App {
        if self.registry.tasks.insert(T::NAME, TaskEntry::of::<T>()).is_some() {
            self.duplicate.get_or_insert(T::NAME);
        }
        self
    }

    /// Adds an effect outside of the database that [`crate::queue`] may queue.
    pub fn effect<E: Effect>(mut self) -> App {
        self.effects.push(EffectEntry::of::<E>());
        self
    }

    /// Does work again and again, on one instance at a time. The next turn begins `interval` after the last began; one
    /// that fails is repeated earlier. A turn that a crash or a stop interrupts begins again within a minute, so the work may
    /// happen more than once.
    pub fn every<F, W>(self, name: &'static str, interval: Duration, work: F) -> App
    where
        F: Fn(Context) -> W + Send + Sync + 'static,
        W: Future<Output = Result<(), Problem>> + Send + 'static,
    {
        self.repeated(name, When::Passed(interval), work)
    }

    /// Does work when a log may have new entries, on one instance at a time, and now and then without: it reads what is behind
    /// its place ([`Snapshot::log_page`](store::Snapshot::log_page)) until there is no more. What is appended while it works
    /// begins another turn. After an error, and after a crash or a stop, it begins again as with [`App::every`].
    pub fn on_log<F, W>(self, log: &'static Log, name: &'static str, work: F) -> App
    where
        F: Fn(Context) -> W + Send + Sync + 'static,
        W: Future<Output = Result<(), Problem>> + Send + 'static,
    {
        self.repeated(name, When::Appended(log), work)
    }

    fn repeated<F, W>(mut self, name: &'static str, when: When, work: F) -> App
    where
        F: Fn(Context) -> W + Send + Sync + 'static,
        W: Future<Output = Result<(), Problem>> + Send + 'static,
    {
        if self.every.iter().any(|known| known.name == name) {
            self.duplicate.get_or_insert(name);
        }
        let of =
            Box::new(move |context: Context| Every::new(name, when, LOOK, move || work(context.clone())));
        self.every.push(ForContext { name, of });
        self
    }

    /// Adds plain HTTP routes. Their handlers get the [`Context`] as axum's `State`, and return a [`Problem`] as error. A fallback of
    /// the router is not used: see [`App::fallback`].
    ///
    /// A request that changes something and has an `Idempotency-Key` is refused here: see [`App::keyed_routes`].
    pub fn routes(mut self, routes: Router<Context>) -> App {
        self.routes = self.routes.merge(routes.layer(from_fn(once::refuse_keys)));
        self
    }

    /// Adds plain HTTP routes that take an `Idempotency-Key`. Each handler of a method that changes something takes
    /// [`crate::extract::Once`] and writes with it.
    pub fn keyed_routes(mut self, routes: Router<Context>) -> App {
        self.routes = self.routes.merge(routes.layer(from_fn(once::expect_keys)));
        self
    }

    /// Answers paths that have no route, such as those of an application of one page, instead of `unknown_path` (404).
    pub fn fallback<H, T>(self, handler: H) -> App
    where
        H: Handler<T, Context>,
        T: 'static,
    {
        App { fallback: Some(Box::new(move |routes| routes.fallback(handler))), ..self }
    }

    /// What a browser gets for a [`Problem`] of a plain route: a page, as HTML. Other clients get the document.
    pub fn problem_page(self, page: fn(&Problem) -> String) -> App {
        App { problem_page: Some(page), ..self }
    }

    /// The schema: numbered migrations, one text for all databases.
    pub fn migrations(self, migrations: &'static [Migration]) -> App {
        App { migrations, ..self }
    }

    /// The tables that queries depend on. With [`crate::Settings::check`] a command that changes one of them, and a live query
    /// that reads one, fails if it does not declare that. Tables that are not named are not looked at.
    pub fn watched(self, tables: &'static [&'static str]) -> App {
        App { watched: tables, ..self }
    }

    /// How callers are recognised. Without it every caller is anonymous.
    pub fn authenticate(mut self, authenticator: Arc<dyn Authenticate>) -> App {
        self.registry.authenticator = Some(authenticator);
        self
    }

    /// Keeps a value that mutations ([`Given::state`]) and routes ([`Context::state`]) can read.
    pub fn with<T: Any + Send + Sync>(mut self, value: Arc<T>) -> App {
        let mut state = (*self.registry.state).clone();
        state.insert(TypeId::of::<T>(), value);
        self.registry.state = Arc::new(state);
        self
    }

    /// TypeScript types of all queries and mutations, for `@sarsen/client`. Fails if two types have one name.
    pub fn typescript(&self) -> Result<String, crate::auth::Misconfigured> {
        typescript::types(&self.registry)
    }

    /// OpenAPI 3.1 of all queries and mutations, as JSON: for clients in other languages. Fails if two types have one name.
    pub fn openapi(&self, title: &str, version: &str) -> Result<String, crate::auth::Misconfigured> {
        let document = openapi::document(&self.registry, title, version)?;
        Ok(format!("{document:#}\n"))
    }
}

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

    /// What was given to [`App::with`].
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

pub(crate) fn random() -> [u8; 32] {
    let mut bytes = [0; 32];
    if aws_lc_rs::rand::fill(&mut bytes).is_err() {
        // Without randomness nothing here is safe: better no answer than a guessable secret.
        std::process::abort();
    }
    bytes
}
