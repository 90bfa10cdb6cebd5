//! The thread that follows the change log, so that this process sees every instance's commits.
//!
//! It reads the log a few dozen times a second, and sooner when it is notified. It publishes a new row
//! at once, however old the oldest running transaction is: that transaction delays
//! only the version. When a read takes too long, or fails, the feed is no longer fresh and the
//! caches are not used; after a reconnection they are emptied.

use super::address::Server;
use super::connection::Connection;
use super::epochs::{self, History};
use super::notify::{BACKOFF_MAX, BACKOFF_MIN, GAP, Signal};
use super::publisher::Publisher;
use super::{change_log, cluster};
use crate::Backoff;
use crate::options::Following;
use crate::threads::again_after_panics;
use std::sync::Arc;
use std::time::Duration;

pub(super) struct LogReader {
    server: Arc<Server>,
    publisher: Arc<Publisher>,
    signal: Arc<Signal>,
    following: Following,
    connection: Option<Connection>,
    /// The cluster that the connection leads to.
    cluster: Option<String>,
    /// What the last read has seen, with its cluster.
    history: Option<(Option<String>, History)>,
    /// When the last read began; none before the first.
    last: Option<Duration>,
}

impl LogReader {
    pub(super) fn new(
        server: Arc<Server>,
        publisher: Arc<Publisher>,
        signal: Arc<Signal>,
        following: Following,
    ) -> LogReader {
        LogReader {
            server,
            publisher,
            signal,
            following,
            connection: None,
            cluster: None,
            history: None,
            last: None,
        }
    }

    /// Follows the log until the signal is closed.
    pub(super) fn run(mut self) {
        again_after_panics(|| {
            self.connection = None;
            self.follow();
        });
    }

    fn follow(&mut self) {
        let mut backoff = Backoff::new(BACKOFF_MIN, BACKOFF_MAX);
        loop {
            let goes_on = match self.read() {
                Ok(()) => {
                    backoff.reset();
                    let rest = self.following.poll.saturating_sub(GAP);
                    self.signal.sleep(GAP.min(self.following.poll)) && self.signal.wait(Some(rest))
                }
                Err(error) => {
                    if self.connection.take().is_some() {
                        tracing::warn!(%error, "the log of changes cannot be read; nothing cached is used");
                    }
                    self.publisher.connection_lost();
                    // Another connection may find the server there first.
                    self.signal.sleep(GAP) && self.signal.wait(Some(backoff.take()))
                }
            };
            if !goes_on {
                return;
            }
        }
    }

    fn read(&mut self) -> Result<(), crate::Error> {
        let open = match self.connection.take() {
            Some(open) => open,
            None => {
                let mut open = Connection::connect(&self.server)?;
                self.cluster = cluster::of(&mut open)?;
                open
            }
        };
        let connection = self.connection.insert(open);
        let asked = self.following.clock.now();
        let before = self.publisher.snapshot();
        self.publisher.reading();
        let mut news = change_log::news(connection, &before)?;
        if !news.origin.is_marked() {
            epochs::draw(connection)?;
            news = change_log::news(connection, &before)?;
        }
        // Another server tells that by itself, and another instance may have been first.
        let went_back = news.snapshot.xmax() < before.xmax();
        let cluster = self.cluster.as_deref();
        let is_untold = match &self.history {
            Some((of, last)) => of.as_deref() == cluster && last.covers(&news.origin.history),
            None => news.origin.history.name(cluster) == self.publisher.history(),
        };
        if went_back && is_untold {
            change_log::begin_history(connection, &news.origin.history)?;
            news = change_log::news(connection, &before)?;
        }
        if news.is_foreign() {
            change_log::start_anew(connection)?;
        }
        let (history, epoch) = (news.origin.history.name(cluster), news.origin.epoch());
        if history != self.publisher.history() {
            // The server of the history before may still answer those that are connected to it.
            self.server.epochs.begin_history();
        }
        self.history = Some((self.cluster.clone(), news.origin.history.clone()));
        self.publisher.publish_read(news, history, asked);
        self.server.epochs.note_read(epoch);
        let away = self.last.map_or(Duration::ZERO, |last| self.following.clock.now().saturating_sub(last));
        if away > self.following.lag_max {
            tracing::warn!(
                ms = away.as_millis() as u64,
                "the log of changes was read late; caches were bypassed"
            );
        }
        self.last = Some(asked);
        Ok(())
    }
}
