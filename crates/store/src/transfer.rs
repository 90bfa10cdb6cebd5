//! Whole tables from one database to another, whatever is in them: for moving a system to another database.
//!
//! A table is what the migrations make of it; they make the same on every database. Rows go in the order of their
//! primary key, so that a move that broke off goes on after the last row that arrived, and parents come before
//! their children, as the migrations make them.

use crate::sql::{page_after, places};
use crate::value::FromValue;
use crate::{Error, Migration, Snapshot, Sql, Tx, Value, sqlite};

/// Rows in one INSERT or DELETE. Every database takes that many arguments of a table with 300 columns.
const ROWS_A_STATEMENT: usize = 100;

/// A table of the schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// Its columns, in order.
    pub columns: Vec<String>,
    /// Where the columns of its primary key are in `columns`, in the key's order.
    pub key: Vec<usize>,
}

/// A row, in the order of the table's columns.
pub type TableRow = Vec<Value<'static>>;

/// The tables that `migrations` make, parents first.
pub fn tables(migrations: &[Migration]) -> Result<Vec<Table>, Error> {
    let tables = sqlite::migrated_tables(migrations)?;
    match tables.iter().find(|table| table.key.is_empty()) {
        Some(table) => Err(Error::Open(format!("table {} has no primary key", table.name))),
        None => Ok(tables),
    }
}

impl Table {
    /// The key of a row of this table.
    pub fn key_of(&self, row: &[Value<'static>]) -> TableRow {
        self.key.iter().filter_map(|column| row.get(*column).cloned()).collect()
    }

    /// How many rows there are.
    pub fn count(&self, snapshot: &mut Snapshot<'_>) -> Result<u64, Error> {
        let sql = Sql::dynamic(format!("SELECT COUNT(*) FROM {}", self.name));
        let count = snapshot.one(&sql, &[], |row| row.get::<i64>(0))?;
        Ok(count.unwrap_or_default().unsigned_abs())
    }

    /// The greatest key, if there is a row.
    pub fn last_key(&self, snapshot: &mut Snapshot<'_>) -> Result<Option<TableRow>, Error> {
        let keys = self.key_columns();
        let (list, order) = (keys.join(", "), keys.join(" DESC, "));
        let sql = Sql::dynamic(format!("SELECT {list} FROM {} ORDER BY {order} DESC LIMIT 1", self.name));
        snapshot.one(&sql, &[], |row| (0..keys.len()).map(|column| row.get(column)).collect())
    }

    /// At most `most` rows after the key `after`, or from the first one.
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

    /// Deletes rows, by their keys; how many there were.
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

    /// Each key by itself: no database reads the whole table for that, whatever it knows of the rows. For all keys up
    /// to one with several columns, MariaDB and PostgreSQL do.
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

/// Runs a statement about rows, many at a time; how many it matched in all.
fn in_chunks(tx: &mut Tx<'_>, rows: &[TableRow], statement: impl Fn(usize) -> Sql) -> Result<u64, Error> {
    let (many, one) = (statement(ROWS_A_STATEMENT), statement(1));
    let mut whole = rows.chunks_exact(ROWS_A_STATEMENT);
    let mut matched = 0;
    for chunk in whole.by_ref() {
        let args: Vec<Value<'_>> = chunk.iter().flatten().cloned().collect();
        matched += tx.exec(&many, &args)?;
    }
    // The rest one by one: a statement for each size would have to be prepared as well.
    for row in whole.remainder() {
        matched += tx.exec(&one, row)?;
    }
    Ok(matched)
}

/// A row as bytes that are the same on every database, for comparing: equal rows and no others have equal bytes.
pub fn canonical(row: &[Value<'static>]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(128);
    let mut put = |kind: u8, content: &[u8]| {
        bytes.push(kind);
        bytes.extend_from_slice(&(content.len() as u64).to_be_bytes());
        bytes.extend_from_slice(content);
    };
    for value in row {
        match value {
            Value::Null => put(b'n', &[]),
            Value::Int(number) => put(b'i', &number.to_be_bytes()),
            Value::Real(number) => put(b'r', &number.to_bits().to_be_bytes()),
            Value::Text(text) => put(b't', text.as_bytes()),
            Value::Blob(content) => put(b'b', content),
        }
    }
    bytes
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_equal_rows_have_equal_bytes() {
        let rows: [TableRow; 6] = [
            vec!["ab".into(), "c".into()],
            vec!["a".into(), "bc".into()],
            vec!["abc".into(), Value::Null],
            vec!["abc".into(), "".into()],
            vec![Value::Blob(b"ab".to_vec().into()), "c".into()],
            vec![Value::Int(1), Value::Int(0)],
        ];
        for (left, one) in rows.iter().enumerate() {
            for (right, other) in rows.iter().enumerate() {
                assert_eq!(canonical(one) == canonical(other), left == right, "{one:?} {other:?}");
            }
        }
    }
}
