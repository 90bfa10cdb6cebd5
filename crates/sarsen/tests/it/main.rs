//! The program, run as users run it.
//!
//! `support.rs` starts and stops it. `browser.rs`: a browser without scripts. `balancer.rs`: a load balancer.
//! `cursors.rs` and `proxied.rs` run on PostgreSQL where there is one, `survival/` and `logs.rs` on the database that
//! `SARSEN_TEST_DATABASE` names, `galera.rs` on a cluster of its own, the rest on SQLite.

mod administration;
mod backups;
mod balancer;
mod bench_tools;
mod browser;
mod configuration;
mod cursors;
mod demo;
mod dev;
mod doctor;
mod doctor_on_servers;
mod durability;
mod full_disk;
mod galera;
mod help;
mod leftovers;
mod library;
mod logs;
mod lost_answers;
mod many_organizations;
mod moving;
mod new;
mod owner_recovery;
mod printing;
mod proxied;
mod serving;
mod signing_in;
mod support;
mod survival;
mod tls;
mod version;

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_sarsen");
