//! The command line of `sarsen`: every command, and the file that runs it.

pub use crate::context::Context;

use crate::allocator;
use crate::commands::{
    audit, backup, bench, billing, branding, check, client, demo, dev, doctor, health, init, key, login,
    logout, mail, member, move_database, new, org, owner, plan, rekey, restore, serve, service, subscription,
    user, version, whoami,
};
use crate::error::Result;
use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Identity and single sign-on for a suite of products, in one program.
#[derive(Parser)]
#[command(
    name = "sarsen",
    version,
    after_help = "Try it:        sarsen demo\n\
                  For a product: sarsen dev -- npm run dev\n\
                  Set it up:     sarsen init, then sarsen serve\n\
                  From a terminal, signed in by sarsen login:\n\
                  \x20              sarsen org create acme --name Acme\n\
                  \x20              sarsen service create sketch --name Sketch --org acme\n\
                  \n\
                  Exit codes: 0 done, 1 failed, 2 wrong usage."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// Every command of `sarsen`.
#[derive(Subcommand)]
pub enum Command {
    /// Run a server with a demo tenant, ready in seconds
    Demo(demo::Args),
    /// Run a server for a product that is being developed, and the product with it
    Dev(dev::Args),
    /// Write a new product, with a sign-in and a plan that changes live
    New(new::Args),
    /// Write a configuration and a secret key, after three questions
    Init(init::Args),
    /// Run the server
    Serve(serve::Args),
    /// Check the configuration, the files and the machine
    Doctor(doctor::Args),
    /// Ask whether the server of this configuration is ready
    Health(health::Args),
    /// Copy the database to a file, also while the server runs
    Backup(backup::Args),
    /// Check a backup, or a database on a server
    Check(check::Args),
    /// Put a backup in the place of the database
    Restore(restore::Args),
    /// Replace the secret key by a new one
    Rekey(rekey::Args),
    /// Move everything to another database
    Move(move_database::Args),
    /// Owners of the server, and a way back for one who has lost the password
    Owner(owner::Args),
    /// Mails that the server sends: a test of its settings
    Mail(mail::Args),
    /// Sign this terminal in to a server
    Login(login::Args),
    /// Sign this terminal out
    Logout(logout::Args),
    /// Show the account that this terminal is signed in to, and what it may administer
    Whoami(whoami::Args),
    /// Organizations: the tenants of a server
    Org(org::Args),
    /// Branding: what the pages of an organization show
    Branding(branding::Args),
    /// Members: the administrators of an organization
    Member(member::Args),
    /// Services: the products of an organization
    Service(service::Args),
    /// Clients: the programs that sign users in to a service
    Client(client::Args),
    /// API keys: the credentials of programs
    Key(key::Args),
    /// Plans: what an organization sells
    Plan(plan::Args),
    /// Subscriptions: which user or customer has which plan
    Subscription(subscription::Args),
    /// Billing: payment providers whose events change subscriptions
    Billing(billing::Args),
    /// Users: the accounts of an organization
    User(user::Args),
    /// The audit trail of an organization
    Audit(audit::Args),
    /// Measure a server
    Bench(bench::Args),
    /// Print version, commit, target and the SHA-256 of this program
    Version(version::Args),
}

/// The whole program: reads the arguments, runs the command, prints an error.
pub fn main() -> ExitCode {
    allocator::return_freed_memory();
    let cli = Cli::parse();
    finish(Context::of_this_process().and_then(|context| run(cli.command, &context)))
}

/// Prints an error, if there is one, and returns the exit code.
pub fn finish(result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error.print();
            error.exit_code()
        }
    }
}

/// Runs a command to its end.
pub fn run(command: Command, context: &Context) -> Result<()> {
    let environment = &context.environment;
    match command {
        Command::Demo(args) => demo::run(&args, context),
        Command::Dev(args) => dev::run(&args, context),
        Command::New(args) => new::run(&args),
        Command::Init(args) => init::run(&args),
        Command::Serve(args) => serve::run(&args, context),
        Command::Health(args) => health::run(&args, environment),
        Command::Doctor(args) => doctor::run(&args, environment),
        Command::Backup(args) => backup::run(&args, environment),
        Command::Check(args) => check::run(&args, environment),
        Command::Restore(args) => restore::run(&args, environment),
        Command::Rekey(args) => rekey::run(&args, environment),
        Command::Move(args) => move_database::run(&args),
        Command::Owner(args) => owner::run(&args, context),
        Command::Mail(args) => mail::run(&args, environment),
        Command::Login(args) => login::run(&args, environment),
        Command::Logout(args) => logout::run(&args, environment),
        Command::Whoami(args) => whoami::run(&args, environment),
        Command::Org(args) => org::run(&args, environment),
        Command::Branding(args) => branding::run(&args, environment),
        Command::Member(args) => member::run(&args, environment),
        Command::Service(args) => service::run(&args, environment),
        Command::Client(args) => client::run(&args, environment),
        Command::Key(args) => key::run(&args, environment),
        Command::Plan(args) => plan::run(&args, environment),
        Command::Subscription(args) => subscription::run(&args, environment),
        Command::Billing(args) => billing::run(&args, environment),
        Command::User(args) => user::run(&args, environment),
        Command::Audit(args) => audit::run(&args, environment),
        Command::Bench(args) => bench::run(args),
        Command::Version(args) => version::run(&args),
    }
}
