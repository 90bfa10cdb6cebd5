//! The thread that follows the log of changes, so that this process hears of every instance's commits.
//!
//! It looks at the log a few dozen times a second, and sooner when it is woken. What it has not seen
//! before is published at first sight, however old the oldest running transaction is: that one holds
//! back only the version. When its look takes too long, or fails, the feed is no longer fresh and the
//! caches answer nothing; when the connection had to be opened again, they begin anew.

use super::address::Server;
use super::connection::Connection;
use super::log;
use super::publisher::Publisher;
use super::wake::{Bell, GAP, Patience};
use crate::options::Following;
use std::sync::Arc;
use std::time::Instant;

pub(super) struct Tail {
    server: Arc<Server>,
    publisher: Arc<Publisher>,
    bell: Arc<Bell>,
    following: Following,
    connection: Option<Connection>,
    /// From then on nothing was missed; None before the first look.
    last: Option<Instant>,
}

impl Tail {
    pub(super) fn new(
        server: Arc<Server>,
        publisher: Arc<Publisher>,
        bell: Arc<Bell>,
        following: Following,
    ) -> Tail {
        Tail { server, publisher, bell, following, connection: None, last: None }
    }

    /// Follows the log until the bell is taken down.
    pub(super) fn run(mut self) {
        let mut patience = Patience::new();
        loop {
            let goes_on = match self.look() {
                Ok(()) => {
                    patience = Patience::new();
                    let rest = self.following.poll.saturating_sub(GAP);
                    self.bell.rest(GAP.min(self.following.poll)) && self.bell.wait(Some(rest))
                }
                Err(error) => {
                    if self.connection.take().is_some() {
                        tracing::warn!(%error, "the log of changes cannot be read; nothing cached is used");
                    }
                    self.publisher.lost();
                    patience.wait(&self.bell)
                }
            };
            if !goes_on {
                return;
            }
        }
    }

    fn look(&mut self) -> Result<(), crate::Error> {
        let open = match self.connection.take() {
            Some(open) => open,
            None => Connection::reach(&self.server)?,
        };
        let connection = self.connection.insert(open);
        let asked = Instant::now();
        let news = log::news(connection, &self.publisher.seen())?;
        self.publisher.read(news, asked);
        let away = self.last.map_or_else(Default::default, |last| last.elapsed());
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
