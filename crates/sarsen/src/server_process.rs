//! What the commands that serve have in common: the runtime, the addresses, the database, the end of the process.

use crate::allocator;
use crate::config::{Database, LogFormat};
use crate::error::{Error, Result};
use crate::logs;
use rustix::fs::{Access, Mode};
use server::look::{Looked, look};
use server::memory_limit;
use server::{
    App, Bound, Limits, Running, SecretKey, Settings, Signals, Store, StoreError, StoreOptions, SystemClock,
    SystemRandom,
};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// A database that takes longer than this to open is mentioned.
const OPENS_SLOWLY: Duration = Duration::from_secs(1);

/// The runtime: a worker for each processor but one, which the threads of the database and of the password hashes
/// share. For a single worker it is the scheduler without work stealing, which costs a third less a request.
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

/// From now on only the user of this process may read the files that it creates, such as the database.
pub fn keep_files_private() {
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
}

/// The error begins with this when the database has another secret key, or the schema of a newer program.
pub const UNUSABLE: &str = "the database cannot be used";

/// Opens the database, and logs a line when that takes long. It blocks: do not call it on a thread of the runtime.
pub fn open_store(database: &Database, options: StoreOptions) -> Result<Store> {
    let waits = || tracing::warn!(%database, "waiting for the database");
    open_store_or_else(database, options, waits)
}

/// How long a server waits for its database server, and between two tries.
const REACHED_WITHIN: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(100);

/// The same for a server with this key. A database that it cannot serve stays at its schema, so that the program that made
/// it can serve it again.
pub fn open_store_of(database: &Database, mut options: StoreOptions, key: &SecretKey) -> Result<Store> {
    fit_caches(&mut options);
    let waits = || tracing::warn!(%database, "waiting for the database");
    // A file that is new, or in use, or whose server was killed, shows nothing: what is wrong with it, opening it says.
    match when_slow(waits, || look_when_reached(database, &options, key)) {
        Ok(Some(Looked { problem: Some(problem), .. })) => Err(Error::domain(UNUSABLE)(problem)),
        Err(error @ StoreError::Unavailable { .. }) if database.path().is_none() => {
            Err(unopened(format!("within {REACHED_WITHIN:?}: {error}")))
        }
        _ => open_store(database, options),
    }
}

/// Looks again while the database server is away or ends connections, for some time.
fn look_when_reached(
    database: &Database,
    options: &StoreOptions,
    key: &SecretKey,
) -> std::result::Result<Option<Looked>, StoreError> {
    let until = Instant::now() + REACHED_WITHIN;
    loop {
        match look(options, Some(key.clone())) {
            Err(StoreError::Unavailable { .. }) if database.path().is_none() && Instant::now() < until => {
                std::thread::park_timeout(PAUSE);
            }
            looked => return looked,
        }
    }
}

fn unopened(why: impl std::fmt::Display) -> Error {
    Error::failed(format!("the database cannot be opened {why}"))
}

/// Caches take no more than the control group of this process has room for.
fn fit_caches(options: &mut StoreOptions) {
    const MIB: u64 = 1 << 20;
    let (wanted, limit) = (options.cache_memory, memory_limit::bytes());
    options.cache_memory = memory_limit::for_caches(wanted, limit);
    if let Some(limit) = limit.filter(|_| options.cache_memory < wanted) {
        tracing::warn!(
            limit_mib = limit / MIB,
            cache_memory_mib = options.cache_memory as u64 / MIB,
            wanted_mib = wanted as u64 / MIB,
            "the control group limits memory: caches take half of it"
        );
    }
}

/// Does something, and calls `waits` once if it takes long.
fn when_slow<T>(waits: impl FnOnce() + Send, work: impl FnOnce() -> T) -> T {
    let (done, waiting) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if let Err(RecvTimeoutError::Timeout) = waiting.recv_timeout(OPENS_SLOWLY) {
                waits();
            }
        });
        let result = work();
        drop(done);
        result
    })
}

