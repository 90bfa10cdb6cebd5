//! What may take long runs one at a time for each organization, or a few at a time, so that no organization keeps the others
//! waiting.

use identity::ids::OrganizationId;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How long a list waits for another one of the same organization.
pub(crate) const LIST_WAIT: Duration = Duration::from_secs(3);

/// The turns of each organization that has begun something.
pub(crate) struct Turns {
    of_each: usize,
    taken: Mutex<HashMap<OrganizationId, Weak<Semaphore>>>,
}

/// One at a time.
impl Default for Turns {
    fn default() -> Turns {
        Turns::of_each(1)
    }
}

impl Turns {
    /// So many at a time.
    pub(crate) fn of_each(of_each: usize) -> Turns {
        Turns { of_each, taken: Mutex::default() }
    }

    /// Waits for the turn of an organization, which ends when it is dropped.
    pub(crate) async fn wait(&self, organization: &OrganizationId) -> Option<OwnedSemaphorePermit> {
        // They are never closed.
        self.of(organization).acquire_owned().await.ok()
    }

    /// The turn of an organization if one is free.
    pub(crate) fn now(&self, organization: &OrganizationId) -> Option<OwnedSemaphorePermit> {
        self.of(organization).try_acquire_owned().ok()
    }

    /// The same as [`Turns::wait`]; the error is that its time is over.
    pub(crate) async fn wait_for(
        &self,
        organization: &OrganizationId,
        longest: Duration,
    ) -> Result<Option<OwnedSemaphorePermit>, store::Error> {
        let waited = tokio::time::timeout(longest, self.wait(organization)).await;
        waited.map_err(|_| store::Error::Overloaded { retry_after: longest })
    }

    fn of(&self, organization: &OrganizationId) -> Arc<Semaphore> {
        let mut all = self.taken.lock();
        if let Some(turn) = all.get(organization).and_then(Weak::upgrade) {
            return turn;
        }
        let turn = Arc::new(Semaphore::new(self.of_each));
        all.retain(|_, turn| turn.strong_count() > 0);
        all.insert(organization.clone(), Arc::downgrade(&turn));
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_organization_may_have_several() {
        let (turns, id) = (Turns::of_each(2), OrganizationId::from_uuid);
        let both = (turns.wait(&id(1)).await, turns.wait(&id(1)).await);
        assert!(turns.wait_for(&id(1), Duration::ZERO).await.is_err());
        drop(turns.wait_for(&id(2), Duration::ZERO).await.expect("another organization"));
        drop(both);
        drop(turns.wait_for(&id(1), Duration::ZERO).await.expect("the next one"));
    }

    #[tokio::test]
    async fn an_organization_has_one_turn_and_holds_up_no_other() {
        let (turns, id) = (Turns::default(), OrganizationId::from_uuid);
        let greedy = turns.wait(&id(1)).await.expect("the first");
        let refused = turns.wait_for(&id(1), Duration::ZERO).await;
        assert!(matches!(refused, Err(store::Error::Overloaded { .. })), "one at a time: {refused:?}");
        drop(turns.wait_for(&id(2), Duration::ZERO).await.expect("another organization"));
        drop(greedy);
        drop(turns.wait_for(&id(1), Duration::ZERO).await.expect("the next one"));
        drop(turns.wait(&id(3)).await);
        // Organizations that wait for nothing any more are forgotten.
        assert_eq!(turns.taken.lock().len(), 1);
    }
}
