//! `sarsen bench-instance`: one more server on the database of a demo that runs. Hidden.

use super::demo::parse_database;
use crate::config::{self, LogFormat};
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::server_process::{self, Signals};
use crate::{files, logs, output};
use server::{App, Limits, SecretKey, Settings};
use std::net::SocketAddr;
use std::path::PathBuf;

/// One more instance of a demo, for the bench.
#[derive(clap::Args)]
pub struct Args {
    /// The demo's database
    #[arg(long, value_name = "URL")]
    database: String,
    /// A replica of it, for lists
    #[arg(long, value_name = "URL")]
    replica: Option<String>,
    /// The demo's secret key
    #[arg(long, value_name = "FILE")]
    key_file: PathBuf,
    /// What the demo calls itself
    #[arg(long, value_name = "URL")]
    issuer: String,
    /// Where to listen
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

/// Serves until it is told to stop; prints one line of JSON once it listens.
pub fn run(args: &Args, environment: &Environment) -> Result<()> {
    let database = parse_database(&args.database)?;
    let limits = config::writer_limits(environment)?;
    let _log = logs::start(environment.get("SARSEN_LOG").unwrap_or("warn"), LogFormat::Text, false)?;
    let wrong = |why: &str| Error::failed(format!("{}: {why}", args.key_file.display()));
    let text = files::read(&args.key_file)?.ok_or_else(|| wrong("there is no such file"))?;
    let key = SecretKey::parse(&text).map_err(|error| wrong(&error.to_string()))?;
    let mut options = server::store_options(database.url());
    (options.writer, options.replicas) = (limits, args.replica.iter().cloned().collect());
    let store = server_process::open_store(options)?;
    let app = server_process::app(store.clone(), Settings::new(&args.issuer), key, None)?;
    let served = server_process::runtime()?.block_on(serve(app, args.listen));
    if served.is_err() {
        store.close();
    }
    served
}

async fn serve(app: App, listen: SocketAddr) -> Result<()> {
    let signals = Signals::listen()?;
    let prepared = server::first_start::prepare(&app).await;
    prepared.map_err(|error| Error::failed(format!("the database cannot be used: {error}")))?;
    let running = server_process::start(app, &server_process::settle(&[listen])?, Limits::default()).await?;
    for address in &running.addresses {
        output::print(&format!("{}\n", serde_json::json!({ "listen": format!("http://{address}") })))?;
    }
    server_process::until_stopped(running, signals).await;
    Ok(())
}
