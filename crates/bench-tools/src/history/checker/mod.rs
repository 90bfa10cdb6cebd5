//! Judges the history of a run. It knows the protocol and nothing of the server's code.
//!
//! - `record.rs`: what is recorded. `held.rs`: what a client of a live query holds.
//! - `truth.rs`: the order of the commits, and which states can be seen when.
//! - `check.rs`: the rules, each with the words of its complaint. `tests/`: histories with planted bugs, and clean ones.

pub mod check;
pub mod held;
pub mod record;
#[cfg(test)]
mod tests;
mod truth;
