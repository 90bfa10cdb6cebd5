//! A table of the schema, and statements on its whole rows.

use crate::sql::{page_after, places};
use crate::value::FromValue;
use crate::{Dialect, Error, Snapshot, Sql, Tx, Value, args, sql};

/// Rows in one INSERT or DELETE. Every database accepts that many for a table of 300 columns.
const ROWS_A_STATEMENT: usize = 100;

/// The columns of a table that PostgreSQL numbers.
static NUMBERED: Sql = sql("SELECT CAST(column_name AS TEXT) FROM information_schema.columns
     WHERE table_schema = CURRENT_SCHEMA() AND CAST(table_name AS TEXT) = ?1 AND is_identity = 'YES'");

/// A table of the schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The name.
    pub name: String,
    /// The columns, in order.
    pub columns: Vec<String>,
    /// The positions of the primary key's columns in `columns`, in the key's order.
    pub key: Vec<usize>,
    /// Its foreign keys.
    pub references: Vec<Reference>,
}

/// A foreign key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The columns that refer.
    pub columns: Vec<String>,
    /// The table with the rows that they refer to.
    pub parent: String,
    /// The columns there, in the same order.
    pub parent_columns: Vec<String>,
}

/// A row, in the order of the table's columns.
pub type TableRow = Vec<Value<'static>>;

