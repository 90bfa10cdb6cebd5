//! The text of a migration: written once, rendered for each database.
//!
//! It is plain SQL in the common subset (`sql.rs`), with a few tokens where the databases need other words:
//!
//! | token | SQLite | PostgreSQL | MySQL |
//! |---|---|---|---|
//! | `{key}`: text of at most 64 characters that may stand in an index | TEXT | TEXT COLLATE "C" | VARCHAR(64) |
//! | `{key255}`, `{key2000}`: the same, longer | TEXT | TEXT COLLATE "C" | VARCHAR(255), VARCHAR(2000) |
//! | `{text}`: up to 64 KiB | TEXT | TEXT COLLATE "C" | TEXT |
//! | `{long_text}`: up to 16 MiB | TEXT | TEXT COLLATE "C" | MEDIUMTEXT |
//! | `{hash}`: at most 64 bytes | BLOB | BYTEA | VARBINARY(64) |
//! | `{bytes}`: up to 64 KiB | BLOB | BYTEA | BLOB |
//! | `{long_bytes}`: up to 16 MiB | BLOB | BYTEA | MEDIUMBLOB |
//! | `{table}`: what follows the closing bracket of a table | WITHOUT ROWID | | ENGINE = InnoDB … |
//! | `{rowid_table}`: the same for a table of large rows, or without a primary key | | | ENGINE = InnoDB … |
//! | `{first700}`: after a column in a key, its indexed part | | | (700) |
//! | `{position}`: the function for the place of a text in another | INSTR | STRPOS | INSTR |
//!
//! `INDEX name (…)` and `UNIQUE INDEX name (…)` stand as lines inside `CREATE TABLE`, where MySQL takes them; for the
//! other databases they become statements of their own. Statements for one kind of database stand between the lines
//! `-- only mysql` or `-- not mysql`, and `-- all`.

use crate::Dialect;

const MYSQL_TABLE: &str = "ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin";

/// Each token with what stands for it on SQLite, PostgreSQL and MySQL.
const TOKENS: [(&str, [&str; 3]); 12] = [
    ("{key}", ["TEXT", "TEXT COLLATE \"C\"", "VARCHAR(64)"]),
    ("{key255}", ["TEXT", "TEXT COLLATE \"C\"", "VARCHAR(255)"]),
    ("{key2000}", ["TEXT", "TEXT COLLATE \"C\"", "VARCHAR(2000)"]),
    ("{text}", ["TEXT", "TEXT COLLATE \"C\"", "TEXT"]),
    ("{long_text}", ["TEXT", "TEXT COLLATE \"C\"", "MEDIUMTEXT"]),
    ("{hash}", ["BLOB", "BYTEA", "VARBINARY(64)"]),
    ("{bytes}", ["BLOB", "BYTEA", "BLOB"]),
    ("{long_bytes}", ["BLOB", "BYTEA", "MEDIUMBLOB"]),
    ("{table}", ["WITHOUT ROWID", "", MYSQL_TABLE]),
    ("{rowid_table}", ["", "", MYSQL_TABLE]),
    ("{first700}", ["", "", "(700)"]),
    ("{position}", ["INSTR", "STRPOS", "INSTR"]),
];

/// The statements of a migration for a database, in order. On MySQL their places are the numbers of the steps that are
/// noted as done: a text that was released keeps its statements and their order.
pub(crate) fn statements(text: &str, dialect: Dialect) -> Vec<String> {
    let rendered = with_tokens(&for_dialect(text, dialect), dialect);
    let parts = rendered.split(";\n").map(|part| part.trim().trim_end_matches(';'));
    let statements = parts.filter(|part| part.lines().any(is_sql));
    match dialect {
        Dialect::Mysql => statements.map(str::to_owned).collect(),
        Dialect::Sqlite | Dialect::Postgres => statements.flat_map(with_indexes_apart).collect(),
    }
}

fn is_sql(line: &str) -> bool {
    !line.trim().is_empty() && !line.trim_start().starts_with("--")
}

