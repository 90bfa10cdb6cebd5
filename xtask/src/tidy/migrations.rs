//! Migrations expand, and a later release contracts (record 0096): while an upgrade is under way the previous release still
//! runs on the new schema, and after a failed one it runs again. So no migration after that release's takes away, renames or
//! narrows what it reads or writes, or adds what its INSERTs and DELETEs do not know of.
//!
//! Each schema leaves a database behind, which the tests of upgrades use.
//!
//! What the release reads and writes is in `crates/identity/tests/previous_release/`, which each release writes anew; a test of
//! `identity` runs the statements.

use super::{Tree, assert_none};
use std::collections::BTreeMap;

const MIGRATIONS: &str = "crates/identity/migrations/";
const TABLES: &str = "crates/identity/tests/previous_release/tables.txt";
const STATEMENTS: &str = "crates/identity/tests/previous_release/statements.tsv";

/// Migration and object that may be changed although the previous release uses it, and why that does no harm.
const EXCEPTIONS: [(&str, &str, &str); 1] = [(
    "0019",
    "MODIFY audit.target",
    "on MySQL from 64 KiB to 255 letters, for an index; what that release writes there are ids",
)];

#[test]
fn no_migration_takes_from_the_previous_release() {
    assert_none("migrations (xtask/src/tidy/migrations.rs)", &complaints(&Tree::real(), &EXCEPTIONS));
}

/// What the previous release knows.
struct Previous<'a> {
    schema: u32,
    tables: BTreeMap<&'a str, Vec<&'a str>>,
    /// The tables of which it deletes rows.
    deletes: Vec<&'a str>,
}

