//! How the schema of a database file differs from the one that its migrations create.
//!
//! The structure is compared, not the text: an upgraded database has the text of the version that created it, and
//! `ALTER TABLE` writes its own. A constraint that SQLite lists nowhere is found by its keyword in the text.

use crate::migration_text::statements;
use crate::{Dialect, Migration};
use rusqlite::{Connection, Result, Row, ToSql};
use std::collections::{BTreeMap, BTreeSet};

/// Differences that are listed at most.
const LISTED: usize = 20;
/// Keywords of constraints that no pragma lists.
const UNLISTED: [&str; 6] = ["AUTOINCREMENT", "CHECK", "COLLATE", "CONFLICT", "DEFERRABLE", "GENERATED"];

/// The result of a comparison. Both lists are empty if the schema is as expected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchemaDifferences {
    /// What keeps the program from working on the database, or from keeping its rules.
    pub problems: Vec<String>,
    /// What works, and is not the program's: indexes that somebody added.
    pub warnings: Vec<String>,
}

/// Compares the schema of a database with that of its migrations `1..=schema`.
pub(super) fn differences(
    connection: &Connection,
    migrations: &[Migration],
    schema: i64,
) -> Result<SchemaDifferences> {
    let newest = migrations.last().map_or(0, |migration| migration.number);
    if schema > newest {
        let text =
            format!("it has schema {schema}, and this program knows up to {newest}; use the newer program");
        return Ok(SchemaDifferences { problems: vec![text], warnings: Vec::new() });
    }
    let made = Connection::open_in_memory()?;
    for migration in migrations.iter().filter(|migration| migration.number <= schema) {
        for statement in statements(migration.text, Dialect::Sqlite) {
            made.execute_batch(&statement)?;
        }
    }
    let (expected, found) = (Names::read(&made)?, Names::read(connection)?);
    let mut compared = SchemaDifferences::default();
    compared.tables(&made, connection, &expected, &found, schema)?;
    compared.indexes(&made, connection, &expected, &found, schema)?;
    compared.programs(&expected, &found, schema);
    shorten(&mut compared.problems);
    shorten(&mut compared.warnings);
    Ok(compared)
}

impl SchemaDifferences {
    fn tables(
        &mut self,
        made: &Connection,
        connection: &Connection,
        expected: &Names,
        found: &Names,
        schema: i64,
    ) -> Result<()> {
        for (name, text) in &expected.tables {
            let Some(found_text) = found.tables.get(name) else {
                self.problems.push(format!("table {name} is missing"));
                continue;
            };
            let wanted = Table::read(made, name, text)?;
            self.problems.extend(wanted.differences(
                &Table::read(connection, name, found_text)?,
                name,
                schema,
            ));
        }
        let foreign = found.tables.keys().filter(|name| !expected.tables.contains_key(*name));
        self.problems.extend(foreign.map(|name| format!("table {name} is not part of schema {schema}")));
        Ok(())
    }

    fn indexes(
        &mut self,
        made: &Connection,
        connection: &Connection,
        expected: &Names,
        found: &Names,
        schema: i64,
    ) -> Result<()> {
        for (name, (table, text)) in &expected.indexes {
            match found.indexes.get(name) {
                None => self.problems.push(format!("index {name} of table {table} is missing")),
                Some((found_table, found_text)) => {
                    let wanted = index(made, table, name, text)?;
                    if found_table != table || index(connection, table, name, found_text)? != wanted {
                        self.problems.push(format!("index {name} is not what schema {schema} has: {wanted}"));
                    }
                }
            }
        }
        for (name, (table, text)) in
            found.indexes.iter().filter(|(name, _)| !expected.indexes.contains_key(*name))
        {
            let unique = words(text).get(1).is_some_and(|word| word.eq_ignore_ascii_case("UNIQUE"));
            let rule = if unique { ", and refuses rows that the program writes" } else { "" };
            self.warnings.push(format!("index {name} of table {table} is not part of schema {schema}{rule}"));
        }
        Ok(())
    }

