//! The product: the command that runs beside the server, with what it has started.
//!
//! It has a process group of its own. Signals go to the whole group, and whatever of the group is left when the command has
//! ended is ended too. At a terminal the group is in the foreground, as a shell does it, so that the product can read keys,
//! and Ctrl-C and Ctrl-Z reach it.

use crate::error::{Error, Result};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpgrp, getpid, kill_process, kill_process_group,
};
use rustix::process::{test_kill_process_group, waitpgid, waitpid};
use rustix::termios::{tcgetpgrp, tcsetpgrp};
use std::ffi::{OsStr, OsString};
use std::io::{ErrorKind, stdin};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// What remains of the group has this long to end by itself.
const GRACE: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A running command.
pub(super) struct Product {
    group: Pid,
    /// The group that had the terminal before, if the command has it now.
    terminal_of: Option<Pid>,
    changes: UnboundedReceiver<Change>,
}

/// What a command does by itself.
enum Change {
    /// It was stopped, as by Ctrl-Z.
    Stopped,
    /// It ended, with this exit code.
    Ended(u8),
}

impl Product {
    /// Starts it with these variables beside those of this process.
    pub(super) fn start(words: &[OsString], variables: &[(String, String)]) -> Result<Product> {
        let (program, arguments) =
            words.split_first().ok_or_else(|| Error::usage("name a command after --"))?;
        // What the command leaves becomes a child of this process, which can wait for its end: in a container the first process
        // often waits for nobody.
        #[cfg(target_os = "linux")]
        let _ = rustix::process::set_child_subreaper(Some(getpid()));
        let mut command = Command::new(program);
        command.args(arguments).process_group(0);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        let child = command.spawn().map_err(|error| cannot_start(program, error))?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let group = pid.ok_or_else(|| Error::failed("the number of the command's process is not valid"))?;
        let (sender, changes) = unbounded_channel();
        let watch = move || {
            loop {
                let change = match waitpid(Some(group), WaitOptions::UNTRACED) {
                    Ok(Some((_, status))) if status.stopped() => Change::Stopped,
                    Ok(Some((_, status))) => Change::Ended(code(status)),
                    Err(Errno::INTR) | Ok(None) => continue,
                    Err(_) => Change::Ended(1),
                };
                let is_end = matches!(change, Change::Ended(_));
                // Nobody receives it any more when this process ends.
                if sender.send(change).is_err() || is_end {
                    return;
                }
            }
        };
        let mut product = Product { group, terminal_of: None, changes };
        product.take_terminal();
        std::thread::Builder::new().name("product".to_owned()).spawn(watch).map_err(|error| {
            product.send(Signal::KILL);
            Error::io("cannot watch the command")(error)
        })?;
        Ok(product)
    }

    /// Waits until the command has ended, and returns its exit code. It may be called again after it was cancelled.
    pub(super) async fn ended(&mut self) -> u8 {
        loop {
            match self.changes.recv().await {
                Some(Change::Stopped) => self.stop_with_it(),
                Some(Change::Ended(code)) => return code,
                None => return 1,
            }
        }
    }

    /// Sends a signal to everything that the command has started. None of it may be left.
    pub(super) fn send(&self, signal: Signal) {
        let _ = kill_process_group(self.group, signal);
        if signal != Signal::KILL {
            // A stopped process gets signals when it goes on.
            let _ = kill_process_group(self.group, Signal::CONT);
        }
    }

    /// Ends what the command has left, and gives the terminal back.
    pub(super) async fn clear(mut self) {
        self.send(Signal::TERM);
        let is_gone = async {
            let mut looks = tokio::time::interval(LOOK_EVERY);
            loop {
                while let Ok(Some(_)) = waitpgid(self.group, WaitOptions::NOHANG) {}
                if test_kill_process_group(self.group).is_err() {
                    return;
                }
                looks.tick().await;
            }
        };
        if tokio::time::timeout(GRACE, is_gone).await.is_err() {
            self.send(Signal::KILL);
        }
        self.give_terminal_back();
    }

    /// If this process has the terminal, the command gets it.
    fn take_terminal(&mut self) {
        let own = getpgrp();
        if tcgetpgrp(stdin()).is_ok_and(|group| group == own) {
            ignore_background_writes();
            if tcsetpgrp(stdin(), self.group).is_ok() {
                self.terminal_of = Some(own);
            }
            // It may have tried to read before.
            let _ = kill_process_group(self.group, Signal::CONT);
        }
    }

    fn give_terminal_back(&mut self) {
        if let Some(own) = self.terminal_of.take() {
            let _ = tcsetpgrp(stdin(), own);
        }
    }

    /// The command was stopped at the terminal: this process stops too, so that the shell has the terminal, and goes on with
    /// the command.
    fn stop_with_it(&mut self) {
        if self.terminal_of.is_none() {
            return;
        }
        self.give_terminal_back();
        let _ = kill_process(getpid(), Signal::STOP);
        self.take_terminal();
        let _ = kill_process_group(self.group, Signal::CONT);
    }
}

fn cannot_start(program: &OsStr, error: std::io::Error) -> Error {
    match error.kind() {
        ErrorKind::NotFound => Error::usage(format!("the command {program:?} was not found; check its name")),
        ErrorKind::PermissionDenied => Error::usage(format!(
            "the command {program:?} is no program that this user may run; check its name"
        )),
        _ => Error::failed(format!("the command {program:?} cannot be started: {error}")),
    }
}

/// As a shell says it: the exit code, or 128 and the number of the signal that ended it.
fn code(status: WaitStatus) -> u8 {
    let code = match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) => 128 + signal,
        (None, None) => 1,
    };
    u8::try_from(code).unwrap_or(1)
}

/// A process in the background may then write to the terminal, and give it to a group.
fn ignore_background_writes() {
    #[expect(unsafe_code, reason = "signal has no safe wrapper for ignoring a signal")]
    // SAFETY: no handler runs: the signal is ignored. Commands that were started before keep their own setting.
    unsafe {
        libc::signal(libc::SIGTTOU, libc::SIG_IGN);
    }
}
