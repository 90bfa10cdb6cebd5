//! What the migrations make, read off an empty database in memory.

use crate::migration_text::statements;
use crate::table::{Reference, Table};
use crate::{Dialect, Error, Migration};

/// The tables in the order in which they are made.
pub(crate) fn migrated_tables(migrations: &[Migration]) -> Result<Vec<Table>, Error> {
    let broken = |error: rusqlite::Error| Error::Open(format!("the migrations cannot be read: {error}"));
    let connection = rusqlite::Connection::open_in_memory().map_err(broken)?;
    for migration in migrations {
        for statement in statements(migration.text, Dialect::Sqlite) {
            connection.execute_batch(&statement).map_err(broken)?;
        }
    }
    let mut tables = Vec::new();
    for name in names(&connection).map_err(broken)? {
        tables.push(table(&connection, name).map_err(broken)?);
    }
    Ok(tables)
}

fn names(connection: &rusqlite::Connection) -> rusqlite::Result<Vec<String>> {
    let made =
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY rowid";
    connection.prepare(made)?.query_map([], |row| row.get(0))?.collect()
}

fn table(connection: &rusqlite::Connection, name: String) -> rusqlite::Result<Table> {
    let mut statement = connection.prepare("SELECT name, pk FROM pragma_table_info(?1) ORDER BY cid")?;
    let columns: Vec<(String, i64)> =
        statement.query_map([&name], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?;
    // `pk` counts from 1 along the primary key; 0 is outside of it.
    let mut key: Vec<usize> = (0..columns.len()).filter(|place| columns[*place].1 > 0).collect();
    key.sort_by_key(|place| columns[*place].1);
    let references = references(connection, &name)?;
    Ok(Table { name, columns: columns.into_iter().map(|(column, _)| column).collect(), key, references })
}

fn references(connection: &rusqlite::Connection, table: &str) -> rusqlite::Result<Vec<Reference>> {
    let mut statement = connection.prepare(
        "SELECT seq, \"table\", \"from\", \"to\" FROM pragma_foreign_key_list(?1) ORDER BY id DESC, seq",
    )?;
    let mut rows = statement.query([table])?;
    let mut references: Vec<Reference> = Vec::new();
    while let Some(row) = rows.next()? {
        let (place, parent): (i64, String) = (row.get(0)?, row.get(1)?);
        if place == 0 {
            references.push(Reference { columns: Vec::new(), parent, parent_columns: Vec::new() });
        }
        if let Some(reference) = references.last_mut() {
            reference.columns.push(row.get(2)?);
            reference.parent_columns.push(row.get(3)?);
        }
    }
    Ok(references)
}
