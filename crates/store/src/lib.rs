//! Databases for Sarsen: one ordered way to write, many ways to read, a feed of what changed.
//!
//! All writing is a *command*, all reading a *query*: plain synchronous functions over a [`Tx`] or a
//! [`Snapshot`], written once in SQL that every database accepts.
//!
//! ```no_run
//! # async fn example(store: store::Store) -> Result<(), store::Error> {
//! use store::{Sql, args, sql};
//! static RENAME: Sql = sql("UPDATE organizations SET name = ?2 WHERE id = ?1");
//! store.write("organization.rename", |tx| tx.exec(&RENAME, args!["org_1", "Acme"])).await?; // on disk now
//! # Ok(()) }
//! ```
//!
//! # Layout
//! - [`Store`] (`store.rs`): the handle that everybody holds: `write`; `reading.rs`: `point`, `read`, `list`, `fill`.
//! - `sql.rs`, `value.rs`, `tx.rs`: statements, values and rows, what a command or query may do.
//! - `queue.rs`, `job.rs`: commands wait here, bounded in *time*; a full queue refuses at once.
//! - `changes.rs`, `cache.rs`: keys of what changed, the ordered feed of them, caches that obey it.
//! - `floor.rs`: the state that a caller has seen, and must not be answered from before.
//! - `migrate.rs`, `migration_text.rs`: numbered, forward-only migrations, one text for all databases.
//! - [`transfer`]: whole tables from one database to another. [`disturb`]: what a load test does to a server.
//! - `sqlite/`, `postgres/`, `mysql/`: the back ends; `remote/`: what the last two have in common. Nothing of them
//!   shows in this crate's public face.
//!
//! # What it promises
//! - `write` returns `Ok` only after the commit was flushed to disk.
//! - A command that fails or panics hurts nobody else; one that cannot start in time is refused.
//! - A read that starts after a `write` returned sees it.
//!
//! What it does not know: users, HTTP, the wall clock, randomness, configuration files.

#![cfg_attr(
    not(all(feature = "postgres", feature = "mysql")),
    allow(dead_code, reason = "parts of the core serve only back ends that this build leaves out")
)]

mod cache;
mod changes;
mod engine;
mod error;
#[cfg(feature = "fault-injection")]
pub mod fault_injection;
mod job;
mod migrate;
mod migration_text;
#[cfg(feature = "mysql")]
mod mysql;
mod not_before;
mod open;
mod options;
#[cfg(feature = "postgres")]
mod postgres;
mod queue;
mod reads;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod remote;
mod replies;
mod sql;
mod sqlite;
mod stats;
mod store;
mod table;
#[cfg(feature = "testing")]
pub mod testing;
mod threads;
mod time;
pub mod transfer;
mod tx;
mod value;

pub use cache::{Cache, FeedPosition, Filled};
pub use changes::{Change, Key, Version};
pub use error::Error;
#[doc(hidden)]
pub use linkme;
pub use migrate::Migration;
pub use not_before::not_before;
pub use options::{Following, Options, WriterLimits};
pub use sql::{
    Dialect, STATEMENTS, Sql, Statement, Where, insert, insert_if_absent, lock, select, sql, update, upsert,
};
pub use stats::{Stats, StatsSnapshot};
pub use store::Store;
pub use time::Time;
pub use tx::{Snapshot, Tx};
pub use value::{FromValue, Row, Value, ValueRef};
