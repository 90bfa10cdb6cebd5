//! An upgrade while the previous release still runs: its statements prepare on the present schema of every database, and
//! its INSERTs insert (record 0096).
//!
//! `tests/previous_release/` has what that release reads and writes: `statements.tsv`, each statement with its text (SQLite,
//! and PostgreSQL and MySQL where theirs is another one), and `tables.txt`, each table with its columns. When a release is
//! made, its tree writes both anew: `cargo test -p sarsen-identity --test it -- --ignored write_the_previous_release`.

use crate::support::TestIdentity;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use store::testing::{Kind, TestPlace};
use store::{Dialect, Error, STATEMENTS, Sql, Store, Value, args, sql};

const STATEMENTS_FILE: &str = include_str!("../previous_release/statements.tsv");
pub const KINDS: [(Kind, Dialect); 3] =
    [(Kind::Sqlite, Dialect::Sqlite), (Kind::Postgres, Dialect::Postgres), (Kind::Mysql, Dialect::Mysql)];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/previous_release")
}

/// A statement of SQLite with the placeholders of PostgreSQL (`$1` in place of `?1`).
fn with_dollars(text: &str) -> String {
    text.replace('?', "$")
}

/// Writes what the next release has to go on with. Run by the release itself.
#[test]
#[ignore = "not a test: it writes files of the tree"]
fn write_the_previous_release() {
    let own = STATEMENTS.iter().filter(|statement| statement.module.starts_with("identity::"));
    let mut lines: Vec<String> = own
        .map(|statement| {
            let text = |dialect| statement.sql.text(dialect).split_whitespace().collect::<Vec<_>>().join(" ");
            let [sqlite, postgres, mysql] = [Dialect::Sqlite, Dialect::Postgres, Dialect::Mysql].map(text);
            let mut line = format!("{}::{}\t{sqlite}", statement.module, statement.name);
            if postgres != with_dollars(&sqlite) || mysql != sqlite {
                let _ = write!(line, "\t{postgres}\t{mysql}");
            }
            line
        })
        .collect();
    lines.sort();
    let tables = store::transfer::tables(identity::schema::MIGRATIONS).expect("tables");
    let tables = tables.iter().map(|table| format!("{}: {}", table.name, table.columns.join(" ")));
    let number = identity::schema::MIGRATIONS.len();
    let tables: Vec<String> = std::iter::once(format!("schema {number}")).chain(tables).collect();
    std::fs::create_dir_all(folder()).expect("a folder");
    std::fs::write(folder().join("statements.tsv"), lines.join("\n") + "\n").expect("writes");
    std::fs::write(folder().join("tables.txt"), tables.join("\n") + "\n").expect("writes");
}

/// A statement of the previous release, as the present store runs it.
struct Old {
    name: &'static str,
    /// As it is written.
    text: &'static str,
    sql: Sql,
}

fn old_statements(dialect: Dialect) -> Vec<Old> {
    let statement = |line: &'static str| {
        let mut fields = line.split('\t');
        let (name, text) = (fields.next()?, fields.next()?);
        let own = match (dialect, fields.next(), fields.next()) {
            (Dialect::Postgres, Some(postgres), _) => postgres,
            (Dialect::Mysql, _, Some(mysql)) => mysql,
            _ => text,
        };
        // A lock is no statement on SQLite.
        (!own.is_empty()).then(|| Old { name, text, sql: Sql::dynamic(own.to_owned()) })
    };
    STATEMENTS_FILE.lines().filter_map(statement).collect()
}

/// The statement of the previous release with this name.
pub fn old_statement(dialect: Dialect, name: &str) -> Sql {
    let found = old_statements(dialect).into_iter().find(|old| old.name == name);
    found.unwrap_or_else(|| panic!("the previous release has no {name}")).sql
}

#[tokio::test]
async fn all_statements_of_the_previous_release_prepare_on_the_present_schema() {
    for (kind, dialect) in KINDS {
        let Some(place) = TestPlace::on(kind) else { continue };
        let opened = TestIdentity::open_in(place).await;
        let store = &opened.store;
        let old = old_statements(dialect);
        assert!(old.len() > 250, "{kind:?}: found only {} statements", old.len());
        let wrong = old.iter().filter_map(|old| {
            let error = store.prepare(&old.sql).err()?;
            Some(format!("{}: {error}\n  {}", old.name, old.text))
        });
        let wrong: Vec<String> = wrong.collect();
        assert!(wrong.is_empty(), "{kind:?}:\n{}", wrong.join("\n"));
    }
}

/// What a command ends with that must not commit.
enum Undone {
    Ran,
    Failed(Error),
}

impl From<Error> for Undone {
    fn from(error: Error) -> Undone {
        Undone::Failed(error)
    }
}

