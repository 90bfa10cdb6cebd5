//! Keys: what a command changed and what a query depends on.

use std::fmt;
use std::sync::Arc;

/// A table, or the rows of a table in which a column has some value.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Arc<str>);

impl Key {
    /// All rows of a table.
    pub fn table(table: &str) -> Key {
        Key(table.into())
    }

    /// The rows of `table` in which `column` is `value`: `Key::row("subscriptions", "user_id", user)`.
    pub fn row(table: &str, column: &str, value: &str) -> Key {
        let mut text = String::with_capacity(table.len() + column.len() + value.len() + 2);
        for part in [table, ".", column, "=", value] {
            text.push_str(part);
        }
        Key(text.into())
    }

    /// The key with this text, as returned by [`Key::as_str`].
    pub(crate) fn of_text(text: &str) -> Key {
        Key(text.into())
    }

    /// The key as text: `table` or `table.column=value`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The table's name.
    pub fn table_name(&self) -> &str {
        self.0.split('.').next().unwrap_or(&self.0)
    }

    /// All rows of all tables, for when it is unknown what changed.
    pub fn everything() -> Key {
        Key("*".into())
    }

    /// True for [`Key::everything`].
    pub fn is_everything(&self) -> bool {
        &*self.0 == "*"
    }

    /// True for the key of a whole table.
    pub fn is_table(&self) -> bool {
        !self.0.contains('.')
    }

    /// True if a change of `self` affects results that depend on `dependency`.
    pub fn concerns(&self, dependency: &Key) -> bool {
        self == dependency
            || self.is_everything()
            || ((self.is_table() || dependency.is_table()) && self.table_name() == dependency.table_name())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_contains_its_table_and_value() {
        let key = Key::row("sessions", "id", "session_1");
        assert_eq!(key.as_str(), "sessions.id=session_1");
        assert_eq!(key.table_name(), "sessions");
    }

    #[test]
    fn the_key_of_everything_affects_all_keys() {
        let row = Key::row("sessions", "id", "session_1");
        assert!(Key::everything().concerns(&row) && Key::everything().concerns(&Key::table("users")));
        assert!(!row.is_everything() && !Key::table("users").is_everything());
    }
}
