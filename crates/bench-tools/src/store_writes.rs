//! `sarsen-bench-tools store-writes`: the insert of the back end `request_log`, through the store alone.
//!
//! Each writer waits for its commit before it begins the next insert, as a connection of `sarsen bench writes` does. The CPU
//! time of this process by its inserts is what that of the server is compared with.

use request_log::requests::{self, Logged};
use sarsen::{Error, Result, output, parse_database, server_process};
use serde_json::json;
use server::{Clock as _, Store, SystemClock};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use store::Options;

/// Insert through the store alone.
#[derive(clap::Args)]
pub struct Args {
    /// An empty database
    #[arg(long, value_name = "URL")]
    database: String,
    /// Writers, each with one insert at a time
    #[arg(long, value_name = "N", default_value_t = 64)]
    writers: u64,
    /// Measured time
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    seconds: u64,
    /// Time before it
    #[arg(long, value_name = "SECONDS", default_value_t = 1)]
    warmup: u64,
}

/// What the writers share.
struct Run {
    store: Store,
    inserted: AtomicU64,
    is_over: AtomicBool,
}

/// Writes for the given time. Prints one line of JSON.
pub fn run(args: &Args) -> Result<()> {
    let database = parse_database(&args.database)?;
    let options = Options::new(database.url(), request_log::MIGRATIONS);
    let store = server_process::open_store(&database, options)?;
    let run = Arc::new(Run { store, inserted: AtomicU64::new(0), is_over: AtomicBool::new(false) });
    let measured = server_process::runtime()?.block_on(measure(&run, args));
    run.store.close();
    output::print_json(&measured?)
}

async fn measure(run: &Arc<Run>, args: &Args) -> Result<serde_json::Value> {
    let writers: Vec<_> = (0..args.writers).map(|writer| tokio::spawn(write(run.clone(), writer))).collect();
    tokio::time::sleep(Duration::from_secs(args.warmup)).await;
    let (began, cpu_before, before) = (Instant::now(), cpu_time(), run.inserted.load(Ordering::Relaxed));
    tokio::time::sleep(Duration::from_secs(args.seconds)).await;
    let inserted = run.inserted.load(Ordering::Relaxed) - before;
    let (cpu, seconds) = (cpu_time().saturating_sub(cpu_before), began.elapsed().as_secs_f64());
    run.is_over.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.map_err(|error| Error::failed(format!("a writer ended: {error}")))??;
    }
    if inserted == 0 {
        return Err(Error::failed("no insert ended within the measured time; measure for longer"));
    }
    Ok(json!({
        "writers": args.writers,
        "inserted": inserted,
        "inserts_per_second": inserted as f64 / seconds,
        "cpu_us_per_insert": cpu.as_secs_f64() * 1e6 / inserted as f64,
    }))
}

/// Inserts rows of the size that `sarsen bench writes` causes.
async fn write(run: Arc<Run>, writer: u64) -> Result<()> {
    let mut number = 0_u64;
    while !run.is_over.load(Ordering::Relaxed) {
        number += 1;
        let millis = SystemClock.now().millis();
        let row = Logged {
            uid: format!("request_{millis:013}{writer:05}{number:08}"),
            ip: "127.0.0.1".to_owned(),
            method: "POST".to_owned(),
            url: "http://127.0.0.1:3000/requests".to_owned(),
            parameters: "{}".to_owned(),
            logged_at: millis,
        };
        let inserted = run.store.write_batched("request.log", move |tx| requests::create(tx, &row)).await;
        inserted.map_err(|problem: live::Problem| Error::failed(problem.detail))?;
        run.inserted.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// The CPU time of this process.
fn cpu_time() -> Duration {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(spent.tv_sec).unwrap_or(0), u32::try_from(spent.tv_nsec).unwrap_or(0))
}
