//! The load generator tested against small servers inside the test: what it counts, what it refuses to overlook.
#![expect(clippy::unwrap_used, reason = "in a test, what is unexpected shall end it")]

mod accounts_of_the_system;
mod commands;
mod counting;
mod fake_sarsen;
mod finding_forms;
mod loops;
mod moving;
mod reading_answers;
mod revocation;
mod scanning_json;
mod tiny_server;
