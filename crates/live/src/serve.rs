//! A process that serves an app.

use crate::app::{App, Context, Limits, Parts, random};
use crate::engine::Engine;
use crate::http::{Streams, canary, router, tick};
use crate::{idempotent, tasks};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use store::{Options, Store, Time};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Where and how an app is served.
#[derive(Clone)]
pub struct Settings {
    /// `sqlite:PATH`, `postgres://…` or `mysql://…`.
    pub database: String,
    /// URLs of replicas (PostgreSQL only). Live queries read from them.
    pub replicas: Vec<String>,
    /// The address to listen on.
    pub listen: SocketAddr,
    /// Limits.
    pub limits: Limits,
    /// Bearer token for `/metrics` and `/live/explain`; without one only this machine may read them.
    pub operator_token: Option<String>,
    /// Checks at run time that commands and queries declare what they change and read. For tests.
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
            operator_token: None,
            check: false,
            clock: Arc::new(now),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the one place of the crate that reads the wall clock")]
fn now() -> Time {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Time::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Why an app cannot be served.
#[derive(Debug, thiserror::Error)]
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
    /// The arguments of the program are wrong.
    #[error("{0}")]
    Arguments(String),
    /// A command of the program failed.
    #[error("{0}")]
    Command(String),
}

/// A served app. Dropping it does not stop it.
pub struct Running {
    /// The address that it listens on.
    pub address: SocketAddr,
    /// What routes get, for tests and programs around the app.
    pub context: Context,
    stop: watch::Sender<bool>,
    ended: JoinHandle<()>,
}

impl Running {
    /// Accepts no more requests, sends streams away, finishes what has begun and closes the database.
    pub async fn stop(self) {
        // Nobody listens only if everything has ended already.
        let _ = self.stop.send(true);
        if let Err(error) = self.ended.await {
            tracing::error!(%error, "the server did not end cleanly");
        }
    }

    /// Serves until the process gets SIGTERM or SIGINT, then stops.
    pub async fn until_signal(self) {
        let term = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate());
        match term {
            Ok(mut term) => {
                tokio::select! {
                    _ = term.recv() => {}
                    _ = tokio::signal::ctrl_c() => {}
                }
            }
            Err(_) => {
                let _ = tokio::signal::ctrl_c().await;
            }
        }
        self.stop().await;
    }
}

/// The tables that every app has.
static TABLES: &[&str] = &[idempotent::TABLE, tasks::TABLES, canary::TABLE];
const CLEANING: Duration = Duration::from_secs(3600);

/// Opens the database, migrates it, and serves an app in the background.
pub async fn serve(app: App, settings: Settings) -> Result<Running, Error> {
    let mut options = Options::new(settings.database, app.migrations);
    options.tables = TABLES;
    options.replicas = settings.replicas;
    options.watched = app.watched;
    options.check = settings.check;
    let store = Store::open(options)?;
    let listen = |error| Error::Listen { address: settings.listen, error };
    let listener = TcpListener::bind(settings.listen).await.map_err(listen)?;
    let address = listener.local_addr().map_err(listen)?;
    let app = app.query::<canary::Sung>().every("live.clean_answers", CLEANING, idempotent::clean);
    let (stop, stopped) = watch::channel(false);
    let context = Context(Arc::new(Parts {
        engine: Engine::start(store.clone(), settings.limits.clone()),
        standings: store.cache("standings", 100_000),
        registry: Arc::new(app.registry),
        limits: settings.limits,
        streams: Streams::default(),
        streams_stopped: stopped.clone(),
        operator_token: settings.operator_token,
        canary: canary::Canary::default(),
        instance: format!(
            "{:032x}",
            u128::from_be_bytes(random().first_chunk().copied().unwrap_or_default())
        ),
        clock: settings.clock,
        store,
    }));
    let every = Arc::new(app.every);
    let tasks = tokio::spawn(tasks::run(context.clone(), every, stopped.clone()));
    let ticks = tokio::spawn(tick(context.clone(), stopped.clone()));
    let routes = router(app.routes, context.clone());
    let ended = tokio::spawn(serving(listener, routes, context.clone(), stopped, [tasks, ticks]));
    Ok(Running { address, context, stop, ended })
}

async fn serving(
    listener: TcpListener,
    routes: axum::Router,
    context: Context,
    stopped: watch::Receiver<bool>,
    jobs: [JoinHandle<()>; 2],
) {
    let service = routes.into_make_service_with_connect_info::<SocketAddr>();
    let (streams, mut stopping) = (context.clone(), stopped);
    let until = async move {
        // The sender is dropped only with the server.
        let _ = stopping.wait_for(|stopped| *stopped).await;
        streams.0.streams.close(streams.0.limits.return_time);
    };
    if let Err(error) = axum::serve(listener, service).with_graceful_shutdown(until).await {
        tracing::error!(%error, "the server ended with an error");
    }
    for job in jobs {
        job.abort();
    }
    context.0.engine.stop();
    let store = context.0.store.clone();
    if tokio::task::spawn_blocking(move || store.close()).await.is_err() {
        tracing::error!("the database was not closed cleanly");
    }
}
