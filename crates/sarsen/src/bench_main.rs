//! `sarsen-bench`: the load generator, which `sarsen bench` starts. A program of its own, so that the one that serves does not
//! carry it.

use bench::Launcher;
use clap::Parser;
use std::process::ExitCode;

/// Measure a server; docs/benchmarks.md describes the workloads
#[derive(Parser)]
#[command(
    name = "sarsen-bench",
    bin_name = "sarsen bench",
    version,
    after_help = "Example:  sarsen bench sso --duration 30s --users 200 --json result.json"
)]
struct Cli {
    #[command(subcommand)]
    workload: bench::Command,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match Launcher::beside_this_program().and_then(|launcher| bench::run(cli.workload, launcher)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sarsen: {error}");
            let is_usage = matches!(error, bench::Error::Usage(_));
            ExitCode::from(if is_usage { 2 } else { 1 })
        }
    }
}
