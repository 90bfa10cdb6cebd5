//! The databases of Sarsen: ordered writes, concurrent reads, and a feed of changes.
//!
//! All writes are *commands* and all reads are *queries*: plain synchronous functions over a [`Tx`] or a
//! [`Snapshot`]. Their SQL is written once, in the subset that SQLite, PostgreSQL and MySQL share.
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
//! From the caller down:
//! - [`Store`], the handle: `open.rs` opens it, `store.rs` has `write`, `reads.rs` has `point`, `read`, `list` and `fill`,
//!   `query.rs` reads with a version. `options.rs`: settings. `error.rs`: errors.
//! - `sql.rs`, `value.rs`, `tx.rs`: statements, values and rows, and what a command or query can do. `row.rs`: structs
//!   whose fields are columns.
//! - `log.rs`, `log_place.rs`, `log_cursor.rs`: durable logs, the places of their readers, and cursors that others hold.
//! - `migrate.rs`, `migration_text.rs`: migrations, one text for all databases. `migration_words.rs`: those that have run do
//!   not change.
//! - `backup.rs`, `mark.rs`: backups of SQLite files, and the key that shows who made them.
//! - `key.rs`, `changes.rs`, `key_index.rs`: keys of changed rows, the feed of changes, and the index of what depends on
//!   them. `history.rs`: which keys were published lately. `cause.rs`: by which command. `cache.rs`, `watch.rs`: the caches that the feed invalidates
//!   and the watches that it calls. `recheck.rs` tests declarations. `sync.rs`, `schedules.rs`: their locks, and tests in
//!   many orders of threads.
//! - `version.rs`: positions and versions. `not_before.rs`: requests that must not show an older state. `uptime.rs`: a
//!   clock that counts suspension. `backoff.rs`: pauses between attempts, of all programs here.
//! - `engine.rs`: what the handle and the back ends share. `queue.rs`, `timings.rs`, `job.rs`, `replies.rs`,
//!   `runtime.rs`: how a command or query gets to a database thread and its result back.
//! - `stats.rs`, `exposition.rs`: what is counted, and a page of it for Prometheus.
//! - `sqlite/`, `postgres/`, `mysql/`: the back ends. `remote/`: what the last two have in common. None of their types is
//!   public.
//! - [`backup`]: copies, checks and restores SQLite files. [`transfer`]: copies whole tables between databases
//!   (`table.rs`). `fault_injection.rs` (feature `fault-injection`): faults for load tests. `planted.rs`: bugs on purpose,
//!   for the checker of histories. `testing/` (feature
//!   `testing`): throw-away databases.
//!
//! # Promises
//! - `write` returns `Ok` only after the commit has been flushed to disk.
//! - A command that fails or panics does not affect other commands. One that cannot start in time is refused.
//! - A read that starts after a `write` has returned sees what it wrote.
//!
//! The store has no notion of users, HTTP, the wall clock, randomness or configuration files.

#![cfg_attr(
    not(all(feature = "postgres", feature = "mysql")),
    allow(dead_code, reason = "parts of the core serve only the back ends that this build leaves out")
)]

mod backoff;
pub mod backup;
mod cache;
mod cache_entries;
mod cache_memory;
mod cause;
mod changes;
mod dense;
mod engine;
mod error;
mod exposition;
#[cfg(feature = "fault-injection")]
pub mod fault_injection;
mod history;
mod job;
mod key;
mod key_index;
pub mod leftovers;
mod log;
mod log_cursor;
mod log_place;
mod mark;
mod migrate;
mod migration_text;
mod migration_words;
#[cfg(feature = "mysql")]
mod mysql;
mod not_before;
mod open;
mod options;
#[cfg(not(feature = "fault-injection"))]
mod planted;
#[cfg(feature = "fault-injection")]
pub mod planted;
#[cfg(feature = "postgres")]
mod postgres;
mod query;
mod queue;
mod reads;
mod recheck;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod remote;
mod replies;
mod row;
mod runtime;
#[cfg(all(test, shuttle))]
mod schedules;
mod sql;
mod sqlite;
mod stats;
mod store;
mod sync;
mod table;
#[cfg(feature = "testing")]
pub mod testing;
mod threads;
mod time;
mod timings;
pub mod transfer;
mod tx;
mod uptime;
mod value;
mod version;
mod watch;
mod weigh;

pub use backoff::Backoff;
pub use cache::{Cache, Filled};
pub use cache_memory::CacheStats;
pub use cause::publishing_command;
pub use changes::Change;
pub use error::Error;
pub use key::Key;
#[doc(hidden)]
pub use linkme;
pub use log::{Log, LogEntry, LogPage, PAYLOAD_MAX as LOG_PAYLOAD_MAX, log};
pub use log_cursor::{LogCursor, LogSlice};
pub use migrate::{Migration, schema_version};
pub use not_before::not_before;
pub use open::{look, rehearse_open};
pub use options::{CACHE_MEMORY, Following, Options, WriterLimits};
pub use query::{Answer, Read};
pub use row::{Cells, Column, FromRow, ToRow, column_names};
pub use sql::{
    Dialect, STATEMENTS, Sql, Statement, Where, insert, insert_if_absent, insert_row, lock, select,
    select_row, sql, update, update_if, update_row, upsert, upsert_row,
};
pub use stats::{Stats, StatsSnapshot};
pub use store::Store;
pub use store_derive::{FromRow, ToRow};
pub use time::Time;
pub use tx::{Snapshot, Tx};
pub use uptime::{BootTime, Uptime};
pub use value::{FromValue, Row, ToValue, Value, ValueRef};
pub use version::{Epoch, InvalidVersion, Position, Version};
pub use watch::Watch;
pub use weigh::{Weigh, allocated};
