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
mod cluster;
mod commits;
mod connection;
mod disturb;
mod errors;
pub(crate) mod log;
mod outcome;
mod publisher;
mod purpose;
pub(crate) mod seen;
mod tail;
mod tls;
mod values;
mod wake;

pub(crate) use address::Address;
pub(crate) use disturb::{hold_transaction, pause_replay};

use crate::remote::{self, Remote, Session as _};
use crate::store::Shared;
use crate::threads::spawn;
use crate::{Dialect, Error, Migration, Options, migrate};
use address::Server;
use commits::Commits;
use connection::Connection;
use publisher::Publisher;
use seen::Seen;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use tail::Tail;
use wake::{Bell, Speaker};

/// The lock that instances take while they bring the schema up to date. The number means nothing.
const SCHEMA_LOCK: &str = "SELECT pg_advisory_xact_lock(7306091347420561)";

pub(crate) fn open(address: Address, options: Options) -> Result<(Arc<Shared>, Remote), Error> {
    let server = Arc::new(address.server()?);
    let seen = on_its_own_thread({
        let (server, migrations) = (server.clone(), options.migrations);
        move || remote::prepare_schema(server, |connection| prepare_schema(connection, migrations))
    })?;
    let replicas = options.replicas.iter().map(|url| replica(url)).collect::<Result<Vec<_>, Error>>()?;
    let writers = options.writers.max(1);
    let shared = Arc::new(Shared::new(options, seen.horizon(), writers, 1));
    let (ear, voice) = (Arc::new(Bell::default()), Arc::new(Bell::default()));
    let publisher = Publisher::new(shared.feed.clone(), seen, voice.clone(), &shared.options);
    let publisher = Arc::new(publisher);
    let mut threads = follow(&server, &publisher, &ear, &voice, &shared.options)?;
    threads.extend(remote::serve(&server, &replicas, &shared, || Commits::new(publisher.clone()))?);
    let following = Box::new(Bells([ear, voice]));
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

/// What the threads wait for that hear of other instances and speak to them. Who drops the last handle
/// without closing it wants to hear of nothing any more.
struct Bells([Arc<Bell>; 2]);

impl Drop for Bells {
    fn drop(&mut self) {
        self.0.iter().for_each(|bell| bell.take_down());
    }
}

/// Brings the schema up to date, and says what can be seen of the log.
fn prepare_schema(connection: &mut Connection, migrations: &[Migration]) -> Result<Seen, Error> {
    connection.batch(SCHEMA_LOCK)?;
    migrate::migrate(connection, migrations)?;
    let seen = log::prepare(connection)?;
    connection.commit()?;
    Ok(seen)
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
