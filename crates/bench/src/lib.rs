//! The load generator of Sarsen. It measures servers over HTTP and imports no other crate of this workspace.
//!
//! Layout, from the wire up:
//! - [`http`]: request bytes out, answers in, one connection;
//! - [`measure`]: results by cause, HDR histograms, CPU and memory from the operating system;
//! - [`load`]: virtual users in a closed or an open loop, one measured run;
//! - [`setup`]: fills a server with organizations and signed-in accounts through its API and pages;
//! - [`workloads`]: the requests and the expected answers;
//! - [`report`]: the live line, the table, the JSON.
//!
//! Everything runs on one thread: the generator has one core, the server has the others.

mod argument_parsers;
mod cli;
mod error;
pub mod http;
mod json_scan;
mod launcher;
pub mod load;
mod machine;
pub mod measure;
mod memory_limit;
pub mod report;
mod seeds;
pub mod setup;
mod subprocess;
pub mod workloads;

pub use argument_parsers::parse_duration;
pub use cli::{
    AttemptsArgs, AuthArgs, BackEndArgs, CapacityArgs, Command, CommonArgs, CostArgs, FloorArgs, LiveArgs,
    LoginArgs, MoveArgs, OverloadArgs, RevocationArgs, SeedsArgs, ServerArgs, SsoArgs, TimeArgs, WritesArgs,
};
pub use error::Error;
pub use json_scan::string_field;
pub use launcher::{Launcher, ServerProcess};
pub use subprocess::{Finished, Outcome};

/// Runs `command` to its end: progress on stderr, the result on stdout. It blocks, with a thread and a runtime of its own.
/// The servers that it starts are stopped when it returns.
pub fn run(command: Command, launcher: Launcher) -> Result<(), Error> {
    if let Command::Seeds(args) = command {
        return seeds::run(&args, &launcher);
    }
    std::thread::scope(|scope| match scope.spawn(|| run_here(command, launcher)).join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

fn run_here(command: Command, launcher: Launcher) -> Result<(), Error> {
    if command.pins() {
        machine::pin_generator()?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Error::io("cannot start the runtime"))?;
    tokio::task::LocalSet::new().block_on(&runtime, async {
        tokio::select! {
            result = dispatch(&command, &launcher) => result,
            _ = tokio::signal::ctrl_c() => Err(Error::Interrupted),
        }
    })
}

async fn dispatch(command: &Command, launcher: &Launcher) -> Result<(), Error> {
    match command {
        Command::Floor(args) => workloads::floor(args, launcher).await,
        Command::Sso(args) => workloads::sso(args, launcher).await,
        Command::Writes(args) => workloads::writes(args, launcher).await,
        Command::Live(args) => workloads::live(args, launcher).await,
        Command::Attempts(args) => workloads::attempts(args, launcher).await,
        Command::Capacity(args) => workloads::capacity(args, launcher).await,
        Command::Revocation(args) => workloads::revocation(args, launcher).await,
        Command::Login(args) => workloads::login(args, launcher).await,
        Command::Overload(args) => workloads::overload(args, launcher).await,
        Command::Auth(args) => workloads::auth(args, launcher).await,
        Command::Cost(args) => workloads::cost(args, launcher).await,
        Command::Move(args) => workloads::move_database(args, launcher).await,
        // It has no runtime of its own: it runs other commands.
        Command::Seeds(args) => seeds::run(args, launcher),
    }
}

impl Command {
    fn pins(&self) -> bool {
        match self {
            Command::Floor(args) => args.common.pin,
            Command::Sso(args) => args.common.pin,
            Command::Writes(args) => args.common.pin,
            Command::Live(args) => args.common.pin,
            Command::Attempts(args) => args.common.pin,
            Command::Capacity(args) => args.common.pin,
            Command::Revocation(args) => args.common.pin,
            Command::Login(args) => args.common.pin,
            Command::Overload(args) => args.common.pin,
            Command::Auth(args) => args.common.pin,
            // CPU costs are compared on one core.
            Command::Cost(_) => true,
            // The mover may use all cores.
            Command::Move(_) => false,
            // Each of its commands decides.
            Command::Seeds(_) => false,
        }
    }
}