/// The same with what is done, once, when it takes long.
pub(crate) fn open_store_or_else(
    database: &Database,
    options: StoreOptions,
    waits: impl FnOnce() + Send,
) -> Result<Store> {
    if let Some(path) = database.path() {
        check_folder(path)?;
    }
    when_slow(waits, || Store::open(options)).map_err(|error| match error {
        StoreError::Open(text) => Error::Failed(text),
        StoreError::NewerSchema { .. } => Error::Usage(error.to_string()),
        error => Error::failed(format!("the database cannot be opened: {error}")),
    })
}

/// Names the folder, because SQLite's error would name one of its own files.
pub(crate) fn check_folder(database: &Path) -> Result<()> {
    let folder = database.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    let wrong = |what: &str| {
        Err(Error::failed(format!(
            "the folder {} of the database sqlite:{} {what}",
            folder.display(),
            database.display()
        )))
    };
    if !folder.is_dir() {
        return wrong("does not exist; create it, or use another folder");
    }
    match rustix::fs::access(folder, Access::WRITE_OK) {
        Ok(()) => Ok(()),
        Err(_) => wrong("is not writable for this user; change its owner or mode, or use another folder"),
    }
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

/// Takes the addresses before anything else is done: another server may have them.
pub fn bind(addresses: &[SocketAddr]) -> Result<Bound> {
    try_bind(addresses).map_err(cannot_bind)
}

/// Takes a loopback address, and the other one with the same port: a browser may take either for `localhost`. A machine may have
/// only one of them.
pub(crate) fn bind_both(address: SocketAddr) -> std::io::Result<Bound> {
    let bound = Bound::new(&[address])?;
    let port = bound.addresses().first().map_or(0, SocketAddr::port);
    let other = match address.ip() {
        IpAddr::V4(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        IpAddr::V6(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
    };
    match Bound::new(&[SocketAddr::new(other, port)]) {
        Ok(other) => Ok(bound.and(other)),
        // Another server would get half of the requests.
        Err(error) if error.kind() == ErrorKind::AddrInUse => Err(error),
        Err(_) => Ok(bound),
    }
}

/// What to say about an address that cannot be taken.
pub fn cannot_bind(error: ListenError) -> Error {
    match error.taken {
        true => Error::Failed(format!("{error}; stop the program that has it, or use --listen with another")),
        false => error.into(),
    }
}

/// The same for a caller that knows what to do with an address that is taken.
pub fn try_bind(addresses: &[SocketAddr]) -> std::result::Result<Bound, ListenError> {
    Bound::new(addresses).map_err(|error| ListenError::new(addresses, &error))
}

/// Starts to serve.
pub async fn start(app: App, bound: Bound, limits: Limits) -> std::result::Result<Running, ListenError> {
    allocator::keep_returning_freed_memory();
    let addresses = bound.addresses().to_vec();
    server::serve_on(app, bound, limits).await.map_err(|error| ListenError::new(&addresses, &error))
}

/// Why a server cannot listen.
pub struct ListenError {
    /// Another process has the address.
    pub taken: bool,
    text: String,
}

impl ListenError {
    fn new(addresses: &[SocketAddr], error: &std::io::Error) -> ListenError {
        let shown: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
        ListenError {
            taken: error.kind() == ErrorKind::AddrInUse,
            text: format!("cannot listen on {}: {error}{}", shown.join(" and "), advice(error)),
        }
    }
}

fn advice(error: &std::io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::PermissionDenied => "; ports below 1024 need CAP_NET_BIND_SERVICE, or use another",
        ErrorKind::AddrNotAvailable => "; this machine has no such address, use one that it has",
        _ => "",
    }
}

impl std::fmt::Display for ListenError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.text)
    }
}

impl From<ListenError> for Error {
    fn from(error: ListenError) -> Error {
        Error::Failed(error.text)
    }
}

/// Catches SIGTERM and SIGINT from now on; before, they end the process.
pub fn signals() -> Result<Signals> {
    Signals::listen().map_err(Error::io("cannot listen to signals"))
}

/// Serves until the first signal, then shuts down gracefully. Another Ctrl-C, from a second later on, ends the process at
/// once.
pub async fn until_stopped(running: Running, mut signals: Signals, format: LogFormat) {
    if !signals.stopped_by(running.stop()).await {
        logs::write_last(format, "stopped at once; the next start recovers the database");
        std::process::exit(1);
    }
}
