//! `sarsen-bench-tools inject-fault`: disturbs a database server while a benchmark runs.
//!
//! It undoes the fault and ends on a signal, or when its standard input closes. That is a pipe of the benchmark, so the
//! fault also ends when the benchmark is killed.

use sarsen::server::Signals;
use sarsen::server_process;
use sarsen::{Error, Result, output};
use server::fault_injection;
use tokio::sync::oneshot;

/// Disturb a database server until this program is stopped.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    fault: Fault,
}

#[derive(clap::Subcommand)]
enum Fault {
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

/// Injects the fault until the program is stopped. Prints one line of JSON when the fault is in force.
pub fn run(args: &Args) -> Result<()> {
    let failed = |error: server::StoreError| Error::failed(error.to_string());
    let runtime = server_process::runtime()?;
    let signals = runtime.block_on(async { server_process::signals() })?;
    let fault = match &args.fault {
        Fault::HoldTransaction(server) => fault_injection::hold_transaction(&server.database),
        Fault::PauseReplay(server) => fault_injection::pause_replay(&server.database),
    }
    .map_err(failed)?;
    let printed = output::print("{\"injected\":true}\n");
    if printed.is_ok() {
        runtime.block_on(until_stopped(signals));
    }
    fault.end().map_err(failed)?;
    printed
}

async fn until_stopped(mut signals: Signals) {
    let (closed, input) = oneshot::channel();
    // A read blocks, and only the other side of the pipe can end it.
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        let _ = closed.send(());
    });
    tokio::select! {
        () = signals.next() => {}
        _ = input => {}
    }
}
