//! What a server needs for trying it out and for measuring it; nothing here runs in production.

#[cfg(feature = "bench-tools")]
pub mod bare_server;
pub mod demo;
#[cfg(feature = "bench-tools")]
pub mod fixtures;
