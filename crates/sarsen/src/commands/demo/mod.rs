//! `sarsen demo`: a server with a demo tenant, ready in seconds, on this machine only.
//!
//! - `data_dir.rs`: the folder with its data. `ports.rs`: where it listens. `summary.rs`: what it prints.

mod data_dir;
mod ports;
mod summary;

use crate::config::{Database, LogFormat};
use crate::context::Context;
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::server_process;
use crate::{logs, output};
use data_dir::DataDir;
use ports::{Candidates, Ports};
use server::demo::{self, Credentials, Demo};
use server::outgoing::Relay;
use server::{Bound, Cidr, Limits, RequestLogFormat, Running, Settings, Store};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Run a server with a demo tenant, for this machine only; Ctrl-C ends it.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n\
                  \x20   sarsen demo\n\
                  \x20   sarsen demo --data mine      the same data and passwords each time\n\
                  \x20   sarsen demo --json --listen 127.0.0.1:0 | jq .issuer\n\
                  \x20   SARSEN_TRUSTED_PROXIES=127.0.0.1 sarsen demo      behind a tunnel on this machine\n\
                  \n\
                  Without --data the folder is target/sarsen-demo if there is a folder target, otherwise sarsen-demo in the\n\
                  folder for temporary files.")]
pub struct Args {
    /// Loopback address; the server listens on IPv4 and IPv6 [default: 127.0.0.1:7070 or the next free port]
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// Folder for the data; a demo with the same folder has the same data and passwords [default: see below]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Database in place of the one in the folder; it must be empty or of this demo
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// Print one line of JSON when the server is ready
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub fn run(args: &Args, context: &Context) -> Result<()> {
    let environment = &context.environment;
    let ports = Ports::new(args.listen)?;
    let mut candidates = ports.candidates();
    let database = args.database.as_deref().map(parse_database).transpose()?;
    let colours = environment.get("NO_COLOR").is_none();
    let _log = logs::start(environment.get("SARSEN_LOG").unwrap_or("warn"), LogFormat::Text, colours)?;

    let surroundings = Surroundings::of(environment)?;

    server_process::keep_files_private();
    let bound = candidates.bind_next()?;
    let folder = DataDir::open(args.data.clone().unwrap_or_else(data_dir::default_path), database)?;
    let mut options = server::store_options(folder.database().url());
    options.writer = context.writer_limits.clone();
    let store = server_process::open_store(folder.database(), options)?;
    let served =
        server_process::runtime()?.block_on(serve(args, &folder, &store, bound, candidates, &surroundings));
    if served.is_err() {
        store.close();
    }
    served
}

/// The settings that a demo takes from the environment, where `serve` has a file too.
struct Surroundings {
    request_log: Option<RequestLogFormat>,
    /// Who may send the address of their client: a tunnel, or the load generator.
    trusted_proxies: Vec<Cidr>,
}

impl Surroundings {
    fn of(environment: &Environment) -> Result<Surroundings> {
        let is_logged = environment.get("SARSEN_REQUEST_LOG") == Some("true");
        let listed = environment.get("SARSEN_TRUSTED_PROXIES").unwrap_or_default();
        let blocks = listed.split(',').map(str::trim).filter(|block| !block.is_empty());
        let wrong = |block: &str| {
            Error::usage(format!(
                "SARSEN_TRUSTED_PROXIES has {block:?}; use addresses and networks, like 127.0.0.1,10.0.0.0/8"
            ))
        };
        let trusted_proxies =
            blocks.map(|block| block.parse().map_err(|_| wrong(block))).collect::<Result<_>>()?;
        Ok(Surroundings { request_log: is_logged.then_some(RequestLogFormat::Text), trusted_proxies })
    }

    fn settings(&self, issuer: &str) -> Settings {
        let trusted_proxies = self.trusted_proxies.clone();
        let mail = Some(Relay::kept());
        Settings { request_log: self.request_log, trusted_proxies, mail, ..Settings::new(issuer) }
    }
}

/// Reads `sqlite:PATH`, `postgres://…` or `mysql://…`.
pub fn parse_database(url: &str) -> Result<Database> {
    let rule = || Error::usage(format!("--database is not a database; use {}", Database::FORMS));
    Database::parse(url).ok_or_else(rule)
}

async fn serve(
    args: &Args,
    folder: &DataDir,
    store: &Store,
    bound: Bound,
    candidates: Candidates<'_>,
    surroundings: &Surroundings,
) -> Result<()> {
    let signals = server_process::signals()?;
    let (running, issuer, credentials) = start(folder, store, bound, candidates, surroundings).await?;
    let summary = summary::Summary { issuer: &issuer, credentials: &credentials, folder: folder.path() };
    if args.json {
        output::print(&format!("{}\n", summary.json()?))?;
    } else {
        output::print(&summary.text())?;
    }
    server_process::until_stopped(running, signals, LogFormat::Text).await;
    Ok(())
}

/// Serves on the port that was taken. Another process may listen there first: then the next one is tried.
async fn start(
    folder: &DataDir,
    store: &Store,
    mut bound: Bound,
    mut candidates: Candidates<'_>,
    surroundings: &Surroundings,
) -> Result<(Running, String, Credentials)> {
    loop {
        let issuer = format!("http://localhost:{}", bound.addresses().first().map_or(0, SocketAddr::port));
        let settings = surroundings.settings(&issuer);
        let app = server_process::app(
            store.clone(),
            settings,
            folder.key()?,
            Some(Demo::new(&summary::program())),
        )?;
        let failed = |error: &dyn std::fmt::Display| {
            let database = folder.database();
            Error::failed(format!("{database} is not a database that a demo in this folder made: {error}"))
        };
        server::first_start::prepare(&app).await.map_err(|error| failed(&error))?;
        let known = folder.credentials();
        let credentials = demo::seed(&app, known).await.map_err(|error| failed(&error))?;
        folder.save(&credentials)?;
        match server_process::start(app, bound, Limits::default()).await {
            Ok(running) => return Ok((running, issuer, credentials)),
            Err(error) if error.taken && candidates.may_go_on() => bound = candidates.bind_next()?,
            Err(error) => return Err(error.into()),
        }
    }
}
