//! PostgreSQL: several threads commit side by side, each on a connection of its own (`remote/`).
//!
//! - `connection.rs`: transactions and statements on one connection. `tx_mode.rs`: their settings. `client.rs`: the driver.
//! - `change_log.rs`: the table of changes that every instance reads. `log_writer.rs` writes it in each commit.
//!   `log_reader.rs` reads it; `pg_snapshot.rs` decides which rows are new. `notify.rs` shortens the wait.
//! - `epochs.rs`: which numbers of versions compare.
//! - `publisher.rs`: publishes each change once. `commit_outcome.rs`: asks for the outcome of a lost commit.
//! - `address.rs`, `tls.rs`: the URL and TLS. `cluster.rs`: which servers belong together.
//! - `values.rs`: arguments and columns. `errors.rs`: the only place that reads the driver's errors.
//! - `fault_injection.rs`: faults for load tests.
//!
//! Caches are filled, and the log is read, on the primary only. `remote/replicas.rs` reads from replicas.

mod address;
mod change_log;
mod client;
mod cluster;
mod commit_outcome;
mod connection;
mod epochs;
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
use crate::engine::{Database, Look, Opened, Shared};
use crate::migrate::Schema;
use crate::remote::{self, Service, Session as _};
use crate::threads::{on_its_own_thread, spawn};
use crate::tx::Connection as _;
use crate::version::Epoch;
use crate::{Dialect, Error, Options, Row, log, log_place, migrate};
use address::{Address, Server};
use connection::Connection;
use epochs::Origin;
use log_reader::LogReader;
use log_writer::LogWriter;
use notify::{BackendPid, Signal};
use pg_snapshot::PgSnapshot;
use publisher::Publisher;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Held while an instance migrates the schema. The number is arbitrary.
const SCHEMA_LOCK: &str = "SELECT pg_advisory_xact_lock(7306091347420561)";

/// As the server counts: 14.0.
const VERSION_MIN: u32 = 140_000;
/// Tables that this user may not change.
const OF_OTHERS: &str = "SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname = current_schema() AND c.relkind = 'r' AND NOT pg_has_role(c.relowner, 'USAGE')";
/// Who rehearses gives way to everybody.
const REHEARSAL_LIMITS: &str = "SET LOCAL lock_timeout = 1000; SET LOCAL statement_timeout = 4000";

/// The PostgreSQL back end.
pub(crate) struct Postgres;

impl Database for Postgres {
    fn look(&self, options: &Options, query: Look) -> Result<(), Error> {
        remote::look::<Connection>(parse(&options.url)?.primary()?, query)
    }

