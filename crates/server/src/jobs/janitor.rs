//! Periodic work: deletes expired rows in small slices, and renews signing keys. Where several instances share a
//! database, the one with the lease does it. A step that fails does not keep the others from their work.
//!
//! Rows that expire in the order of their ids (codes, links, refresh tokens, revoked tokens) are deleted from the start
//! of the table. Grants and sessions end in any order. They are found by walks through their tables, a few pages per
//! turn, because every sign-in would have to maintain an index. Consents are kept until the user changes them.

use super::erasure::Erasure;
use super::key_maker::KeyMaker;
use super::slices::Slices;
use crate::clock::Clock;
use crate::limits::failed_sign_ins::FailedSignIns;
use crate::operation::metrics::Housekeeping;
use identity::audit::Actor;
use identity::billing::{connections, events, walks};
use identity::cleanup;
use identity::ids::SubscriptionId;
use identity::keys::Algorithm;
use identity::organization_deletions;
use identity::scan::Page;
use identity::secrets::Random;
use identity::{
    authorization_codes, authorization_requests, devices, events as product_events, grants,
    idempotent_writes, invitations, leases, links, revoked_tokens, sessions,
};
use parking_lot::Mutex;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;
use store::{Snapshot, Store, Time, Tx};
use tokio::sync::watch;

/// The lease of the instance that cleans up.
pub(crate) const LEASE_NAME: &str = "janitor";
const EVERY: Duration = Duration::from_secs(30);
/// The lease of an instance ends after this time without renewal.
const LEASE: Duration = Duration::from_secs(90);
/// The number of rows that one command deletes, at most.
pub(super) const SLICE: i64 = 200;
/// Objects of a deleted organization that one command deletes, at most, each with several rows.
const OBJECTS: i64 = 40;
const BETWEEN_SLICES: Duration = Duration::from_millis(20);
/// Device codes are kept this long after they expired, so that a device still gets `expired_token`.
const DEVICES_KEPT: Duration = Duration::from_secs(2 * 3600);
/// Codes, links and revoked tokens are kept this long: a replayed code still revokes its tokens.
const KEPT: Duration = Duration::from_secs(24 * 3600);
/// Sessions, grants and refresh tokens are kept this long after they ended, because the audit trail refers to them. Much
/// longer than codes, so that a replayed code finds its grant.
const ENDED_KEPT: Duration = Duration::from_secs(7 * 24 * 3600);
/// The number of pages of [`SLICE`] rows that a walk reads per turn.
pub(super) const PAGES: usize = 50;
/// The pause between the end of a walk and its next start.
const REST: Duration = Duration::from_secs(3600);

/// The periodic work of one instance.
pub(crate) struct Janitor {
    store: Store,
    key_maker: KeyMaker,
    /// The holder of the lease: this instance.
    instance: String,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    failed_sign_ins: Arc<FailedSignIns>,
    done: Arc<Housekeeping>,
    /// The positions of the walks. An instance that takes over the lease starts again.
    grants: Mutex<Walk>,
    sessions: Mutex<Walk>,
    erasure: Erasure,
    slices: Arc<Slices>,
}

/// The first error of several steps.
#[derive(Default)]
struct Steps(Option<identity::Error>);

impl Steps {
    fn note(&mut self, step: identity::Result<()>) {
        if let Err(error) = step {
            self.0.get_or_insert(error);
        }
    }
}

#[derive(Clone, Default)]
struct Walk {
    /// The last id that was read; empty at the start.
    after: String,
    rests_until: Time,
}

impl Janitor {
    pub(crate) fn new(
        store: Store,
        key_maker: KeyMaker,
        instance: String,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
        failed_sign_ins: Arc<FailedSignIns>,
        done: Arc<Housekeeping>,
    ) -> Janitor {
        let slices = Arc::new(Slices::new(store.clone()));
        let erasure = Erasure::new(store.clone(), slices.clone());
        let (grants, sessions) = (Mutex::default(), Mutex::default());
        Janitor {
            store,
            key_maker,
            instance,
            clock,
            random,
            failed_sign_ins,
            done,
            grants,
            sessions,
            erasure,
            slices,
        }
    }

