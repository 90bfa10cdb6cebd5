//! The signals that stop a server: SIGTERM and SIGINT (Ctrl-C).
//!
//! The first one stops it, and requests that have begun are finished. What follows within a second is the same wish said twice:
//! GNU `timeout` sends its signal to the program and to its group, and a shell and `npm` both pass Ctrl-C on. SIGTERM may be
//! repeated at any time: a service manager that has no patience any more sends SIGKILL. A SIGINT after that second is a person
//! who does not want to wait, and ends the process at once.

use std::future::pending;
use std::io;
use std::time::{Duration, Instant};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// A signal that comes within this time of the first one is no second wish.
const ECHO: Duration = Duration::from_secs(1);

/// SIGTERM and SIGINT.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Catches the signals from now on; before, they end the process.
    pub fn listen() -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for a signal.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// Waits for a signal, and then until `stop` has ended or somebody presses Ctrl-C again. Returns whether `stop` has
    /// ended.
    pub async fn stopped_by(&mut self, stop: impl Future<Output = ()>) -> bool {
        self.next().await;
        tracing::info!("stopping; Ctrl-C (SIGINT) from a second on stops at once");
        let echo_until = Instant::now() + ECHO;
        tokio::select! {
            () = stop => {
                tracing::info!("stopped");
                true
            }
            () = interrupted_after(&mut self.interrupt, echo_until) => false,
        }
    }
}

async fn interrupted_after(interrupt: &mut Signal, time: Instant) {
    while interrupt.recv().await.is_some() {
        if Instant::now() >= time {
            return;
        }
    }
    pending().await
}
