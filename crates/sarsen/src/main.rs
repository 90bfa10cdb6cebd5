//! `sarsen`: the one program. This file is its table of contents: every command, and the file that runs it.
//!
//! Layout:
//! - `commands/`: one file a command. `config/`: every setting, from file, environment and flags;
//! - `server_process.rs`: what `serve` and `demo` have in common. `api_client/`: how a terminal speaks to a server;
//! - `output.rs`, `progress.rs`, `terminal.rs`: what people see. `files.rs`: files that only their owner may read.
//!
//! It is the only place that reads arguments, the environment and files. It knows no rule of the domain:
//! what it asks for, the server decides.

mod allocator;
mod api_client;
mod commands;
mod config;
mod environment;
mod error;
mod files;
mod logs;
mod output;
mod progress;
mod server_process;
mod terminal;

use clap::{Parser, Subcommand};
use commands::{
    audit, bare_server, bench, client, demo, doctor, fixtures, init, inject_fault, instance, login, logout,
    member, move_database, org, plan, serve, service, subscription, user, whoami,
};
use environment::Environment;
use error::Error;
use std::process::ExitCode;

/// Identity and single sign-on for a suite of products, in one program.
#[derive(Parser)]
#[command(
    name = "sarsen",
    version,
    after_help = "Try it:        sarsen demo\n\
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

#[derive(Subcommand)]
enum Command {
    /// Run a server with a demo tenant, ready in seconds
    Demo(demo::Args),
    /// Write a configuration and a secret key, after three questions
    Init(init::Args),
    /// Run the server
    Serve(serve::Args),
    /// Check the configuration, the files and the machine
    Doctor(doctor::Args),
    /// Move everything to another database
    Move(move_database::Args),
    /// Sign this terminal in to a server
    Login(login::Args),
    /// Sign this terminal out
    Logout(logout::Args),
    /// Say who this terminal is signed in as, and what it may administer
    Whoami(whoami::Args),
    /// Organizations: the tenants of a server
    Org(org::Args),
    /// Those who administer an organization
    Member(member::Args),
    /// Services: the products of an organization
    Service(service::Args),
    /// Clients: the programs that sign people in to a service
    Client(client::Args),
    /// Plans: what an organization sells
    Plan(plan::Args),
    /// Subscriptions: who has which plan
    Subscription(subscription::Args),
    /// Users: the accounts of an organization
    User(user::Args),
    /// The audit trail: who did what
    Audit(audit::Args),
    /// Measure a server
    Bench(bench::Args),
    /// The bare server that the bench compares with
    #[command(hide = true)]
    BenchFloorServer(bare_server::Args),
    /// One more instance of a demo
    #[command(hide = true)]
    BenchInstance(instance::Args),
    /// What makes a database server slow to forget
    #[command(hide = true)]
    BenchDisturb(inject_fault::Args),
    /// Very many accounts
    #[command(hide = true)]
    BenchFill(fixtures::Args),
}

fn main() -> ExitCode {
    allocator::return_freed_memory();
    let cli = Cli::parse();
    match Environment::of_this_process().and_then(|environment| run(cli.command, &environment)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error.print();
            error.exit_code()
        }
    }
}

fn run(command: Command, environment: &Environment) -> Result<(), Error> {
    match command {
        Command::Demo(args) => demo::run(&args, environment),
        Command::Init(args) => init::run(&args),
        Command::Serve(args) => serve::run(&args, environment),
        Command::Doctor(args) => doctor::run(&args, environment),
        Command::Move(args) => move_database::run(&args),
        Command::Login(args) => login::run(&args, environment),
        Command::Logout(args) => logout::run(&args, environment),
        Command::Whoami(args) => whoami::run(&args, environment),
        Command::Org(args) => org::run(&args, environment),
        Command::Member(args) => member::run(&args, environment),
        Command::Service(args) => service::run(&args, environment),
        Command::Client(args) => client::run(&args, environment),
        Command::Plan(args) => plan::run(&args, environment),
        Command::Subscription(args) => subscription::run(&args, environment),
        Command::User(args) => user::run(&args, environment),
        Command::Audit(args) => audit::run(&args, environment),
        Command::Bench(args) => bench::run(args),
        Command::BenchFloorServer(args) => bare_server::run(&args),
        Command::BenchInstance(args) => instance::run(&args, environment),
        Command::BenchDisturb(args) => inject_fault::run(&args),
        Command::BenchFill(args) => fixtures::run(&args),
    }
}
