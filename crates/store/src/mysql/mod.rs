//! MySQL and MariaDB: several threads that commit side by side, each with a connection of its own (`remote/`).
//!
//! - `connection.rs`: transactions and statements over one connection. `purpose.rs`: their settings.
//! - `schema.rs`: what happens at start.
//! - `feed.rs`: what commands changed, logged and published. `commits.rs`: where a command's thread does so.
//!   `outcome.rs`: what became of a commit whose answer was lost. `tail.rs`: what other instances changed.
//! - `disturb.rs`: what a load test does to a server.
//! - `text.rs`: places of arguments. `values.rs`: arguments and columns. `errors.rs`: the only place that
//!   reads the driver's errors.
//!
//! The third database: complete, not the fastest. It reads from no replicas, and there is no TLS yet. MySQL cannot stop a
//! statement that writes for too long; MariaDB can.

mod commits;
mod connection;
mod disturb;
mod errors;
mod feed;
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
use ::mysql::consts::CapabilityFlags;
use ::mysql::{Opts, OptsBuilder};
use commits::Commits;
use feed::Publisher;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;
use tail::Tail;

/// Reads a URL; `None` when it cannot be read.
pub(crate) fn read_url(url: &str) -> Option<Opts> {
    let rest = url.strip_prefix("mariadb:").or_else(|| url.strip_prefix("mysql:"))?;
    Opts::from_url(&format!("mysql:{rest}")).ok()
}

pub(crate) fn open(opts: Opts, options: Options) -> Result<(Arc<Shared>, Remote), Error> {
    let opts = Arc::new(settings(opts)?);
    let version =
        remote::prepare_schema(opts.clone(), |connection| schema::prepare(connection, options.migrations))?;
    let writers = options.writers.max(1);
    let shared = Arc::new(Shared::new(options, version, writers, 1));
    let publisher = Arc::new(Publisher::new(shared.feed.clone()));
    // The tail ends when `stop` is dropped.
    let (stop, stopped) = channel::<()>();
    let mut tail = Tail::new(Link::new(opts.clone()), shared.clone(), publisher.clone(), version);
    tail.start().map_err(remote::opening)?;
    let mut threads = vec![spawn("sarsen-tail", move || tail.run(&stopped))?];
    threads.extend(remote::serve(&opts, &[], &shared, || Commits::new(publisher.clone()))?);
    Ok((shared.clone(), Remote::new(shared, Dialect::Mysql, threads, Box::new(stop))))
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
