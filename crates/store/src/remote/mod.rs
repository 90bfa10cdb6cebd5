//! What the database servers have in common: threads that each own a connection and take commands or queries from one
//! queue.
//!
//! - `session.rs`: what a connection can do, what its transactions are for, and how they fail.
//! - `reconnect.rs`: keeps a connection open.
//! - `worker.rs`: runs commands. `change_log.rs`: what it does with the change log of the back end; `key_text.rs`: keys
//!   as text in that log.
//! - `reader.rs`: answers queries. `replicas.rs`: reads lists from replicas; `replica_health.rs` chooses the replica,
//!   `standby.rs` checks that it is one.
//! - `certificates.rs`: trusted certificates for TLS.
//!
//! It has no driver and no SQL: these are in `postgres/` and `mysql/`.

pub(crate) mod certificates;
mod change_log;
pub(crate) mod key_text;
mod reader;
mod reconnect;
mod replica_health;
mod replicas;
mod session;
mod standby;
mod worker;

pub(crate) use change_log::{ChangeLog, CommitOutcome};
pub(crate) use reconnect::ReconnectingSession;
use replicas::Replicas;
pub(crate) use session::{Failure, Session, SnapshotInfo, TxMode, contended};

use crate::engine::{Backend, Look, Opened, Shared};
use crate::job::Query;
use crate::queue::Queue;
use crate::threads::{on_its_own_thread, pause, spawn};
use crate::{Backoff, Error, Snapshot, Sql};
use parking_lot::Mutex;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use worker::{Exclusion, Worker};

/// How long the start tries to reach the server, and to do its work on a connection that does not end.
const START_LIMIT: Duration = Duration::from_secs(10);

/// Between two such tries: each next pause is twice as long, up to the second one.
const AGAIN_MIN: Duration = Duration::from_millis(20);
const AGAIN_MAX: Duration = Duration::from_millis(500);

/// A database on a server.
pub(crate) struct RemoteBackend {
    shared: Arc<Shared>,
    replicas: Arc<Replicas>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Threads that follow the log of changes end when this is dropped.
    following: Mutex<Option<Box<dyn Send>>>,
}

impl Backend for RemoteBackend {
    /// A journey to the server must not hold up the thread that asks.
    fn inline(&self, _read: &mut dyn FnMut(&mut Snapshot<'_>)) -> Result<bool, Error> {
        Ok(false)
    }

    fn prepare(&self, sql: &Sql) -> Result<(), Error> {
        let (reply, answer) = sync_channel(1);
        let preparation = Preparation { sql: sql.clone(), result: Ok(()), reply };
        self.shared.queries.push(Box::new(preparation)).map_err(|(_, error)| error)?;
        answer.recv().unwrap_or(Err(Error::Stopped))
    }

    fn explain(&self, _sql: &Sql) -> Result<Option<String>, Error> {
        Ok(None)
    }

    fn replica_queue(&self) -> Option<&Queue<Box<dyn Query>>> {
        self.replicas.in_use().then_some(&self.replicas.queries)
    }

    fn replica_lags(&self) -> Vec<Duration> {
        self.replicas.lags()
    }

    fn close(&self) {
        self.shared.commands.close();
        self.replicas.close();
        self.shared.queries.close();
        self.following.lock().take();
        for thread in self.threads.lock().drain(..) {
            // A thread that panicked has said so already.
            let _ = thread.join();
        }
    }
}

/// Runs what the start needs, on a connection of its own. The work runs again when its connection ends: it leaves nothing, or
/// what it finds again.
pub(crate) fn prepare_schema<S: Session, T>(
    address: Arc<S::Address>,
    work: impl Fn(&mut S) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut session = ReconnectingSession::new(address);
    let until = Instant::now() + START_LIMIT;
    let mut backoff = Backoff::new(AGAIN_MIN, AGAIN_MAX);
    loop {
        let connection: &mut S = session.begin(TxMode::Schema, until).map_err(opening)?;
        match work(connection) {
            Err(error) if connection.is_lost() && Instant::now() < until => {
                tracing::warn!(%error, "a connection ended while the database was opened");
                session.forget();
                pause(backoff.take());
            }
            done => return done.map_err(opening),
        }
    }
}

/// Runs what the start needs and undoes it, on a connection of its own, once.
pub(crate) fn rehearse<S: Session, T: Send + 'static>(
    address: S::Address,
    work: impl FnOnce(&mut S) -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    on_its_own_thread(move || {
        let mut session = S::open(&address).map_err(|(_, error)| opening(error))?;
        session.begin(TxMode::Schema).map_err(opening)?;
        let done = work(&mut session).map_err(opening);
        session.roll_back();
        done
    })
}

