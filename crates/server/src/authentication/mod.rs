//! Proves who a user is, by whichever method the form of a page uses.

mod password;

use identity::authentication::Level;

pub(crate) use password::{Checked, Fixed, check_password};

/// The levels that a user can reach by the methods that there are (`acr_values_supported`).
pub(crate) const REACHABLE: [Level; 1] = [Level::One];
