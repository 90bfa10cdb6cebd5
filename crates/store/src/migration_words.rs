//! The texts of the migrations that a database has had. One that was changed after it ran would never run again here, while
//! a new database gets the new text: a difference that shows late, and far from its cause. So the start refuses it.
//!
//! Compared are words: comments, spaces and the ends of lines may change. A database that was migrated before this was noted
//! takes the texts that it finds.

use crate::migrate::Migration;
use crate::migration_text::statements;
use crate::tx::Connection;
use crate::{Dialect, Error, Value};
use std::collections::HashMap;

const TABLE: &str = "CREATE TABLE IF NOT EXISTS sarsen_migration_words (
    number BIGINT NOT NULL PRIMARY KEY,
    words {long_text} NOT NULL
) {rowid_table};
";
/// How many words an error shows.
const SHOWN: usize = 8;

/// Fails if one of the migrations `1..=done` has other words than when it ran; notes the words of those that have none.
pub(crate) fn check_and_note(
    conn: &mut dyn Connection,
    migrations: &[Migration],
    done: i64,
) -> Result<(), Error> {
    let dialect = conn.dialect();
    for statement in statements(TABLE, dialect) {
        conn.execute(&statement, &[])?;
    }
    let mut noted: HashMap<i64, String> = HashMap::new();
    conn.query("SELECT number, words FROM sarsen_migration_words", &[], &mut |row| {
        let row = crate::Row::new(row);
        noted.insert(row.get(0)?, row.get(1)?);
        Ok(true)
    })?;
    for migration in migrations.iter().filter(|migration| migration.number <= done) {
        let words = words(migration.text);
        let Some(before) = noted.get(&migration.number) else {
            note(conn, dialect, migration.number, words.join(" "))?;
            continue;
        };
        if let Some((was, is)) = difference(&before.split_whitespace().collect::<Vec<_>>(), &words) {
            return Err(Error::Open(format!(
                "migration {} ({}) was changed after it ran on this database, where {was:?} is now {is:?}: put the old text back and \
                 write the change as a new migration, or begin with a new database if this one is only for development",
                migration.number, migration.name
            )));
        }
    }
    Ok(())
}

fn note(conn: &mut dyn Connection, dialect: Dialect, number: i64, words: String) -> Result<(), Error> {
    let insert = match dialect {
        Dialect::Sqlite | Dialect::Mysql => {
            "INSERT INTO sarsen_migration_words (number, words) VALUES (?1, ?2)"
        }
        Dialect::Postgres => "INSERT INTO sarsen_migration_words (number, words) VALUES ($1, $2)",
    };
    conn.execute(insert, &[Value::Int(number), words.as_str().into()]).map(drop)
}

/// The words of a text, without comments. The comments that say for which databases statements are belong to it.
fn words(text: &str) -> Vec<&str> {
    let line = |line| match line {
        "-- only mysql" | "-- not mysql" | "-- all" => line,
        _ => line.split("--").next().unwrap_or_default(),
    };
    text.lines().map(str::trim).map(line).flat_map(str::split_whitespace).collect()
}

/// The words from the first that differs.
fn difference(before: &[&str], now: &[&str]) -> Option<(String, String)> {
    if before == now {
        return None;
    }
    let same = before.iter().zip(now).take_while(|(before, now)| before == now).count();
    // With a word before them: the place is easier to find.
    let from = same.saturating_sub(1);
    let shown = |words: &[&str]| words.iter().skip(from).take(SHOWN).copied().collect::<Vec<_>>().join(" ");
    Some((shown(before), shown(now)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_spaces_are_no_words() {
        let one = "-- Notes.\nCREATE TABLE notes (id BIGINT, body {text}) {table};\n\n-- only mysql\nDROP TABLE old;\n";
        let two = "CREATE TABLE notes\n  (id BIGINT, -- its number\n  body {text})\n{table};\n-- only mysql\nDROP TABLE old;";
        assert_eq!(words(one), words(two));
        assert_ne!(words(one), words(&two.replace("-- only mysql\n", "")));
    }

    #[test]
    fn the_first_difference_is_shown() {
        let (before, now) = (words("A TABLE b (c BIGINT, d BIGINT);"), words("A TABLE b (c BIGINT);"));
        let shown = difference(&before, &now);
        assert_eq!(shown, Some(("(c BIGINT, d BIGINT);".to_owned(), "(c BIGINT);".to_owned())));
        assert_eq!(difference(&before, &before), None);
        assert_eq!(difference(&[], &now).map(|(was, _)| was), Some(String::new()));
    }
}
