//! Background work: periodic cleanup, the presence of an instance, the first start on a database, recovery of an owner,
//! the move to another database, backups.

pub mod backups;
pub mod database_move;
mod erasure;
pub mod first_start;
pub(crate) mod janitor;
pub(crate) mod key_maker;
pub mod owner_recovery;
pub(crate) mod presence;
pub(crate) mod retry;
mod slices;