impl Table {
    /// The primary key of a row.
    pub fn key_of(&self, row: &[Value<'static>]) -> TableRow {
        self.key.iter().filter_map(|column| row.get(*column).cloned()).collect()
    }

    /// The number of rows.
    pub fn count(&self, snapshot: &mut Snapshot<'_>) -> Result<u64, Error> {
        let sql = Sql::dynamic(format!("SELECT COUNT(*) FROM {}", self.name));
        let count = snapshot.one(&sql, &[], |row| row.get::<i64>(0))?;
        Ok(count.unwrap_or_default().unsigned_abs())
    }

    /// The number of rows whose reference leads to no row.
    pub fn dangling(&self, snapshot: &mut Snapshot<'_>, reference: &Reference) -> Result<u64, Error> {
        let pairs = reference.columns.iter().zip(&reference.parent_columns);
        let same: Vec<String> = pairs.map(|(own, parent)| format!("p.{parent} = c.{own}")).collect();
        let set: Vec<String> = reference.columns.iter().map(|own| format!("c.{own} IS NOT NULL")).collect();
        let sql = Sql::dynamic(format!(
            "SELECT COUNT(*) FROM {} c WHERE {} AND NOT EXISTS (SELECT 1 FROM {} p WHERE {})",
            self.name,
            set.join(" AND "),
            reference.parent,
            same.join(" AND ")
        ));
        let count = snapshot.one(&sql, &[], |row| row.get::<i64>(0))?;
        Ok(count.unwrap_or_default().unsigned_abs())
    }

    /// The largest primary key, if there is a row.
    pub fn last_key(&self, snapshot: &mut Snapshot<'_>) -> Result<Option<TableRow>, Error> {
        let keys = self.key_columns();
        let (list, order) = (keys.join(", "), keys.join(" DESC, "));
        let sql = Sql::dynamic(format!("SELECT {list} FROM {} ORDER BY {order} DESC LIMIT 1", self.name));
        snapshot.one(&sql, &[], |row| (0..keys.len()).map(|column| row.get(column)).collect())
    }

    /// At most `most` rows after the key `after`, or the first ones.
    pub fn rows_after(
        &self,
        snapshot: &mut Snapshot<'_>,
        after: Option<&[Value<'static>]>,
        most: usize,
    ) -> Result<Vec<TableRow>, Error> {
        let keys = self.key_columns();
        let select = format!("SELECT {} FROM {}", self.columns.join(", "), self.name);
        let sql = match after {
            Some(_) => page_after(select, &keys, most),
            None => Sql::dynamic(format!("{select} ORDER BY {} LIMIT {most}", keys.join(", "))),
        };
        let width = self.columns.len();
        snapshot
            .all(&sql, after.unwrap_or_default(), |row| (0..width).map(|column| row.get(column)).collect())
    }

    /// Inserts rows.
    pub fn insert(&self, tx: &mut Tx<'_>, rows: &[TableRow]) -> Result<(), Error> {
        in_chunks(tx, rows, |count| self.insert_statement(count)).map(drop)
    }

    /// After rows came with the numbers of another database: the numbers of new rows begin behind them. Only PostgreSQL counts
    /// apart from the rows.
    pub fn continue_numbers(&self, tx: &mut Tx<'_>) -> Result<(), Error> {
        if tx.snapshot().dialect() != Dialect::Postgres {
            return Ok(());
        }
        let name = self.name.as_str();
        let columns: Vec<String> = tx.all(&NUMBERED, args![name], |row| row.get(0))?;
        for column in columns {
            let counter = format!(
                "SELECT setval(pg_get_serial_sequence('{name}', '{column}'), MAX({column})) FROM {name}
                 HAVING MAX({column}) IS NOT NULL"
            );
            tx.one(&Sql::dynamic(counter), &[], |row| row.get::<i64>(0))?;
        }
        Ok(())
    }

    /// Deletes rows by their primary keys. Returns how many there were.
    pub fn delete(&self, tx: &mut Tx<'_>, rows: &[TableRow]) -> Result<u64, Error> {
        let keys: Vec<TableRow> = rows.iter().map(|row| self.key_of(row)).collect();
        in_chunks(tx, &keys, |count| self.delete_statement(count))
    }

    fn key_columns(&self) -> Vec<&str> {
        self.key.iter().filter_map(|column| self.columns.get(*column)).map(String::as_str).collect()
    }

    fn insert_statement(&self, rows: usize) -> Sql {
        let width = self.columns.len();
        let values: Vec<String> = (0..rows).map(|row| format!("({})", places(row * width, width))).collect();
        let columns = self.columns.join(", ");
        Sql::dynamic(format!("INSERT INTO {} ({columns}) VALUES {}", self.name, values.join(", ")))
    }

    /// One condition for each key, so that every database uses the primary key for each row. With a range up to a key of
    /// several columns, MariaDB and PostgreSQL scan the table.
    fn delete_statement(&self, rows: usize) -> Sql {
        let keys = self.key_columns();
        let is = |row: usize| {
            let column =
                |(place, name): (usize, &&str)| format!("{name} = ?{}", row * keys.len() + place + 1);
            let columns: Vec<String> = keys.iter().enumerate().map(column).collect();
            format!("({})", columns.join(" AND "))
        };
        let wanted: Vec<String> = (0..rows).map(is).collect();
        Sql::dynamic(format!("DELETE FROM {} WHERE {}", self.name, wanted.join(" OR ")))
    }
}

/// Runs a statement on chunks of rows. Returns how many rows matched.
fn in_chunks(tx: &mut Tx<'_>, rows: &[TableRow], statement: impl Fn(usize) -> Sql) -> Result<u64, Error> {
    let (many, one) = (statement(ROWS_A_STATEMENT), statement(1));
    let (chunks, rest) = rows.as_chunks::<ROWS_A_STATEMENT>();
    let mut matched = 0;
    for chunk in chunks {
        let args: Vec<Value<'_>> = chunk.iter().flatten().cloned().collect();
        matched += tx.exec(&many, &args)?;
    }
    // The rest runs row by row: a statement for each size would have to be prepared too.
    for row in rest {
        matched += tx.exec(&one, row)?;
    }
    Ok(matched)
}

impl FromValue for Value<'static> {
    const KIND: &'static str = "a value";
    fn from_value(value: crate::ValueRef<'_>) -> Option<Value<'static>> {
        Some(match value {
            crate::ValueRef::Null => Value::Null,
            crate::ValueRef::Int(number) => Value::Int(number),
            crate::ValueRef::Real(number) => Value::Real(number),
            crate::ValueRef::Text(text) => Value::Text(text.to_owned().into()),
            crate::ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec().into()),
        })
    }
}