/// Runs a query on a connection of its own, once. It waits for no server that is away: [`Error::Unavailable`] says that
/// waiting may help.
pub(crate) fn look<S: Session>(address: S::Address, query: Look) -> Result<(), Error> {
    on_its_own_thread(move || {
        let told = |may_pass, error| if may_pass { error } else { opening(error) };
        let mut session = S::open(&address).map_err(|(may_pass, error)| told(may_pass, error))?;
        if let Err(error) = session.begin(TxMode::Query) {
            return Err(told(session.is_lost(), error));
        }
        query(&mut Snapshot::new(&mut session, false));
        session.roll_back();
        Ok(())
    })
}

/// What a back end hands over to be served.
pub(crate) struct Service<S: Session> {
    pub(crate) address: Arc<S::Address>,
    pub(crate) replicas: Vec<Arc<S::Address>>,
    pub(crate) shared: Arc<Shared>,
    /// Threads that the back end has started itself.
    pub(crate) threads: Vec<JoinHandle<()>>,
    /// Threads that follow the log of changes end when this is dropped.
    pub(crate) following: Box<dyn Send>,
}

/// Starts the threads that run commands, each with a `log` of its own, and those that answer queries, here and on
/// the replicas.
pub(crate) fn serve<L: ChangeLog>(
    service: Service<L::Session>,
    log: impl Fn() -> L,
) -> Result<Opened, Error> {
    let Service { address, replicas: addresses, shared, mut threads, following } = service;
    let exclusion = Arc::new(Exclusion::default());
    for _ in 0..shared.options.writers.max(1) {
        let session = ReconnectingSession::new(address.clone());
        let worker = Worker::new(session, shared.clone(), log(), exclusion.clone());
        threads.push(spawn("sarsen-writer", move || worker.run())?);
    }
    for _ in 0..shared.options.readers.max(1) {
        let (session, shared) = (ReconnectingSession::<L::Session>::new(address.clone()), shared.clone());
        threads.push(spawn("sarsen-reader", move || reader::answer_queries(session, &shared))?);
    }
    let replicas = Arc::new(Replicas::new(shared.clone()));
    threads.extend(replicas::serve::<L::Session>(&address, &addresses, &replicas)?);
    let backend = RemoteBackend {
        shared: shared.clone(),
        replicas,
        threads: Mutex::new(threads),
        following: Mutex::new(Some(following)),
    };
    Ok((shared, Box::new(backend)))
}

/// Whether a host of a URL is this machine: what is sent there passes no network. A name such as `db.localhost` may be
/// resolved to any address by a name server.
pub(crate) fn is_this_machine(host: &str) -> bool {
    let host = host.trim_matches(['[', ']']);
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// An error of the start, in words that say so.
pub(crate) fn opening(error: Error) -> Error {
    match error {
        Error::Open(_) | Error::NewerSchema { .. } => error,
        other => Error::Open(format!("the database cannot be opened: {other}")),
    }
}

/// A statement on its way to a reader thread to be prepared.
struct Preparation {
    sql: Sql,
    result: Result<(), Error>,
    reply: SyncSender<Result<(), Error>>,
}

impl Query for Preparation {
    fn start(&mut self) -> bool {
        true
    }

    fn is_point(&self) -> bool {
        false
    }

    fn is_background(&self) -> bool {
        false
    }

    fn needed(&self) -> u64 {
        0
    }

    fn run(&mut self, snapshot: &mut Snapshot<'_>) {
        self.result = snapshot.prepare(&self.sql);
    }

    fn reply(self: Box<Self>, error: Option<Error>) {
        // The one who asks waits for as long as it takes.
        let _ = self.reply.send(error.map_or(self.result, Err));
    }
}
