//! The servers of a run: processes that are killed, paused and started again at the same address.

use super::Run;
use super::http::Connection;
use crate::history_server::Plant;
use rustix::process::{Pid, Signal, kill_process};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const START_LIMIT: Duration = Duration::from_secs(60);

/// How servers are started.
pub struct Recipe {
    /// The database.
    pub database: String,
    /// A replica of it.
    pub replica: Option<String>,
    /// Every so many-th run of a query fails.
    pub failing: u64,
    /// A planted bug.
    pub plant: Option<Plant>,
}

/// The servers. Dropping them kills them.
pub struct Servers {
    program: PathBuf,
    recipe: Recipe,
    /// Their addresses.
    pub addresses: Vec<SocketAddr>,
    children: Vec<Child>,
}

impl Servers {
    /// Starts so many.
    pub fn start(recipe: Recipe, count: usize) -> Result<Servers, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut servers = Servers { program, recipe, addresses: Vec::new(), children: Vec::new() };
        for _ in 0..count {
            // All free ports are held until all are known.
            let address = free_address().map_err(|error| error.to_string())?;
            servers.addresses.push(address);
            let child = servers.spawn(address)?;
            servers.children.push(child);
            // One after the other: the first one makes the tables.
            servers.until_ready(servers.children.len() - 1)?;
        }
        Ok(servers)
    }

    /// Kills one at once.
    pub fn kill(&mut self, number: usize) -> Result<(), String> {
        let child = &mut self.children[number];
        child.kill().and_then(|()| child.wait()).map(drop).map_err(|error| error.to_string())
    }

    /// Asks one to stop, and waits for its end.
    pub fn stop(&mut self, number: usize) -> Result<(), String> {
        self.signal(number, Signal::TERM)?;
        let status = self.children[number].wait().map_err(|error| error.to_string())?;
        match status.success() {
            true => Ok(()),
            false => Err(format!("a server that was asked to stop ended with {status}")),
        }
    }

    /// Asks all to stop, one after the other.
    pub fn stop_all(&mut self) -> Result<(), String> {
        (0..self.children.len()).try_for_each(|number| self.stop(number))
    }

    /// Starts all again after [`Servers::stop_all`].
    pub fn restart_all(&mut self) -> Result<(), String> {
        (0..self.children.len()).try_for_each(|number| self.restart(number))
    }

    /// Starts one again after [`Servers::kill`].
    pub fn restart(&mut self, number: usize) -> Result<(), String> {
        self.children[number] = self.spawn(self.addresses[number])?;
        self.until_ready(number)
    }

    /// Stops one for a while, as when its machine is suspended.
    pub fn freeze(&self, run: &Run, number: usize, time: Duration) -> Result<(), String> {
        self.signal(number, Signal::STOP)?;
        run.pause(time);
        self.signal(number, Signal::CONT)
    }

    fn signal(&self, number: usize, signal: Signal) -> Result<(), String> {
        let pid = i32::try_from(self.children[number].id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or("a process without a number")?;
        kill_process(pid, signal).map_err(|error| error.to_string())
    }

    fn spawn(&self, address: SocketAddr) -> Result<Child, String> {
        let mut command = Command::new(&self.program);
        command.arg("history-server").args(["--database", &self.recipe.database]);
        command.args(["--listen", &address.to_string(), "--failing", &self.recipe.failing.to_string()]);
        if let Some(replica) = &self.recipe.replica {
            command.args(["--replica", replica]);
        }
        if let Some(plant) = self.recipe.plant {
            let value = clap::ValueEnum::to_possible_value(&plant).ok_or("a bug without a name")?;
            command.args(["--plant", value.get_name()]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.spawn().map_err(|error| format!("the server cannot be started: {error}"))
    }

    fn until_ready(&mut self, number: usize) -> Result<(), String> {
        let until = Instant::now() + START_LIMIT;
        loop {
            let answer = Connection::default().request(self.addresses[number], "GET /healthz", &[], "");
            if answer.is_ok_and(|answer| answer.status == 200) {
                return Ok(());
            }
            let ended = self.children[number].try_wait().map_err(|error| error.to_string())?;
            if let Some(status) = ended {
                return Err(format!("the server ended with {status}"));
            }
            if Instant::now() > until {
                return Err("the server does not answer".to_owned());
            }
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for child in &mut self.children {
            // It may have ended already.
            let _ = child.kill().and_then(|()| child.wait());
        }
    }
}

/// An address that was free a moment ago.
fn free_address() -> std::io::Result<SocketAddr> {
    TcpListener::bind("127.0.0.1:0")?.local_addr()
}
