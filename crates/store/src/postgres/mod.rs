//! PostgreSQL: several threads that commit side by side, each with a connection of its own.
//!
//! - `connection.rs`: transactions and statements over one connection. `link.rs`: keeps one open.
//! - `worker.rs`: runs commands. `outcome.rs`: what became of a commit whose answer was lost.
//! - `reader.rs`: answers queries. `feed.rs`: what commands changed, logged and published.
//! - `values.rs`: arguments and columns. `errors.rs`: the only place that reads the driver's errors.
//!
//! One process a database, for now: another instance's changes are in the log but not yet read from
//! it, so its caches would not hear of them. Nor are there replicas, TLS or poolers yet.

mod connection;
mod errors;
mod feed;
mod link;
mod outcome;
mod reader;
mod values;
mod worker;

use crate::job::Query;
use crate::store::{Backend, Shared};
use crate::threads::spawn;
use crate::{Error, Options, Snapshot, Sql, Version, migrate};
use ::postgres::Config;
use ::postgres::config::SslMode;
use connection::Purpose;
use feed::Publisher;
use link::Link;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use worker::{Turns, Worker};

/// The lock that instances take while they bring the schema up to date. The number means nothing.
const SCHEMA_LOCK: &str = "SELECT pg_advisory_xact_lock(7306091347420561)";
/// How long the start tries to reach the server.
const START_LIMIT: Duration = Duration::from_secs(5);

pub(crate) struct Postgres {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Postgres {
    pub(crate) fn open(config: Config, options: Options) -> Result<(Arc<Shared>, Postgres), Error> {
        let config = Arc::new(settings(config)?);
        let version = on_its_own_thread({
            let (config, migrations) = (config.clone(), options.migrations);
            move || prepare_schema(Link::new(config), migrations)
        })?;
        let writers = options.writers.max(1);
        let shared = Arc::new(Shared::new(options, version, writers, 1));
        let publisher = Arc::new(Publisher::new(shared.feed.clone()));
        let turns = Arc::new(Turns::default());
        let mut threads = Vec::new();
        for _ in 0..writers {
            let link = Link::new(config.clone());
            let worker = Worker::new(link, shared.clone(), publisher.clone(), turns.clone());
            threads.push(spawn("sarsen-writer", move || worker.run())?);
        }
        for _ in 0..shared.options.readers.max(1) {
            let (link, shared) = (Link::new(config.clone()), shared.clone());
            threads.push(spawn("sarsen-reader", move || reader::answer_queries(link, &shared))?);
        }
        let backend = Postgres { shared: shared.clone(), threads: Mutex::new(threads) };
        Ok((shared, backend))
    }
}

impl Backend for Postgres {
    /// A journey to the server must not hold up the thread that asks.
    fn inline(&self, _read: &mut dyn FnMut(&mut Snapshot<'_>)) -> Result<bool, Error> {
        Ok(false)
    }

    fn prepare(&self, sql: &Sql) -> Result<(), Error> {
        let (reply, answer) = sync_channel(1);
        let text = sql.text(crate::Dialect::Postgres).to_owned();
        self.shared.queries.push(Box::new(Preparation { text, reply })).map_err(|(_, error)| error)?;
        answer.recv().unwrap_or(Err(Error::Stopped))
    }

    fn explain(&self, _sql: &Sql) -> Result<Option<String>, Error> {
        Ok(None)
    }

    fn join(&self) {
        for thread in self.threads.lock().drain(..) {
            // A thread that panicked has said so already.
            let _ = thread.join();
        }
    }
}

/// A statement on its way to a reader thread to be prepared.
struct Preparation {
    text: String,
    reply: SyncSender<Result<(), Error>>,
}

impl Query for Preparation {
    fn start(&self) -> bool {
        true
    }

    fn run(self: Box<Self>, snapshot: &mut Snapshot<'_>) {
        // The one who asks waits for as long as it takes.
        let _ = self.reply.send(snapshot.prepare(&self.text));
    }

    fn refuse(self: Box<Self>, error: Error) {
        let _ = self.reply.send(Err(error));
    }
}

/// What the URL leaves open. A dead server is noticed in seconds, not when TCP gives up.
fn settings(mut config: Config) -> Result<Config, Error> {
    if config.get_ssl_mode() == SslMode::Require {
        let text = "the database URL asks for TLS, which this program does not speak to PostgreSQL yet";
        return Err(Error::Open(text.to_owned()));
    }
    if config.get_application_name().is_none() {
        config.application_name("sarsen");
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(Duration::from_secs(2));
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(Duration::from_secs(5));
    }
    if config.get_keepalives_interval().is_none() {
        config.keepalives_idle(Duration::from_secs(5));
        config.keepalives_interval(Duration::from_secs(1));
        config.keepalives_retries(5);
    }
    config.notice_callback(|notice| tracing::debug!(message = notice.message(), "the database says"));
    Ok(config)
}

/// The schema and the version that the database has.
fn prepare_schema(mut link: Link, migrations: &[crate::Migration]) -> Result<Version, Error> {
    let connection = link.begin(Purpose::Schema, Instant::now() + START_LIMIT).map_err(opening)?;
    let version = connection
        .batch(SCHEMA_LOCK)
        .and_then(|()| migrate::migrate(connection, migrations))
        .and_then(|()| feed::prepare(connection))
        .and_then(|version| connection.commit().map(|()| version));
    version.map_err(opening)
}

fn opening(error: Error) -> Error {
    match error {
        Error::Open(_) => error,
        other => Error::Open(format!("the database cannot be opened: {other}")),
    }
}

/// Runs what blocks on a thread where the driver may block.
fn on_its_own_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let (reply, answer) = sync_channel(1);
    let thread = spawn("sarsen-open", move || {
        let _ = reply.send(work());
    })?;
    let result = answer.recv().unwrap_or_else(|_| Err(Error::Open("the start panicked".to_owned())));
    let _ = thread.join();
    result
}
