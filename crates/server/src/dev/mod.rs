//! What a server needs for trying it out and for measuring it; nothing here runs in production.

pub mod bare_server;
pub mod demo;
pub mod fixtures;
