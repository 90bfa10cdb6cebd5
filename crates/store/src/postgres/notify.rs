//! Notifications: an instance that has committed makes the others read the log now.
//!
//! They carry nothing and promise nothing: one that is lost costs the others the wait for their next
//! look. They are sent from a connection of their own, after the commit: inside a writing transaction
//! a NOTIFY takes a lock that the whole server shares until the commit has been flushed.

use super::address::Server;
use super::connection::Connection;
use crate::{Backoff, Error, Row};
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A wake-up is nothing that must be on disk: without the setting each would cost a flush.
const NOTIFY: &str = "BEGIN; SET LOCAL synchronous_commit = off; NOTIFY sarsen_changes; COMMIT";
/// The same where the server does not take the setting.
const NOTIFY_AS_SET: &str = "NOTIFY sarsen_changes";
const LISTEN: &str = "LISTEN sarsen_changes";
/// Between two wake-ups, and between two looks at the log.
pub(super) const GAP: Duration = Duration::from_millis(5);
/// The wait before a new try to connect; each next one is twice as long …
pub(super) const BACKOFF_MIN: Duration = Duration::from_millis(10);
/// … up to this.
pub(super) const BACKOFF_MAX: Duration = Duration::from_secs(1);
/// How long a thread that listens takes to notice that it should end.
const TURN: Duration = Duration::from_millis(100);

/// Something to wait for, until it is raised or closed.
#[derive(Default)]
pub(super) struct Signal {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    raised: bool,
    closed: bool,
}

impl Signal {
    /// Wakes who waits, or who will wait next.
    pub(super) fn raise(&self) {
        let mut state = self.state.lock();
        if !state.raised {
            state.raised = true;
            self.changed.notify_all();
        }
    }

    /// Ends all waiting.
    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
    }

    /// Waits until it is raised, for `most` at most. False when it was closed.
    pub(super) fn wait(&self, most: Option<Duration>) -> bool {
        let until = most.map(|most| Instant::now() + most);
        let mut state = self.state.lock();
        while !state.raised && !state.closed {
            match until {
                Some(until) if self.changed.wait_until(&mut state, until).timed_out() => break,
                Some(_) => {}
                None => self.changed.wait(&mut state),
            }
        }
        state.raised = false;
        !state.closed
    }

    /// Waits for `span`, raised or not. False when it was closed.
    pub(super) fn sleep(&self, span: Duration) -> bool {
        let until = Instant::now() + span;
        let mut state = self.state.lock();
        while !state.closed && !self.changed.wait_until(&mut state, until).timed_out() {}
        !state.closed
    }
}

/// The back-end process of this instance's notifications, which its own listener ignores. 0: not known.
#[derive(Default)]
pub(super) struct BackendPid(AtomicI32);

/// Notifies the other instances whenever `outgoing` was raised, until it is closed.
pub(super) fn send(server: &Server, outgoing: &Signal, own_pid: &BackendPid) {
    let mut connection: Option<Connection> = None;
    let mut backoff = Backoff::new(BACKOFF_MIN, BACKOFF_MAX);
    while outgoing.wait(None) {
        let sent = open(&mut connection, server, own_pid).and_then(|connection| {
            let notify = if connection.may_set_commit() { NOTIFY } else { NOTIFY_AS_SET };
            connection.batch_outside_tx(notify)
        });
        match sent {
            Ok(()) => {
                backoff.reset();
                outgoing.sleep(GAP);
            }
            Err(error) => {
                tracing::debug!(%error, "other instances were not woken");
                connection = None;
                outgoing.sleep(backoff.take());
            }
        }
    }
}

fn open<'c>(
    connection: &'c mut Option<Connection>,
    server: &Server,
    own_pid: &BackendPid,
) -> Result<&'c mut Connection, Error> {
    let open = match connection.take() {
        Some(open) => open,
        None => {
            own_pid.0.store(0, Relaxed);
            let mut open = Connection::connect(server)?;
            // Behind a pooler it is another one each time.
            if !server.pooled {
                own_pid.0.store(server_process(&mut open)?, Relaxed);
            }
            open
        }
    };
    Ok(connection.insert(open))
}

/// The number of the server's process at the other end.
fn server_process(connection: &mut Connection) -> Result<i32, Error> {
    let mut number = 0_i64;
    connection.query_outside_tx("SELECT pg_backend_pid()", &[], &mut |row| {
        number = Row::new(row).get(0)?;
        Ok(false)
    })?;
    i32::try_from(number).map_err(|_| Error::Database("a process number that is too large".to_owned()))
}

/// Rings `tail` whenever another instance has sent, until it is closed.
pub(super) fn listen(server: &Server, wake_reader: &Signal, own_pid: &BackendPid) {
    let mut backoff = Backoff::new(BACKOFF_MIN, BACKOFF_MAX);
    loop {
        match Connection::connect(server).and_then(|mut open| open.batch_outside_tx(LISTEN).map(|()| open)) {
            Ok(mut connection) => {
                backoff.reset();
                wake_reader.raise();
                while wake_reader.sleep(Duration::ZERO) {
                    let own = own_pid.0.load(Relaxed);
                    match connection.wait_for_notification(TURN, own) {
                        Ok(true) => wake_reader.raise(),
                        Ok(false) => {}
                        Err(error) => {
                            tracing::debug!(%error, "no wake-ups are heard");
                            break;
                        }
                    }
                }
            }
            Err(error) => tracing::debug!(%error, "no wake-ups are heard"),
        }
        if !wake_reader.sleep(backoff.take()) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bell_that_was_rung_before_is_heard_once() {
        let signal = Signal::default();
        signal.raise();
        signal.raise();
        assert!(signal.wait(None));
        let began = Instant::now();
        assert!(signal.wait(Some(Duration::from_millis(20))));
        assert!(began.elapsed() >= Duration::from_millis(20));
        signal.close();
        assert!(!signal.wait(None) && !signal.sleep(Duration::from_secs(60)));
    }

    #[test]
    fn who_rests_does_not_lose_a_ring() {
        let signal = Signal::default();
        signal.raise();
        let began = Instant::now();
        assert!(signal.sleep(Duration::from_millis(20)));
        assert!(began.elapsed() >= Duration::from_millis(20));
        assert!(signal.wait(None));
    }
}
