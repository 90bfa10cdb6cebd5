//! Watches: calls for changes of keys, from the state that a read has shown.

use crate::changes::Feed;
use crate::engine::Shared;
use crate::key_index::{Digest, Owner, OwnerId};
use crate::sync::Mutex;
use crate::{Key, Position, Store};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Called when a watched key may have changed.
type Wake = Arc<dyn Fn() + Send + Sync>;

/// The watches of a store. One owner in the index of keys.
#[derive(Default)]
pub(crate) struct Watches {
    slots: Mutex<Slots>,
}

#[derive(Default)]
struct Slots {
    watches: Vec<Option<Watching>>,
    free: Vec<u32>,
}

struct Watching {
    depends_on: Box<[Digest]>,
    wake: Wake,
}

/// An active watch. Dropping it ends it; a call that has begun may still happen.
#[must_use = "dropping a watch ends it"]
pub struct Watch {
    watches: Arc<Watches>,
    shared: Arc<Shared>,
    owner: OwnerId,
    slot: u32,
}

impl Store {
    /// Calls `wake` whenever one of these keys may have changed, beginning with the first change after `seen`: the
    /// position from before a read ([`crate::Answer::seen`]). Returns `None` if one has been published since, or if that
    /// is no longer known: then the read is out of date, so read again and watch from there.
    ///
    /// `wake` runs on the thread that publishes the change, before the caller of `write` gets its result. It must be
    /// quick, and must not block or write. It may be called without a change.
    pub fn watch(
        &self,
        keys: &[Key],
        seen: Position,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> Option<Watch> {
        let shared = self.inner.shared.clone();
        let (watches, owner) = (shared.watches.clone(), shared.watches_owner);
        let slot = watches.begin(&shared.feed, owner, keys, seen, Arc::new(wake))?;
        Some(Watch { watches, shared, owner, slot })
    }
}

impl Watches {
    pub(crate) fn begin(
        &self,
        feed: &Feed,
        owner: OwnerId,
        keys: &[Key],
        seen: Position,
        wake: Wake,
    ) -> Option<u32> {
        let depends_on = feed.index.digests(keys);
        let mut slots = self.slots.lock();
        let slot = slots.free.pop().unwrap_or_else(|| {
            slots.watches.push(None);
            (slots.watches.len() - 1) as u32
        });
        // With the slots locked: a change that finds the slot in the index finds the watch in the slot.
        if !feed.index.install(owner, slot, &depends_on, seen) {
            slots.free.push(slot);
            return None;
        }
        if let Some(free) = slots.watches.get_mut(slot as usize) {
            *free = Some(Watching { depends_on, wake });
        }
        Some(slot)
    }

    fn end(&self, feed: &Feed, owner: OwnerId, slot: u32) {
        let mut slots = self.slots.lock();
        let Some(watching) = slots.watches.get_mut(slot as usize).and_then(Option::take) else { return };
        let stored: Vec<_> = watching.depends_on.iter().map(|digest| digest.stored()).collect();
        feed.index.remove(owner, slot, &stored);
        slots.free.push(slot);
    }

    /// Calls those that `is_concerned` selects, without the lock: they may begin or end watches.
    fn wake(&self, is_concerned: impl Fn(&Watching) -> bool) {
        let slots = self.slots.lock();
        let concerned = slots.watches.iter().flatten().filter(|watching| is_concerned(watching));
        let wakes = concerned.map(|watching| watching.wake.clone()).collect();
        drop(slots);
        call(wakes);
    }
}

fn call(wakes: Vec<Wake>) {
    for wake in wakes {
        // The commit has happened, so a watch that panics must not fail it.
        if catch_unwind(AssertUnwindSafe(|| wake())).is_err() {
            tracing::error!("a watch panicked; what it should have noticed may be stale");
        }
    }
}

impl Owner for Watches {
    fn touched(&self, touched: &[u32]) {
        let slots = self.slots.lock();
        let watch_at = |slot: &u32| slots.watches.get(*slot as usize).and_then(Option::as_ref);
        let wakes = touched.iter().filter_map(watch_at).map(|watching| watching.wake.clone()).collect();
        drop(slots);
        call(wakes);
    }

    fn touched_table(&self, table: u64) {
        self.wake(|watching| watching.depends_on.iter().any(|digest| digest.table == table));
    }

    fn touched_all(&self) {
        self.wake(|_| true);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.watches.end(&self.shared.feed, self.owner, self.slot);
    }
}
