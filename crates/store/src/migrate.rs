//! The schema: numbered, forward-only steps, one text a database with the same numbers.

use crate::tx::Connection;
use crate::{Dialect, Error, Value};

/// One step of the schema.
#[derive(Debug)]
pub struct Migration {
    /// From 1, without gaps.
    pub number: i64,
    /// What it is about, in a few words.
    pub name: &'static str,
    /// Statements for SQLite, separated by `;` at a line's end.
    pub sqlite: &'static str,
    /// Statements for PostgreSQL.
    pub postgres: &'static str,
}

const TABLE: &str =
    "CREATE TABLE IF NOT EXISTS sarsen_migrations (number BIGINT PRIMARY KEY, name TEXT NOT NULL)";

/// Brings the schema up to date inside the caller's transaction.
/// A database from a newer program is refused: an older one would not keep its rules.
pub(crate) fn migrate(conn: &mut dyn Connection, migrations: &[Migration]) -> Result<(), Error> {
    conn.execute(TABLE, &[])?;
    let mut done = 0;
    conn.query("SELECT COALESCE(MAX(number), 0) FROM sarsen_migrations", &[], &mut |row| {
        done = crate::Row::new(row).get(0)?;
        Ok(false)
    })?;
    let newest = migrations.last().map_or(0, |migration| migration.number);
    if done > newest {
        return Err(Error::Open(format!(
            "the database has schema {done}, this program knows up to {newest}; start the newer program"
        )));
    }
    for migration in migrations.iter().filter(|migration| migration.number > done) {
        let text = match conn.dialect() {
            Dialect::Sqlite => migration.sqlite,
            Dialect::Postgres => migration.postgres,
        };
        for statement in statements(text) {
            conn.execute(statement, &[]).map_err(|error| {
                Error::Open(format!("migration {} ({}): {error}", migration.number, migration.name))
            })?;
        }
        let insert = match conn.dialect() {
            Dialect::Sqlite => "INSERT INTO sarsen_migrations (number, name) VALUES (?1, ?2)",
            Dialect::Postgres => "INSERT INTO sarsen_migrations (number, name) VALUES ($1, $2)",
        };
        conn.execute(insert, &[Value::Int(migration.number), migration.name.into()])?;
    }
    Ok(())
}

fn statements(text: &str) -> impl Iterator<Item = &str> {
    text.split(";\n").map(str::trim).map(|part| part.trim_end_matches(';')).filter(|part| {
        part.lines().any(|line| !line.trim().is_empty() && !line.trim_start().starts_with("--"))
    })
}
