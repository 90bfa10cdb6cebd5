//! PostgreSQL: several threads that commit side by side, each with a connection of its own.
//!
//! - `connection.rs`: transactions and statements over one connection. `link.rs`: keeps one open.
//! - `worker.rs`: runs commands. `outcome.rs`: what became of a commit whose answer was lost.
//! - `reader.rs`: answers queries.
//! - `log.rs`: what commands changed, in a table that every instance reads. `tail.rs`: reads it, by what
//!   `seen.rs` knows of snapshots. `publisher.rs`: tells each change once. `wake.rs`: makes it quicker.
//! - `address.rs`, `tls.rs`: the URL, and how to get there.
//! - `values.rs`: arguments and columns. `errors.rs`: the only place that reads the driver's errors.
//!
//! Everything is read on the primary: there are no replicas yet.

mod address;
mod connection;
mod errors;
mod link;
mod log;
mod outcome;
mod publisher;
mod reader;
mod seen;
mod tail;
mod tls;
mod values;
mod wake;
mod worker;

pub(crate) use address::Address;

use crate::job::Query;
use crate::store::{Backend, Shared};
use crate::threads::spawn;
use crate::{Error, Options, Snapshot, Sql, migrate};
use address::Server;
use connection::Purpose;
use link::Link;
use parking_lot::Mutex;
use publisher::Publisher;
use seen::Seen;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tail::Tail;
use wake::{Bell, Speaker};
use worker::{Turns, Worker};

/// The lock that instances take while they bring the schema up to date. The number means nothing.
const SCHEMA_LOCK: &str = "SELECT pg_advisory_xact_lock(7306091347420561)";
/// How long the start tries to reach the server.
const START_LIMIT: Duration = Duration::from_secs(5);

pub(crate) struct Postgres {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// What the threads wait for that hear of other instances and speak to them.
    bells: [Arc<Bell>; 2],
}

impl Postgres {
    pub(crate) fn open(address: Address, options: Options) -> Result<(Arc<Shared>, Postgres), Error> {
        let server = Arc::new(address.server()?);
        let seen = on_its_own_thread({
            let (server, migrations) = (server.clone(), options.migrations);
            move || prepare_schema(Link::new(server), migrations)
        })?;
        let writers = options.writers.max(1);
        let shared = Arc::new(Shared::new(options, seen.horizon(), writers, 1));
        let (ear, voice) = (Arc::new(Bell::default()), Arc::new(Bell::default()));
        let publisher = Publisher::new(shared.feed.clone(), seen, voice.clone(), &shared.options);
        let publisher = Arc::new(publisher);
        let turns = Arc::new(Turns::default());
        let mut threads = follow(&server, &publisher, &ear, &voice, &shared.options)?;
        for _ in 0..writers {
            let link = Link::new(server.clone());
            let worker = Worker::new(link, shared.clone(), publisher.clone(), turns.clone());
            threads.push(spawn("sarsen-writer", move || worker.run())?);
        }
        for _ in 0..shared.options.readers.max(1) {
            let (link, shared) = (Link::new(server.clone()), shared.clone());
            threads.push(spawn("sarsen-reader", move || reader::answer_queries(link, &shared))?);
        }
        let (bells, threads) = ([ear, voice], Mutex::new(threads));
        Ok((shared.clone(), Postgres { shared, threads, bells }))
    }
}

/// Starts the threads that hear of other instances and speak to them.
fn follow(
    server: &Arc<Server>,
    publisher: &Arc<Publisher>,
    ear: &Arc<Bell>,
    voice: &Arc<Bell>,
    options: &Options,
) -> Result<Vec<JoinHandle<()>>, Error> {
    let following = &options.following;
    let tail = Tail::new(server.clone(), publisher.clone(), ear.clone(), following.clone());
    let mut threads = vec![spawn("sarsen-tail", move || tail.run())?];
    if !following.wake_ups {
        return Ok(threads);
    }
    let unreadable = || Error::Open("the direct URL of the database cannot be read".to_owned());
    let direct = match &following.direct_url {
        Some(url) => Some(Arc::new(Address::parse(url).ok_or_else(unreadable)?.server()?)),
        // A pooler takes away the connection that would hear.
        None => Some(server.clone()).filter(|server| !server.pooled),
    };
    let speaker = Arc::new(Speaker::default());
    let (to, voice, own) = (direct.as_ref().unwrap_or(server).clone(), voice.clone(), speaker.clone());
    threads.push(spawn("sarsen-voice", move || wake::speak(&to, &voice, &own))?);
    if let Some(direct) = direct {
        let ear = ear.clone();
        threads.push(spawn("sarsen-ear", move || wake::listen(&direct, &ear, &speaker))?);
    }
    Ok(threads)
}

/// Who drops the last handle without closing it wants to hear of nothing any more.
impl Drop for Postgres {
    fn drop(&mut self) {
        self.bells.iter().for_each(|bell| bell.take_down());
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
        self.bells.iter().for_each(|bell| bell.take_down());
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

/// Brings the schema up to date, and says what can be seen of the log.
fn prepare_schema(mut link: Link, migrations: &[crate::Migration]) -> Result<Seen, Error> {
    let connection = link.begin(Purpose::Schema, Instant::now() + START_LIMIT).map_err(opening)?;
    let seen = connection
        .batch(SCHEMA_LOCK)
        .and_then(|()| migrate::migrate(connection, migrations))
        .and_then(|()| log::prepare(connection))
        .and_then(|seen| connection.commit().map(|()| seen));
    seen.map_err(opening)
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
