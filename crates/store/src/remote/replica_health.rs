//! Looks at the replicas: which of them can be reached, are what they are said to be, and keep up.
//!
//! Each has a thread of its own, so that one that does not answer delays no look at the others. Another thread
//! watches over those that read: it looks at no replica, so none can hold it up.

use super::replicas::{LAG_MAX, Replicas};
use super::standby::{Standby, Unusable};
use super::{ReconnectingSession, Session, SnapshotInfo};
use crate::Error;
use crate::threads::spawn;
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

/// Starts the threads that look, and the one that watches; the end waits for that one.
pub(super) fn start<S: Session>(
    primary: &Arc<S::Address>,
    addresses: &[Arc<S::Address>],
    replicas: &Arc<Replicas>,
) -> Result<JoinHandle<()>, Error> {
    for (replica, address) in addresses.iter().enumerate() {
        let (primary, address, replicas) = (primary.clone(), address.clone(), replicas.clone());
        // Nobody waits for its end: it may be waiting itself, for a replica that does not answer.
        drop(spawn("sarsen-health", move || check::<S>(replica, &primary, &address, &replicas))?);
    }
    let replicas = replicas.clone();
    spawn("sarsen-replicas", move || monitor(&replicas))
}

fn check<S: Session>(
    replica: usize,
    primary: &Arc<S::Address>,
    address: &Arc<S::Address>,
    replicas: &Replicas,
) {
    let shared = &replicas.shared;
    let mut standby = Standby::<S>::new(address.clone());
    let mut logged = None;
    let mut heard = Instant::now();
    loop {
        if shared.feed.is_fresh() {
            heard = Instant::now();
        }
        let required = replicas.required(SnapshotInfo {
            horizon: shared.feed.version().number(),
            end: shared.feed.snapshot_end(),
            in_recovery: false,
        });
        // The primary is asked when the replica's connection is new: no connection to it is kept for that.
        let info = standby.begin(&mut ReconnectingSession::new(primary.clone())).map(|(_, info)| info);
        let keeps_up = match info {
            Ok(info) => {
                standby.finish();
                logged = None;
                // What the primary has is known from its log. While that cannot be read, nobody knows how far behind this is.
                let is_known = heard.elapsed() < LAG_MAX;
                is_known && info.horizon >= required.horizon && info.end >= required.end
            }
            Err(Unusable::Unreachable(_)) => false,
            Err(Unusable::NotOurReplica(why)) => {
                if logged.replace(why) != Some(why) {
                    tracing::warn!(replica, place = S::place(address), why, "a replica is not read from");
                }
                false
            }
        };
        replicas.note_check(replica, keeps_up);
        if !replicas.wait_for_check() {
            return;
        }
    }
}

/// Logs which replica is in use, and moves queries to the primary when all threads wait for a silent replica.
fn monitor(replicas: &Replicas) {
    let mut logged = None;
    let mut waiting = VecDeque::new();
    loop {
        let chosen = replicas.chosen();
        if logged != chosen {
            match chosen {
                Some(replica) => tracing::info!(replica, "lists are read from a replica"),
                None => tracing::info!("lists are read from the primary: no replica is up to date"),
            }
            logged = chosen;
        }
        if replicas.is_stalled() {
            replicas.queries.take_more(&mut waiting, usize::MAX);
            for query in waiting.drain(..) {
                replicas.queries.started(&query);
                if let Err((query, error)) = replicas.shared.queries.push(query) {
                    query.reply(Some(error));
                }
            }
        }
        if !replicas.wait_for_check() {
            return;
        }
    }
}
