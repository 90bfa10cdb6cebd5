//! The keys of an account: of its data, its suspension and its deletion. They stand below the modules that own these tables,
//! because each of the three declares or depends on all.

use crate::ids::UserId;
use store::Key;

/// The keys of an account's data and status.
pub fn all(user: &UserId) -> [Key; 3] {
    [Key::row("users", "id", user.as_str()), suspension(user), deletion(user)]
}

/// The key that changes when an account is suspended or activated.
pub(crate) fn suspension(user: &UserId) -> Key {
    Key::row("user_suspensions", "user_id", user.as_str())
}

/// The key that changes when an account is deleted.
pub(crate) fn deletion(user: &UserId) -> Key {
    Key::row("user_deletions", "user_id", user.as_str())
}