impl<'a> Previous<'a> {
    fn read(tree: &'a Tree) -> Option<Previous<'a>> {
        let mut lines = tree.text(TABLES)?.lines();
        let schema = lines.next()?.strip_prefix("schema ")?.parse().ok()?;
        let tables = lines.filter_map(|line| line.split_once(": "));
        let tables = tables.map(|(table, columns)| (table, columns.split(' ').collect())).collect();
        let deletes = tree.text(STATEMENTS)?.split("\tDELETE FROM ").skip(1);
        let deletes = deletes.filter_map(|rest| rest.split_whitespace().next()).collect();
        Some(Previous { schema, tables, deletes })
    }

    fn has(&self, table: &str, column: &str) -> bool {
        self.tables.get(table).is_some_and(|columns| columns.contains(&column))
    }
}

fn complaints(tree: &Tree, exceptions: &[(&str, &str, &str)]) -> Vec<String> {
    let Some(previous) = Previous::read(tree) else {
        return vec![format!("{TABLES}: does not say what the previous release has")];
    };
    let mut found = Vec::new();
    for (path, text) in tree.iter() {
        let Some(name) = path.strip_prefix(MIGRATIONS) else { continue };
        let number = name.split('_').next().unwrap_or_default();
        if number.parse::<u32>().is_ok_and(|number| number > previous.schema) {
            let taken = statements(text).into_iter().filter_map(|statement| taken(&statement, &previous));
            let taken = taken.filter(|(what, _)| {
                !exceptions.iter().any(|(of, excepted, _)| *of == number && excepted == what)
            });
            found.extend(taken.map(|(what, why)| format!("{path}: {what}: {why}")));
        }
    }
    found
}

/// The words of each statement, without comments.
fn statements(text: &str) -> Vec<Vec<String>> {
    let lines = text.lines().map(|line| line.split("--").next().unwrap_or_default());
    let code = lines.collect::<Vec<_>>().join("\n");
    let words = |statement: &str| {
        let apart = statement.replace('(', " ( ").replace(')', " ) ").replace(',', " , ");
        apart.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    code.split(';').map(words).filter(|words| !words.is_empty()).collect()
}

/// What a statement takes from the previous release, and why that harms it.
fn taken(statement: &[String], previous: &Previous<'_>) -> Option<(String, String)> {
    let words: Vec<&str> = statement.iter().map(String::as_str).collect();
    let known = |table: &str| previous.tables.contains_key(table);
    let complaint = |what: String, why: &str| Some((what, why.to_owned()));
    match words.as_slice() {
        ["DROP", "TABLE", table, ..] if known(table) => complaint(
            format!("DROP {table}"),
            "the previous release uses the table; drop it in the next release",
        ),
        ["RENAME", "TABLE", table, ..] | ["ALTER", "TABLE", table, "RENAME", "TO" | "AS", ..]
            if known(table) =>
        {
            complaint(
                format!("RENAME {table}"),
                "the previous release uses the table; add one, and drop this one later",
            )
        }
        ["ALTER", "TABLE", table, "ADD", "COLUMN", column, definition @ ..] if known(table) => {
            let required = definition.windows(2).any(|pair| pair == ["NOT", "NULL"]);
            (required && !definition.contains(&"DEFAULT")).then(|| {
                let why = "the INSERTs of the previous release do not set it; give it a DEFAULT";
                (format!("ADD {table}.{column}"), why.to_owned())
            })
        }
        ["ALTER", "TABLE", table, verb @ ("DROP" | "RENAME" | "MODIFY" | "CHANGE" | "ALTER"), rest @ ..] => {
            let column = rest.iter().find(|word| **word != "COLUMN")?;
            previous.has(table, column).then(|| {
                let why = "the previous release uses the column; add another, and take this one away in the next release";
                (format!("{verb} {table}.{column}"), why.to_owned())
            })
        }
        ["CREATE", "UNIQUE", "INDEX", index, "ON", table, ..] if known(table) => complaint(
            format!("UNIQUE {index}"),
            "the previous release may write rows that it refuses; see that they cannot be, in a release before",
        ),
        ["CREATE", "TABLE", table, rest @ ..] if !known(table) => {
            let parent =
                rest.windows(2).zip(1..).filter(|(pair, _)| pair[0] == "REFERENCES").find(|(pair, at)| {
                    // REFERENCES parent ( columns ) ON DELETE CASCADE
                    let after: Vec<&str> = rest[*at..]
                        .iter()
                        .skip_while(|word| **word != ")")
                        .copied()
                        .skip(1)
                        .take(3)
                        .collect();
                    previous.deletes.contains(&pair[1]) && after != ["ON", "DELETE", "CASCADE"]
                });
            parent.map(|(pair, _)| {
                let why = "the previous release deletes rows there and does not know of these; say ON DELETE CASCADE";
                (format!("{table} REFERENCES {}", pair[1]), why.to_owned())
            })
        }
        _ => None,
    }
}

const FIXTURES: &str = "crates/server/tests/fixtures/";
const UPGRADES: &str = "crates/server/tests/it/upgrades.rs";
/// The first schema of which a database is kept.
const KEPT_FROM: u32 = 18;
const FIXTURE_MAX: usize = 64 * 1024;

#[test]
fn each_schema_has_a_small_fixture_that_is_upgraded() {
    assert_none("fixtures of schemas (xtask/src/tidy/migrations.rs)", &without_fixture(&Tree::real()));
}

fn without_fixture(tree: &Tree) -> Vec<String> {
    let upgrades = tree.text(UPGRADES).unwrap_or_default();
    let names = tree.iter().filter_map(|(path, _)| path.strip_prefix(MIGRATIONS));
    let numbers = names.filter_map(|name| name.split('_').next()?.parse::<u32>().ok());
    let missing = numbers.filter(|number| *number >= KEPT_FROM).filter_map(|number| {
        let name = format!("schema-{number}.jsonl");
        let is_kept = tree.holds(&format!("{FIXTURES}{name}")) && upgrades.contains(&format!("/{name}\""));
        (!is_kept).then(|| {
            format!(
                "{FIXTURES}{name}: is missing, or {UPGRADES} does not name it; write it with cargo test -p server --test it -- \
                 --ignored write_the_fixture"
            )
        })
    });
    let large = tree.iter().filter(|(path, text)| path.starts_with(FIXTURES) && text.len() > FIXTURE_MAX);
    missing.chain(large.map(|(path, _)| format!("{path}: is larger than 64 KiB"))).collect()
}

#[test]
fn a_schema_without_a_fixture_and_a_large_one_are_found() {
    let large = "x".repeat(FIXTURE_MAX + 1);
    let tree = Tree::of(&[
        ("crates/identity/migrations/0017_old.sql", ""),
        ("crates/identity/migrations/0018_kept.sql", ""),
        ("crates/identity/migrations/0019_unnamed.sql", ""),
        ("crates/identity/migrations/0020_new.sql", ""),
        ("crates/server/tests/fixtures/schema-18.jsonl", ""),
        ("crates/server/tests/fixtures/schema-18.sqlite.sql", &large),
        ("crates/server/tests/fixtures/schema-19.jsonl", ""),
        (UPGRADES, "include_str!(\"../fixtures/schema-18.jsonl\")"),
    ]);
    let found = without_fixture(&tree);
    let names: Vec<&str> =
        found.iter().filter_map(|line| line.strip_prefix(FIXTURES)?.split(':').next()).collect();
    assert_eq!(names, ["schema-19.jsonl", "schema-20.jsonl", "schema-18.sqlite.sql"], "{found:#?}");
}

#[test]
fn a_migration_that_takes_something_is_found() {
    const TEXT: &str = "-- DROP TABLE users;
DROP TABLE grants;
ALTER TABLE users RENAME COLUMN name TO label;
ALTER TABLE users DROP COLUMN email;
ALTER TABLE users ADD COLUMN phone {text} NOT NULL;
ALTER TABLE users ADD COLUMN locale {text} NOT NULL DEFAULT '';
ALTER TABLE users ADD COLUMN city {text};
-- only mysql
ALTER TABLE users MODIFY name VARCHAR(9) NOT NULL;
-- all
CREATE UNIQUE INDEX users_name ON users (name);
CREATE INDEX users_names ON users (name);
ALTER TABLE fresh DROP COLUMN b;
CREATE TABLE notes (
    id {key} NOT NULL PRIMARY KEY,
    FOREIGN KEY (user_id) REFERENCES users (id) ON DELETE CASCADE,
    FOREIGN KEY (grant_id) REFERENCES grants (id)
) {table};
CREATE TABLE more (
    FOREIGN KEY (user_id) REFERENCES users (id)
) {table};
";
    let tree = Tree::of(&[
        (TABLES, "schema 7\nusers: id email name\ngrants: id\n"),
        (STATEMENTS, "a::DELETE\tDELETE FROM users WHERE id = ?1\n"),
        ("crates/identity/migrations/0007_old.sql", "DROP TABLE grants;"),
        ("crates/identity/migrations/0008_new.sql", TEXT),
    ]);
    let exceptions = [("0008", "DROP users.email", "nobody reads it")];
    let found = complaints(&tree, &exceptions);
    let what: Vec<&str> = found
        .iter()
        .filter_map(|line| line.strip_prefix("crates/identity/migrations/0008_new.sql: ")?.split(": ").next())
        .collect();
    let expected = [
        "DROP grants",
        "RENAME users.name",
        "ADD users.phone",
        "MODIFY users.name",
        "UNIQUE users_name",
        "more REFERENCES users",
    ];
    assert_eq!((what.as_slice(), found.len()), (&expected[..], expected.len()), "{found:#?}");
}
