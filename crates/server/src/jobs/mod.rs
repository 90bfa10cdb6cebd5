//! Work that no request waits for: cleanup by the clock, the first start of a database, moving to another database.

pub mod database_move;
pub mod first_start;
pub(crate) mod janitor;
pub(crate) mod key_maker;
pub(crate) mod retry;