    fn rehearse_open(&self, options: &Options) -> Result<Option<&'static str>, Error> {
        let (server, schema) = (parse(&options.url)?.primary()?, options.schema());
        remote::rehearse(server, move |connection: &mut Connection| rehearse_schema(connection, schema))?;
        Ok(None)
    }

    fn open(&self, options: Options) -> Result<Opened, Error> {
        let server = Arc::new(parse(&options.url)?.primary()?);
        let (snapshot, epoch, history) = on_its_own_thread({
            let (server, place, schema) = (server.clone(), server.place(), options.schema());
            move || remote::prepare_schema(server, |connection| prepare_schema(connection, &place, schema))
        })?;
        let replicas = options.replicas.iter().map(|url| replica(url)).collect::<Result<Vec<_>, Error>>()?;
        let writers = options.writers.max(1);
        let shared = Arc::new(Shared::new(options, epoch, snapshot.xmin(), writers, 1));
        shared.feed.note_history(history);
        server.epochs.note_read(epoch);
        let (wake_reader, notify_others) = (Arc::new(Signal::default()), Arc::new(Signal::default()));
        let publisher = Publisher::new(shared.feed.clone(), snapshot, notify_others.clone(), &shared.options);
        let publisher = Arc::new(publisher);
        let threads = follow(&server, &publisher, &wake_reader, &notify_others, &shared.options)?;
        let following = Box::new(Signals([wake_reader, notify_others]));
        let service = Service { address: server, replicas, shared, threads, following };
        remote::serve(service, || LogWriter::new(publisher.clone()))
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
    fn end_sessions(&self, url: &str) -> Result<(), Error> {
        fault_injection::end_sessions(parse(url)?)
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

/// Starts the threads that read the change log and exchange notifications with other instances.
fn follow(
    server: &Arc<Server>,
    publisher: &Arc<Publisher>,
    wake_reader: &Arc<Signal>,
    notify_others: &Arc<Signal>,
    options: &Options,
) -> Result<Vec<JoinHandle<()>>, Error> {
    let following = &options.following;
    server.epochs.follow(wake_reader.clone());
    let log_reader =
        LogReader::new(server.clone(), publisher.clone(), wake_reader.clone(), following.clone());
    let mut threads = vec![spawn("sarsen-log", move || log_reader.run())?];
    if !following.wake_ups {
        return Ok(threads);
    }
    let direct = match &following.direct_url {
        Some(url) => Some(Arc::new(Address::parse("the direct URL of the database", url)?.primary()?)),
        // Behind a pooler a session cannot listen.
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

/// The signals that the threads of [`follow`] wait for. Dropping it ends the threads.
struct Signals([Arc<Signal>; 2]);

impl Drop for Signals {
    fn drop(&mut self) {
        self.0.iter().for_each(|signal| signal.close());
    }
}

/// Migrates the schema and creates the change log of the server at `place`. Returns the snapshot from which the log is
/// read, its epoch, and the name of its history.
fn prepare_schema(
    connection: &mut Connection,
    place: &str,
    schema: Schema,
) -> Result<(PgSnapshot, Epoch, u64), Error> {
    check_version(connection)?;
    let (snapshot, origin) = make_schema(connection, schema)?;
    let cluster = cluster::of(connection)?;
    let fsync = connection.first_row("SHOW fsync")?;
    if fsync.is_some_and(|row| row.get(0) == Some("off")) {
        tracing::warn!(
            place,
            "the database has fsync = off: what was acknowledged is lost when its machine crashes; set it to on"
        );
    }
    connection.commit()?;
    Ok((snapshot, origin.epoch(), origin.history.name(cluster.as_deref())))
}

/// What a start makes, or finds, in one transaction.
fn make_schema(connection: &mut Connection, schema: Schema) -> Result<(PgSnapshot, Origin), Error> {
    connection.batch(SCHEMA_LOCK)?;
    migrate::migrate(connection, schema)?;
    let statements = log::tables(Dialect::Postgres).iter().chain(&log_place::START_ANEW);
    statements.into_iter().try_for_each(|statement| connection.batch(statement))?;
    change_log::prepare(connection)
}

/// The same, for the caller to undo. Where tables are to be made or changed it makes one: a change would keep everybody else from
/// a table, and all of them take seconds on a busy machine.
fn rehearse_schema(connection: &mut Connection, schema: Schema) -> Result<(), Error> {
    check_version(connection)?;
    connection.batch(REHEARSAL_LIMITS)?;
    if !migrate::is_done(connection, schema)? {
        connection.batch("CREATE TABLE sarsen_rehearsal (number BIGINT)")?;
        return check_owner(connection, schema);
    }
    make_schema(connection, schema).map(drop)
}

/// Fails if a table of the migrations belongs to another user, as after a restore by an administrator: only its owner may change
/// it. Tables of other programs and of extensions may be in the same schema.
fn check_owner(connection: &mut Connection, schema: Schema) -> Result<(), Error> {
    let mut found = None;
    connection.query(OF_OTHERS, &[], &mut |row| {
        let table: String = Row::new(row).get(0)?;
        found = Some(table).filter(|table| has_word(schema, table));
        Ok(found.is_none())
    })?;
    found.map_or(Ok(()), |table| Err(errors::not_owner(&table)))
}

fn has_word(schema: Schema, name: &str) -> bool {
    let is_of_a_name = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut texts = schema.migrations.iter().map(|migration| migration.text);
    texts.any(|text| text.split(|letter: char| !is_of_a_name(letter)).any(|word| word == name))
}

fn check_version(connection: &mut Connection) -> Result<(), Error> {
    let told = connection.first_row("SHOW server_version_num")?;
    match told.and_then(|row| row.get(0)?.parse::<u32>().ok()) {
        Some(version) if version < VERSION_MIN => Err(Error::Open(format!(
            "the database server is PostgreSQL {}; {} or newer is needed",
            version / 10_000,
            VERSION_MIN / 10_000
        ))),
        // Another server that speaks its protocol need not say.
        _ => Ok(()),
    }
}
