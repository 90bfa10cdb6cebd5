//! The domain of Sarsen: who is who, what they may use, and how they prove it. Rules and their SQL; no HTTP.
//!
//! # Layout
//! One folder or file a noun; SQL for a table is written only in the module that owns the table.
//! - who runs things: `organizations`, `administrators`, `audit`, `links`
//! - what is offered: `services`, `clients`, `plans`, `customers`, `subscriptions`
//! - who is there: `users`, `passwords`, `sessions`
//! - how they prove it: `devices`, `codes`, `grants`, `keys`, `tokens`
//! - what all of them use: `ids`, `secrets`, `names`, `scopes`, `error`, `schema`, `walks`
//! - [`Lookups`]: the hot look-ups, cached; the only asynchronous part. `waiting`: polls that need no look-up.
//!
//! # The shape of things
//! A *command* is `fn(tx: &mut Tx, …, now: Time) -> Result<…>`, a *query* `fn(snapshot: &mut Snapshot, …)`.
//! They do nothing but through their first argument. Ids, random material and hashes are made before a
//! command, tokens are signed after its commit.
//!
//! What it does not know: requests, cookies, pages, the wall clock, the environment.

pub mod administrators;
pub mod audit;
pub mod authorization_codes;
pub mod authorization_requests;
pub mod catalog;
pub mod cleanup;
pub mod clients;
pub mod consents;
pub mod customers;
pub mod database_move;
pub mod devices;
pub mod entitlements;
mod error;
mod ff1;
pub mod grants;
pub mod ids;
pub mod keys;
pub mod leases;
pub mod links;
mod lookups;
pub mod names;
pub mod organizations;
pub mod passwords;
pub mod pending_device_codes;
pub mod plans;
pub mod revoked_tokens;
pub mod schema;
pub mod scopes;
pub mod secrets;
pub mod services;
pub mod sessions;
pub mod settings;
pub mod subscriptions;
pub mod tokens;
pub mod user_codes;
pub mod user_suspensions;
pub mod users;
pub mod walks;

pub use error::Error;
pub use lookups::{Access, Entitlement, Lookups};
pub use store::Time;

/// The result of every function of this crate.
pub type Result<T> = std::result::Result<T, Error>;
