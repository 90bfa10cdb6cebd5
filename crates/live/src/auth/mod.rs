//! Who calls: verified tokens.
//!
//! - [`Sarsen`]: the access tokens of a Sarsen server, whose sessions may end at any time;
//! - [`Issuer`]: the JWTs of any issuer of OpenID Connect, by the keys that it publishes;
//! - [`LocalIssuer`]: JWTs that this program signs itself, for programs whose users register with them, and for tests.
//!
//! `token.rs` has the rules for a token, `keys.rs` the keys, `http.rs` the way to them, `cache.rs` the tokens that have
//! been verified. A query reads of a token what its claims type names, and nothing else ([`crate::Claims`]).

mod cache;
mod http;
mod issuer;
mod keys;
mod local;
mod sarsen;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(test)]
mod tests;
mod token;

pub use issuer::Issuer;
pub use local::LocalIssuer;
pub(crate) use sarsen::{ADMINISTERS, REVOCATIONS};
pub use sarsen::{Sarsen, WhenStale};
pub use token::{Accept, TokenType};

use crate::Problem;
use std::sync::Arc;
use store::Time;

/// Returns the time. Tokens are checked by it.
pub type Clock = Arc<dyn Fn() -> Time + Send + Sync>;

/// A wrong argument of the program: an address that is not allowed, or a file that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Misconfigured(pub(crate) String);

/// 401: the token is not valid.
fn refused(refused: token::Refused) -> Problem {
    Problem::invalid_token(refused.0)
}

/// The clock of the machine.
fn system_clock() -> Clock {
    Arc::new(crate::serve::now)
}
