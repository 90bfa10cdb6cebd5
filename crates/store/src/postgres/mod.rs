//! PostgreSQL: several threads that commit side by side, each with a connection of its own (`remote/`).
//!
//! - `connection.rs`: transactions and statements over one connection. `purpose.rs`: their settings.
//! - `log.rs`: what commands changed, in a table that every instance reads. `commits.rs`: writes it.
//!   `outcome.rs`: what became of a commit whose answer was lost.
//! - `tail.rs`: reads the log, by what `seen.rs` knows of snapshots. `publisher.rs`: tells each change once.
//!   `wake.rs`: makes it quicker.
//! - `address.rs`, `tls.rs`: the URL, and how to get there.
//! - `cluster.rs`: which servers belong together. `disturb.rs`: what a load test does to a server.
//! - `values.rs`: arguments and columns. `errors.rs`: the only place that reads the driver's errors.
//!
//! Caches are filled and the log is followed on the primary. What a replica answers is in `remote/replicas.rs`.

mod address;
pub(crate) mod change_log;
mod cluster;
mod commit_outcome;
mod connection;
mod errors;
mod fault_injection;
mod log_reader;
mod log_writer;
mod notify;
pub(crate) mod pg_snapshot;
mod publisher;
mod tls;
mod tx_mode;
mod values;

pub(crate) use address::Address;
pub(crate) use fault_injection::{hold_transaction, pause_replay};

use crate::remote::{self, Remote, Session as _};
use crate::store::Shared;
use crate::threads::spawn;
use crate::{Dialect, Error, Migration, Options, migrate};
use address::Server;
use connection::Connection;
use log_reader::LogReader;
use log_writer::LogWriter;
use notify::{BackendPid, Signal};
use pg_snapshot::PgSnapshot;
use publisher::Publisher;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;

/// The lock that instances take while they bring the schema up to date. The number means nothing.
const SCHEMA_LOCK: &str = "SELECT pg_advisory_xact_lock(7306091347420561)";

pub(crate) fn open(address: Address, options: Options) -> Result<(Arc<Shared>, Remote), Error> {
    let server = Arc::new(address.server()?);
    let snapshot = on_its_own_thread({
        let (server, migrations) = (server.clone(), options.migrations);
        move || remote::prepare_schema(server, |connection| prepare_schema(connection, migrations))
    })?;
    let replicas = options.replicas.iter().map(|url| replica(url)).collect::<Result<Vec<_>, Error>>()?;
    let writers = options.writers.max(1);
    let shared = Arc::new(Shared::new(options, snapshot.xmin(), writers, 1));
    let (wake_reader, notify_others) = (Arc::new(Signal::default()), Arc::new(Signal::default()));
    let publisher = Publisher::new(shared.feed.clone(), snapshot, notify_others.clone(), &shared.options);
    let publisher = Arc::new(publisher);
    let mut threads = follow(&server, &publisher, &wake_reader, &notify_others, &shared.options)?;
    threads.extend(remote::serve(&server, &replicas, &shared, || LogWriter::new(publisher.clone()))?);
    let following = Box::new(Signals([wake_reader, notify_others]));
    Ok((shared.clone(), Remote::new(shared, Dialect::Postgres, threads, following)))
}

fn replica(url: &str) -> Result<Arc<Server>, Error> {
    let unreadable = || {
        Error::Open(
            "the URL of a replica cannot be read; expected postgres://USER:PASSWORD@HOST:PORT/DATABASE, with what is \
             special in a password as %XX"
                .to_owned(),
        )
    };
    Ok(Arc::new(Address::parse(url).ok_or_else(unreadable)?.server()?))
}

/// Starts the threads that hear of other instances and speak to them.
fn follow(
    server: &Arc<Server>,
    publisher: &Arc<Publisher>,
    wake_reader: &Arc<Signal>,
    notify_others: &Arc<Signal>,
    options: &Options,
) -> Result<Vec<JoinHandle<()>>, Error> {
    let following = &options.following;
    let log_reader =
        LogReader::new(server.clone(), publisher.clone(), wake_reader.clone(), following.clone());
    let mut threads = vec![spawn("sarsen-log", move || log_reader.run())?];
    if !following.wake_ups {
        return Ok(threads);
    }
    let unreadable = || Error::Open("the direct URL of the database cannot be read".to_owned());
    let direct = match &following.direct_url {
        Some(url) => Some(Arc::new(Address::parse(url).ok_or_else(unreadable)?.server()?)),
        // A pooler takes away the connection that would hear.
        None => Some(server.clone()).filter(|server| !server.pooled),
    };
    let own_pid = Arc::new(BackendPid::default());
    let (to, notify_others, own) =
        (direct.as_ref().unwrap_or(server).clone(), notify_others.clone(), own_pid.clone());
    threads.push(spawn("sarsen-notify", move || notify::send(&to, &notify_others, &own))?);
    if let Some(direct) = direct {
        let wake_reader = wake_reader.clone();
        threads.push(spawn("sarsen-listen", move || notify::listen(&direct, &wake_reader, &own_pid))?);
    }
    Ok(threads)
}

/// What the threads wait for that hear of other instances and speak to them. Who drops the last handle
/// without closing it wants to hear of nothing any more.
struct Signals([Arc<Signal>; 2]);

impl Drop for Signals {
    fn drop(&mut self) {
        self.0.iter().for_each(|signal| signal.close());
    }
}

/// Brings the schema up to date, and says what can be seen of the log.
fn prepare_schema(connection: &mut Connection, migrations: &[Migration]) -> Result<PgSnapshot, Error> {
    connection.batch(SCHEMA_LOCK)?;
    migrate::migrate(connection, migrations)?;
    let snapshot = change_log::prepare(connection)?;
    connection.commit()?;
    Ok(snapshot)
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