    /// Triggers and views.
    fn programs(&mut self, expected: &Names, found: &Names, schema: i64) {
        for (name, text) in &expected.programs {
            if found.programs.get(name).is_none_or(|found| words(found) != words(text)) {
                self.problems.push(format!("{name} is missing, or is not what schema {schema} has"));
            }
        }
        let foreign = found.programs.keys().filter(|name| !expected.programs.contains_key(*name));
        self.problems.extend(foreign.map(|name| format!("{name} is not part of schema {schema}")));
    }
}

/// A damaged or hostile file may have any number of them.
fn shorten(lines: &mut Vec<String>) {
    let more = lines.len().saturating_sub(LISTED);
    if more > 0 {
        lines.truncate(LISTED);
        lines.push(format!("and {more} more"));
    }
}

/// The objects of a schema with their texts. SQLite's own objects and the store's tables are left out.
#[derive(Default)]
struct Names {
    tables: BTreeMap<String, String>,
    /// With the tables that they are of. Without those that a table's constraints create.
    indexes: BTreeMap<String, (String, String)>,
    /// Triggers and views, with their kinds before their names.
    programs: BTreeMap<String, String>,
}

impl Names {
    fn read(connection: &Connection) -> Result<Names> {
        let mut names = Names::default();
        let mut statement =
            connection.prepare("SELECT type, name, tbl_name, COALESCE(sql, '') FROM sqlite_schema")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (kind, name): (String, String) = (row.get(0)?, row.get(1)?);
            let (table, text): (String, String) = (row.get(2)?, row.get(3)?);
            // A trigger or a view of such a name is nobody's but the one's who added it.
            match kind.as_str() {
                "table" if is_own(&table) => {}
                "index" if is_own(&table) || text.is_empty() => {}
                "table" => drop(names.tables.insert(name, text)),
                "index" => drop(names.indexes.insert(name, (table, text))),
                _ => drop(names.programs.insert(format!("{kind} {name}"), text)),
            }
        }
        Ok(names)
    }
}

/// Whether a table is SQLite's or the store's.
fn is_own(table: &str) -> bool {
    ["sqlite_", "sarsen_"]
        .iter()
        .any(|own| table.get(..own.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(own)))
}

/// What a table is, but for its name and the order of its columns.
struct Table {
    options: String,
    /// Each with its type, nullability, default and position in the primary key.
    columns: BTreeMap<String, String>,
    references: BTreeSet<String>,
    /// The indexes of its constraints.
    keys: BTreeSet<String>,
    unlisted: Vec<&'static str>,
}

impl Table {
    fn read(connection: &Connection, name: &str, text: &str) -> Result<Table> {
        let options = lines(
            connection,
            "SELECT type, wr, strict FROM pragma_table_list WHERE schema = 'main' AND name = ?1",
            &[&name],
            |row| {
                let (kind, without_rowid, strict): (String, i64, i64) =
                    (row.get(0)?, row.get(1)?, row.get(2)?);
                let without_rowid = if without_rowid > 0 { " WITHOUT ROWID" } else { "" };
                Ok(format!("a {kind}{without_rowid}{}", if strict > 0 { " STRICT" } else { "" }))
            },
        )?;
        let mut table = Table {
            options: options.join(", "),
            columns: BTreeMap::new(),
            references: BTreeSet::new(),
            keys: BTreeSet::new(),
            unlisted: unlisted(text),
        };
        // What is no table (a virtual one) may not be asked for its columns.
        if table.options.starts_with("a table") {
            table.columns = columns(connection, name)?;
            table.references = references(connection, name)?;
            table.keys = keys(connection, name)?;
        }
        Ok(table)
    }

    /// How a table that was found differs from this one.
    fn differences(&self, found: &Table, name: &str, schema: i64) -> Vec<String> {
        if self.options != found.options {
            return vec![format!(
                "table {name} is {}, and {} in schema {schema}",
                found.options, self.options
            )];
        }
        let mut lines = Vec::new();
        for (column, wanted) in &self.columns {
            match found.columns.get(column) {
                None => lines.push(format!("table {name} has no column {column}")),
                Some(is) if is != wanted => lines.push(format!(
                    "column {column} of table {name} is {is}, and {wanted} in schema {schema}"
                )),
                Some(_) => {}
            }
        }
        let foreign = found.columns.keys().filter(|column| !self.columns.contains_key(*column));
        lines.extend(
            foreign.map(|column| format!("column {column} of table {name} is not part of schema {schema}")),
        );
        let mut same = |what: &str, equal: bool| {
            if !equal {
                lines.push(format!("the {what} of table {name} are not those of schema {schema}"));
            }
        };
        same("foreign keys", self.references == found.references);
        same("primary and unique keys", self.keys == found.keys);
        same("constraints", self.unlisted == found.unlisted);
        lines
    }
}

