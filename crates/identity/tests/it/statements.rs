//! Every statement that the sources of this crate hold is one that the database understands.

use crate::support::TestIdentity;
use std::fs;
use std::path::Path;
use store::{Dialect, Sql, insert_if_absent, upsert};

#[tokio::test]
async fn every_statement_prepares() {
    let test = TestIdentity::open().await;
    let mut statements = Vec::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut statements);
    assert!(statements.len() > 100, "only {} were found: is the search right?", statements.len());
    let mut wrong = Vec::new();
    for (place, sql) in &statements {
        if let Err(error) = test.store.prepare(sql) {
            wrong.push(format!("{place}: {error}\n  {}", sql.text(Dialect::Sqlite)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn collect(folder: &Path, statements: &mut Vec<(String, Sql)>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, statements);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("a source file");
            let found = statements_of(&text).into_iter();
            statements.extend(found.map(|sql| (path.display().to_string(), sql)));
        }
    }
}

/// The statements that a source file makes with the store's helpers.
fn statements_of(source: &str) -> Vec<Sql> {
    let mut found = Vec::new();
    for call in calls(source, "sql").into_iter().chain(calls(source, "claim_next")) {
        found.push(Sql::dynamic(call[0].join("")));
    }
    for call in calls(source, "lock") {
        // SQLite needs no statement; the table and its column must be there all the same.
        found.push(Sql::dynamic(format!("SELECT 1 FROM {} WHERE {} = ?1", call[0][0], call[0][1])));
    }
    for call in calls(source, "insert_if_absent") {
        found.push(insert_if_absent(leak(&call[0][0]), leak_all(&call[1])));
    }
    for call in calls(source, "upsert") {
        found.push(upsert(leak(&call[0][0]), leak_all(&call[1]), leak_all(&call[2])));
    }
    found
}

/// The literals of each call of `name` whose first argument is a literal: those outside of brackets first,
/// then those of each pair of brackets.
fn calls(source: &str, name: &str) -> Vec<Vec<Vec<String>>> {
    let opening = format!("{name}(");
    let is_whole_word = |start: usize| {
        let before = source[..start].chars().next_back();
        !before.is_some_and(|letter| letter.is_alphanumeric() || matches!(letter, '_' | '.' | '`'))
    };
    let starts = source.match_indices(&opening).filter(|(start, _)| is_whole_word(*start));
    let calls = starts.filter_map(|(start, _)| {
        let rest = &source[start + opening.len()..];
        rest.trim_start().starts_with('"').then(|| arguments(rest))
    });
    calls.collect()
}

fn arguments(rest: &str) -> Vec<Vec<String>> {
    let mut groups = vec![Vec::new()];
    let mut inside = 0;
    let mut letters = rest.chars();
    while let Some(letter) = letters.next() {
        match letter {
            ')' => break,
            '[' => {
                groups.push(Vec::new());
                inside = groups.len() - 1;
            }
            ']' => inside = 0,
            '"' => groups[inside].push(literal(&mut letters)),
            _ => {}
        }
    }
    groups
}

/// Reads up to the closing quote.
fn literal(letters: &mut std::str::Chars<'_>) -> String {
    let mut text = String::new();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => break,
            '\\' => match letters.next() {
                Some('n') => text.push('\n'),
                // A line that goes on.
                Some('\n') => text.push(' '),
                Some(other) => text.push(other),
                None => break,
            },
            _ => text.push(letter),
        }
    }
    text
}

fn leak(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}

fn leak_all(texts: &[String]) -> &'static [&'static str] {
    Box::leak(texts.iter().map(|text| leak(text)).collect())
}

#[test]
fn statements_are_found_in_every_form_of_call() {
    let source = "static A: Sql =\n    sql(\"SELECT 'x' FROM a\n WHERE b = ?1\");\nstatic B: Sql = sql(\n \"DELETE FROM a\");
        static C: Sql = upsert(\"t\", &[\"id\"], &[\"x\", \"y\"]); static D: Sql = lock(\"t\", \"id\");
        let (sql, args) = filter.finish(\"x\"); pub const fn sql(text: &str) {}";
    let texts: Vec<String> =
        statements_of(source).iter().map(|sql| sql.text(Dialect::Sqlite).to_owned()).collect();
    assert_eq!(
        texts,
        [
            "SELECT 'x' FROM a\n WHERE b = ?1",
            "DELETE FROM a",
            "SELECT 1 FROM t WHERE id = ?1",
            "INSERT INTO t (id, x, y) VALUES (?1, ?2, ?3) ON CONFLICT (id) DO UPDATE SET x = excluded.x, y = excluded.y",
        ]
    );
}
