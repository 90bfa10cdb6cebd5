//! `sarsen-bench-tools`: what benchmarks and tests need and no installation may run. It is not shipped.
//!
//! It has all commands of `sarsen`, and eight more:
//! - `floor.rs`: the bare server that costs are compared with. `instance.rs`: one more server on a demo's database;
//! - `fill.rs`: a million accounts. `sign.rs`: their tokens. `store_writes.rs`: the insert of a back end through the store
//!   alone. `inject_fault.rs`: a transaction that stays open, a standby that stops replaying.
//! - `history/`: judges live queries while servers fail. `history_server.rs`: the back end that it judges.
//!
//! Its `serve` and `demo` obey `SARSEN_TEST_COMMIT_DELAY_MS` and `SARSEN_TEST_BATCH_MAX` (`writer_limits.rs`).
//! `sarsen bench` starts this program when it lies beside `sarsen`.

mod fill;
mod floor;
mod history;
mod history_server;
mod inject_fault;
mod instance;
mod sign;
mod store_writes;
mod writer_limits;

use clap::{Parser, Subcommand};
use sarsen::Result;
use sarsen::program::{self, Context};
use std::process::ExitCode;

/// The commands of sarsen, and tools for benchmarks and tests that can damage an installation.
#[derive(Parser)]
#[command(name = "sarsen-bench-tools", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the bare server that benchmarks compare with: it answers "ok" to every request
    Floor(floor::Args),
    /// Run one more server on the database of a demo
    Instance(instance::Args),
    /// Disturb a database server until this program is stopped
    InjectFault(inject_fault::Args),
    /// Fill the database of a demo with accounts
    Fill(fill::Args),
    /// Insert into the table of the back end `request_log` through the store alone
    StoreWrites(store_writes::Args),
    /// Sign access tokens for the grants of a filled database
    Sign(sign::Args),
    /// Check that live queries show right states while servers fail
    History(history::Args),
    /// Run the back end that `history` judges
    HistoryServer(history_server::Args),
    #[command(flatten)]
    Sarsen(Box<program::Command>),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    program::finish(run(cli.command))
}

fn run(command: Command) -> Result<()> {
    let mut context = Context::of_this_process()?;
    context.writer_limits = writer_limits::from(&context.environment)?;
    match command {
        Command::Floor(args) => floor::run(&args),
        Command::Instance(args) => instance::run(&args, &context),
        Command::InjectFault(args) => inject_fault::run(&args),
        Command::Fill(args) => fill::run(&args),
        Command::StoreWrites(args) => store_writes::run(&args),
        Command::Sign(args) => sign::run(&args),
        Command::History(args) => history::run(&args),
        Command::HistoryServer(args) => history_server::run(&args),
        Command::Sarsen(command) => program::run(*command, &context),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
