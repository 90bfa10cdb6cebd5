//! Structs whose fields are columns: one list gives the SELECT and the reading, the INSERT and its arguments.
//!
//! ```
//! #[derive(store::FromRow)]
//! #[row(of = "u")]
//! struct User {
//!     id: i64,
//!     #[row("o.name")]
//!     organization: String,
//!     suspended_at: Option<store::Time>,
//! }
//! store::statements! {
//!     static GET = store::select_row::<User>("FROM users u JOIN organizations o ON o.id = u.organization", "WHERE u.id = ?1");
//! }
//! assert_eq!(
//!     GET.text(store::Dialect::Sqlite),
//!     "SELECT u.id, o.name, u.suspended_at FROM users u JOIN organizations o ON o.id = u.organization WHERE u.id = ?1"
//! );
//! ```
//!
//! The derives are in the crate `store-derive`, whose head lists their attributes. The traits are implemented by hand for
//! a value that takes several columns.

use crate::{Error, FromValue, Row, Value};

/// What a list of columns consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// The name of a column, with or without the alias of its table, or an expression.
    One(&'static str),
    /// The columns of a part. Those without an alias get this one, if it is not empty.
    Of(&'static str, &'static [Column]),
}

/// A struct that is read from a row.
pub trait FromRow: Sized {
    /// The columns, in the order in which they are read.
    const COLUMNS: &'static [Column];

    /// Reads the next cells of a row.
    fn from_cells(cells: &mut Cells<'_, '_>) -> Result<Self, Error>;

    /// Reads a row that has these columns from the first one on.
    fn from_row(row: &Row<'_>) -> Result<Self, Error> {
        Self::from_cells(&mut Cells { row, next: 0 })
    }
}

/// A struct that is written to a row.
pub trait ToRow {
    /// The columns, in the order of the values.
    const COLUMNS: &'static [Column];

    /// Adds the values.
    fn push_values<'v>(&'v self, values: &mut Vec<Value<'v>>);

    /// The arguments of [`insert_row`](crate::insert_row).
    fn values(&self) -> Vec<Value<'_>> {
        let mut values = Vec::new();
        self.push_values(&mut values);
        values
    }

    /// The arguments of [`update_row`](crate::update_row).
    fn values_of<'v>(&'v self, key: impl Into<Value<'v>>) -> Vec<Value<'v>> {
        let mut values = vec![key.into()];
        self.push_values(&mut values);
        values
    }
}

impl<T: ToRow> ToRow for &T {
    const COLUMNS: &'static [Column] = T::COLUMNS;

    fn push_values<'v>(&'v self, values: &mut Vec<Value<'v>>) {
        T::push_values(self, values);
    }
}

/// The cells of a row, one after the other.
pub struct Cells<'a, 'r> {
    row: &'a Row<'r>,
    next: usize,
}

impl Cells<'_, '_> {
    /// Reads the next one. Use `Option<T>` for columns that may be NULL.
    #[expect(clippy::should_implement_trait, reason = "each cell has a type of its own")]
    pub fn next<T: FromValue>(&mut self) -> Result<T, Error> {
        let cell = self.row.get(self.next);
        self.next += 1;
        cell
    }
}

/// The names of columns, in their order.
pub(crate) fn names(columns: &'static [Column]) -> Vec<String> {
    let mut names = Vec::new();
    collect("", columns, &mut names);
    names
}

/// The names of a struct's columns without the aliases of their tables; of an expression, its text.
pub fn column_names<T: FromRow>() -> Vec<String> {
    let bare = |name: String| match name.rsplit_once('.') {
        Some((_, bare)) if !name.contains('(') => bare.to_owned(),
        _ => name,
    };
    names(T::COLUMNS).into_iter().map(bare).collect()
}

fn collect(alias: &str, columns: &'static [Column], names: &mut Vec<String>) {
    for column in columns {
        match *column {
            Column::Of(own, part) => collect(if own.is_empty() { alias } else { own }, part, names),
            Column::One(name) if alias.is_empty() || name.contains(['.', '(']) => names.push(name.to_owned()),
            Column::One(name) => names.push(format!("{alias}.{name}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_takes_the_alias_of_its_table_and_keeps_one_of_its_own() {
        const PART: &[Column] = &[Column::One("at"), Column::One("x.words"), Column::One("COALESCE(a, b)")];
        const ALL: &[Column] = &[Column::One("s.id"), Column::Of("s", PART), Column::Of("", PART)];
        let expected = ["s.id", "s.at", "x.words", "COALESCE(a, b)", "at", "x.words", "COALESCE(a, b)"];
        assert_eq!(names(ALL), expected);
    }
}
