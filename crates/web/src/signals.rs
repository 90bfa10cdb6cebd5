//! The signals that stop a server: SIGTERM and SIGINT. The first one stops it, a second one ends its process at once.

use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};

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

    /// Waits for a signal, and then until `stop` has ended or for a second signal. Returns whether `stop` has ended.
    pub async fn stopped_by(&mut self, stop: impl Future<Output = ()>) -> bool {
        self.next().await;
        tracing::info!("stopping; a second signal stops at once");
        tokio::select! {
            () = stop => {
                tracing::info!("stopped");
                true
            }
            () = self.next() => false,
        }
    }
}