    /// Runs until the server stops.
    pub(crate) async fn run(self, mut stopped: watch::Receiver<bool>) {
        loop {
            if let Err(error) = self.tidy().await {
                self.done.failed();
                tracing::warn!(%error, "cleaning up failed; it is tried again");
            }
            tokio::select! {
                () = tokio::time::sleep(EVERY) => {}
                _ = stopped.wait_for(|stopped| *stopped) => return,
            }
        }
    }

    /// Runs one turn. Returns false if another instance has the lease. The error is that of the first step that failed.
    pub(crate) async fn tidy(&self) -> identity::Result<bool> {
        let (holder, now) = (self.instance.clone(), self.clock.now());
        self.failed_sign_ins.write_due(&self.store, now, &*self.random);
        let lease = self
            .store
            .write("janitor.lease", move |tx| leases::take(tx, LEASE_NAME, &holder, now, now + LEASE));
        if !lease.await? {
            return Ok(false);
        }
        let mut steps = Steps::default();
        for algorithm in [Algorithm::Es256, Algorithm::Rs256] {
            steps.note(self.key_maker.renew(algorithm).await);
        }
        steps.note(self.sweep("devices.tidy", now - DEVICES_KEPT, devices::delete_older).await);
        let before = now - KEPT;
        steps.note(self.sweep("codes.tidy", before, authorization_codes::delete_older).await);
        // Of the release before this one.
        let ended = now - authorization_requests::LIFE;
        let sweep = self.sweep("authorization_requests.tidy", ended, authorization_requests::delete_older);
        steps.note(sweep.await);
        steps.note(self.sweep("links.tidy", before - links::LIFE_MAX, links::delete_older).await);
        steps.note(
            self.sweep("invitations.tidy", before - invitations::LIFE, invitations::delete_older).await,
        );
        let before_writes = now - idempotent_writes::KEPT;
        let sweep = self.sweep("idempotent_writes.tidy", before_writes, idempotent_writes::delete_older);
        steps.note(sweep.await);
        steps.note(self.sweep("billing_events.tidy", now - events::KEPT, events::delete_older).await);
        steps.note(self.sweep("tokens.tidy", before, revoked_tokens::delete_older).await);
        steps.note(self.trim_events(now).await);
        let before = now - ENDED_KEPT - grants::REFRESH_LIFE;
        steps.note(self.sweep("grants.tidy", before, cleanup::delete_refresh_tokens).await);
        let delete = |tx: &mut Tx<'_>, ids: &[_], _| cleanup::delete_grants(tx, ids).map(|()| true);
        steps.note(self.walk(&self.grants, "grants.delete", grants::ended, delete).await);
        let walk = self.walk(&self.sessions, "sessions.delete", sessions::ended, cleanup::delete_sessions);
        steps.note(walk.await);
        steps.note(self.walk_billing(now).await);
        steps.note(self.erase_connections().await);
        steps.note(self.erasure.run(now).await);
        steps.note(self.erase_organizations(now).await);
        match steps.0 {
            Some(error) => Err(error),
            None => {
                self.done.succeeded(self.clock.now());
                Ok(true)
            }
        }
    }

    /// Deletes what is too old in the log of events.
    async fn trim_events(&self, now: Time) -> identity::Result<()> {
        while self.store.write("events.tidy", move |tx| product_events::tidy(tx, now)).await? {
            pause().await;
        }
        Ok(())
    }

