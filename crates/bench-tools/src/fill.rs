//! `sarsen-bench-tools fill`: fills the database of a demo with accounts.

use sarsen::progress::{ProgressBar, StepProgress};
use sarsen::{Error, Result, output, parse_database, server_process};
use serde_json::json;
use server::fixtures::{Filled, Grants, NoteGrant, fill};
use server::{Clock as _, Store, SystemClock, SystemRandom};
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;
use std::time::Instant;

/// Fill the database of a demo with accounts.
#[derive(clap::Args)]
pub struct Args {
    /// The demo's database; no other process may use it
    #[arg(long, value_name = "URL")]
    database: String,
    /// The organization that gets the accounts
    #[arg(long, value_name = "SLUG")]
    org: String,
    /// Number of accounts
    #[arg(long, value_name = "N")]
    users: u64,
    /// Grants of each account, for `sign`
    #[arg(long, value_name = "N", requires_all = ["client", "grants_file"])]
    grants: Option<u32>,
    /// The client that they authorize
    #[arg(long, value_name = "ID")]
    client: Option<String>,
    /// Where to list them
    #[arg(long, value_name = "FILE")]
    grants_file: Option<PathBuf>,
}

/// Fills with progress on stderr. Prints one line of JSON at the end.
pub fn run(args: &Args) -> Result<()> {
    let database = parse_database(&args.database)?;
    let began = Instant::now();
    let store = server_process::open_store(&database, server::store_options(database.url()))?;
    let filled = server_process::runtime()?.block_on(fill_with_progress(&store, args));
    store.close();
    let filled = filled?;
    output::print_json(&json!({
        "email": filled.email,
        "password": filled.password,
        "plan": filled.plan,
        "rows": filled.rows,
        "seconds": began.elapsed().as_secs_f64(),
    }))
}

async fn fill_with_progress(store: &Store, args: &Args) -> Result<Filled> {
    let mut bar = ProgressBar::start();
    let progress = |done| StepProgress { done, found: 0, total: args.users, unit: "users" };
    let show = |done| bar.show("filling", progress(done), "");
    let wrong = |error: std::io::Error| Error::failed(format!("the file of grants: {error}"));
    let create = |path: &PathBuf| File::create(path).map(BufWriter::new);
    let mut list = args.grants_file.as_ref().map(create).transpose().map_err(wrong)?;
    let mut note = |line: &str| list.as_mut().map_or(Ok(()), |list| writeln!(list, "{line}"));
    let grants = args
        .grants
        .zip(args.client.clone())
        .map(|(each, client)| (Grants { each, client }, &mut note as NoteGrant<'_>));
    let now = SystemClock.now();
    let filled = fill(store, &args.org, args.users, grants, now, &SystemRandom, show).await;
    bar.end();
    list.map_or(Ok(()), |mut list| list.flush()).map_err(wrong)?;
    filled.map_err(|error| Error::failed(error.to_string()))
}
