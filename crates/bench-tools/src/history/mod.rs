//! `sarsen-bench-tools history`: runs writers, watchers and readers against live queries, hurts the servers meanwhile, and
//! judges what the clients saw.
//!
//! `checker/` judges and knows only the protocol. `run/` has the clients and the servers. `drive.rs` is the run itself:
//! rounds of writes with faults, each followed by a rest in which every client must reach the newest state. `faults.rs`,
//! `backup.rs`: the faults. The back end under test is `history_server.rs`.

mod backup;
mod checker;
mod drive;
mod faults;
mod random;
mod run;

use crate::history_server::Plant;
use checker::check::{Verdict, check};
use checker::record::{History, Versions};
use faults::Fault;
use run::servers::Recipe;
use sarsen::{Error, Result, output};
use std::path::PathBuf;

/// Check that live queries show right states while servers fail.
#[derive(clap::Args)]
pub struct Args {
    /// An empty database
    #[arg(long, value_name = "URL")]
    database: String,
    /// The server itself, where the database is reached by a pooler (PostgreSQL)
    #[arg(long, value_name = "URL")]
    direct: Option<String>,
    /// A replica of it (PostgreSQL)
    #[arg(long, value_name = "URL")]
    replica: Option<String>,
    /// Servers on the database; one for SQLite
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    instances: usize,
    /// How long to write; with a planted bug, at most
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    seconds: u64,
    /// What the choices of all clients and faults begin with
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Clients that write
    #[arg(long, value_name = "NUMBER", default_value_t = 4)]
    writers: usize,
    /// Clients that watch
    #[arg(long, value_name = "NUMBER", default_value_t = 12)]
    watchers: usize,
    /// Clients that read
    #[arg(long, value_name = "NUMBER", default_value_t = 3)]
    readers: usize,
    /// The longest pause of a writer between two mutations, in milliseconds
    #[arg(long, value_name = "NUMBER", default_value_t = 8)]
    pause: u32,
    /// What goes wrong; may be given several times
    #[arg(long, value_enum)]
    fault: Vec<Fault>,
    /// Every so many-th run of a query fails (0: none)
    #[arg(long, value_name = "NUMBER", default_value_t = 50)]
    failing: u64,
    /// A bug that the checker must find
    #[arg(long, value_enum)]
    plant: Option<Plant>,
    /// Where to write the history, as JSON
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
}

impl Args {
    fn is_sqlite(&self) -> bool {
        self.database.starts_with("sqlite:")
    }

    /// For what is done to the database server.
    fn server_url(&self) -> &str {
        self.direct.as_deref().unwrap_or(&self.database)
    }

    fn versions(&self) -> Versions {
        match self.database.split(':').next() {
            Some("sqlite") => Versions::Exact,
            Some("mysql" | "mariadb") => Versions::None,
            _ => Versions::Ordered,
        }
    }

    fn recipe(&self) -> Recipe {
        Recipe {
            database: self.database.clone(),
            replica: self.replica.clone(),
            failing: self.failing,
            plant: self.plant,
        }
    }
}

/// Runs and judges. An error if something is wrong.
pub fn run(args: &Args) -> Result<()> {
    let alone = args.is_sqlite() && args.instances != 1;
    if alone || args.instances == 0 {
        return Err(Error::failed("--instances must be 1 for SQLite, and at least 1 elsewhere"));
    }
    for fault in &args.fault {
        fault.fits(args).map_err(Error::failed)?;
    }
    let (history, failures, streams) = drive::drive(args).map_err(Error::failed)?;
    if let Some(file) = &args.save {
        let text = serde_json::to_vec(&history).map_err(|error| Error::failed(error.to_string()))?;
        std::fs::write(file, text).map_err(Error::file("write", file))?;
    }
    let verdict = check(&history);
    output::print(&summary(&history, &verdict, streams))?;
    let wrong: Vec<String> =
        failures.iter().chain(&verdict.complaints).map(|line| format!("- {line}")).collect();
    if !wrong.is_empty() {
        return Err(Error::failed(format!("the history is wrong:\n{}", wrong.join("\n"))));
    }
    match verdict.rests {
        0 => Err(Error::failed("no client was compared at rest; run longer")),
        _ => Ok(()),
    }
}

fn summary(history: &History, verdict: &Verdict, streams: usize) -> String {
    let commits: usize = history.eras.iter().map(|era| era.log.len()).sum();
    format!(
        "{} mutations, {commits} states of rows, {} clients, {streams} streams and polls\n\
         {} states compared: {} row changes, {} `same`, {} answers to carried versions\n\
         {} clients compared at rest\n",
        history.attempts.len(),
        history.clients.len(),
        verdict.states,
        verdict.row_changes,
        verdict.sames,
        verdict.carried,
        verdict.rests
    )
}
