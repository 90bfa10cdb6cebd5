//! Migrations expand, and a later release contracts (record 0096): while an upgrade is under way, instances of the previous
//! release that already run meet the new schema (one that starts there is refused). So no migration after that release's takes
//! away, renames or narrows what it reads or writes, or adds what its INSERTs and DELETEs do not know of.
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
            let taken = statements(text).into_iter().flat_map(|statement| taken(&statement, &previous));
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
fn taken(statement: &[String], previous: &Previous<'_>) -> Vec<(String, String)> {
    let words: Vec<&str> = statement.iter().map(String::as_str).collect();
    let known = |table: &str| previous.tables.contains_key(table);
    match words.as_slice() {
        ["DROP", "TABLE", tables @ ..] => {
            let why = "the previous release uses the table; drop it in the next release";
            let dropped = unconditional(tables).iter().filter(|table| known(table));
            dropped.map(|table| (format!("DROP {table}"), why.to_owned())).collect()
        }
        ["RENAME", "TABLE", rest @ ..] => {
            let renamed = unconditional(rest).first().filter(|table| known(table));
            renamed.map(|table| renamed_table(table)).into_iter().collect()
        }
        ["ALTER", "TABLE", rest @ ..] => {
            let Some((table, clauses)) = unconditional(rest).split_first() else { return Vec::new() };
            clauses_of(clauses)
                .into_iter()
                .filter_map(|clause| taken_by_clause(table, clause, previous))
                .collect()
        }
        ["CREATE", "UNIQUE", "INDEX", rest @ ..] => match unconditional(rest) {
            [index, "ON", table, ..] if known(table) => {
                let why = "the previous release may write rows that it refuses; see that they cannot be, in a release before";
                vec![(format!("UNIQUE {index}"), why.to_owned())]
            }
            _ => Vec::new(),
        },
        ["CREATE", "TABLE", rest @ ..] => match unconditional(rest) {
            [table, rest @ ..] if !known(table) => reference(table, rest, previous).into_iter().collect(),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// What one clause of ALTER TABLE takes.
fn taken_by_clause(table: &str, clause: &[&str], previous: &Previous<'_>) -> Option<(String, String)> {
    let is_known = previous.tables.contains_key(table);
    match clause {
        ["RENAME", "TO" | "AS", ..] if is_known => Some(renamed_table(table)),
        ["ADD", "INDEX" | "KEY" | "FULLTEXT" | "SPATIAL", ..] => None,
        ["ADD", what @ ("CONSTRAINT" | "UNIQUE" | "CHECK" | "FOREIGN" | "PRIMARY"), ..] if is_known => {
            let why = "the previous release may write rows that it refuses; see that they cannot be, in a release before";
            Some((format!("ADD {table} {what}"), why.to_owned()))
        }
        ["ADD", "COLUMN", rest @ ..] | ["ADD", rest @ ..] => {
            let (column, definition) = unconditional(rest).split_first()?;
            let required = definition.windows(2).any(|pair| pair == ["NOT", "NULL"]);
            if is_known && required && !definition.contains(&"DEFAULT") {
                let why = "the INSERTs of the previous release do not set it; give it a DEFAULT";
                return Some((format!("ADD {table}.{column}"), why.to_owned()));
            }
            reference(table, definition, previous)
        }
        [verb @ ("DROP" | "RENAME" | "MODIFY" | "CHANGE" | "ALTER"), "COLUMN", rest @ ..]
        | [verb @ ("DROP" | "RENAME" | "MODIFY" | "CHANGE" | "ALTER"), rest @ ..] => {
            let column = unconditional(rest).first()?;
            previous.has(table, column).then(|| {
                let why = "the previous release uses the column; add another, and take this one away in the next release";
                (format!("{verb} {table}.{column}"), why.to_owned())
            })
        }
        _ => None,
    }
}

fn renamed_table(table: &str) -> (String, String) {
    let why = "the previous release uses the table; add one, and drop this one later";
    (format!("RENAME {table}"), why.to_owned())
}

/// A reference to a table of which the previous release deletes rows, where that would be refused.
fn reference(table: &str, words: &[&str], previous: &Previous<'_>) -> Option<(String, String)> {
    let parents = words.iter().enumerate().filter(|(_, word)| **word == "REFERENCES");
    let parent = parents.filter_map(|(at, _)| words.get(at + 1..)?.split_first()).find(|(parent, after)| {
        // REFERENCES parent ( columns ) ON DELETE CASCADE
        let end = match after.first() {
            Some(&"(") => after.iter().position(|word| *word == ")").map_or(after.len(), |end| end + 1),
            _ => 0,
        };
        previous.deletes.contains(*parent) && !after[end..].starts_with(&["ON", "DELETE", "CASCADE"])
    });
    parent.map(|(parent, _)| {
        let why = "the previous release deletes rows there and does not know of these; say ON DELETE CASCADE";
        (format!("{table} REFERENCES {parent}"), why.to_owned())
    })
}

/// The words from the name on.
fn unconditional<'w, 's>(words: &'w [&'s str]) -> &'w [&'s str] {
    match words {
        ["IF", "NOT", "EXISTS", rest @ ..] | ["IF", "EXISTS", rest @ ..] | ["ONLY", rest @ ..] => rest,
        _ => words,
    }
}

/// The clauses between the commas outside of brackets.
fn clauses_of<'w, 's>(words: &'w [&'s str]) -> Vec<&'w [&'s str]> {
    let mut depth = 0;
    let clauses = words.split(|word| {
        match *word {
            "(" => depth += 1,
            ")" => depth -= 1,
            _ => {}
        }
        depth == 0 && *word == ","
    });
    clauses.collect()
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
                "{FIXTURES}{name}: is missing, or {UPGRADES} does not name it; write it with cargo test -p sarsen-server --test it -- \
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
DROP TABLE IF EXISTS fresh, grants;
ALTER TABLE users ADD COLUMN size NUMERIC(9, 2), DROP COLUMN IF EXISTS name, ADD INDEX users_size (size);
ALTER TABLE users ADD COLUMN IF NOT EXISTS parent {key} REFERENCES users (id);
ALTER TABLE users ADD COLUMN owner {key} REFERENCES users (id) ON DELETE CASCADE;
ALTER TABLE users ADD other {text} NOT NULL;
ALTER TABLE users ADD CONSTRAINT users_short CHECK (LENGTH(name) < 9);
ALTER TABLE users ADD UNIQUE (name);
ALTER TABLE users ADD CHECK (name <> ''), ADD FOREIGN KEY (name) REFERENCES grants (id);
ALTER TABLE fresh ADD CONSTRAINT fresh_user FOREIGN KEY (user_id) REFERENCES users (id);
ALTER TABLE fresh ADD CONSTRAINT fresh_name UNIQUE (name);
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
        "DROP grants",
        "DROP users.name",
        "users REFERENCES users",
        "ADD users.other",
        "ADD users CONSTRAINT",
        "ADD users UNIQUE",
        "ADD users CHECK",
        "ADD users FOREIGN",
        "fresh REFERENCES users",
        "more REFERENCES users",
    ];
    assert_eq!((what.as_slice(), found.len()), (&expected[..], expected.len()), "{found:#?}");
}
