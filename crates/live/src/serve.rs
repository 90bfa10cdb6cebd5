//! A process that serves an app.

use crate::app::App;
use crate::backend::{Backend, RequestMetrics};
use crate::background::{Work, WorkMetrics, effects, repeated, tasks};
use crate::context::{Context, Parts};
use crate::engine::Engine;
use crate::given::random;
use crate::http::{Streams, Unread, canary, routes_of, tick};
use crate::limits::Limits;
use crate::{auth, idempotent};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use store::{CACHE_MEMORY, Options, Store, Time};
use tokio::sync::watch;
use web::host::Hosts;
use web::memory_limit;
use web::{AddressHeader, Bound, Cidr, RequestLog, RequestLogFormat, Signals};

/// Where and how an app is served.
#[derive(Clone)]
pub struct Settings {
    /// `sqlite:PATH`, `postgres://…` or `mysql://…`.
    pub database: String,
    /// URLs of replicas (PostgreSQL only). Live queries read from them.
    pub replicas: Vec<String>,
    /// The address to listen on.
    pub listen: SocketAddr,
    /// Limits of streams and bodies.
    pub limits: Limits,
    /// Limits of connections.
    pub connections: web::Limits,
    /// Names of hosts, without a port, that requests may be for: those under which browsers know the server. Names without a
    /// dot, IP addresses and this machine need not be there.
    pub allowed_hosts: Vec<String>,
    /// Proxies whose `X-Forwarded-For` is trusted.
    pub trusted_proxies: Vec<Cidr>,
    /// The header that is read instead, where these proxies send `Forwarded`.
    pub client_address_header: AddressHeader,
    /// Logs each request to stderr.
    pub request_log: Option<RequestLogFormat>,
    /// Bearer token for `/metrics` and `/live/explain`; without one only this machine may read them.
    pub operator_token: Option<String>,
    /// The memory of caches, in bytes: the answers of [`crate::Authenticate::standing`], and what the app caches itself.
    pub cache_memory: usize,
    /// Checks at run time that commands and queries declare what they change and read, and fails those that do not. On by
    /// default in debug builds (`cargo run`, `cargo test`).
    pub check: bool,
    /// The clock.
    pub clock: Arc<dyn Fn() -> Time + Send + Sync>,
}