#[tokio::test]
async fn all_inserts_of_the_previous_release_insert() {
    let sqlite = TestPlace::on(Kind::Sqlite).expect("SQLite is always available");
    let present = TestIdentity::open_in(sqlite).await;
    let types = column_types(&present.store).await;
    for (kind, dialect) in KINDS {
        let Some(place) = TestPlace::on(kind) else { continue };
        let opened = TestIdentity::open_in(place).await;
        let store = &opened.store;
        let (mut ran, mut wrong) = (0, Vec::new());
        for old in old_statements(dialect) {
            let Some(row) = inserted(old.text, &types) else { continue };
            let name = old.name;
            let done = store.write("test", move |tx| -> Result<(), Undone> {
                let off = match dialect {
                    Dialect::Sqlite => "PRAGMA defer_foreign_keys = ON",
                    Dialect::Postgres => "SET LOCAL session_replication_role = replica",
                    Dialect::Mysql => "SET foreign_key_checks = 0",
                };
                tx.exec(&Sql::dynamic(off.to_owned()), args![])?;
                let rows = tx.exec(&old.sql, &row)?;
                assert!(rows > 0, "{}", old.name);
                Err(Undone::Ran)
            });
            match done.await {
                Err(Undone::Ran) => ran += 1,
                Err(Undone::Failed(error)) => wrong.push(format!("{name}: {error}")),
                Ok(()) => unreachable!("no such command commits"),
            }
        }
        assert!(wrong.is_empty(), "{kind:?}:\n{}", wrong.join("\n"));
        assert!(ran > 40, "{kind:?}: only {ran} INSERTs were understood");
    }
}

/// Table and column → the type on SQLite.
async fn column_types(store: &Store) -> HashMap<(String, String), String> {
    static ALL: Sql = sql("SELECT m.name, p.name, p.type FROM sqlite_schema m, pragma_table_info(m.name) p
         WHERE m.type = 'table'");
    let read = store
        .read(|snapshot| snapshot.all(&ALL, args![], |row| Ok(((row.get(0)?, row.get(1)?), row.get(2)?))));
    let rows: Vec<_> = read.await.map_err(|error: Error| error).expect("reads");
    rows.into_iter().collect()
}

/// The arguments of an INSERT whose values are a row; `None` for other statements. The numbers of placeholders count along the row,
/// but may repeat.
fn inserted(text: &str, types: &HashMap<(String, String), String>) -> Option<Vec<Value<'static>>> {
    let rest = text.strip_prefix("INSERT INTO ")?;
    let (table, rest) = rest.split_once(" (")?;
    let (columns, rest) = rest.split_once(") VALUES (")?;
    let (values, _) = rest.split_once(')')?;
    let pairs: Vec<_> = columns.split(", ").zip(values.split(", ")).collect();
    let mut row: Vec<Value<'static>> = Vec::new();
    for (column, value) in pairs {
        let Some(place) = value.strip_prefix('?') else {
            // A constant.
            value.parse::<i64>().ok().or_else(|| value.strip_prefix('\'').map(|_| 0))?;
            continue;
        };
        let place: usize = place.parse().ok()?;
        row.resize(row.len().max(place), Value::Null);
        let kind = types.get(&(table.to_owned(), column.to_owned()))?;
        row[place - 1] = match kind.as_str() {
            "BIGINT" => Value::Int(7),
            "TEXT" => Value::Text("7".into()),
            "BLOB" => Value::Blob(vec![7].into()),
            _ => return None,
        };
    }
    Some(row)
}

#[tokio::test]
async fn the_previous_release_deletes_a_client_that_the_present_one_knows_more_of() {
    static NEW: [Sql; 3] = [
        sql("INSERT INTO organizations (id, slug, name, created_by, created_at)
             VALUES ('acme', 'acme', 'Acme', 'system', 7)"),
        sql("INSERT INTO clients (id, organization_id, kind, name, grants, pkce_required, consent_required,
                 id_token_alg, created_at)
             VALUES ('spa', 'acme', 'spa', '', '', 1, 0, 'RS256', 7)"),
        sql(
            "INSERT INTO client_reviews (client_id, changes, changed_by, changed_at) VALUES ('spa', 1, 'key', 7)",
        ),
    ];
    for (kind, dialect) in KINDS {
        let Some(place) = TestPlace::on(kind) else { continue };
        let opened = TestIdentity::open_in(place).await;
        let old =
            old_statements(dialect).into_iter().find(|old| old.text.starts_with("DELETE FROM clients "));
        let delete = old.expect("a statement").sql;
        let done = opened.store.write("test", move |tx| -> Result<(), Undone> {
            for new in &NEW {
                tx.exec(new, args![])?;
            }
            assert_eq!(tx.exec(&delete, args!["spa"])?, 1);
            Err(Undone::Ran)
        });
        let Err(Undone::Failed(error)) = done.await else { continue };
        panic!("{kind:?}: {error}");
    }
}
