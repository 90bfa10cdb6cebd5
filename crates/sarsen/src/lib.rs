//! Sarsen as a library: identity and single sign-on for a suite of products.
//!
//! The program `sarsen` is a few lines over this crate. Another program uses it in one of three ways:
//!
//! - **Embed the server.** [`server`] has everything that a process needs to serve: open a `Store`, make an `App`, call
//!   `serve`. It reads no environment and no files.
//! - **Extend the command line.** [`program`] has the commands of `sarsen`; a program with further commands flattens
//!   [`program::Command`] into its own and calls [`program::run`]. [`server_process`], [`logs`], [`output`] and
//!   [`progress`] are what those commands are made of.
//!
//! - **Write a back end of your own.** [`live`] has typed RPC and live queries over [`store`], with callers from this
//!   server or another issuer (`live::auth`). With `default-features = false, features = ["live"]` nothing of the
//!   identity server is compiled; add `postgres` or `mysql` for these databases.
//!
//! Features: `identity` (the first two ways), `live` (the third), `postgres`, `mysql`. All are on by default.
//!
//! ```no_run
//! use sarsen::server::{App, Limits, SecretKey, Settings, Store, SystemClock, SystemRandom};
//! use std::sync::Arc;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let store = Store::open(sarsen::server::store_options("sqlite:sarsen.db"))?;
//! let key = SecretKey::parse(&std::fs::read_to_string("sarsen.key")?)?;
//! let settings = Settings::new("http://localhost:7070");
//! let app = App::new(store, settings, key, Arc::new(SystemClock), Arc::new(SystemRandom), None)?;
//! sarsen::server::first_start::prepare(&app).await?;
//! let running = sarsen::server::serve(app, &["127.0.0.1:7070".parse()?], Limits::default()).await?;
//! // … and at the end:
//! running.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! Layout:
//! - `program.rs`: the table of commands. `commands/`: one file a command. `config/`: every setting;
//! - `server_process.rs`: what `serve`, `demo` and `dev` share. `api_client/`: HTTP from a terminal to a server;
//! - `context.rs`, `secret_key.rs`: what commands need beside their arguments, and the key. `control/`: the socket by which commands reach a server that runs on the same machine;
//! - `tls/`: the certificate, from files or from an ACME server;
//! - `output.rs`, `progress.rs`, `terminal.rs`: what users see. `files.rs`: files that only their owner may read;
//!   `scratch.rs`: folders that end with a command. `yaml.rs`: YAML with places.
//!
//! This is the only crate that reads arguments, the environment and files. It holds no rule of the domain.

#[cfg(feature = "identity")]
mod allocator;
#[cfg(feature = "identity")]
mod api_client;
#[cfg(feature = "identity")]
mod commands;
#[cfg(feature = "identity")]
mod config;
#[cfg(feature = "identity")]
mod context;
#[cfg(feature = "identity")]
mod control;
#[cfg(feature = "identity")]
mod environment;
#[cfg(feature = "identity")]
mod error;
#[cfg(feature = "identity")]
mod files;
#[cfg(feature = "identity")]
pub mod logs;
#[cfg(feature = "identity")]
mod mail_relay;
#[cfg(feature = "identity")]
pub mod output;
#[cfg(feature = "identity")]
pub mod program;
#[cfg(feature = "identity")]
pub mod progress;
#[cfg(feature = "identity")]
mod scratch;
#[cfg(feature = "identity")]
mod secret_key;
#[cfg(feature = "identity")]
pub mod server_process;
#[cfg(feature = "identity")]
mod terminal;
#[cfg(feature = "identity")]
mod tls;
#[cfg(feature = "identity")]
mod yaml;

#[cfg(feature = "identity")]
pub use commands::demo::parse_database;
#[cfg(feature = "identity")]
pub use config::{Database, LogFormat};
#[cfg(feature = "identity")]
pub use environment::Environment;
#[cfg(feature = "identity")]
pub use error::{Error, Result};
#[cfg(feature = "identity")]
pub use server;

#[cfg(feature = "live")]
pub use live;
#[cfg(feature = "live")]
pub use store;
