//! Looks at the replicas: which of them can be reached, are what they are said to be, and keep up.
//!
//! Each has a thread of its own, so that one that does not answer delays no look at the others. Another thread
//! watches over those that read: it looks at no replica, so none can hold it up.

use super::standby::{Standby, Unusable};
use super::{Link, Session, View};
use crate::Error;
use crate::store::Shared;
use crate::threads::spawn;
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Starts the threads that look, and the one that watches; the end waits for that one.
pub(super) fn start<S: Session>(
    primary: &Arc<S::Address>,
    addresses: &[Arc<S::Address>],
    shared: &Arc<Shared>,
) -> Result<JoinHandle<()>, Error> {
    for (replica, address) in addresses.iter().enumerate() {
        let (primary, address, shared) = (primary.clone(), address.clone(), shared.clone());
        // Nobody waits for its end: it may be waiting itself, for a replica that does not answer.
        drop(spawn("sarsen-look", move || look_at::<S>(replica, &primary, &address, &shared))?);
    }
    let shared = shared.clone();
    spawn("sarsen-replicas", move || watch(&shared))
}

fn look_at<S: Session>(
    replica: usize,
    primary: &Arc<S::Address>,
    address: &Arc<S::Address>,
    shared: &Shared,
) {
    let replicas = &shared.replicas;
    let mut standby = Standby::<S>::new(address.clone());
    let mut told = None;
    loop {
        let required = replicas.required(View {
            whole: shared.feed.version(),
            next: shared.feed.next(),
            follows: false,
        });
        // The primary is asked when the replica's connection is new: no connection to it is kept for that.
        let view = standby.begin(&mut Link::new(primary.clone())).map(|(_, view)| view);
        let keeps_up = match view {
            Ok(view) => {
                standby.finish();
                told = None;
                view.whole >= required.whole && view.next >= required.next
            }
            Err(Unusable::Away(_)) => false,
            Err(Unusable::Stranger(why)) => {
                if told.replace(why) != Some(why) {
                    tracing::warn!(replica, place = S::place(address), why, "a replica is not read from");
                }
                false
            }
        };
        replicas.looked(replica, keeps_up);
        if !replicas.rest() {
            return;
        }
    }
}

/// Tells which replica is read from, and hands to the primary what waits for threads that all wait for a silent one.
fn watch(shared: &Shared) {
    let replicas = &shared.replicas;
    let mut told = None;
    let mut waiting = VecDeque::new();
    loop {
        let chosen = replicas.chosen();
        if told != chosen {
            match chosen {
                Some(replica) => tracing::info!(replica, "lists are read from a replica"),
                None => tracing::info!("lists are read from the primary: no replica is up to date"),
            }
            told = chosen;
        }
        if replicas.is_stuck() {
            replicas.queries.take_more(&mut waiting, usize::MAX);
            for query in waiting.drain(..) {
                replicas.queries.started();
                if let Err((query, error)) = shared.queries.push(query) {
                    query.answer(Some(error));
                }
            }
        }
        if !replicas.rest() {
            return;
        }
    }
}
