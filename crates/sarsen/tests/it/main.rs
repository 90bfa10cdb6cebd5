//! The real program, run as people run it.
//!
//! `support.rs`: starting and ending it. `browser.rs`: a person at a browser without scripts; `balancer.rs`: the way to
//! several instances. `survival/` and `logs.rs` run on the database that `SARSEN_TEST_DATABASE` names, the rest on
//! SQLite.

mod administration;
mod balancer;
mod bench_tools;
mod browser;
mod configuration;
mod demo;
mod doctor;
mod durability;
mod help;
mod logs;
mod serving;
mod signing_in;
mod support;
mod survival;

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_sarsen");
