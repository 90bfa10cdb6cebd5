//! `sarsen bench-disturb`: disturbs a database server for as long as a run of the bench takes. Hidden.
//!
//! It ends, and brings things back in order, with a signal or with its standard input: that is a pipe of the bench, so
//! it also ends when the bench was killed.

use crate::error::{Error, Result};
use crate::output;
use crate::server_process::{self, Signals};
use server::disturb::{self, Disturbance};
use tokio::sync::oneshot;

/// Disturbs a database server, for the bench.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Keep a transaction open that has written
    HoldTransaction(Server),
    /// Stop the replay of a PostgreSQL standby
    PauseReplay(Server),
}

#[derive(clap::Args)]
struct Server {
    /// The server
    #[arg(long, value_name = "URL")]
    database: String,
}

/// Disturbs until it is told to stop; prints one line of JSON once it does.
pub fn run(args: &Args) -> Result<()> {
    let failed = |error: server::StoreError| Error::failed(error.to_string());
    let runtime = server_process::runtime()?;
    let signals = runtime.block_on(async { Signals::listen() })?;
    let disturbance: Disturbance = match &args.what {
        What::HoldTransaction(server) => disturb::hold_transaction(&server.database),
        What::PauseReplay(server) => disturb::pause_replay(&server.database),
    }
    .map_err(failed)?;
    let said = output::print("{\"disturbs\":true}\n");
    if said.is_ok() {
        runtime.block_on(until_told(signals));
    }
    disturbance.end().map_err(failed)?;
    said
}

async fn until_told(mut signals: Signals) {
    let (closed, input) = oneshot::channel();
    // Reading blocks, and nothing ends it but the other side.
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        let _ = closed.send(());
    });
    tokio::select! {
        () = signals.next() => {}
        _ = input => {}
    }
}
