//! Wake-ups: an instance that has committed tells the others to look at the log now.
//!
//! They carry nothing and promise nothing: one that is lost costs the others the wait for their next
//! look. They are sent from a connection of their own, after the commit: inside a writing transaction
//! a NOTIFY takes a lock that the whole server shares until the commit has been flushed.

use super::address::Server;
use super::connection::Connection;
use crate::{Error, Row};
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A wake-up is nothing that must be on disk: without the setting each would cost a flush.
const NOTIFY: &str = "BEGIN; SET LOCAL synchronous_commit = off; NOTIFY sarsen_changes; COMMIT";
const LISTEN: &str = "LISTEN sarsen_changes";
/// Between two wake-ups, and between two looks at the log.
pub(super) const GAP: Duration = Duration::from_millis(5);
/// How long a thread that listens takes to notice that it should end.
const TURN: Duration = Duration::from_millis(100);

/// Something to wait for, until it is rung or taken down.
#[derive(Default)]
pub(super) struct Bell {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    rung: bool,
    down: bool,
}

impl Bell {
    /// Wakes who waits, or who will wait next.
    pub(super) fn ring(&self) {
        let mut state = self.state.lock();
        if !state.rung {
            state.rung = true;
            self.changed.notify_all();
        }
    }

    /// Ends all waiting.
    pub(super) fn take_down(&self) {
        self.state.lock().down = true;
        self.changed.notify_all();
    }

    /// Waits until it is rung, for `most` at most. False when it was taken down.
    pub(super) fn wait(&self, most: Option<Duration>) -> bool {
        let until = most.map(|most| Instant::now() + most);
        let mut state = self.state.lock();
        while !state.rung && !state.down {
            match until {
                Some(until) if self.changed.wait_until(&mut state, until).timed_out() => break,
                Some(_) => {}
                None => self.changed.wait(&mut state),
            }
        }
        state.rung = false;
        !state.down
    }

    /// Waits for `span`, rung or not. False when it was taken down.
    pub(super) fn rest(&self, span: Duration) -> bool {
        let until = Instant::now() + span;
        let mut state = self.state.lock();
        while !state.down && !self.changed.wait_until(&mut state, until).timed_out() {}
        !state.down
    }
}

/// The wait before a new try to connect: twice as long each time.
pub(super) struct Patience(Duration);

impl Patience {
    const FIRST: Duration = Duration::from_millis(10);
    const MOST: Duration = Duration::from_secs(1);

    pub(super) fn new() -> Patience {
        Patience(Patience::FIRST)
    }

    /// Waits; false when there is nothing more to wait for.
    pub(super) fn wait(&mut self, bell: &Bell) -> bool {
        let span = self.0;
        self.0 = (span * 2).min(Patience::MOST);
        bell.rest(span)
    }
}

/// The server's process that speaks for this instance: its own ear need not hear it. 0: not known.
#[derive(Default)]
pub(super) struct Speaker(AtomicI32);

/// Tells the other instances whenever `voice` was rung, until it is taken down.
pub(super) fn speak(server: &Server, voice: &Bell, speaker: &Speaker) {
    let mut connection: Option<Connection> = None;
    let mut patience = Patience::new();
    while voice.wait(None) {
        let spoken = open(&mut connection, server, speaker).and_then(|connection| connection.alone(NOTIFY));
        match spoken {
            Ok(()) => {
                patience = Patience::new();
                voice.rest(GAP);
            }
            Err(error) => {
                tracing::debug!(%error, "other instances were not woken");
                connection = None;
                patience.wait(voice);
            }
        }
    }
}

fn open<'c>(
    connection: &'c mut Option<Connection>,
    server: &Server,
    speaker: &Speaker,
) -> Result<&'c mut Connection, Error> {
    let open = match connection.take() {
        Some(open) => open,
        None => {
            speaker.0.store(0, Relaxed);
            let mut open = Connection::reach(server)?;
            // Behind a pooler it is another one each time.
            if !server.pooled {
                speaker.0.store(server_process(&mut open)?, Relaxed);
            }
            open
        }
    };
    Ok(connection.insert(open))
}

/// The number of the server's process at the other end.
fn server_process(connection: &mut Connection) -> Result<i32, Error> {
    let mut number = 0_i64;
    connection.query_alone("SELECT pg_backend_pid()", &[], &mut |row| {
        number = Row::new(row).get(0)?;
        Ok(false)
    })?;
    i32::try_from(number).map_err(|_| Error::Database("a process number that is too large".to_owned()))
}

/// Rings `tail` whenever another instance has spoken, until it is taken down.
pub(super) fn listen(server: &Server, tail: &Bell, speaker: &Speaker) {
    let mut patience = Patience::new();
    loop {
        match Connection::reach(server).and_then(|mut open| open.alone(LISTEN).map(|()| open)) {
            Ok(mut connection) => {
                patience = Patience::new();
                tail.ring();
                while tail.rest(Duration::ZERO) {
                    let own = speaker.0.load(Relaxed);
                    match connection.heard(TURN, own) {
                        Ok(true) => tail.ring(),
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
        if !patience.wait(tail) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bell_that_was_rung_before_is_heard_once() {
        let bell = Bell::default();
        bell.ring();
        bell.ring();
        assert!(bell.wait(None));
        let began = Instant::now();
        assert!(bell.wait(Some(Duration::from_millis(20))));
        assert!(began.elapsed() >= Duration::from_millis(20));
        bell.take_down();
        assert!(!bell.wait(None) && !bell.rest(Duration::from_secs(60)));
    }

    #[test]
    fn who_rests_does_not_lose_a_ring() {
        let bell = Bell::default();
        bell.ring();
        let began = Instant::now();
        assert!(bell.rest(Duration::from_millis(20)));
        assert!(began.elapsed() >= Duration::from_millis(20));
        assert!(bell.wait(None));
    }
}
