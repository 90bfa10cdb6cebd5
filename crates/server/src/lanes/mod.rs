//! Lanes: bounded pools for one class of slow work each, so that it cannot drown other work.

mod fair_queue;
mod hash;
mod lent_room;
mod part;

#[cfg(feature = "testing")]
pub(crate) use hash::Full;
pub(crate) use hash::{Asker, HashLane, LOWEST_PRIORITY};
