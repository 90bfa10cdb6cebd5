//! A thread's connection: opened when it is needed, opened again when it was lost.

use super::{Failure, Session, TxMode};
use crate::threads::pause;
use crate::{Backoff, Error};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The first wait before a new try to connect; later ones are longer …
const BACKOFF_MIN: Duration = Duration::from_millis(5);
/// … up to this.
const BACKOFF_MAX: Duration = Duration::from_millis(250);

/// From then on nobody is kept waiting for the server.
const OUTAGE_MAX_WAIT: Duration = Duration::from_secs(1);

pub(crate) struct ReconnectingSession<S: Session> {
    address: Arc<S::Address>,
    connection: Option<S>,
    generation: u64,
    outage: Option<Outage>,
    backoff: Backoff,
}

/// A server that cannot be reached.
struct Outage {
    since: Instant,
    /// Not asked again before this.
    next_try: Instant,
    error: Error,
}

impl<S: Session> ReconnectingSession<S> {
    pub(crate) fn new(address: Arc<S::Address>) -> ReconnectingSession<S> {
        ReconnectingSession {
            address,
            connection: None,
            generation: 0,
            outage: None,
            backoff: Backoff::new(BACKOFF_MIN, BACKOFF_MAX),
        }
    }

    /// Opens the connection ahead of the first need. Nothing is lost when that fails.
    pub(super) fn connect_early(&mut self) {
        if let Err((_, error)) = self.connected() {
            tracing::warn!(%error, "a database thread starts without a connection");
        }
    }

    /// A connection with a transaction open for `purpose`. Waits until `until` for a server that has
    /// just gone away; for one that has been away for longer it fails at once.
    pub(crate) fn begin(&mut self, mode: TxMode, until: Instant) -> Result<&mut S, Error> {
        self.run_first(until, |connection| connection.begin(mode))?;
        self.current()
    }

    /// What the server says now to a question outside of transactions. Waits for no server that is away.
    pub(crate) fn query<T>(&mut self, query: impl Fn(&mut S) -> Result<T, Error>) -> Result<T, Error> {
        self.run_first(Instant::now(), query)
    }

    /// How often the connection has been opened. A caller that keeps state compares it with an earlier value.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Does what comes first on a connection: a connection that was lost meanwhile shows then.
    fn run_first<T>(
        &mut self,
        until: Instant,
        work: impl Fn(&mut S) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let is_long_outage =
            self.outage.as_ref().is_some_and(|outage| outage.since.elapsed() > OUTAGE_MAX_WAIT);
        loop {
            if let Some(outage) = &self.outage {
                let wait = outage.next_try.saturating_duration_since(Instant::now());
                if !wait.is_zero() && (is_long_outage || outage.next_try > until) {
                    return Err(outage.error.clone());
                }
                pause(wait);
            }
            let (is_transient, error) = match self.connected().map(&work) {
                Ok(Ok(done)) => {
                    self.outage = None;
                    self.backoff.reset();
                    return Ok(done);
                }
                Ok(Err(error)) => (self.drop_if_lost(), error),
                Err(connect_error) => connect_error,
            };
            if !is_transient {
                return Err(error);
            }
            self.note_outage(error);
        }
    }

    fn note_outage(&mut self, error: Error) {
        let now = Instant::now();
        let since = self.outage.as_ref().map_or(now, |outage| outage.since);
        self.outage = Some(Outage { since, next_try: now + self.backoff.take(), error });
    }

    /// The connection whose transaction [`ReconnectingSession::begin`] has opened.
    pub(super) fn current(&mut self) -> Result<&mut S, Error> {
        self.connection.as_mut().ok_or_else(|| Error::Database("no transaction is open".to_owned()))
    }

    /// Closes the connection, of which nothing is known any more.
    pub(crate) fn forget(&mut self) {
        self.connection = None;
    }

    /// Undoes the open transaction and says what it met; a connection of no more use is dropped.
    pub(crate) fn roll_back(&mut self) -> Option<(Failure, Error)> {
        let connection = self.connection.as_mut()?;
        let failure = connection.failure();
        if !connection.roll_back() {
            self.connection = None;
        }
        failure
    }

    /// Ends a transaction that has only read.
    pub(crate) fn finish(&mut self) {
        if self.connection.as_mut().is_some_and(|connection| connection.commit().is_err()) {
            self.roll_back();
        }
    }

    /// Forgets the connection when it is of no more use; true when it was not.
    fn drop_if_lost(&mut self) -> bool {
        let lost = self.connection.as_ref().is_none_or(S::is_lost);
        if lost {
            self.connection = None;
        }
        lost
    }

    /// The connection, opened now if there is none. The error says whether it may pass.
    fn connected(&mut self) -> Result<&mut S, (bool, Error)> {
        let opened = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let opened = S::open(&self.address)?;
                self.generation += 1;
                opened
            }
        };
        Ok(self.connection.insert(opened))
    }
}
