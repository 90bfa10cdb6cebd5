//! The schema: numbered, forward-only migrations, each one text for all databases (`migration_text.rs`).

use crate::migration_text::statements;
use crate::migration_words;
use crate::tx::Connection;
use crate::{Dialect, Error, Snapshot, Sql, Value, sql};

/// One migration.
#[derive(Debug)]
pub struct Migration {
    /// From 1, without gaps.
    pub number: i64,
    /// What it is about, in a few words. Like the text, it does not change after a release: a database that had another
    /// migration of this number is refused.
    pub name: &'static str,
    /// Statements, separated by `;` at a line's end, with tokens where the databases differ. Comments and spaces may change.
    pub text: &'static str,
}

/// What a database must have.
#[derive(Clone, Copy)]
pub(crate) struct Schema {
    pub(crate) migrations: &'static [Migration],
    /// Texts like those of migrations, which make tables if they are absent.
    pub(crate) tables: &'static [&'static str],
}

const TABLE: &str =
    "CREATE TABLE IF NOT EXISTS sarsen_migrations (number BIGINT PRIMARY KEY, name TEXT NOT NULL)";

static NEWEST: Sql = sql("SELECT COALESCE(MAX(number), 0) FROM sarsen_migrations");

static OF_SQLITE: Sql = sql("SELECT COUNT(*) FROM sqlite_master WHERE name = 'sarsen_migrations'");
static OF_POSTGRES: Sql = sql("SELECT COUNT(*) FROM information_schema.tables
     WHERE table_name = 'sarsen_migrations' AND table_schema = CURRENT_SCHEMA()");
static OF_MYSQL: Sql = sql("SELECT COUNT(*) FROM information_schema.tables
     WHERE table_name = 'sarsen_migrations' AND table_schema = DATABASE()");

/// Whether the database has tables of a store.
pub(crate) fn has_migrations(snapshot: &mut Snapshot<'_>) -> Result<bool, Error> {
    let count = match snapshot.dialect() {
        Dialect::Sqlite => &OF_SQLITE,
        Dialect::Postgres => &OF_POSTGRES,
        Dialect::Mysql => &OF_MYSQL,
    };
    Ok(snapshot.one(count, &[], |row| row.get::<i64>(0))?.unwrap_or_default() > 0)
}

/// The number of the last migration that the database has had. A running program finds here that a newer one migrated.
pub fn schema_version(snapshot: &mut Snapshot<'_>) -> Result<i64, Error> {
    Ok(snapshot.one(&NEWEST, &[], |row| row.get(0))?.unwrap_or_default())
}

/// Whether a database has had all migrations, so that [`migrate`] would run none.
#[cfg(feature = "postgres")]
pub(crate) fn is_done(conn: &mut dyn Connection, schema: Schema) -> Result<bool, Error> {
    let mut snapshot = Snapshot::new(conn, false);
    let newest = schema.migrations.last().map_or(0, |migration| migration.number);
    Ok(has_migrations(&mut snapshot)? && schema_version(&mut snapshot)? >= newest)
}

/// Brings the schema up to date inside the caller's transaction.
/// A database from a newer program is refused: an older one would not keep its rules. So is one that had other migrations:
/// those of this program would be left out.
pub(crate) fn migrate(conn: &mut dyn Connection, schema: Schema) -> Result<(), Error> {
    let migrations = schema.migrations;
    check_numbers(migrations)?;
    conn.execute(TABLE, &[])?;
    let mut names: Vec<(i64, String)> = Vec::new();
    conn.query("SELECT number, name FROM sarsen_migrations ORDER BY number", &[], &mut |row| {
        let row = crate::Row::new(row);
        names.push((row.get(0)?, row.get(1)?));
        Ok(true)
    })?;
    let done = names.last().map_or(0, |(number, _)| *number);
    let newest = migrations.last().map_or(0, |migration| migration.number);
    if done > newest {
        return Err(Error::NewerSchema { found: done, known: newest });
    }
    check_names(migrations, &names)?;
    migration_words::check_and_note(conn, migrations, done)?;
    for migration in migrations.iter().filter(|migration| migration.number > done) {
        run(conn, migration).map_err(|error| match error {
            Error::Open(_) => error,
            _ => Error::Open(format!("migration {} ({}): {error}", migration.number, migration.name)),
        })?;
        let insert = match conn.dialect() {
            Dialect::Sqlite | Dialect::Mysql => {
                "INSERT INTO sarsen_migrations (number, name) VALUES (?1, ?2)"
            }
            Dialect::Postgres => "INSERT INTO sarsen_migrations (number, name) VALUES ($1, $2)",
        };
        conn.execute(insert, &[Value::Int(migration.number), migration.name.into()])?;
    }
    migration_words::check_and_note(conn, migrations, newest)?;
    let dialect = conn.dialect();
    let tables = schema.tables.iter().flat_map(|text| statements(text, dialect));
    tables.into_iter().try_for_each(|statement| conn.execute(&statement, &[]).map(drop))
}

/// The numbers count from 1: one that is missing, double or out of order would never run, or run at another time elsewhere.
fn check_numbers(migrations: &[Migration]) -> Result<(), Error> {
    let mut places = (1..).zip(migrations);
    let Some((place, wrong)) = places.find(|(place, migration)| migration.number != *place) else {
        return Ok(());
    };
    Err(Error::Open(format!(
        "the migration {:?} has the number {}, and is number {place} in the list; number them 1, 2, 3 and so on, without gaps",
        wrong.name, wrong.number
    )))
}

/// Another name means another migration: of another program, or of another branch that took the same number.
fn check_names(migrations: &[Migration], done: &[(i64, String)]) -> Result<(), Error> {
    let mut both = done.iter().filter_map(|(number, name)| {
        let known = migrations.iter().find(|migration| migration.number == *number)?;
        (known.name != name).then_some((known, name))
    });
    let Some((known, name)) = both.next() else { return Ok(()) };
    Err(Error::Open(format!(
        "migration {} of this database is {name:?}, and of this program {:?}: give each program a database of its own, and a \
         new migration the next free number",
        known.number, known.name
    )))
}

fn run(conn: &mut dyn Connection, migration: &Migration) -> Result<(), Error> {
    let steps = Steps::of(conn, migration.number)?;
    let statements = statements(migration.text, conn.dialect());
    for (step, statement) in (0..).zip(&statements).skip(steps.done) {
        // The first statement that is not noted may have run before the program was stopped.
        let again = steps.of.is_some() && step == steps.done as i64;
        if again {
            conn.execute_again(statement)?
        } else {
            conn.execute(statement, &[]).map(drop)?
        };
        steps.note(conn, step)?;
    }
    Ok(())
}

/// How many statements of a migration are done, where each commits by itself (MySQL): a start that was killed in the
/// middle continues there.
struct Steps {
    /// `None` where a migration is done or is not.
    of: Option<i64>,
    done: usize,
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
            done = crate::Row::new(row).get::<i64>(0)?;
            Ok(false)
        })?;
        Ok(Steps { of: Some(number), done: usize::try_from(done).unwrap_or_default() })
    }

    fn note(&self, conn: &mut dyn Connection, step: i64) -> Result<(), Error> {
        let Some(number) = self.of else { return Ok(()) };
        let insert = "INSERT INTO sarsen_migration_steps (number, step) VALUES (?1, ?2)";
        conn.execute(insert, &[Value::Int(number), Value::Int(step)]).map(drop)
    }
}
