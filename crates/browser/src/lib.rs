//! A browser without scripts, as far as the pages of an identity server need one: it keeps cookies, finds forms, fills
//! them in and resolves addresses. The load generator's set-up and the tests of the workspace use it, each with a
//! connection of its own: this crate does no I/O, and depends on no parser of HTML. [`sse`] reads streams of events for all
//! clients that are written in Rust.

mod cookies;
mod forms;
mod request;
pub mod sse;

pub use cookies::Cookies;
pub use forms::{Field, Form, KnownValues, Submission, decode, forms};
pub use request::{Request, local_path, redirect};
