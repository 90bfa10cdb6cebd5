//! Deletes expired rows in small slices, and renews signing keys. Each step is work of its own that is repeated
//! (`live::background`): one instance at a time does it, and one that fails or is slow keeps no other from its work.
//!
//! Rows that expire in the order of their ids (codes, links, refresh tokens, revoked tokens) are deleted from the start
//! of the table. Grants and sessions end in any order. They are found by walks through their tables, a few pages per
//! turn, because every sign-in would have to maintain an index. Consents are kept until the user changes them.
//!
//! Steps delete by conditions, so it does no harm when two instances do the same one: an instance of the previous release has a
//! loop of its own.

use super::erasure::Erasure;
use super::key_maker::KeyMaker;
use super::slices::Slices;
use crate::clock::Clock;
use identity::audit::Actor;
use identity::billing::{events, removal, walks};
use identity::cleanup;
use identity::ids::SubscriptionId;
use identity::keys::Algorithm;
use identity::mail::requests;
use identity::organization_deletions;
use identity::scan::Page;
use identity::secrets::Random;
use identity::{
    authorization_codes, authorization_requests, devices, events as product_events, grants,
    idempotent_writes, invitations, leases, links, mail, revoked_tokens, sessions,
};
use live::background::{Failure, Work};
use parking_lot::Mutex;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;
use store::{Snapshot, Store, Time, Tx};

/// The lease that shows that housekeeping was done lately: to `sarsen rekey`, and to the check of the clock at a start. An instance
/// of the previous release that finds it held leaves housekeeping alone.
pub(crate) const LEASE_NAME: &str = "janitor";
const LEASE: Duration = Duration::from_secs(90);
/// Between two turns of steps that somebody may wait for.
const SOON: Duration = Duration::from_secs(30);
/// Between two turns of the others: what they delete has been over for hours.
const LATER: Duration = Duration::from_secs(120);
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

