//! Blanks what names a deleted user in the rows that can be many: sessions and audit entries. It reads page by page and
//! writes only what it found. A turn reads a bounded number of pages, and the next turn continues. An instance that takes
//! over starts with the deletion again, which blanks blank rows.

use super::janitor::{PAGES, SLICE, pause};
use super::slices::Slices;
use identity::Result;
use identity::ids::OrganizationId;
use identity::user_deletions::{self, Deletion};
use parking_lot::Mutex;
use std::sync::Arc;
use store::{Store, Time, Tx};

/// The work of one instance, and how far it is.
pub(super) struct Erasure {
    store: Store,
    slices: Arc<Slices>,
    progress: Mutex<Option<Progress>>,
}

#[derive(Clone)]
struct Progress {
    deletion: Deletion,
    /// The audit trail that is read; `None` while the sessions are read.
    trail: Option<OrganizationId>,
    /// The last id that was read.
    after: String,
}

impl Erasure {
    pub(super) fn new(store: Store, slices: Arc<Slices>) -> Erasure {
        Erasure { store, slices, progress: Mutex::default() }
    }

    /// One turn.
    pub(super) async fn run(&self, now: Time) -> Result<()> {
        for _ in 0..PAGES {
            let known = self.progress.lock().clone();
            let progress = match known {
                Some(progress) => progress,
                None => match self.store.read(user_deletions::next).await? {
                    Some(deletion) => Progress { deletion, trail: None, after: String::new() },
                    None => return Ok(()),
                },
            };
            let next = self.page(progress, now).await?;
            *self.progress.lock() = next;
            pause().await;
        }
        Ok(())
    }

    /// Reads and blanks a page. Returns where to continue; `None` when the deletion is finished.
    async fn page(&self, progress: Progress, now: Time) -> Result<Option<Progress>> {
        let Progress { deletion, trail, after } = progress;
        let (wanted, read) = (deletion.clone(), trail.clone());
        let last = match read {
            None => {
                let page = self
                    .store
                    .read(move |snapshot| user_deletions::sessions_of(snapshot, &wanted, &after, SLICE));
                let page = page.await?;
                let blank =
                    |tx: &mut Tx<'_>, ids: &[_], _| user_deletions::blank_sessions(tx, ids).map(|()| true);
                self.slices.write_all("user.blank_sessions", page.ended, SLICE, blank, pause).await?;
                page.last.map(|id| id.to_string())
            }
            Some(organization) => {
                let owner = organization.clone();
                let page = self.store.read(move |snapshot| {
                    user_deletions::entries_of(snapshot, &wanted, &owner, &after, SLICE)
                });
                let (page, user) = (page.await?, deletion.user.clone());
                let blank = move |tx: &mut Tx<'_>, ids: &[_], _| {
                    user_deletions::blank_entries(tx, &organization, &user, ids).map(|()| true)
                };
                self.slices.write_all("user.blank_entries", page.ended, SLICE, blank, pause).await?;
                page.last.map(|id| id.to_string())
            }
        };
        if let Some(after) = last {
            return Ok(Some(Progress { deletion, trail, after }));
        }
        let (wanted, done) = (deletion.clone(), trail.clone());
        let trail =
            self.store.read(move |snapshot| user_deletions::next_trail(snapshot, &wanted, done.as_ref()));
        if let Some(trail) = trail.await? {
            return Ok(Some(Progress { deletion, trail: Some(trail), after: String::new() }));
        }
        let user = deletion.user;
        self.store.write("user.erased", move |tx| user_deletions::finish(tx, &user, now)).await?;
        Ok(None)
    }
}
