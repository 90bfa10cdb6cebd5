//! What survives when something ends in the middle of the traffic: Sarsen itself (`crash.rs`), one of two instances after
//! the other (`rolling.rs`), the database's server (`outage.rs`).
//!
//! `traffic.rs`: those who use it meanwhile, and what they were told. The database is a throw-away one of the kind that
//! `SARSEN_TEST_DATABASE` names.

mod crash;
mod outage;
mod rolling;
pub mod traffic;
