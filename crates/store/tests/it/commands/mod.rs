//! Commands: durable, isolated from each other, as if one after another, refused when late.
//!
//! - `outcomes.rs`: what a caller gets, and what is there afterwards.
//! - `shared.rs`: commands that share a transaction. `refused.rs`: what one that fails costs the others.
//! - `late.rs`: commands that waited too long, or that nobody waits for.
//! - `conflicts.rs`: commands that decide about the same rows.

mod conflicts;
mod late;
mod outcomes;
mod refused;
mod shared;

use crate::support::{Database, TestStore};
use std::time::Duration;
use store::Options;

/// A store that refuses nobody for being slow: the machine may be busy with other tests.
fn patient(database: Database) -> TestStore {
    patient_with(database, |_| {})
}

fn patient_with(database: Database, change: impl FnOnce(&mut Options)) -> TestStore {
    database.open_with(|options| {
        options.writer.batch_time = Duration::from_secs(5);
        options.writer.deadline = Duration::from_secs(30);
        change(options);
    })
}
