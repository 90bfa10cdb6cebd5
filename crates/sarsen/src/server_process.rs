//! What `serve` and `demo` have in common: the runtime, the store, free ports, the end.

use crate::error::{Error, Result};
use rustix::fs::Mode;
use server::{
    App, Limits, Running, SecretKey, Settings, Store, StoreError, StoreOptions, SystemClock, SystemRandom,
};
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// A worker for each processor but one, which the threads of the database and of the hash lane share. A
/// single worker needs no scheduler that steals work: the plain one costs a third less a request, and
/// serves thousands of connections in turn.
pub fn runtime() -> Result<Runtime> {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut builder = match processors.saturating_sub(1) {
        0 | 1 => tokio::runtime::Builder::new_current_thread(),
        workers => {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            builder.worker_threads(workers).thread_name("sarsen");
            builder
        }
    };
    builder.enable_all().build().map_err(Error::io("cannot start the runtime"))
}

/// What this process writes from now on is for its user alone: the database holds what only that user should see.
pub fn keep_files_private() {
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
}

/// Opens the database. Not on a thread of the runtime: it waits for the disk or the network.
pub fn open_store(options: StoreOptions) -> Result<Store> {
    Store::open(options).map_err(|error| match error {
        StoreError::Open(text) => Error::Failed(text),
        error => Error::failed(format!("the database cannot be opened: {error}")),
    })
}

/// The parts of a server, with the clock and the randomness of this machine.
pub fn app(
    store: Store,
    settings: Settings,
    key: SecretKey,
    demo: Option<server::demo::Demo>,
) -> Result<App> {
    let made = App::new(store, settings, key, Arc::new(SystemClock), Arc::new(SystemRandom), demo);
    made.map_err(|error| Error::failed(error.to_string()))
}

/// Starts to serve.
pub async fn start(
    app: App,
    addresses: &[SocketAddr],
    limits: Limits,
) -> std::result::Result<Running, ListenError> {
    server::serve(app, addresses, limits).await.map_err(|error| ListenError::new(addresses, error))
}

/// Why a server could not listen.
pub struct ListenError {
    /// Whether somebody else listens there.
    pub taken: bool,
    text: String,
}

impl ListenError {
    fn new(addresses: &[SocketAddr], error: std::io::Error) -> ListenError {
        let shown: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
        ListenError {
            taken: error.kind() == ErrorKind::AddrInUse,
            text: format!("cannot listen on {}: {error}", shown.join(" and ")),
        }
    }
}

impl From<ListenError> for Error {
    fn from(error: ListenError) -> Error {
        Error::Failed(error.text)
    }
}

/// The same addresses with a port that is free now for each port 0; the others are not looked at.
pub fn settle(addresses: &[SocketAddr]) -> Result<Vec<SocketAddr>> {
    addresses
        .iter()
        .map(|address| if address.port() == 0 { free_port(*address) } else { Ok(*address) })
        .collect()
}

fn free_port(address: SocketAddr) -> Result<SocketAddr> {
    let bound = TcpListener::bind(address).and_then(|listener| listener.local_addr());
    bound.map_err(|error| ListenError::new(&[address], error).into())
}

/// SIGTERM and SIGINT, from the moment that this is made.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Listens from now on; until then a signal ends the process as always.
    pub fn listen() -> Result<Signals> {
        let failed = Error::io("cannot listen to signals");
        let both = signal(SignalKind::terminate())
            .and_then(|terminate| Ok(Signals { terminate, interrupt: signal(SignalKind::interrupt())? }));
        both.map_err(failed)
    }

    /// Waits for one of them.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Serves until the first signal, then ends gracefully; a second signal ends at once.
pub async fn until_stopped(running: Running, mut signals: Signals) {
    signals.next().await;
    tracing::info!("stopping; a second signal stops at once");
    tokio::select! {
        () = running.stop() => tracing::info!("stopped"),
        () = signals.next() => {
            eprintln!("sarsen: stopped at once; the database will be brought in order at the next start");
            std::process::exit(1);
        }
    }
}
