//! The platform's HTTP interface: every operation with its caller, query, body, answer and errors, as types. The server's
//! handlers, the description of the API and the command line use the same ones.
//!
//! - One file for each noun: its bodies and answers, then its table of operations ([`operations!`]).
//! - `operation.rs`: what an operation is. `callers.rs`: who may call one. `list.rs`: pages of lists.
//! - `words.rs`: fields with a form of their own. `fields.rs`: fields that may be left out.
//!
//! An operation is a type, so a handler with another caller or body than the operation's does not compile, and one that is
//! missing is named at the start of the server ([`TABLES`]). The crate knows no database and no rules of the domain. Limits and
//! words that a description repeats from the domain are compared with it by tests of the server.
//!
//! With the feature `flags`, a body is also a set of arguments of the command line.

pub mod callers;
pub mod fields;
pub mod list;
pub mod operation;
pub mod users;
pub mod words;

pub use list::{List, Pages};
pub use operation::{Answer, Entry, Method, Operation, Part, Query, Table};

/// The tables of all nouns.
pub const TABLES: [&Table; 1] = [&users::USERS];
