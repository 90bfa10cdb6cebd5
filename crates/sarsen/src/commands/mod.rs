//! One file a command.
//!
//! `demo`, `dev`, `new`, `init`, `serve`, `doctor`, `health`, `move`, `backup`, `check`, `restore`, `rekey`, `owner`, `bench`
//! and `version`
//! work on this machine. `login`, `logout` and `whoami` are about the sign-in of this terminal. The others call the API of a
//! server; `api.rs` is what they share.

mod api;
pub mod audit;
pub mod backup;
pub mod bench;
pub mod billing;
pub mod branding;
pub mod check;
pub mod client;
#[cfg(test)]
mod contract;
pub mod demo;
mod departure;
pub mod dev;
pub mod doctor;
mod findings;
pub mod health;
pub mod init;
pub mod key;
pub mod login;
pub mod logout;
pub mod mail;
pub mod member;
pub mod move_database;
pub mod new;
pub mod org;
pub mod owner;
pub mod plan;
pub mod rekey;
pub mod restore;
pub mod serve;
pub mod server_owners;
pub mod service;
pub mod subscription;
pub mod user;
pub mod version;
pub mod whoami;
