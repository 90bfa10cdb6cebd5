//! MySQL and MariaDB: several threads that commit side by side, each with a connection of its own (`remote/`).
//!
//! - `address.rs`: the URL, TLS included.
//! - `connection.rs`: transactions and statements over one connection. `purpose.rs`: their settings.
//! - `schema.rs`: what happens at start.
//! - `feed.rs`: what commands changed, logged and published. `commits.rs`: where a command's thread does so.
//!   `outcome.rs`: what became of a commit whose answer was lost. `tail.rs`: what other instances changed.
//! - `disturb.rs`: what a load test does to a server.
//! - `text.rs`: places of arguments. `values.rs`: arguments and columns. `errors.rs`: the only place that
//!   reads the driver's errors.
//!
//! The third database: complete, not the fastest. It reads from no replicas. MySQL cannot stop a statement that writes
//! for too long; MariaDB can.

mod address;
mod commits;
mod connection;
mod disturb;
mod errors;
pub(crate) mod feed;
mod outcome;
mod purpose;
mod schema;
mod tail;
mod text;
mod values;

pub(crate) use disturb::hold_transaction;

use crate::remote::{self, Link, Remote};
use crate::store::Shared;
use crate::threads::spawn;
use crate::{Dialect, Error, Options};
pub(crate) use address::Address;
use commits::Commits;
use feed::Publisher;
use std::sync::Arc;
use std::sync::mpsc::channel;
use tail::Tail;

pub(crate) fn open(address: Address, options: Options) -> Result<(Arc<Shared>, Remote), Error> {
    let server = Arc::new(address.server()?);
    let version =
        remote::prepare_schema(server.clone(), |connection| schema::prepare(connection, options.migrations))?;
    let writers = options.writers.max(1);
    let shared = Arc::new(Shared::new(options, version, writers, 1));
    let publisher = Arc::new(Publisher::new(shared.feed.clone()));
    // The tail ends when `stop` is dropped.
    let (stop, stopped) = channel::<()>();
    let mut tail = Tail::new(Link::new(server.clone()), shared.clone(), publisher.clone());
    tail.start().map_err(remote::opening)?;
    let mut threads = vec![spawn("sarsen-tail", move || tail.run(&stopped))?];
    threads.extend(remote::serve(&server, &[], &shared, || Commits::new(publisher.clone()))?);
    Ok((shared.clone(), Remote::new(shared, Dialect::Mysql, threads, Box::new(stop))))
}
