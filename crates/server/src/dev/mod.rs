//! The demo, the declarations of `sarsen dev`, and fixtures for benchmarks. Nothing here runs in production.

#[cfg(feature = "bench-tools")]
pub mod bare_server;
pub mod declared;
pub mod demo;
#[cfg(feature = "bench-tools")]
pub mod fixtures;
#[cfg(feature = "bench-tools")]
pub mod signed_tokens;
