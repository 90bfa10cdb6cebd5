//! What is done by the clock: deleting what has expired, in small slices, and renewing signing keys. Of several
//! instances on one database, one does it.
//!
//! What is found by the time in its id (codes, links, refresh tokens, revoked tokens) is deleted from the table's
//! beginning. Grants and sessions last as long as their users like: these are found by walks through the tables, a few
//! pages a turn, for an index would be written by every sign-in. Consents are kept: they are what a user has said, and
//! count until he says something else.

use super::key_maker::KeyMaker;
use crate::clock::Clock;
use identity::cleanup;
use identity::keys::Algorithm;
use identity::scan::Page;
use identity::{
    authorization_codes, authorization_requests, devices, grants, leases, links, revoked_tokens, sessions,
};
use parking_lot::Mutex;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;
use store::{Snapshot, Store, Time, Tx};
use tokio::sync::watch;

const EVERY: Duration = Duration::from_secs(30);
/// An instance that has not been heard of for this long does not tidy up any more.
const LEASE: Duration = Duration::from_secs(90);
/// Rows deleted by one command.
const SLICE: i64 = 200;
const BETWEEN_SLICES: Duration = Duration::from_millis(20);
/// Device codes are kept this long, so that their devices still hear "expired" for a while.
const DEVICES_KEPT: Duration = Duration::from_secs(2 * 3600);
/// Codes, links and revoked tokens are kept this long: a code that comes back late still revokes what it gave.
const KEPT: Duration = Duration::from_secs(24 * 3600);
/// Sessions, grants and refresh tokens are kept this long after they ended, for whoever looks up what the audit trail
/// names. Much longer than codes, so that a code that comes back finds its grant.
const ENDED_KEPT: Duration = Duration::from_secs(7 * 24 * 3600);
/// Pages of [`SLICE`] rows that a walk looks at in one turn.
const PAGES: usize = 50;
/// A walk that has come to the end begins again after this long.
const REST: Duration = Duration::from_secs(3600);

/// Does the work of one instance.
pub(crate) struct Janitor {
    store: Store,
    key_maker: KeyMaker,
    /// Tells this instance from others on the same database.
    instance: String,
    clock: Arc<dyn Clock>,
    /// How far the walks have come. An instance that takes the work over begins anew.
    grants: Mutex<Walk>,
    sessions: Mutex<Walk>,
}

#[derive(Clone, Default)]
struct Walk {
    /// The last id that was looked at; empty at the beginning.
    after: String,
    rests_until: Time,
}

impl Janitor {
    pub(crate) fn new(store: Store, key_maker: KeyMaker, instance: String, clock: Arc<dyn Clock>) -> Janitor {
        Janitor { store, key_maker, instance, clock, grants: Mutex::default(), sessions: Mutex::default() }
    }

    /// Works until the server stops.
    pub(crate) async fn run(self, mut stopped: watch::Receiver<bool>) {
        loop {
            if let Err(error) = self.tidy().await {
                tracing::warn!(%error, "cleaning up failed; it is tried again");
            }
            tokio::select! {
                () = tokio::time::sleep(EVERY) => {}
                _ = stopped.wait_for(|stopped| *stopped) => return,
            }
        }
    }

    /// One turn; false when another instance has the lease.
    pub(crate) async fn tidy(&self) -> identity::Result<bool> {
        let (holder, now) = (self.instance.clone(), self.clock.now());
        let lease = self
            .store
            .write("janitor.lease", move |tx| leases::take(tx, "janitor", &holder, now, now + LEASE));
        if !lease.await? {
            return Ok(false);
        }
        for algorithm in [Algorithm::Es256, Algorithm::Rs256] {
            self.key_maker.renew(algorithm).await?;
        }
        self.sweep("devices.tidy", now - DEVICES_KEPT, devices::delete_older).await?;
        let before = now - KEPT;
        self.sweep("codes.tidy", before, authorization_codes::delete_older).await?;
        self.sweep("authorization_requests.tidy", before, authorization_requests::delete_older).await?;
        self.sweep("links.tidy", before, links::delete_older).await?;
        self.sweep("tokens.tidy", before, revoked_tokens::delete_older).await?;
        let before = now - ENDED_KEPT - grants::REFRESH_LIFE;
        self.sweep("grants.tidy", before, cleanup::delete_refresh_tokens).await?;
        let delete = |tx: &mut Tx<'_>, ids: &[_], _| cleanup::delete_grants(tx, ids).map(|()| true);
        self.walk(&self.grants, "grants.delete", grants::ended, delete).await?;
        self.walk(&self.sessions, "sessions.delete", sessions::ended, cleanup::delete_sessions).await?;
        Ok(true)
    }

    /// Deletes slice by slice until little is left. Other commands run between the slices.
    async fn sweep(
        &self,
        name: &'static str,
        before: Time,
        delete: fn(&mut Tx<'_>, Time, i64) -> identity::Result<usize>,
    ) -> identity::Result<()> {
        while self.store.write(name, move |tx| delete(tx, before, SLICE)).await? as i64 >= SLICE {
            tokio::time::sleep(BETWEEN_SLICES).await;
        }
        Ok(())
    }

    /// Continues a walk and deletes what has been over for [`ENDED_KEPT`]. `delete` says whether all of it is gone.
    async fn walk<I: Display + Clone + Send + Sync + 'static>(
        &self,
        walk: &Mutex<Walk>,
        name: &'static str,
        look: fn(&mut Snapshot<'_>, &str, Time, i64) -> identity::Result<Page<I>>,
        delete: fn(&mut Tx<'_>, &[I], i64) -> identity::Result<bool>,
    ) -> identity::Result<()> {
        let Walk { mut after, rests_until } = walk.lock().clone();
        let now = self.clock.now();
        if now < rests_until {
            return Ok(());
        }
        let before = now - ENDED_KEPT;
        for _ in 0..PAGES {
            let page = self.store.read(move |snapshot| look(snapshot, &after, before, SLICE)).await?;
            let mut is_done = page.ended.is_empty();
            while !is_done {
                let over = page.ended.clone();
                is_done = self.store.write(name, move |tx| delete(tx, &over, SLICE)).await?;
                tokio::time::sleep(BETWEEN_SLICES).await;
            }
            let Some(last) = page.last else {
                *walk.lock() = Walk { after: String::new(), rests_until: now + REST };
                return Ok(());
            };
            after = last.to_string();
            walk.lock().after.clone_from(&after);
        }
        Ok(())
    }
}
