//! Copies whole tables from one database to another, to move an installation.
//!
//! The migrations define the tables, the same on every database. Rows are copied in the order of their primary key, so
//! that an interrupted move continues after the last copied row. Tables come in the order of the migrations, in which
//! parents precede their children.

pub use crate::table::{Reference, Table, TableRow};

use crate::{Error, Migration, Value, sqlite};

/// The tables that `migrations` create, parents first.
pub fn tables(migrations: &[Migration]) -> Result<Vec<Table>, Error> {
    let tables = sqlite::migrated_tables(migrations)?;
    match tables.iter().find(|table| table.key.is_empty()) {
        Some(table) => Err(Error::Open(format!("table {} has no primary key; give it one", table.name))),
        None => Ok(tables),
    }
}

/// A row as bytes that are the same on every database, for comparison. Different rows have different bytes.
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
