//! The check after the load: each watcher holds the value of the database, and no accepted increment is missing.

use std::time::Duration;

use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::crowd::Crowd;
use super::report::LiveLevel;
use crate::error::Error;
use crate::measure::RequestKind;
use crate::report::progress;

const LOOK_EVERY: Duration = Duration::from_millis(50);

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct EndState {
    pub watchers: usize,
    /// Watchers that do not hold the value of the database.
    pub behind: usize,
    /// Counters that have different values at the servers.
    pub unequal: usize,
    /// Increments that a server accepted and that the database does not have.
    pub lost: u64,
    /// Increments that the database has and that no server accepted, although no increment failed.
    pub surplus: u64,
    /// The time until everything was right, if it was.
    pub settled_ms: Option<u64>,
}

/// Waits until everything is right, at most `time_max`: a watcher that does not hold the value then has missed an event.
pub(super) async fn settle(
    crowd: &Crowd,
    levels: &[LiveLevel],
    time_max: Duration,
) -> Result<EndState, Error> {
    progress("end state: comparing the watchers with the database");
    // An increment without an answer may have been made.
    let all_answered = levels.iter().all(|level| level.increments_not_accepted() == 0);
    let mut clients = crowd.clients();
    let begun = Instant::now();
    loop {
        let mut state = EndState::default();
        for counter in 0..crowd.counters.len() {
            let values = crowd.values(&mut clients, counter).await?;
            let value = values.iter().copied().max().unwrap_or(0);
            state.unequal += usize::from(values.iter().any(|other| *other != value));
            let Some(standing) = crowd.board.standing(counter, value) else { continue };
            state.watchers += standing.watchers;
            state.behind += standing.behind;
            let expected = standing.at_start + standing.accepted;
            state.lost += expected.saturating_sub(value);
            state.surplus += if all_answered { value.saturating_sub(expected) } else { 0 };
        }
        let waited = begun.elapsed();
        if state.is_right() {
            state.settled_ms = Some(waited.as_millis() as u64);
            return Ok(state);
        }
        if waited > time_max {
            return Ok(state);
        }
        sleep(LOOK_EVERY).await;
    }
}

impl EndState {
    pub fn is_right(&self) -> bool {
        (self.behind, self.unequal, self.lost, self.surplus) == (0, 0, 0, 0)
    }
}

impl LiveLevel {
    /// Increments of the level, with its warm-up, whose result the bench does not know.
    fn increments_not_accepted(&self) -> u64 {
        let label = RequestKind::Increment.label();
        let rows = [&self.run.failures, &self.run.refusals, &self.run.warm_up_failures];
        rows.into_iter().flatten().filter(|row| row.request == label).map(|row| row.count).sum()
    }
}
