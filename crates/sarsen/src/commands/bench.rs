//! `sarsen bench`: the load generator. It measures servers of this same program.

use crate::error::{Error, Result};
use crate::program::Context;
use bench::Launcher;

/// Measure a server; docs/benchmarks.md describes the workloads.
#[derive(clap::Args)]
#[command(after_help = "Example:  sarsen bench sso --duration 30s --users 200 --json result.json")]
pub struct Args {
    #[command(subcommand)]
    workload: bench::Command,
}

/// Runs it.
pub fn run(args: Args, context: &Context) -> Result<()> {
    let program = std::env::current_exe().map_err(Error::io("cannot find this program's own file"))?;
    let launcher = Launcher { tools: context.bench_tools.clone(), ..Launcher::new(program) };
    Ok(bench::run(args.workload, launcher)?)
}
