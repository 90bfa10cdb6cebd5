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
    /// Statements for MySQL and MariaDB. Each commits by itself and must do no harm when it runs again.
    pub mysql: &'static str,
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
            Dialect::Mysql => migration.mysql,
        };
        let steps = Steps::of(conn, migration.number)?;
        for (step, statement) in (0..).zip(statements(text)).skip_while(|(step, _)| steps.are_done(*step)) {
            conn.execute(statement, &[]).map_err(|error| {
                Error::Open(format!("migration {} ({}): {error}", migration.number, migration.name))
            })?;
            steps.note(conn, step)?;
        }
        let insert = match conn.dialect() {
            Dialect::Sqlite | Dialect::Mysql => {
                "INSERT INTO sarsen_migrations (number, name) VALUES (?1, ?2)"
            }
            Dialect::Postgres => "INSERT INTO sarsen_migrations (number, name) VALUES ($1, $2)",
        };
        conn.execute(insert, &[Value::Int(migration.number), migration.name.into()])?;
    }
    Ok(())
}

/// How far a migration has come, where its statements commit one by one: a start that was killed in the middle
/// goes on there.
struct Steps {
    /// `None` where a migration is done or is not.
    of: Option<i64>,
    done: i64,
}

impl Steps {
    fn of(conn: &mut dyn Connection, number: i64) -> Result<Steps, Error> {
        if conn.dialect() != Dialect::Mysql {
            return Ok(Steps { of: None, done: 0 });
        }
        conn.execute(
            "CREATE TABLE IF NOT EXISTS sarsen_migration_steps
                 (number BIGINT NOT NULL, step BIGINT NOT NULL, PRIMARY KEY (number, step))",
            &[],
        )?;
        let mut done = 0;
        let count = "SELECT COUNT(*) FROM sarsen_migration_steps WHERE number = ?1";
        conn.query(count, &[Value::Int(number)], &mut |row| {
            done = crate::Row::new(row).get(0)?;
            Ok(false)
        })?;
        Ok(Steps { of: Some(number), done })
    }

    fn are_done(&self, step: i64) -> bool {
        step < self.done
    }

    fn note(&self, conn: &mut dyn Connection, step: i64) -> Result<(), Error> {
        let Some(number) = self.of else { return Ok(()) };
        let insert = "INSERT INTO sarsen_migration_steps (number, step) VALUES (?1, ?2)";
        conn.execute(insert, &[Value::Int(number), Value::Int(step)]).map(drop)
    }
}

fn statements(text: &str) -> impl Iterator<Item = &str> {
    text.split(";\n").map(str::trim).map(|part| part.trim_end_matches(';')).filter(|part| {
        part.lines().any(|line| !line.trim().is_empty() && !line.trim_start().starts_with("--"))
    })
}
