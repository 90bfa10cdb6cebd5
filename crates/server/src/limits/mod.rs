//! Rate limits and quotas, kept in memory by each instance.
//!
//! - `user_code_attempts.rs`: wrong user codes (RFC 8628 section 5.1).
//! - `quotas.rs`: pending device codes of each client.
//! - `fixed_table.rs`: counters that strangers fill, in a table of fixed size; the next two count in such tables.
//! - `password_guesses.rs`: wrong passwords. `failed_sign_ins.rs`: their rows in the audit trail.
//! - `sign_ups.rs`: accounts that the sign-up form makes for a network.
//! - `rate_limited_writes.rs`: rows about a user or a client that are written at most once in a while.
//! - `redirect_problems.rs`: redirect addresses that clients sent and that are not registered.
//! - `turns.rs`: searches of lists and reads of missed events, one at a time of each organization.
//!
//! They count by the wall clock, which may be set back. A time before the one that they have counted from begins a new
//! count, so that nobody waits until the clock is there again.
//!
//! Queues for slow work with a deadline are in `lanes/`.

pub(crate) mod failed_sign_ins;
mod fixed_table;
pub(crate) mod password_guesses;
pub(crate) mod quotas;
pub(crate) mod rate_limited_writes;
pub(crate) mod redirect_problems;
pub(crate) mod sign_ups;
pub(crate) mod turns;
pub(crate) mod user_code_attempts;