/// Deletes up to so many rows from before a time. Returns how many there were.
type Delete = fn(&mut Tx<'_>, Time, i64) -> identity::Result<usize>;

/// A step that deletes rows by their age.
struct Sweep {
    name: &'static str,
    kept: Duration,
    delete: Delete,
}

const fn sweep(name: &'static str, kept: Duration, delete: Delete) -> Sweep {
    Sweep { name, kept, delete }
}

static SWEEPS: [Sweep; 11] = [
    sweep("devices.tidy", DEVICES_KEPT, devices::delete_older),
    sweep("codes.tidy", KEPT, authorization_codes::delete_older),
    // Of the release before this one.
    sweep("authorization_requests.tidy", authorization_requests::LIFE, authorization_requests::delete_older),
    sweep("links.tidy", KEPT.saturating_add(links::LIFE_MAX), links::delete_older),
    sweep("mails.tidy", mail::KEPT, mail::delete_older),
    sweep("mail_requests.tidy", requests::KEPT, requests::delete_older),
    sweep("invitations.tidy", KEPT.saturating_add(invitations::LIFE), invitations::delete_older),
    sweep("idempotent_writes.tidy", idempotent_writes::KEPT, idempotent_writes::delete_older),
    sweep("billing_events.tidy", events::KEPT, events::delete_older),
    sweep("tokens.tidy", KEPT, revoked_tokens::delete_older),
    sweep("grants.tidy", ENDED_KEPT.saturating_add(grants::REFRESH_LIFE), cleanup::delete_refresh_tokens),
];

/// The steps of one instance.
pub(crate) struct Janitor {
    store: Store,
    key_maker: KeyMaker,
    /// The holder of the lease: this instance.
    instance: String,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    /// The positions of the walks. Each instance has its own.
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
    ) -> Janitor {
        let slices = Arc::new(Slices::new(store.clone()));
        let erasure = Erasure::new(store.clone(), slices.clone());
        let (grants, sessions) = (Mutex::default(), Mutex::default());
        Janitor { store, key_maker, instance, clock, random, grants, sessions, erasure, slices }
    }

    /// Adds its steps.
    pub(crate) fn add_to(self, mut work: Work) -> Work {
        let janitor = Arc::new(self);
        work = janitor.step(work, "janitor.lease", SOON, |own| async move { own.note_lease().await });
        for (name, algorithm) in [("keys.es256", Algorithm::Es256), ("keys.rs256", Algorithm::Rs256)] {
            work = janitor.step(
                work,
                name,
                SOON,
                move |own| async move { own.key_maker.renew(algorithm).await },
            );
        }
        for sweep in &SWEEPS {
            work = janitor.step(work, sweep.name, LATER, move |own| async move { own.sweep(sweep).await });
        }
        let work = janitor.step(work, "events.tidy", LATER, |own| async move { own.trim_events().await });
        let work = janitor.step(work, "grants.delete", SOON, |own| async move { own.walk_grants().await });
        let work =
            janitor.step(work, "sessions.delete", SOON, |own| async move { own.walk_sessions().await });
        let work = janitor.step(work, "billing.walk", SOON, |own| async move { own.walk_billing().await });
        let work =
            janitor.step(work, "billing.erase", SOON, |own| async move { own.erase_connections().await });
        let work = janitor
            .step(work, "user.erase", SOON, |own| async move { own.erasure.run(own.clock.now()).await });
        janitor.step(work, "organization.erase", SOON, |own| async move { own.erase_organizations().await })
    }

    fn step<W>(
        self: &Arc<Self>,
        work: Work,
        name: &'static str,
        interval: Duration,
        step: impl Fn(Arc<Janitor>) -> W + Send + Sync + 'static,
    ) -> Work
    where
        W: Future<Output = identity::Result<()>> + Send + 'static,
    {
        let janitor = self.clone();
        work.every(name, interval, move || {
            let turn = step(janitor.clone());
            async move { turn.await.map_err(|error| Failure::new("failed", error)) }
        })
    }

    async fn note_lease(&self) -> identity::Result<()> {
        let (holder, now) = (self.instance.clone(), self.clock.now());
        let note = move |tx: &mut Tx<'_>| leases::take(tx, LEASE_NAME, &holder, now, now + LEASE).map(drop);
        self.store.write("janitor.lease", note).await
    }

    async fn walk_grants(&self) -> identity::Result<()> {
        let delete = |tx: &mut Tx<'_>, ids: &[_], _| cleanup::delete_grants(tx, ids).map(|()| true);
        self.walk(&self.grants, "grants.delete", grants::ended, delete).await
    }

    async fn walk_sessions(&self) -> identity::Result<()> {
        self.walk(&self.sessions, "sessions.delete", sessions::ended, cleanup::delete_sessions).await
    }

    /// Deletes what is too old in the log of events.
    async fn trim_events(&self) -> identity::Result<()> {
        let now = self.clock.now();
        while self.store.write("events.tidy", move |tx| product_events::tidy(tx, now)).await? {
            pause().await;
        }
        Ok(())
    }

    /// Applies the prices and customers of payment providers that were mapped anew. A turn runs a bounded number of commands.
    async fn walk_billing(&self) -> identity::Result<()> {
        let (now, mut steps) = (self.clock.now(), Steps::default());
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
            let erased = self.slices.write("billing.erase", SLICE, removal::erase_deleted).await?;
            if erased.result == 0 {
                return Ok(());
            }
            pause().await;
        }
        Ok(())
    }

    /// Deletes the data of organizations whose 30 days are over. A turn runs a bounded number of commands. One that cannot be
    /// erased does not hold up the others; the error is that of the first.
    async fn erase_organizations(&self) -> identity::Result<()> {
        let now = self.clock.now();
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
    async fn sweep(&self, sweep: &'static Sweep) -> identity::Result<()> {
        let before = self.clock.now() - sweep.kept;
        loop {
            let delete = move |tx: &mut Tx<'_>, most| (sweep.delete)(tx, before, most);
            let deleted = self.slices.write(sweep.name, SLICE, delete).await?;
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
