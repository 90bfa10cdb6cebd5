//! The HTTP face of Sarsen.
//!
//! # Layout
//! - `router.rs`: every route, in one table. The URL finds the file:
//! - `api/`: the JSON API; `oauth/`: OAuth 2.0 and OpenID Connect; `pages/`: what people see.
//! - `app.rs`: what a handler may touch. `caller.rs`: who asks. `error.rs`: how it is said that something is wrong.
//! - `listener.rs`: our own accept loop, with limits and a graceful end; `idle.rs`: the timer of a connection;
//!   `edge.rs`: what concerns every answer.
//! - `lanes/`: bounded pools for slow work; `holds.rs`: polls that wait; `janitor.rs`: what is done by the clock.
//! - `demo/`: the demo tenant and its two sample products. `floor.rs`: the bare server that the bench compares with.
//!
//! This is the only crate that names axum. It reads no environment and no files.

pub mod api;
mod app;
mod caller;
mod clock;
pub mod demo;
mod edge;
mod error;
pub mod filling;
pub mod floor;
mod health;
mod holds;
mod idle;
mod janitor;
mod lanes;
mod listener;
mod metrics;
pub mod moving;
mod oauth;
mod pages;
mod patience;
mod pending;
mod router;
mod seen;
pub mod setup;
#[cfg(feature = "testing")]
pub mod testing;
mod throttle;
mod wire;

pub use app::{App, Settings};
pub use clock::{Clock, SystemClock, SystemRandom};
pub use identity::secrets::SecretKey;
pub use listener::{Limits, Running, serve};
pub use router::router;
pub use store::disturb;
pub use store::{Error as StoreError, Options as StoreOptions, Store, Time, WriterLimits};

/// How the database at `url` (`sqlite:PATH`, `postgres://…`) is opened so that it has Sarsen's schema.
pub fn store_options(url: impl Into<String>) -> StoreOptions {
    let mut options = StoreOptions::new(url, identity::schema::MIGRATIONS);
    options.watched = identity::schema::WATCHED;
    options
}