    /// Applies the prices and customers of payment providers that were mapped anew. A turn runs a bounded number of commands.
    async fn walk_billing(&self, now: Time) -> identity::Result<()> {
        let mut steps = Steps::default();
        for _ in 0..PAGES {
            let due = self.store.read(move |snapshot| walks::due(snapshot, now)).await?;
            let Some(walk) = due else { break };
            let new = SubscriptionId::new(now, &*self.random);
            let (of, actor) = (walk.clone(), Actor::system(now, &*self.random));
            let step = move |tx: &mut Tx<'_>, most| walks::step(tx, &of, most, &new, &actor.clone());
            if let Err(error) = self.slices.write("billing.walk", OBJECTS, step).await {
                steps.note(Err(error));
                let rest = move |tx: &mut Tx<'_>| walks::postpone(tx, &walk, now);
                self.store.write("billing.walk_rests", rest).await?;
            }
            pause().await;
        }
        steps.0.map_or(Ok(()), Err)
    }

    /// Deletes the rows of billing connections that were deleted. A turn runs a bounded number of commands.
    async fn erase_connections(&self) -> identity::Result<()> {
        for _ in 0..PAGES {
            let erased = self.slices.write("billing.erase", SLICE, connections::erase_deleted).await?;
            if erased.result == 0 {
                return Ok(());
            }
            pause().await;
        }
        Ok(())
    }

    /// Deletes the data of organizations whose 30 days are over. A turn runs a bounded number of commands. One that cannot be
    /// erased does not hold up the others; the error is that of the first.
    async fn erase_organizations(&self, now: Time) -> identity::Result<()> {
        let due =
            self.store.read(move |snapshot| organization_deletions::due(snapshot, now, PAGES as i64)).await?;
        let mut due = due.into_iter();
        let (mut organization, mut steps) = (due.next(), Steps::default());
        for _ in 0..PAGES {
            let Some(id) = organization.clone() else { break };
            let actor = Actor::system(now, &*self.random);
            let erase = move |tx: &mut Tx<'_>, most| {
                organization_deletions::erase_some(tx, &id, most, &actor.clone())
            };
            match self.slices.write("organization.erase", OBJECTS, erase).await {
                Ok(slice) if !slice.result => {}
                Ok(_) => organization = due.next(),
                Err(error) => {
                    steps.note(Err(error));
                    organization = due.next();
                }
            }
            pause().await;
        }
        steps.0.map_or(Ok(()), Err)
    }

    /// Deletes slice by slice until a slice is not full. Other commands run between the slices.
    async fn sweep(
        &self,
        name: &'static str,
        before: Time,
        delete: fn(&mut Tx<'_>, Time, i64) -> identity::Result<usize>,
    ) -> identity::Result<()> {
        loop {
            let deleted = self.slices.write(name, SLICE, move |tx, most| delete(tx, before, most)).await?;
            if deleted.result < deleted.size {
                return Ok(());
            }
            pause().await;
        }
    }

    /// Continues a walk and deletes rows that ended more than [`ENDED_KEPT`] ago. `delete` returns whether it deleted all of
    /// them.
    async fn walk<I: Display + Clone + Send + Sync + 'static>(
        &self,
        walk: &Mutex<Walk>,
        name: &'static str,
        look: fn(&mut Snapshot<'_>, &str, Time, i64) -> identity::Result<Page<I>>,
        delete: fn(&mut Tx<'_>, &[I], i64) -> identity::Result<bool>,
    ) -> identity::Result<()> {
        let Walk { mut after, rests_until } = walk.lock().clone();
        let now = self.clock.now();
        // Farther ahead than a rest, if the clock was set back since.
        if now < rests_until && rests_until.since(now) <= REST {
            return Ok(());
        }
        let before = now - ENDED_KEPT;
        for _ in 0..PAGES {
            let page = self.store.read(move |snapshot| look(snapshot, &after, before, SLICE)).await?;
            self.slices.write_all(name, page.ended, SLICE, delete, pause).await?;
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

/// Lets other commands run.
pub(super) async fn pause() {
    tokio::time::sleep(BETWEEN_SLICES).await;
}
