//! `sarsen bench-fill`: very many accounts into the database of a demo, for the bench. Hidden.

use super::demo::parse_database;
use crate::error::{Error, Result};
use crate::progress::{ProgressBar, StepProgress};
use crate::{output, server_process};
use serde_json::json;
use server::fixtures::{Filled, fill};
use server::{Clock as _, Store, SystemClock, SystemRandom};
use std::time::Instant;

/// Fills the database of a demo with accounts, for the bench.
#[derive(clap::Args)]
pub struct Args {
    /// The demo's database; nobody else may use it
    #[arg(long, value_name = "URL")]
    database: String,
    /// The organization where the accounts are to be
    #[arg(long, value_name = "SLUG")]
    org: String,
    /// How many
    #[arg(long, value_name = "N")]
    users: u64,
}

/// Fills with progress on stderr; prints one line of JSON at the end.
pub fn run(args: &Args) -> Result<()> {
    let database = parse_database(&args.database)?;
    let began = Instant::now();
    let store = server_process::open_store(server::store_options(database.url()))?;
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
    let mut bar = ProgressBar::new();
    let count = |done| StepProgress { done, found: 0, total: args.users, unit: "users" };
    let tell = |done| bar.show("filling", count(done), "");
    let filled = fill(store, &args.org, args.users, SystemClock.now(), &SystemRandom, tell).await;
    bar.end();
    filled.map_err(|error| Error::failed(error.to_string()))
}