impl Settings {
    /// The defaults, for a database and an address.
    pub fn new(database: impl Into<String>, listen: SocketAddr) -> Settings {
        Settings {
            database: database.into(),
            replicas: Vec::new(),
            listen,
            limits: Limits::default(),
            connections: web::Limits::default(),
            allowed_hosts: Vec::new(),
            trusted_proxies: Vec::new(),
            client_address_header: AddressHeader::default(),
            request_log: None,
            operator_token: None,
            cache_memory: CACHE_MEMORY,
            check: cfg!(debug_assertions),
            clock: Arc::new(now),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the one place of the crate that reads the wall clock")]
pub(crate) fn now() -> Time {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Time::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Why an app cannot be served.
#[derive(thiserror::Error)]
pub enum Error {
    /// The database cannot be opened.
    #[error("{0}")]
    Store(#[from] store::Error),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {error}; choose another address, or stop the program that uses it")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        error: std::io::Error,
    },
    /// Two parts of the app have one name.
    #[error(
        "two queries, mutations, tasks, effects or kinds of repeated work are named {0:?}; give one of them another `NAME`"
    )]
    Duplicate(&'static str),
    /// The name of a query or a mutation cannot be called.
    #[error(
        "{0:?} cannot be the name of a query or a mutation; use up to 100 letters, digits, `_`, `-` and `.`, such as list_notes; \
         names that begin with `live.` are the framework's own"
    )]
    Name(&'static str),
    /// A file or an address of the program cannot be used.
    #[error("{0}")]
    Misconfigured(#[from] crate::auth::Misconfigured),
    /// The arguments of the program are wrong.
    #[error("{0}")]
    Arguments(String),
    /// A command of the program failed.
    #[error("{0}")]
    Command(String),
}

/// For people: a `main` that returns an error prints this.
impl fmt::Debug for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

/// A served app. Dropping it does not stop it.
pub struct Running {
    /// The address that it listens on.
    pub address: SocketAddr,
    /// What routes get, for tests and programs around the app.
    pub context: Context,
    server: web::Running,
}

impl Running {
    /// Accepts no more requests, sends streams away, finishes what has begun and closes the database.
    pub async fn stop(self) {
        self.server.stop().await;
    }

    /// Serves until the process gets SIGTERM or SIGINT, then stops. Another SIGINT (Ctrl-C), from a second later on, ends the
    /// process at once.
    pub async fn until_signal(self) {
        self.until(Signals::listen()).await;
    }

    /// The same for signals that are listened to already.
    pub(crate) async fn until(self, signals: std::io::Result<Signals>) {
        match signals {
            Ok(mut signals) => {
                if !signals.stopped_by(self.stop()).await {
                    eprintln!("stopped at once; the next start recovers the database");
                    std::process::exit(1);
                }
            }
            Err(error) => {
                tracing::error!(%error, "cannot listen to signals, which end the process without a clean stop");
                std::future::pending().await
            }
        }
    }
}

/// The tables that every app has.
static TABLES: &[&str] = &[
    idempotent::TABLE,
    tasks::TABLE,
    repeated::TABLE,
    effects::TABLE,
    canary::TABLE,
    auth::REVOCATIONS,
    auth::ADMINISTERS,
];
const CLEANING: Duration = Duration::from_secs(3600);

/// Opens the database, migrates it, and serves an app in the background.
pub async fn serve(app: App, settings: Settings) -> Result<Running, Error> {
    if let Some(name) = app.duplicate {
        return Err(Error::Duplicate(name));
    }
    if let Some(name) = app.wrong_name {
        return Err(Error::Name(name));
    }
    let listen = |error| Error::Listen { address: settings.listen, error };
    // Before the database is migrated: another process may serve it at this address.
    let bound = Bound::new(&[settings.listen]).map_err(listen)?;
    let mut options = Options::new(settings.database, app.migrations);
    options.tables = TABLES;
    options.replicas = settings.replicas;
    options.watched = app.watched;
    options.check = settings.check;
    options.cache_memory = memory_limit::for_caches(settings.cache_memory, memory_limit::bytes());
    let store = Store::open(options)?;
    let mut app = app.query::<canary::WrittenAt>().every("live.clean_answers", CLEANING, idempotent::clean);
    let (stop, stopped) = watch::channel(false);
    let request_log = settings.request_log.map(|format| RequestLog::start(format, std::io::stderr()));
    let metrics = WorkMetrics::default();
    let clock = settings.clock.clone();
    let mut work = Work::new(store.clone(), move || clock())
        .measured_by(&metrics)
        .with_state(app.registry.state.clone());
    work.tasks = std::mem::take(&mut app.registry.tasks);
    let context = Context(Arc::new(Parts {
        engine: Engine::start(store.clone(), settings.limits.clone(), settings.clock.clone()),
        standings: store.cache("standings"),
        registry: Arc::new(app.registry),
        limits: settings.limits,
        streams: Streams::default(),
        streams_stopped: stopped.clone(),
        operator_token: settings.operator_token,
        canary: canary::Canary::default(),
        requests: RequestMetrics::new(settings.connections.tls.clone()),
        work: metrics,
        calls: web::CallerCounts::in_windows_of(Duration::from_secs(10)),
        keyed_calls: web::CallerCounts::in_quarters_of_an_hour(),
        unread: Unread::default(),
        problem_page: app.problem_page,
        instance: format!(
            "{:032x}",
            u128::from_be_bytes(random().first_chunk().copied().unwrap_or_default())
        ),
        clock: settings.clock,
        store,
    }));
    let mut jobs = vec![tokio::spawn(tick(context.clone(), stopped.clone()))];
    let work = app.every.into_iter().fold(work, |work, every| work.repeat((every.of)(context.clone())));
    let work = app.effects.into_iter().fold(work, Work::carry_out);
    let work = work.start_until(stop, &stopped)?;
    let following = context.0.registry.authenticator.as_ref().and_then(|one| one.follow(&context));
    jobs.extend(following.map(tokio::spawn));
    let mut connections = settings.connections;
    connections.unshared.extend(&settings.trusted_proxies);
    let backend = Backend::new(
        context.clone(),
        routes_of(app.routes, app.fallback, context.clone()),
        Hosts::of_back_end(&settings.allowed_hosts),
        (settings.trusted_proxies, settings.client_address_header),
        request_log,
        work,
        jobs,
    );
    let server = web::serve_on(backend, bound, connections).await.map_err(listen)?;
    let address = server.addresses.first().copied().unwrap_or(settings.listen);
    Ok(Running { address, context, server })
}
