//! Statements, written once with `?1` placeholders, rendered once for each database and cached.
//!
//! The common subset: BIGINT for numbers, flags and times; TEXT and BLOB; no reserved words, no `||`, no `REPLACE`, no
//! functions in defaults, no RETURNING. Differences between the databases are in the helpers of this file
//! ([`upsert`], [`insert_if_absent`], [`lock`], [`page_after`], [`Where::by_index`]) and nowhere else.

use crate::Value;
use crate::row::{self, Column, FromRow, ToRow};
use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::OnceLock;

/// A statement. Make it a `static` with [`sql`] or another helper.
#[derive(Clone)]
pub struct Sql {
    shape: Shape,
    rendered: [OnceLock<String>; 3],
}

/// A dialect of SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// SQLite.
    Sqlite = 0,
    /// PostgreSQL.
    Postgres = 1,
    /// MySQL and MariaDB. Their back end removes the numbers of placeholders itself.
    Mysql = 2,
}

/// The beginning of an [`insert_if_absent`] on MySQL. MySQL has no INSERT that affects zero rows for a duplicate and
/// hides no other error. Its back end recognises the statement by this text and treats a duplicate as zero rows.
pub(crate) const IF_ABSENT: &str = "INSERT /* if absent */ INTO ";

#[derive(Clone)]
enum Shape {
    Plain(Cow<'static, str>),
    Select { columns: &'static str, rest: &'static str },
    SelectRow { columns: &'static [Column], from: &'static str, rest: &'static str },
    Insert { table: &'static str, columns: Columns },
    Update { table: &'static str, key: &'static str, columns: Columns, condition: Option<&'static str> },
    Upsert { table: &'static str, keys: &'static [&'static str], values: Columns },
    InsertIfAbsent { table: &'static str, columns: &'static [&'static str] },
    Lock { table: &'static str, column: &'static str },
    PageAfter { select: String, keys: Vec<String>, most: usize },
}

/// The columns that a statement writes.
#[derive(Clone)]
enum Columns {
    One(&'static [&'static str]),
    Several(&'static [&'static [&'static str]]),
    Row(&'static [Column]),
}

impl Columns {
    fn names(&self) -> Vec<Cow<'static, str>> {
        match *self {
            Columns::One(list) => list.iter().copied().map(Cow::Borrowed).collect(),
            Columns::Several(lists) => lists.iter().copied().flatten().copied().map(Cow::Borrowed).collect(),
            Columns::Row(columns) => row::names(columns).into_iter().map(Cow::Owned).collect(),
        }
    }
}

const fn shaped(shape: Shape) -> Sql {
    Sql { shape, rendered: [const { OnceLock::new() }; 3] }
}

/// A statement with the same text on every database.
pub const fn sql(text: &'static str) -> Sql {
    shaped(Shape::Plain(Cow::Borrowed(text)))
}

/// A SELECT that shares its columns and joins with other statements of the module, so that their order, which the
/// function for rows relies on, is written once.
pub const fn select(columns: &'static str, rest: &'static str) -> Sql {
    shaped(Shape::Select { columns, rest })
}

/// Selects a struct. `from` has the table and its joins, `rest` the conditions and the order.
pub const fn select_row<T: FromRow>(from: &'static str, rest: &'static str) -> Sql {
    shaped(Shape::SelectRow { columns: T::COLUMNS, from, rest })
}

/// Inserts a row. Columns come in lists, so that one of them can be shared with [`update`]. Arguments: the values, in the
/// order of the columns.
pub const fn insert(table: &'static str, columns: &'static [&'static [&'static str]]) -> Sql {
    shaped(Shape::Insert { table, columns: Columns::Several(columns) })
}

/// Inserts a row that is a struct. Arguments: its [`values`](ToRow::values).
pub const fn insert_row<T: ToRow>(table: &'static str) -> Sql {
    shaped(Shape::Insert { table, columns: Columns::Row(T::COLUMNS) })
}

/// Sets `columns` of the row whose `key` is `?1`. Arguments: the key, then the values in the order of the columns. The key
/// must be unique: the server may get one statement for the rows of several commands, and tells only how many it changed.
pub const fn update(table: &'static str, key: &'static str, columns: &'static [&'static str]) -> Sql {
    shaped(Shape::Update { table, key, columns: Columns::One(columns), condition: None })
}

/// The same with the columns of a struct. Arguments: [`values_of`](ToRow::values_of) the key.
pub const fn update_row<T: ToRow>(table: &'static str, key: &'static str) -> Sql {
    shaped(Shape::Update { table, key, columns: Columns::Row(T::COLUMNS), condition: None })
}

/// The same, if the row meets a condition on its columns that has no arguments, such as `ended_at IS NULL`.
pub const fn update_if(
    table: &'static str,
    key: &'static str,
    columns: &'static [&'static str],
    condition: &'static str,
) -> Sql {
    shaped(Shape::Update { table, key, columns: Columns::One(columns), condition: Some(condition) })
}

/// Inserts a row, or sets `values` of the row with these `keys`. Arguments: keys, then values. The table must have no
/// other unique constraint, because MySQL cannot tell them apart.
pub const fn upsert(
    table: &'static str,
    keys: &'static [&'static str],
    values: &'static [&'static str],
) -> Sql {
    shaped(Shape::Upsert { table, keys, values: Columns::One(values) })
}

/// The same with the columns of a struct, beside its keys. Arguments: the keys, then its values; of one key
/// [`values_of`](ToRow::values_of) it.
pub const fn upsert_row<T: ToRow>(table: &'static str, keys: &'static [&'static str]) -> Sql {
    shaped(Shape::Upsert { table, keys, values: Columns::Row(T::COLUMNS) })
}

/// Inserts a row, or affects zero rows if it violates a unique constraint.
pub const fn insert_if_absent(table: &'static str, columns: &'static [&'static str]) -> Sql {
    shaped(Shape::InsertIfAbsent { table, columns })
}

/// Locks the row with `column = ?1`, so that it does not change before the commit. No statement on SQLite, where commands
/// run one after another.
pub const fn lock(table: &'static str, column: &'static str) -> Sql {
    shaped(Shape::Lock { table, column })
}

/// The rows of a table that follow the primary key `?1, ?2, …`, in the order of that key. The last page costs as much as
/// the first.
pub(crate) fn page_after(select: String, keys: &[&str], most: usize) -> Sql {
    shaped(Shape::PageAfter { select, keys: keys.iter().copied().map(str::to_owned).collect(), most })
}

impl Sql {
    /// A statement whose text is built at run time, by [`Where`].
    pub fn dynamic(text: String) -> Sql {
        shaped(Shape::Plain(Cow::Owned(text)))
    }

    /// The text in a dialect; empty if this database needs no statement here.
    pub fn text(&self, dialect: Dialect) -> &str {
        if let (Dialect::Sqlite | Dialect::Mysql, Shape::Plain(text)) = (dialect, &self.shape) {
            return text;
        }
        self.rendered[dialect as usize].get_or_init(|| self.render(dialect))
    }

    /// On PostgreSQL, the statement that does for many rows what this one does for one: each argument is an array, whose
    /// elements have the type in `types`. `None` if this is not an [`insert`], [`update`] or [`upsert`].
    pub(crate) fn over_rows(&self, types: &[&str]) -> Option<String> {
        let array = |(place, name): (usize, &&str)| format!("CAST(${} AS {name}[])", place + 1);
        let arrays: Vec<String> = types.iter().enumerate().map(array).collect();
        match &self.shape {
            Shape::Insert { .. } | Shape::Upsert { .. } => {
                let one = self.render(Dialect::Postgres);
                let values = format!("VALUES ({})", dollar_placeholders(&places(0, types.len())));
                Some(one.replacen(&values, &format!("SELECT * FROM unnest({})", arrays.join(", ")), 1))
            }
            // Not a join: then the server would read a small table as a whole, and two that change different rows of it at
            // the same time would be in each other's way.
            Shape::Update { table, key, columns, condition } => {
                let (keys, values) = arrays.split_first()?;
                let row = format!("array_position({keys}, CAST({key} AS {}))", types.first()?);
                let columns = columns.names();
                let sets = columns
                    .iter()
                    .zip(values)
                    .map(|(column, values)| format!("{column} = ({values})[{row}]"));
                let sets = sets.collect::<Vec<_>>().join(", ");
                Some(format!("UPDATE {table} SET {sets} WHERE {key} = ANY({keys}){}", and(*condition)))
            }
            _ => None,
        }
    }

    /// How many of the first arguments say which row is changed: one statement cannot change a row twice.
    pub(crate) fn key_arguments(&self) -> usize {
        match &self.shape {
            Shape::Update { .. } => 1,
            Shape::Upsert { keys, .. } => keys.len(),
            _ => 0,
        }
    }

    /// Whether MySQL counts a row that this statement changes as two.
    pub(crate) fn is_upsert(&self) -> bool {
        matches!(self.shape, Shape::Upsert { .. })
    }

    fn render(&self, dialect: Dialect) -> String {
        let text = match &self.shape {
            Shape::Plain(text) => text.to_string(),
            Shape::Select { columns, rest } => format!("{columns} {rest}"),
            Shape::SelectRow { columns, from, rest } => {
                format!("SELECT {} {from} {rest}", row::names(columns).join(", "))
            }
            Shape::Insert { table, columns } => insert_text(table, &columns.names()),
            Shape::Update { table, key, columns, condition } => {
                let sets = sets(&columns.names());
                format!("UPDATE {table} SET {sets} WHERE {key} = ?1{}", and(*condition))
            }
            Shape::Upsert { table, keys, values } => {
                let values = values.names();
                let columns: Vec<&str> =
                    keys.iter().copied().chain(values.iter().map(AsRef::as_ref)).collect();
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

/// `a = ?2, b = ?3, …`, with `of` in place of the question mark.
fn sets(columns: &[Cow<'_, str>]) -> String {
    let set = |(place, column): (usize, &Cow<'_, str>)| format!("{column} = ?{}", place + 2);
    columns.iter().enumerate().map(set).collect::<Vec<_>>().join(", ")
}

fn and(condition: Option<&str>) -> String {
    condition.map_or(String::new(), |condition| format!(" AND ({condition})"))
}

fn insert_text<T: AsRef<str>>(table: &str, columns: &[T]) -> String {
    let count = columns.len();
    let columns: Vec<&str> = columns.iter().map(AsRef::as_ref).collect();
    format!("INSERT INTO {table} ({}) VALUES ({})", columns.join(", "), places(0, count))
}

/// `?1, ?2, …` after the first `skipped`.
pub(crate) fn places(skipped: usize, count: usize) -> String {
    let places: Vec<String> = (1..=count).map(|number| format!("?{}", skipped + number)).collect();
    places.join(", ")
}

/// `(a, b) > (?1, ?2)` for MySQL and MariaDB: `a > ?1 OR (a = ?1 AND (b > ?2))`. In the short form these use no range of
/// the key and read from the beginning of the table. SQLite and PostgreSQL use the whole key only in the short form.
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

/// A statement that [`statements!`](crate::statements) has made, anywhere in the program.
pub struct Statement {
    /// The module that contains it.
    pub module: &'static str,
    /// Its name there.
    pub name: &'static str,
    /// The statement.
    pub sql: &'static Sql,
}

/// All statements of the program, for the tests that prepare each of them and check its query plan.
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

/// Builds the WHERE clause of a list with optional filters.
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

    /// Starts with everything before the WHERE of a struct's SELECT. `from` has the table and its joins.
    pub fn of<T: FromRow>(from: &str) -> Where<'a> {
        Where::new(&format!("SELECT {} {from}", row::names(T::COLUMNS).join(", ")))
    }

    /// Makes MySQL and MariaDB use this index of `table`, which is written as in the FROM clause. For a page of a long
    /// list they may choose an index that needs a sort, or one that reads all rows before the page. Other databases see a
    /// comment.
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

    /// Adds the condition if there is a value.
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
