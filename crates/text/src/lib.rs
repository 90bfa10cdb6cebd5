//! Rules for text that people write: names and e-mail addresses. The domain, the terminal and back ends of products share
//! them, so that a name which one of them takes is good for all.
//!
//! - `hidden.rs`: characters that a reader does not see, and the few places where they belong.
//! - `name.rs`: a name on one line.
//! - `nearest.rs`: the known name that a wrong one is most like.
//! - `mail.rs`: e-mail addresses. `domain.rs`: internationalized domain names, as they are stored and as they are shown.
//!
//! The tables of Unicode come from the crates `icu_properties`, `idna` and `unicode-security`.

pub mod domain;
mod hidden;
pub mod mail;
mod name;
mod nearest;

pub use hidden::hidden;
pub use name::{NameProblem, name};
pub use nearest::nearest;
