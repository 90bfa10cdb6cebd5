//! Reads for streams. A change that many streams share wakes all of them at once, and the store refuses background queries
//! beyond a number. So only some streams read at the same time, and one that is refused reads again after a pause. The
//! reader of the log takes no turn: there is always room for its query.
//!
//! What a service has missed may be much of the log. Such reads have turns of their own, one at a time of an organization,
//! so that neither the states of users nor another organization waits for one that returns with many streams.

use crate::limits::turns::Turns;
use identity::ids::OrganizationId;
use identity::{Error, Result};
use std::future::Future;
use std::time::{Duration, Instant};
use store::{Answer, Backoff, Read, Snapshot, Store};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Streams that read at once, of all kinds.
const AT_ONCE: usize = 64;
/// Those of one organization, so that thousands of its streams do not keep those of others waiting.
const OF_AN_ORGANIZATION: usize = AT_ONCE / 4;
/// Large pages of what they have missed that streams of one organization have in memory, until their clients have read them.
const PAGES_OF_AN_ORGANIZATION: usize = 16;
/// Reads at once of what services have missed.
const CATCHING_UP: usize = 4;
/// Pauses after a refusal.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// A stream whose state was not read for so long ends, as after a failure.
const REFUSED_MAX: Duration = Duration::from_secs(12);

/// The turns of streams to read.
pub(crate) struct Reads {
    states: Semaphore,
    /// Those of one organization.
    states_of: Turns,
    missed: Semaphore,
    /// Those of organizations whose services have missed something.
    missed_by: Turns,
    pages_of: Turns,
}

impl Default for Reads {
    fn default() -> Reads {
        Reads {
            states: Semaphore::new(AT_ONCE),
            states_of: Turns::of_each(OF_AN_ORGANIZATION),
            missed: Semaphore::new(CATCHING_UP),
            missed_by: Turns::default(),
            pages_of: Turns::of_each(PAGES_OF_AN_ORGANIZATION),
        }
    }
}

impl Reads {
    /// Runs a query when it is the stream's turn, and again while the database is too busy.
    pub(super) async fn query<T, Q>(
        &self,
        store: &Store,
        organization: &OrganizationId,
        query: Q,
    ) -> Result<Answer<T>>
    where
        T: Send + 'static,
        Q: FnMut(&mut Snapshot<'_>) -> Result<T> + Clone + Send + 'static,
    {
        let _own = self.states_of.wait(organization).await;
        run(&self.states, || store.query(Read::default().in_background(), query.clone())).await
    }

    /// The turn of a stream of an organization to have a large page in memory, if one is free.
    pub(super) fn page_turn(&self, organization: &OrganizationId) -> Option<OwnedSemaphorePermit> {
        self.pages_of.now(organization)
    }

    /// Waits for such a turn.
    pub(super) async fn next_page_turn(&self, organization: &OrganizationId) -> Option<OwnedSemaphorePermit> {
        self.pages_of.wait(organization).await
    }

    /// Reads a page of what a service of this organization has missed, in the same way.
    pub(super) async fn catch_up<T, Q>(
        &self,
        store: &Store,
        organization: &OrganizationId,
        query: Q,
    ) -> Result<Answer<T>>
    where
        T: Send + 'static,
        Q: FnMut(&mut Snapshot<'_>) -> Result<T> + Clone + Send + 'static,
    {
        let _own = self.missed_by.wait(organization).await;
        run(&self.missed, || store.query(Read::default().in_background(), query.clone())).await
    }
}

async fn run<T, F: Future<Output = Result<T>>>(turns: &Semaphore, mut read: impl FnMut() -> F) -> Result<T> {
    let (began, mut backoff) = (Instant::now(), Backoff::new(PAUSE_MIN, PAUSE_MAX));
    loop {
        let turn = turns.acquire().await;
        let result = read().await;
        drop(turn);
        let is_refused = matches!(result, Err(Error::Store(store::Error::Overloaded { .. })));
        if !is_refused || began.elapsed() > REFUSED_MAX {
            return result;
        }
        tokio::time::sleep(backoff.take()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use tokio::sync::Notify;

    #[tokio::test]
    async fn a_read_that_is_refused_is_tried_again_and_any_other_error_is_told() {
        let reads = Reads::default();
        let mut refusals = 3;
        let read = run(&reads.states, || {
            refusals -= 1;
            let refused = || Error::Store(store::Error::Overloaded { retry_after: Duration::ZERO });
            std::future::ready(if refusals == 0 { Ok("the state") } else { Err(refused()) })
        });
        assert_eq!(read.await.expect("the third"), "the state");
        let mut tries = 0;
        let read = run(&reads.states, || {
            tries += 1;
            std::future::ready(Err::<(), _>(Error::Store(store::Error::Stopped)))
        });
        assert!(matches!(read.await, Err(Error::Store(store::Error::Stopped))));
        assert_eq!(tries, 1);
    }

    #[tokio::test]
    async fn only_some_read_at_once() {
        let reads = Arc::new(Reads::default());
        let (running, go) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let read = |_| {
            let (reads, running, go) = (reads.clone(), running.clone(), go.clone());
            tokio::spawn(async move {
                let read = run(&reads.states, || async {
                    running.fetch_add(1, SeqCst);
                    go.notified().await;
                    Ok(())
                });
                read.await.expect("reads");
            })
        };
        let all: Vec<_> = (0..1000).map(read).collect();
        for done in 0..1000_usize {
            // All that may have begun.
            let begun = (done + AT_ONCE).min(1000);
            while running.load(SeqCst) < begun {
                tokio::task::yield_now().await;
            }
            tokio::task::yield_now().await;
            assert_eq!(running.load(SeqCst), begun);
            go.notify_one();
        }
        for one in all {
            one.await.expect("ends");
        }
    }
}
