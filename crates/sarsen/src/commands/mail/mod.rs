//! `sarsen mail`: what the operator of a server does about mails. `test.rs`: sends one. `records.rs`: what the domain of the sender says
//! about mails from it.

pub(super) mod records;
mod test;

pub(super) use test::explained;

use crate::environment::Environment;
use crate::error::Result;

/// Mails that this server sends.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Send a mail with the settings of this configuration, and say what does not work
    Test(test::Args),
}

/// Runs it.
pub fn run(args: &Args, environment: &Environment) -> Result<()> {
    match &args.command {
        Command::Test(args) => test::run(args, environment),
    }
}
