//! The domain of Sarsen: organizations, users, clients, plans, sessions and tokens. It holds the rules and their SQL,
//! but no HTTP.
//!
//! # Layout
//! Each noun has one file or folder. Only the module that owns a table writes to it.
//! - administration: `organizations`, `organization_decisions`, `organization_deletions`, `branding`, `administrators`, `departures`, `invitations`,
//!   `api_keys`, `program_scopes`, `programs`, `audit`, `audit_trail`, `links`
//! - catalog and sales: `services`, `clients`, `plans`, `catalog`, `customers`, `subscriptions`, `entitlements`
//! - payment providers: `billing`
//! - events for products: `events`
//! - users: `users`, `account_keys`, `user_terms`, `user_search`, `user_suspensions`, `user_deletions`, `passwords`, `password_changes`,
//!   `authentication`, `sessions`, `mail`
//! - OAuth: `authorization_requests`, `authorization_codes`, `consents`, `devices`, `user_codes`, `grants`, `tokens`,
//!   `revoked_tokens`, `keys`
//! - shared by the others: `ids`, `secrets`, `names`, `scopes`, `error`, `schema`, `scan`
//! - operation: `cleanup`, `idempotent_writes`, `leases`, `settings`, `sealed_column`, `sealed`, `database_move`
//! - caches, the only asynchronous part: [`Lookups`] for frequent reads, `pending_device_codes` for polls; `access` and
//!   `verified_tokens` for access tokens, `weights`
//!
//! # Commands and queries
//! A *command* is `fn(tx: &mut Tx, …, now: Time) -> Result<…>`, a *query* `fn(snapshot: &mut Snapshot, …)`.
//! Both act only through their first argument. The caller generates ids, random values and hashes before a command, and
//! signs tokens after its commit.
//!
//! The crate does not depend on requests, cookies, pages, the wall clock or the environment.

mod access;
mod account_keys;
pub mod administrators;
pub mod api_keys;
pub mod audit;
pub mod audit_trail;
pub mod authentication;
pub mod authorization_codes;
pub mod authorization_requests;
pub mod billing;
pub mod branding;
pub mod catalog;
pub mod cleanup;
pub mod clients;
pub mod consents;
pub mod customers;
pub mod database_move;
pub mod departures;
pub mod devices;
pub mod entitlements;
mod error;
pub mod events;
mod ff1;
pub mod grants;
pub mod idempotent_writes;
pub mod ids;
pub mod invitations;
pub mod keys;
pub mod leases;
pub mod links;
mod lookups;
pub mod mail;
pub mod names;
pub mod organization_decisions;
pub mod organization_deletions;
pub mod organizations;
pub mod password_changes;
pub mod passwords;
pub mod pending_device_codes;
pub mod plans;
mod program_scopes;
pub mod programs;
pub mod revoked_tokens;
pub mod scan;
pub mod schema;
pub mod scopes;
pub mod sealed;
mod sealed_column;
pub mod secrets;
pub mod services;
pub mod sessions;
pub mod settings;
pub mod shared;
pub mod subscriptions;
pub mod tokens;
pub mod user_codes;
pub mod user_deletions;
pub mod user_search;
pub mod user_suspensions;
mod user_terms;
pub mod users;
mod verified_tokens;
mod weights;

pub use access::{Access, Terms};
pub use error::{Error, Reason};
pub use lookups::{Entitlement, Lookups};
pub use store::Time;

/// The result of every function of this crate.
pub type Result<T> = std::result::Result<T, Error>;
