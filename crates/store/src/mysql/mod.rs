//! MySQL and MariaDB: several threads that commit side by side, each with a connection of its own.
//!
//! - `connection.rs`: transactions and statements over one connection. `link.rs`: keeps one open.
//! - `purpose.rs`: what transactions are for, and their settings.
//! - `schema.rs`: what happens at start. `worker.rs`: runs commands. `reader.rs`: answers queries.
//! - `outcome.rs`: what became of a commit whose answer was lost.
//! - `feed.rs`: what commands changed, logged and published. `tail.rs`: what other instances changed.
//! - `text.rs`: places of arguments. `values.rs`: arguments and columns. `errors.rs`: the only place that
//!   reads the driver's errors.
//!
//! The third database: complete, not the fastest. There are no replicas and no TLS yet. MySQL cannot stop a
//! statement that writes for too long; MariaDB can.

mod connection;
mod errors;
mod feed;
mod link;
mod outcome;
mod purpose;
mod reader;
mod schema;
mod tail;
mod text;
mod values;
mod worker;

use crate::job::Query;
use crate::store::{Backend, Shared};
use crate::threads::spawn;
use crate::{Dialect, Error, Options, Snapshot, Sql, Version};
use ::mysql::consts::CapabilityFlags;
use ::mysql::{Opts, OptsBuilder};
use feed::Publisher;
use link::Link;
use parking_lot::Mutex;
use purpose::Purpose;
use std::sync::Arc;
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tail::Tail;
use worker::{Turns, Worker};

/// How long the start tries to reach the server.
const START_LIMIT: Duration = Duration::from_secs(5);

pub(crate) struct Mysql {
    shared: Arc<Shared>,
    /// The tail ends when this is dropped.
    stop: Mutex<Option<Sender<()>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// Reads a URL; `None` when it cannot be read.
pub(crate) fn read_url(url: &str) -> Option<Opts> {
    let rest = url.strip_prefix("mariadb:").or_else(|| url.strip_prefix("mysql:"))?;
    Opts::from_url(&format!("mysql:{rest}")).ok()
}

impl Mysql {
    pub(crate) fn open(opts: Opts, options: Options) -> Result<(Arc<Shared>, Mysql), Error> {
        let opts = Arc::new(settings(opts)?);
        let version = prepare_schema(Link::new(opts.clone()), &options)?;
        let writers = options.writers.max(1);
        let shared = Arc::new(Shared::new(options, version, writers, 1));
        let publisher = Arc::new(Publisher::new(shared.feed.clone()));
        let turns = Arc::new(Turns::default());
        let mut threads = Vec::new();

        let (stop, stopped) = channel();
        let mut tail = Tail::new(Link::new(opts.clone()), shared.clone(), publisher.clone(), version);
        tail.start().map_err(opening)?;
        threads.push(spawn("sarsen-tail", move || tail.run(&stopped))?);
        for _ in 0..writers {
            let link = Link::new(opts.clone());
            let worker = Worker::new(link, shared.clone(), publisher.clone(), turns.clone());
            threads.push(spawn("sarsen-writer", move || worker.run())?);
        }
        for _ in 0..shared.options.readers.max(1) {
            let (link, shared) = (Link::new(opts.clone()), shared.clone());
            threads.push(spawn("sarsen-reader", move || reader::answer_queries(link, &shared))?);
        }
        let backend =
            Mysql { shared: shared.clone(), stop: Mutex::new(Some(stop)), threads: Mutex::new(threads) };
        Ok((shared, backend))
    }
}

impl Backend for Mysql {
    /// A journey to the server must not hold up the thread that asks.
    fn inline(&self, _read: &mut dyn FnMut(&mut Snapshot<'_>)) -> Result<bool, Error> {
        Ok(false)
    }

    fn prepare(&self, sql: &Sql) -> Result<(), Error> {
        let (reply, answer) = sync_channel(1);
        let text = sql.text(Dialect::Mysql).to_owned();
        self.shared.queries.push(Box::new(Preparation { text, reply })).map_err(|(_, error)| error)?;
        answer.recv().unwrap_or(Err(Error::Stopped))
    }

    fn explain(&self, _sql: &Sql) -> Result<Option<String>, Error> {
        Ok(None)
    }

    fn join(&self) {
        self.stop.lock().take();
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
fn settings(opts: Opts) -> Result<Opts, Error> {
    if opts.get_db_name().is_none_or(str::is_empty) {
        let text = "the database URL names no database; expected mysql://USER:PASSWORD@HOST:PORT/DATABASE";
        return Err(Error::Open(text.to_owned()));
    }
    let connect_timeout = opts.get_tcp_connect_timeout().unwrap_or(Duration::from_secs(2));
    let builder = OptsBuilder::from_opts(opts)
        // Affected rows are those that matched, as on the other databases.
        .additional_capabilities(CapabilityFlags::CLIENT_FOUND_ROWS)
        // Statements are kept by the connection, which knows the order of their arguments.
        .stmt_cache_size(0_usize)
        // The place in the URL is the one that is meant.
        .prefer_socket(false)
        .tcp_connect_timeout(Some(connect_timeout))
        .tcp_keepalive_time_ms(Some(5000));
    #[cfg(target_os = "linux")]
    let builder = builder
        .tcp_keepalive_probe_interval_secs(Some(1))
        .tcp_keepalive_probe_count(Some(5))
        .tcp_user_timeout_ms(Some(5000));
    Ok(builder.into())
}

/// The schema and the version that the database has.
fn prepare_schema(mut link: Link, options: &Options) -> Result<Version, Error> {
    let connection = link.begin(Purpose::Schema, Instant::now() + START_LIMIT).map_err(opening)?;
    schema::prepare(connection, options.migrations).map_err(opening)
}

fn opening(error: Error) -> Error {
    match error {
        Error::Open(_) => error,
        other => Error::Open(format!("the database cannot be opened: {other}")),
    }
}
