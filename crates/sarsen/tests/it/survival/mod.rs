//! Acknowledged changes survive a crash of Sarsen (`crash.rs`), a rolling restart of two instances (`rolling.rs`) and
//! outages of the database server (`outage.rs`), all under traffic. A write with a key is done once across a crash
//! (`idempotency.rs`).
//!
//! `traffic.rs`: the clients, and what the server has acknowledged. The database is a throw-away one of the kind that
//! `SARSEN_TEST_DATABASE` names.

mod crash;
mod idempotency;
mod outage;
mod rolling;
pub mod traffic;
