//! `sarsen-bench-tools fill`: fills the database of a demo with accounts.

use sarsen::progress::{ProgressBar, StepProgress};
use sarsen::{Error, Result, output, parse_database, server_process};
use serde_json::json;
use server::fixtures::{Filled, fill};
use server::{Clock as _, Store, SystemClock, SystemRandom};
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
    let filled = fill(store, &args.org, args.users, SystemClock.now(), &SystemRandom, show).await;
    bar.end();
    filled.map_err(|error| Error::failed(error.to_string()))
}