fn columns(connection: &Connection, table: &str) -> Result<BTreeMap<String, String>> {
    let mut statement = connection
        .prepare("SELECT name, type, \"notnull\", dflt_value, pk, hidden FROM pragma_table_xinfo(?1)")?;
    let columns = statement.query_map([table], |row| {
        let (kind, not_null): (String, bool) = (row.get(1)?, row.get(2)?);
        let (default, key, hidden): (Option<String>, i64, i64) = (row.get(3)?, row.get(4)?, row.get(5)?);
        let mut shape = kind.split_whitespace().collect::<Vec<_>>().join(" ").to_uppercase();
        shape.push_str(if not_null { " NOT NULL" } else { "" });
        if let Some(default) = default {
            shape.push_str(&format!(" DEFAULT {default}"));
        }
        if key > 0 {
            shape.push_str(&format!(" PRIMARY KEY ({key})"));
        }
        shape.push_str(if hidden > 0 { " GENERATED" } else { "" });
        Ok((row.get(0)?, shape))
    })?;
    columns.collect()
}

fn references(connection: &Connection, table: &str) -> Result<BTreeSet<String>> {
    let mut keys: BTreeMap<i64, String> = BTreeMap::new();
    let mut statement = connection.prepare(
        "SELECT id, \"table\", \"from\", \"to\", on_update, on_delete, match FROM pragma_foreign_key_list(?1)
         ORDER BY id, seq",
    )?;
    let mut rows = statement.query([table])?;
    while let Some(row) = rows.next()? {
        let (parent, own, other): (String, String, Option<String>) = (row.get(1)?, row.get(2)?, row.get(3)?);
        let actions: [String; 3] = [row.get(4)?, row.get(5)?, row.get(6)?];
        let key = keys.entry(row.get(0)?).or_insert_with(|| format!("{parent} {}", actions.join(" ")));
        key.push_str(&format!(" {own} → {}", other.unwrap_or_default()));
    }
    Ok(keys.into_values().collect())
}

/// The indexes that the constraints of a table create.
fn keys(connection: &Connection, table: &str) -> Result<BTreeSet<String>> {
    let of_constraints = lines(
        connection,
        "SELECT name, origin FROM pragma_index_list(?1) WHERE origin <> 'c'",
        &[&table],
        |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)),
    )?;
    let shape =
        |(name, origin): (String, String)| Ok(format!("{origin} ({})", index_columns(connection, &name)?));
    of_constraints.into_iter().map(shape).collect()
}

/// What an index is, in the words of a definition.
fn index(connection: &Connection, table: &str, name: &str, text: &str) -> Result<String> {
    let found = lines(
        connection,
        "SELECT \"unique\", partial FROM pragma_index_list(?1) WHERE name = ?2",
        &[&table, &name],
        |row| Ok((row.get::<_, bool>(0)?, row.get::<_, bool>(1)?)),
    )?;
    let (unique, partial) = found.first().copied().unwrap_or_default();
    let columns = index_columns(connection, name)?;
    let unique = if unique { "UNIQUE " } else { "" };
    // The condition and the expressions are only in the text.
    let rest = if partial || columns.contains(EXPRESSION) { words(text).join(" ") } else { String::new() };
    Ok(format!("{unique}{table} ({columns}) {rest}").trim_end().to_owned())
}

const EXPRESSION: &str = "(expression)";

fn index_columns(connection: &Connection, index: &str) -> Result<String> {
    let sql = "SELECT name, \"desc\", coll FROM pragma_index_xinfo(?1) WHERE key = 1 ORDER BY seqno";
    let columns = lines(connection, sql, &[&index], |row| {
        let (name, descending): (Option<String>, bool) = (row.get(0)?, row.get(1)?);
        let collation: Option<String> = row.get(2)?;
        let collation = match collation.as_deref() {
            None | Some("BINARY") => String::new(),
            Some(other) => format!(" COLLATE {other}"),
        };
        let name = name.unwrap_or_else(|| EXPRESSION.to_owned());
        Ok(format!("{name}{collation}{}", if descending { " DESC" } else { "" }))
    })?;
    Ok(columns.join(", "))
}