/// The lines that concern this database.
fn for_dialect(text: &str, dialect: Dialect) -> String {
    let is_mysql = dialect == Dialect::Mysql;
    let (mut kept, mut applies) = (String::with_capacity(text.len()), true);
    for line in text.lines() {
        match line.trim() {
            "-- only mysql" => applies = is_mysql,
            "-- not mysql" => applies = !is_mysql,
            "-- all" => applies = true,
            _ if applies => kept.extend([line, "\n"]),
            _ => {}
        }
    }
    kept
}

fn with_tokens(text: &str, dialect: Dialect) -> String {
    TOKENS.iter().fold(text.to_owned(), |text, (token, words)| text.replace(token, words[dialect as usize]))
}

/// `CREATE TABLE` without its `INDEX` lines, and a `CREATE INDEX` for each of them.
fn with_indexes_apart(statement: &str) -> Vec<String> {
    let table = statement
        .lines()
        .find_map(|line| line.trim_start().strip_prefix("CREATE TABLE ")?.split_whitespace().next());
    let Some(table) = table else { return vec![statement.to_owned()] };
    let (mut lines, mut indexes) = (Vec::new(), Vec::new());
    for line in statement.lines() {
        let index = line.trim().trim_end_matches(',');
        let unique = index.strip_prefix("UNIQUE INDEX ").map(|rest| ("CREATE UNIQUE INDEX", rest));
        match unique.or_else(|| index.strip_prefix("INDEX ").map(|rest| ("CREATE INDEX", rest))) {
            Some((create, rest)) => {
                let (name, columns) = rest.split_once(' ').unwrap_or((rest, ""));
                indexes.push(format!("{create} {name} ON {table} {columns}"));
            }
            None => lines.push(line.to_owned()),
        }
    }
    without_comma_before_the_bracket(&mut lines);
    std::iter::once(lines.join("\n")).chain(indexes).collect()
}

/// The line before the closing bracket ends without a comma, whatever was taken out after it.
fn without_comma_before_the_bracket(lines: &mut [String]) {
    let Some(closing) = lines.iter().rposition(|line| line.trim_start().starts_with(')')) else { return };
    if let Some(last) = lines[..closing].iter_mut().rfind(|line| is_sql(line)) {
        *last = last.trim_end().trim_end_matches(',').to_owned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "-- What people write.
CREATE TABLE notes (
    id {key} NOT NULL PRIMARY KEY,
    body {text} NOT NULL,
    UNIQUE INDEX notes_body (body),
    INDEX notes_both (id, body)
) {table};

-- only mysql
DROP TABLE old;
-- not mysql
ALTER TABLE old DROP COLUMN gone;
-- all
ALTER TABLE notes ADD COLUMN hash {hash};
";

    #[test]
    fn indexes_stand_apart_where_a_table_cannot_hold_them() {
        let statements = statements(TEXT, Dialect::Postgres);
        assert_eq!(
            statements,
            [
                "-- What people write.\nCREATE TABLE notes (\n    id TEXT COLLATE \"C\" NOT NULL PRIMARY KEY,\n    body \
                 TEXT COLLATE \"C\" NOT NULL\n)",
                "CREATE UNIQUE INDEX notes_body ON notes (body)",
                "CREATE INDEX notes_both ON notes (id, body)",
                "ALTER TABLE old DROP COLUMN gone",
                "ALTER TABLE notes ADD COLUMN hash BYTEA",
            ]
        );
        assert!(self::statements(TEXT, Dialect::Sqlite)[0].ends_with(") WITHOUT ROWID"));
    }

    #[test]
    fn mysql_keeps_the_indexes_in_the_table_and_so_the_numbers_of_its_steps() {
        let statements = statements(TEXT, Dialect::Mysql);
        assert_eq!(statements.len(), 3, "{statements:?}");
        assert!(statements[0].contains("UNIQUE INDEX notes_body (body),"), "{}", statements[0]);
        assert!(statements[0].contains("id VARCHAR(64) NOT NULL"), "{}", statements[0]);
        assert!(statements[0].ends_with(&format!(") {MYSQL_TABLE}")), "{}", statements[0]);
        assert_eq!(statements[1..], ["DROP TABLE old", "ALTER TABLE notes ADD COLUMN hash VARBINARY(64)"]);
    }
}
