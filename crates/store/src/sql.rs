//! Statements: written once with `?1` placeholders, rendered once for each database and kept.
//!
//! The dialect: BIGINT for numbers, flags and times; TEXT and BLOB; no reserved words, no `||`, no
//! `REPLACE`, no functions in defaults, no RETURNING. What differs between databases is behind the
//! helpers of this file ([`upsert`], [`insert_if_absent`], [`lock`], [`page_after`],
//! [`Where::by_index`]) and nowhere else.

use crate::Value;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::OnceLock;

/// A statement. Make it a `static` with [`sql`] or one of the helpers.
pub struct Sql {
    shape: Shape,
    rendered: [OnceLock<String>; 3],
}

/// The SQL that a database speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// SQLite.
    Sqlite = 0,
    /// PostgreSQL.
    Postgres = 1,
    /// MySQL and MariaDB. Their back end takes the numbers out of the placeholders itself.
    Mysql = 2,
}

/// How an [`insert_if_absent`] begins on MySQL. Nothing that it offers would affect zero rows for a duplicate
/// and hide no other error; so its back end knows the statement by this, and the error for what it is.
pub(crate) const IF_ABSENT: &str = "INSERT /* if absent */ INTO ";

enum Shape {
    Plain(Cow<'static, str>),
    Select { columns: &'static str, rest: &'static str },
    Insert { table: &'static str, columns: &'static [&'static [&'static str]] },
    Update { table: &'static str, key: &'static str, columns: &'static [&'static str] },
    Upsert { table: &'static str, keys: &'static [&'static str], values: &'static [&'static str] },
    InsertIfAbsent { table: &'static str, columns: &'static [&'static str] },
    Lock { table: &'static str, column: &'static str },
    PageAfter { select: String, keys: Vec<String>, most: usize },
}

const fn shaped(shape: Shape) -> Sql {
    Sql { shape, rendered: [const { OnceLock::new() }; 3] }
}

/// A statement that reads the same on every database.
pub const fn sql(text: &'static str) -> Sql {
    shaped(Shape::Plain(Cow::Borrowed(text)))
}

/// A SELECT whose beginning, with its columns and joins, several statements of a module share: so the order in which
/// its function for rows reads them stands once.
pub const fn select(columns: &'static str, rest: &'static str) -> Sql {
    shaped(Shape::Select { columns, rest })
}

/// Inserts a row. The columns come in lists, so that one which [`update`] sets too can be shared with it. Arguments: the
/// values, in the order of the columns.
pub const fn insert(table: &'static str, columns: &'static [&'static [&'static str]]) -> Sql {
    shaped(Shape::Insert { table, columns })
}

/// Sets `columns` of the row whose `key` is `?1`. Arguments: the key, then the values in the order of the columns.
pub const fn update(table: &'static str, key: &'static str, columns: &'static [&'static str]) -> Sql {
    shaped(Shape::Update { table, key, columns })
}

/// Inserts a row, or sets `values` of the row that has these `keys`. Arguments: keys, then values. The table
/// must have no other unique constraint: MySQL cannot say which one is meant.
pub const fn upsert(
    table: &'static str,
    keys: &'static [&'static str],
    values: &'static [&'static str],
) -> Sql {
    shaped(Shape::Upsert { table, keys, values })
}