fn lines<T>(
    connection: &Connection,
    sql: &str,
    args: &[&dyn ToSql],
    read: impl FnMut(&Row<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    connection.prepare(sql)?.query_map(args, read)?.collect()
}

/// The keywords of [`UNLISTED`] in a definition, sorted.
fn unlisted(text: &str) -> Vec<&'static str> {
    let words = words(text);
    let mut found: Vec<&str> = words
        .iter()
        .filter_map(|word| UNLISTED.into_iter().find(|keyword| word.eq_ignore_ascii_case(keyword)))
        .collect();
    found.sort_unstable();
    found
}

/// The words and signs of a definition, without comments. What is in quotes is one word.
fn words(text: &str) -> Vec<&str> {
    let (mut words, mut rest) = (Vec::new(), text.trim_start());
    while let Some(first) = rest.chars().next() {
        let end = match first {
            '-' if rest.starts_with("--") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |at| at + 2),
            '\'' | '"' | '`' => rest[1..].find(first).map_or(rest.len(), |at| at + 2),
            '[' => rest.find(']').map_or(rest.len(), |at| at + 1),
            _ if is_of_word(first) => rest.find(|other| !is_of_word(other)).unwrap_or(rest.len()),
            other => other.len_utf8(),
        };
        let (word, behind) = rest.split_at(end);
        if !word.starts_with("--") && !word.starts_with("/*") {
            words.push(word);
        }
        rest = behind.trim_start();
    }
    words
}

fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_' || letter == '$'
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAMILY: &[Migration] = &[Migration {
        number: 1,
        name: "family",
        text:
            "CREATE TABLE parents (id {key} NOT NULL PRIMARY KEY, name {text} NOT NULL, age BIGINT DEFAULT 0, seen BIGINT,
               UNIQUE (name, age)) {table};
               CREATE TABLE children (id {key} NOT NULL, parent_id {key} NOT NULL,
               PRIMARY KEY (id, parent_id), FOREIGN KEY (parent_id) REFERENCES parents (id)) {table};
               CREATE INDEX children_parent ON children (parent_id, id);",
    }];
    const PARENTS: &str = "CREATE TABLE parents (id TEXT NOT NULL PRIMARY KEY, name TEXT NOT NULL, age BIGINT DEFAULT 0, seen BIGINT, \
         UNIQUE (name, age)) WITHOUT ROWID;";
    const CHILDREN: &str = "CREATE TABLE children (id TEXT NOT NULL, parent_id TEXT NOT NULL, \
         PRIMARY KEY (id, parent_id), FOREIGN KEY (parent_id) REFERENCES parents (id)) WITHOUT ROWID;";
    const INDEX: &str = "CREATE INDEX children_parent ON children (parent_id, id);";

    fn compared(text: &str) -> SchemaDifferences {
        let connection = Connection::open_in_memory().expect("opens");
        connection.execute_batch(text).expect("a schema");
        differences(&connection, FAMILY, 1).expect("compares")
    }

    #[test]
    fn a_schema_that_was_written_in_other_words_is_the_same() {
        let other_words = "
            CREATE TABLE sarsen_version (id INTEGER PRIMARY KEY);
            create table parents ( -- people
                name text not null, id TEXT NOT NULL /* a CHECK of nothing */, seen  bigint,
                age BIGINT DEFAULT 0, unique (name, age), PRIMARY KEY (id)) without rowid;
            CREATE TABLE \"children\" (parent_id TEXT NOT NULL REFERENCES parents (id), id TEXT NOT NULL,
                PRIMARY KEY (id, parent_id)) WITHOUT ROWID;
            CREATE INDEX children_parent  ON children(parent_id , id);";
        let added_later = format!(
            "CREATE TABLE parents (id TEXT NOT NULL PRIMARY KEY, name TEXT NOT NULL, age BIGINT DEFAULT 0, junk TEXT, seen BIGINT, \
             UNIQUE (name, age)) WITHOUT ROWID; ALTER TABLE parents DROP COLUMN junk; {CHILDREN} {INDEX}"
        );
        for text in [other_words, &added_later, &[PARENTS, CHILDREN, INDEX].concat()] {
            assert_eq!(compared(text), SchemaDifferences::default(), "{text}");
        }
    }

    #[test]
    fn each_difference_in_structure_is_named() {
        let whole = [PARENTS, CHILDREN, INDEX].concat();
        for (from, to, expected) in [
            (CHILDREN, "", "table children is missing"),
            (INDEX, "", "index children_parent of table children is missing"),
            ("(parent_id, id);", "(id, parent_id);", "index children_parent is not what schema 1 has"),
            ("(parent_id, id);", "(parent_id DESC, id);", "index children_parent is not what schema 1 has"),
            ("(parent_id, id);", "(parent_id, id) WHERE id > 'a';", "index children_parent is not what"),
            ("CREATE INDEX", "CREATE UNIQUE INDEX", "index children_parent is not what schema 1 has"),
            (" seen BIGINT,", "", "table parents has no column seen"),
            ("age BIGINT DEFAULT 0", "age BIGINT DEFAULT 1", "is BIGINT DEFAULT 1, and BIGINT DEFAULT 0 in"),
            ("age BIGINT DEFAULT 0", "age TEXT DEFAULT 0", "column age of table parents is TEXT DEFAULT 0"),
            ("name TEXT NOT NULL", "name TEXT", "column name of table parents is TEXT, and TEXT NOT NULL"),
            (
                "name TEXT NOT NULL",
                "name TEXT NOT NULL, more TEXT",
                "column more of table parents is not part",
            ),
            (
                "name TEXT NOT NULL",
                "name TEXT NOT NULL CHECK (name > 'b')",
                "the constraints of table parents",
            ),
            (
                "name TEXT NOT NULL",
                "name TEXT COLLATE NOCASE NOT NULL",
                "the primary and unique keys of table",
            ),
            ("UNIQUE (name, age)", "UNIQUE (age, name)", "the primary and unique keys of table parents"),
            ("PRIMARY KEY (id, parent_id)", "PRIMARY KEY (parent_id, id)", "column id of table children is"),
            (", FOREIGN KEY (parent_id) REFERENCES parents (id)", "", "the foreign keys of table children"),
            ("parents (id))", "parents (id) ON DELETE CASCADE)", "the foreign keys of table children"),
            (") WITHOUT ROWID", ")", "table children is a table, and a table WITHOUT ROWID in schema 1"),
            (CHILDREN, "CREATE VIEW children AS SELECT 1;", "view children is not part of schema 1"),
        ] {
            let whole = if from.contains("ROWID") { whole.replace(PARENTS, "") } else { whole.clone() };
            let text = whole.replace(from, to);
            assert_ne!(text, whole);
            // What its table went with.
            let text = if from == CHILDREN { text.replace(INDEX, "") } else { text };
            let found = compared(&text);
            assert!(found.problems.join("\n").contains(expected), "{to}: {found:?}");
        }
    }

    #[test]
    fn what_somebody_added_is_named_and_an_index_is_no_problem() {
        let whole = [PARENTS, CHILDREN, INDEX].concat();
        let added = |text: &str| compared(&format!("{whole}{text}"));
        let found = added("CREATE INDEX mine ON parents (age); CREATE UNIQUE INDEX one ON parents (name);");
        assert_eq!(found.problems, [""; 0]);
        assert_eq!(
            found.warnings,
            [
                "index mine of table parents is not part of schema 1",
                "index one of table parents is not part of schema 1, and refuses rows that the program writes"
            ]
        );
        for (text, expected) in [
            ("CREATE TABLE more (id TEXT);", "table more is not part of schema 1"),
            ("CREATE VIEW more AS SELECT 1;", "view more is not part of schema 1"),
            (
                "CREATE TRIGGER sarsen_more AFTER INSERT ON parents BEGIN DELETE FROM children; END;",
                "trigger sarsen_more is not part of schema 1",
            ),
        ] {
            assert_eq!(added(text).problems, [expected], "{text}");
        }
        let many: String = (0..50).map(|number| format!("CREATE TABLE t{number} (id);")).collect();
        let problems = added(&many).problems;
        assert!(problems.len() == LISTED + 1 && problems[LISTED] == "and 30 more", "{problems:?}");
    }
}
