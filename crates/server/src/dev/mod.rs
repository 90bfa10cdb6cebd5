//! The demo, the declarations of `sarsen dev`, the mails of both, and fixtures for benchmarks. Nothing here runs in production.

#[cfg(feature = "bench-tools")]
pub mod bare_server;
pub mod declared;
pub mod demo;
#[cfg(feature = "bench-tools")]
pub mod fixtures;
pub(crate) mod mail;
#[cfg(feature = "bench-tools")]
pub mod signed_tokens;
