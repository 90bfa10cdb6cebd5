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
mod change_log;
mod cluster;
mod commit_outcome;
mod connection;
mod errors;
#[cfg(feature = "fault-injection")]
mod fault_injection;
mod log_reader;
mod log_writer;
mod notify;
pub(crate) mod pg_snapshot;
mod publisher;
mod tls;
mod tx_mode;
mod values;

#[cfg(feature = "fault-injection")]
use crate::engine::Undo;
use crate::engine::{Database, Opened, Shared};
use crate::remote::{self, Service, Session as _};
use crate::threads::{on_its_own_thread, spawn};
use crate::{Dialect, Error, Migration, Options, migrate};
use address::{Address, Server};
use connection::Connection;
use log_reader::LogReader;
use log_writer::LogWriter;
use notify::{BackendPid, Signal};
use pg_snapshot::PgSnapshot;
use publisher::Publisher;
use std::sync::Arc;
use std::thread::JoinHandle;

/// The lock that instances take while they bring the schema up to date. The number means nothing.
const SCHEMA_LOCK: &str = "SELECT pg_advisory_xact_lock(7306091347420561)";

/// PostgreSQL, as a kind of database.
pub(crate) struct Postgres;

impl Database for Postgres {
    fn open(&self, options: Options) -> Result<Opened, Error> {
        let server = Arc::new(parse(&options.url)?.primary()?);
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
        let threads = follow(&server, &publisher, &wake_reader, &notify_others, &shared.options)?;
        let following = Box::new(Signals([wake_reader, notify_others]));
        let service = Service { address: server, replicas, shared, threads, following };
        remote::serve(Dialect::Postgres, service, || LogWriter::new(publisher.clone()))
    }

    #[cfg(feature = "testing")]
    fn check_url(&self, url: &str) -> Result<(), Error> {
        parse(url).map(drop)
    }

    #[cfg(feature = "fault-injection")]
    fn hold_transaction(&self, url: &str) -> Result<Undo, Error> {
        fault_injection::hold_transaction(parse(url)?)
    }

    #[cfg(feature = "fault-injection")]
    fn pause_replay(&self, url: &str) -> Result<Undo, Error> {
        fault_injection::pause_replay(parse(url)?)
    }
}

fn parse(url: &str) -> Result<Address, Error> {
    Address::parse("the database URL", url)
}

fn replica(url: &str) -> Result<Arc<Server>, Error> {
    Ok(Arc::new(Address::parse("the URL of a replica", url)?.replica()?))
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
    let direct = match &following.direct_url {
        Some(url) => Some(Arc::new(Address::parse("the direct URL of the database", url)?.primary()?)),
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
