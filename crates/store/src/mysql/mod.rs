//! MySQL and MariaDB: several threads commit side by side, each on a connection of its own (`remote/`).
//!
//! - `connection.rs`: transactions and statements on one connection. `tx_mode.rs`: their settings. `client.rs`: calls
//!   the asynchronous driver from a thread that blocks.
//! - `schema.rs`: the start: checks of the server, migrations.
//! - `change_log.rs`: the table of changes that every instance reads. `log_writer.rs` writes it in each commit,
//!   `log_reader.rs` reads it, `publisher.rs` publishes each change once. `commit_outcome.rs`: asks for the outcome of a
//!   lost commit.
//! - `address.rs`: the URL and TLS. `placeholders.rs`: positions of arguments. `values.rs`: arguments and columns.
//!   `errors.rs`: the only place that reads the driver's errors. `fault_injection.rs`: faults for load tests.
//!
//! It supports no replicas. MySQL cannot stop a statement that writes for too long; MariaDB can.

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
use crate::engine::{Database, Look, Opened, Shared};
use crate::remote::{self, ReconnectingSession, Service};
use crate::threads::{on_its_own_thread, spawn};
use crate::version::Epoch;
use crate::{Error, Options};
use address::Address;
use connection::Connection;
use log_reader::LogReader;
use log_writer::LogWriter;
use publisher::Publisher;
use std::sync::Arc;
use std::sync::mpsc::channel;

/// The MySQL and MariaDB back end.
pub(crate) struct Mysql;

impl Database for Mysql {
    fn look(&self, options: &Options, query: Look) -> Result<(), Error> {
        remote::look::<Connection>(Address::parse(&options.url)?.server()?, query)
    }

    fn rehearse_open(&self, options: &Options) -> Result<Option<&'static str>, Error> {
        remote::rehearse(Address::parse(&options.url)?.server()?, schema::rehearse)
    }

    fn open(&self, options: Options) -> Result<Opened, Error> {
        let server = Arc::new(Address::parse(&options.url)?.server()?);
        let number = on_its_own_thread({
            let (server, schema) = (server.clone(), options.schema());
            move || remote::prepare_schema(server, |connection| schema::prepare(connection, schema))
        })?;
        let writers = options.writers.max(1);
        let shared = Arc::new(Shared::new(options, Epoch::of_this_process(), number, writers, 1));
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
        remote::serve(service, || LogWriter::new(publisher.clone()))
    }

    #[cfg(feature = "testing")]
    fn check_url(&self, url: &str) -> Result<(), Error> {
        Address::parse(url).map(drop)
    }

    #[cfg(feature = "fault-injection")]
    fn hold_transaction(&self, url: &str) -> Result<Undo, Error> {
        fault_injection::hold_transaction(Address::parse(url)?)
    }

    #[cfg(feature = "fault-injection")]
    fn end_sessions(&self, url: &str) -> Result<(), Error> {
        fault_injection::end_sessions(Address::parse(url)?)
    }
}
