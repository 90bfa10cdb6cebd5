//! The HTTP face of Sarsen.
//!
//! # Layout
//! - `router.rs`: every route, in one table. The URL finds the file:
//! - `api/`: the JSON API; `oauth/`: OAuth 2.0 and OpenID Connect; `pages/`: what people see; `webhooks/`: events of
//!   payment providers.
//! - `openapi/`: the description of the JSON API, as a document and as a page.
//! - `authentication/`: proves who a user is, whatever the method; pages ask here.
//! - `app.rs`: the state that handlers share. `clock.rs`: the clock and the random source.
//! - `web/`: between the crate `web` (sockets, limits) and a handler: middleware, authentication, JSON, errors.
//! - `events/`: the streams of live authorization state.
//! - `mail/`: from a form that asks for a mail to the relay that takes it.
//! - `limits/`: rate limits and quotas; `lanes/`: bounded pools for slow work.
//! - `jobs/`: the janitor, the first start, moving to another database.
//! - `operation/`: health and metrics. `dev/`: the demo, declarations of `sarsen dev`, and what the benchmark
//!   compares with.
//!
//! This crate reads no environment and no files.

mod api;
mod app;
mod authentication;
mod clock;
mod dev;
mod events;
mod jobs;
mod lanes;
mod limits;
mod mail;
mod oauth;
mod openapi;
mod operation;
mod pages;
mod router;
#[cfg(feature = "testing")]
pub mod testing;
mod web;
mod webhooks;

pub use self::web::fields::FieldError;
pub use self::web::json::rfc3339;
pub use self::web::serving::{serve, serve_on};
pub use ::outgoing;
pub use ::web::host::{is_loopback, is_name};
pub use ::web::memory_limit;
pub use ::web::{
    AddressHeader, Bound, Cidr, Limits, Pace, RequestLogFormat, Running, Signals, Tls, TlsError,
};
pub use app::{App, Settings};
pub use clock::{Clock, SystemClock, SystemRandom};
#[cfg(feature = "bench-tools")]
pub use dev::{bare_server, fixtures, signed_tokens};
pub use dev::{declared, demo};
pub use identity::Error;
pub use identity::secrets::{SecretKey, secret as random_secret};
pub use jobs::{backups, database_move, first_start, owner_recovery};
pub use operation::look;
pub use router::router;
#[cfg(feature = "bench-tools")]
pub use store::fault_injection;
pub use store::{
    CACHE_MEMORY, Error as StoreError, Options as StoreOptions, Store, Time, WriterLimits, rehearse_open,
};
pub use texts::{File as TextFile, Language, Languages, tag_of};

/// How the database at `url` (`sqlite:PATH`, `postgres://…`) is opened so that it has Sarsen's schema.
pub fn store_options(url: impl Into<String>) -> StoreOptions {
    let mut options = StoreOptions::new(url, identity::schema::MIGRATIONS);
    options.watched = identity::schema::WATCHED;
    options
}
