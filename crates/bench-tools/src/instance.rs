//! `sarsen-bench-tools instance`: one more server on the database of a demo that runs.

use sarsen::program::Context;
use sarsen::server_process;
use sarsen::{Error, LogFormat, Result, logs, output, parse_database};
use server::{App, Bound, Limits, SecretKey, Settings, Tls};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Run one more server on the database of a demo.
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
    /// The demo's issuer
    #[arg(long, value_name = "URL")]
    issuer: String,
    /// The server speaks HTTPS with this certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// The certificate's key
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Bytes that all caches may take together
    #[arg(long, value_name = "BYTES", default_value_t = server::CACHE_MEMORY)]
    cache_memory: usize,
    /// Where to listen
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

/// Serves until a signal stops it. Prints one line of JSON when it listens.
pub fn run(args: &Args, context: &Context) -> Result<()> {
    let database = parse_database(&args.database)?;
    let filter = context.environment.get("SARSEN_LOG").unwrap_or("warn");
    let _log = logs::start(filter, LogFormat::Text, false)?;
    let text = std::fs::read_to_string(&args.key_file).map_err(Error::file("read", &args.key_file))?;
    let wrong = |error| Error::failed(format!("{}: {error}", args.key_file.display()));
    let key = SecretKey::parse(&text).map_err(wrong)?;
    let mut options = server::store_options(database.url());
    (options.writer, options.replicas) =
        (context.writer_limits.clone(), args.replica.iter().cloned().collect());
    options.cache_memory = args.cache_memory;
    let bound = server_process::bind(&[args.listen])?;
    let store = server_process::open_store(&database, options)?;
    let app = server_process::app(store.clone(), Settings::new(&args.issuer), key, None)?;
    let limits = Limits { tls: tls(args)?, ..Limits::default() };
    let served = server_process::runtime()?.block_on(serve(app, bound, limits));
    if served.is_err() {
        store.close();
    }
    served
}

fn tls(args: &Args) -> Result<Option<Tls>> {
    let Some((certificate, key)) = args.tls_certificate.as_ref().zip(args.tls_key.as_ref()) else {
        return Ok(None);
    };
    let read = |path: &PathBuf| std::fs::read(path).map_err(Error::file("read", path));
    let made = Tls::new(&read(certificate)?, &read(key)?);
    made.map(Some).map_err(|error| Error::failed(format!("{}: {error}", certificate.display())))
}

async fn serve(app: App, bound: Bound, limits: Limits) -> Result<()> {
    let signals = server_process::signals()?;
    let prepared = server::first_start::prepare(&app).await;
    prepared.map_err(|error| Error::failed(format!("the database cannot be used: {error}")))?;
    let running = server_process::start(app, bound, limits).await?;
    for address in &running.addresses {
        output::print(&format!("{}\n", serde_json::json!({ "listen": format!("http://{address}") })))?;
    }
    server_process::until_stopped(running, signals, LogFormat::Text).await;
    Ok(())
}
