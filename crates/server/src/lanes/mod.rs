//! Lanes: bounded pools for one class of slow work each, so that it cannot drown other work.

mod hash;

pub(crate) use hash::{Asker, HashLane};
