//! One file a command.
//!
//! `demo`, `init`, `serve`, `doctor`, `move` and `bench` work on this machine; `floor`, `instance`, `disturb` and `fill`
//! are what the bench starts. `login`, `logout` and `whoami` sign this terminal in. The others are the API from a
//! terminal, thin: `api.rs` is what they share.

mod api;
pub mod audit;
pub mod bare_server;
pub mod bench;
pub mod client;
pub mod demo;
pub mod doctor;
pub mod fixtures;
pub mod init;
pub mod inject_fault;
pub mod instance;
pub mod login;
pub mod logout;
pub mod member;
pub mod move_database;
pub mod org;
pub mod plan;
pub mod serve;
pub mod service;
pub mod subscription;
pub mod user;
pub mod whoami;
