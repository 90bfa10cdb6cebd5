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
mod change_log;
pub(crate) mod client;
mod commit_outcome;
mod connection;
mod errors;
#[cfg(feature = "fault-injection")]
mod fault_injection;
mod log_reader;
mod log_writer;
mod placeholders;
mod publisher;
mod schema;
mod tx_mode;
mod values;

#[cfg(feature = "fault-injection")]
use crate::engine::Undo;
use crate::engine::{Database, Opened, Shared};
use crate::remote::{self, ReconnectingSession, Service};
use crate::threads::{on_its_own_thread, spawn};
use crate::{Dialect, Error, Options};
use address::Address;
use log_reader::LogReader;
use log_writer::LogWriter;
use publisher::Publisher;
use std::sync::Arc;
use std::sync::mpsc::channel;

/// MySQL and MariaDB, as a kind of database.
pub(crate) struct Mysql;

impl Database for Mysql {
    fn open(&self, options: Options) -> Result<Opened, Error> {
        let server = Arc::new(Address::parse(&options.url)?.server()?);
        let version = on_its_own_thread({
            let (server, migrations) = (server.clone(), options.migrations);
            move || remote::prepare_schema(server, |connection| schema::prepare(connection, migrations))
        })?;
        let writers = options.writers.max(1);
        let shared = Arc::new(Shared::new(options, version, writers, 1));
        let publisher = Arc::new(Publisher::new(shared.feed.clone()));
        // The log reader ends when `stop` is dropped.
        let (stop, stopped) = channel::<()>();
        let session = ReconnectingSession::new(server.clone());
        let mut log_reader = LogReader::new(session, shared.clone(), publisher.clone());
        let log_reader =
            on_its_own_thread(move || log_reader.start().map_err(remote::opening).map(|()| log_reader))?;
        let threads = vec![spawn("sarsen-log", move || log_reader.run(&stopped))?];
        let service =
            Service { address: server, replicas: vec![], shared, threads, following: Box::new(stop) };
        remote::serve(Dialect::Mysql, service, || LogWriter::new(publisher.clone()))
    }

    #[cfg(feature = "testing")]
    fn check_url(&self, url: &str) -> Result<(), Error> {
        Address::parse(url).map(drop)
    }

    #[cfg(feature = "fault-injection")]
    fn hold_transaction(&self, url: &str) -> Result<Undo, Error> {
        fault_injection::hold_transaction(Address::parse(url)?)
    }
}
