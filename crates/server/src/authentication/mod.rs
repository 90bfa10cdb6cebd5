//! Proves who a user is, by whichever method the form of a page uses.

use identity::authentication::Level;

/// The levels that a user can reach by the methods that there are (`acr_values_supported`).
pub(crate) const REACHABLE: [Level; 1] = [Level::One];
