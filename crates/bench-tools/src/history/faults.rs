//! The faults of a run.

use super::Args;
use super::random::Random;
use super::run::Run;
use super::run::servers::Servers;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What goes wrong during a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Fault {
    /// A server is killed and started again
    Kill,
    /// A server is asked to stop and started again
    Deploy,
    /// A server stands still for up to two seconds
    Freeze,
    /// The replica does not replay for up to two seconds (PostgreSQL)
    PauseReplay,
    /// A transaction that has written stays open for up to two seconds (PostgreSQL, MySQL)
    HoldTransaction,
    /// Once, the database is restored from a backup (SQLite)
    Restore,
}

impl Fault {
    /// Whether it can happen to this database.
    pub fn fits(self, args: &Args) -> Result<(), String> {
        match self {
            Fault::PauseReplay if args.replica.is_none() => {
                Err("--fault pause-replay needs --replica".into())
            }
            Fault::HoldTransaction if args.is_sqlite() => {
                Err("--fault hold-transaction needs a database server".into())
            }
            Fault::Restore if !args.is_sqlite() => Err("--fault restore needs an SQLite database".into()),
            _ => Ok(()),
        }
    }

    /// Lets it happen, and repairs it. Returns when a new process was started, if one was.
    pub fn happen(
        self,
        args: &Args,
        run: &Run,
        servers: &mut Servers,
        random: &mut Random,
    ) -> Result<Option<u64>, String> {
        let server = random.below(args.instances as u32) as usize;
        let time = Duration::from_millis(u64::from(100 + random.below(1900)));
        let undo = |error: server::StoreError| error.to_string();
        match self {
            Fault::Kill | Fault::Deploy => {
                match self {
                    Fault::Kill => servers.kill(server)?,
                    _ => servers.stop(server)?,
                }
                let started = run.now();
                servers.restart(server)?;
                return Ok(Some(started));
            }
            Fault::Freeze => servers.freeze(run, server, time)?,
            Fault::PauseReplay => {
                let replica = args.replica.as_deref().unwrap_or_default();
                let fault = server::fault_injection::pause_replay(replica).map_err(undo)?;
                run.pause(time);
                fault.end().map_err(undo)?;
            }
            Fault::HoldTransaction => {
                let fault = server::fault_injection::hold_transaction(&args.database).map_err(undo)?;
                run.pause(time);
                fault.end().map_err(undo)?;
            }
            // Between two rounds; see `Backup`.
            Fault::Restore => {}
        }
        Ok(None)
    }
}

/// A copy of an SQLite database, taken while no server has it open.
pub struct Backup {
    database: PathBuf,
    copy: PathBuf,
}

impl Backup {
    /// Copies the database.
    pub fn take(url: &str) -> Result<Backup, String> {
        let database = PathBuf::from(url.trim_start_matches("sqlite:"));
        let copy = with_ending(&database, ".backup");
        std::fs::copy(&database, &copy).map_err(|error| format!("the database cannot be copied: {error}"))?;
        Ok(Backup { database, copy })
    }

    /// Puts the copy in its place.
    pub fn restore(&self) -> Result<(), String> {
        for ending in ["-wal", "-shm"] {
            // There is none after a clean stop.
            let _ = std::fs::remove_file(with_ending(&self.database, ending));
        }
        let copied = std::fs::copy(&self.copy, &self.database);
        copied.map(drop).map_err(|error| format!("the backup cannot be restored: {error}"))
    }
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut text = path.as_os_str().to_owned();
    text.push(ending);
    text.into()
}