/// Inserts a row unless a unique constraint forbids it; then zero rows are affected.
pub const fn insert_if_absent(table: &'static str, columns: &'static [&'static str]) -> Sql {
    shaped(Shape::InsertIfAbsent { table, columns })
}

/// Takes the row where `column = ?1`, so that what is read next cannot change before the commit.
/// Nothing on SQLite, where commands run one after another.
pub const fn lock(table: &'static str, column: &'static str) -> Sql {
    shaped(Shape::Lock { table, column })
}

/// The next rows of a table in the order of its primary key, after the one whose key is `?1, ?2, …`. A page at the end
/// costs what one at the beginning costs.
pub(crate) fn page_after(select: String, keys: &[&str], most: usize) -> Sql {
    shaped(Shape::PageAfter { select, keys: keys.iter().copied().map(str::to_owned).collect(), most })
}

impl Sql {
    /// A statement whose text is made at run time, by [`Where`].
    pub fn dynamic(text: String) -> Sql {
        shaped(Shape::Plain(Cow::Owned(text)))
    }

    /// The text in a dialect; empty when this database needs no statement here.
    pub fn text(&self, dialect: Dialect) -> &str {
        if let (Dialect::Sqlite | Dialect::Mysql, Shape::Plain(text)) = (dialect, &self.shape) {
            return text;
        }
        self.rendered[dialect as usize].get_or_init(|| self.render(dialect))
    }

    fn render(&self, dialect: Dialect) -> String {
        let text = match &self.shape {
            Shape::Plain(text) => text.to_string(),
            Shape::Select { columns, rest } => format!("{columns} {rest}"),
            Shape::Insert { table, columns } => insert_text(table, &columns.concat()),
            Shape::Update { table, key, columns } => {
                let set = |(place, column): (usize, &&str)| format!("{column} = ?{}", place + 2);
                let sets: Vec<String> = columns.iter().enumerate().map(set).collect();
                format!("UPDATE {table} SET {} WHERE {key} = ?1", sets.join(", "))
            }
            Shape::Upsert { table, keys, values } => {
                let columns: Vec<&str> = keys.iter().chain(values.iter()).copied().collect();
                let insert = insert_text(table, &columns);
                let sets = |set: fn(&str) -> String| {
                    values.iter().map(|name| set(name)).collect::<Vec<_>>().join(", ")
                };
                if dialect == Dialect::Mysql {
                    let sets = sets(|name| format!("{name} = VALUES({name})"));
                    format!("{insert} ON DUPLICATE KEY UPDATE {sets}")
                } else {
                    let sets = sets(|name| format!("{name} = excluded.{name}"));
                    format!("{insert} ON CONFLICT ({}) DO UPDATE SET {sets}", keys.join(", "))
                }
            }
            Shape::InsertIfAbsent { table, columns } if dialect == Dialect::Mysql => {
                insert_text(table, columns).replacen("INSERT INTO ", IF_ABSENT, 1)
            }
            Shape::InsertIfAbsent { table, columns } => {
                format!("{} ON CONFLICT DO NOTHING", insert_text(table, columns))
            }
            Shape::Lock { .. } if dialect == Dialect::Sqlite => String::new(),
            Shape::Lock { table, column } => format!("SELECT 1 FROM {table} WHERE {column} = ?1 FOR UPDATE"),
            Shape::PageAfter { select, keys, most } => {
                let list = keys.join(", ");
                let after = match dialect {
                    Dialect::Mysql => is_after(keys),
                    Dialect::Sqlite | Dialect::Postgres => format!("({list}) > ({})", places(0, keys.len())),
                };
                format!("{select} WHERE {after} ORDER BY {list} LIMIT {most}")
            }
        };
        match dialect {
            Dialect::Sqlite | Dialect::Mysql => text,
            Dialect::Postgres => dollar_placeholders(&text),
        }
    }
}

fn insert_text(table: &str, columns: &[&str]) -> String {
    format!("INSERT INTO {table} ({}) VALUES ({})", columns.join(", "), places(0, columns.len()))
}

/// `?1, ?2, …` after the first `skipped`.
pub(crate) fn places(skipped: usize, count: usize) -> String {
    let places: Vec<String> = (1..=count).map(|number| format!("?{}", skipped + number)).collect();
    places.join(", ")
}

/// `(a, b) > (?1, ?2)` for MySQL and MariaDB, which see no range of the key in that and would read from the table's
/// beginning: `a > ?1 OR (a = ?1 AND (b > ?2))`. In that, SQLite and PostgreSQL see no range of the whole key.
fn is_after(keys: &[String]) -> String {
    let Some((last, before)) = keys.split_last() else { return String::new() };
    let after = format!("{last} > ?{}", keys.len());
    before.iter().enumerate().rev().fold(after, |rest, (place, column)| {
        let number = place + 1;
        format!("{column} > ?{number} OR ({column} = ?{number} AND ({rest}))")
    })
}

/// `?1` → `$1`, outside string literals.
fn dollar_placeholders(text: &str) -> String {
    let mut quoted = false;
    text.chars()
        .map(|letter| {
            quoted ^= letter == '\'';
            if letter == '?' && !quoted { '$' } else { letter }
        })
        .collect()
}

/// A statement that [`statements!`](crate::statements) has made, wherever in the program that is.
pub struct Statement {
    /// The module that it stands in.
    pub module: &'static str,
    /// Its name there.
    pub name: &'static str,
    /// The statement.
    pub sql: &'static Sql,
}

/// Every statement of the program, for tests that look at all of them: that each database takes it, and that it finds
/// its rows by a key.
#[linkme::distributed_slice]
pub static STATEMENTS: [Statement];

/// Makes statics of type [`Sql`] and lists them in [`STATEMENTS`].
///
/// ```
/// store::statements! {
///     /// Documentation and visibility as for any static.
///     pub static RENAME = store::sql("UPDATE organizations SET name = ?2 WHERE id = ?1");
/// }
/// assert!(store::STATEMENTS.iter().any(|statement| statement.name == "RENAME"));
/// ```
#[macro_export]
macro_rules! statements {
    ($($(#[$meta:meta])* $visible:vis static $name:ident = $sql:expr;)*) => { $(
        $(#[$meta])*
        $visible static $name: $crate::Sql = $sql;
        const _: () = {
            #[$crate::linkme::distributed_slice($crate::STATEMENTS)]
            #[linkme(crate = $crate::linkme)]
            static LISTED: $crate::Statement =
                $crate::Statement { module: module_path!(), name: stringify!($name), sql: &$name };
        };
    )* };
}

/// Builds the WHERE of a list whose filters depend on the caller.
///
/// ```
/// let mut filter = store::Where::new("SELECT id FROM users");
/// filter.and("organization_id =", "org_1");
/// filter.and("email =", "ada@acme.test");
/// let (sql, args) = filter.finish("ORDER BY id LIMIT 50");
/// assert_eq!(sql.text(store::Dialect::Sqlite),
///     "SELECT id FROM users WHERE organization_id = ?1 AND email = ?2 ORDER BY id LIMIT 50");
/// assert_eq!(args.len(), 2);
/// ```
pub struct Where<'a> {
    text: String,
    args: Vec<Value<'a>>,
}

impl<'a> Where<'a> {
    /// Starts with everything before the WHERE.
    pub fn new(select: &str) -> Where<'a> {
        Where { text: select.to_owned(), args: Vec::new() }
    }

    /// For a page of a long list: MySQL and MariaDB are to go by this index of `table`, written as in the FROM. They
    /// may take another one for cheaper that has the rows in no order, or passes over all that comes before the page.
    /// The other databases see a comment.
    pub fn by_index(&mut self, table: &str, index: &str) {
        let from = format!("FROM {table}");
        self.text = self.text.replacen(&from, &format!("{from} /*! FORCE INDEX ({index}) */"), 1);
    }

    /// Adds `condition ?n` with its value.
    pub fn and(&mut self, condition: &str, value: impl Into<Value<'a>>) {
        self.args.push(value.into());
        let word = if self.args.len() == 1 { "WHERE" } else { "AND" };
        let _ = write!(self.text, " {word} {condition} ?{}", self.args.len());
    }

    /// Adds the condition only when there is a value.
    pub fn and_if(&mut self, condition: &str, value: Option<impl Into<Value<'a>>>) {
        if let Some(value) = value {
            self.and(condition, value);
        }
    }

    /// Ends with everything after the WHERE.
    pub fn finish(mut self, tail: &str) -> (Sql, Vec<Value<'a>>) {
        self.text.push(' ');
        self.text.push_str(tail);
        (Sql::dynamic(self.text), self.args)
    }
}
