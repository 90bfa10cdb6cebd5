//! The faults of a run.

use super::Args;
use super::random::Random;
use super::run::Run;
use super::run::servers::Servers;
use std::time::Duration;

/// How often all clients come back in a storm.
const STORM: u32 = 4;

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
    /// The database server ends about half of its connections (PostgreSQL, MySQL)
    KillBackends,
    /// All streams end at once and come back, a few times
    Storm,
    /// Once, the database is restored from a backup
    Restore,
}

impl Fault {
    /// Whether it can happen to this database.
    pub fn fits(self, args: &Args) -> Result<(), String> {
        match self {
            Fault::PauseReplay if args.replica.is_none() => {
                Err("--fault pause-replay needs --replica".into())
            }
            Fault::HoldTransaction | Fault::KillBackends if args.is_sqlite() => {
                Err("--fault hold-transaction and kill-backends need a database server".into())
            }
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
                let fault = server::fault_injection::hold_transaction(args.server_url()).map_err(undo)?;
                run.pause(time);
                fault.end().map_err(undo)?;
            }
            Fault::KillBackends => {
                server::fault_injection::end_sessions(args.server_url()).map_err(undo)?;
            }
            Fault::Storm => {
                for _ in 0..STORM {
                    run.storm();
                    run.pause(time / STORM);
                }
            }
            // Between two rounds; see `Backup`.
            Fault::Restore => {}
        }
        Ok(None)
    }
}
