//! Every statement that the sources of this crate hold is one that the database understands, and
//! that finds its rows by a key.

use crate::support::TestIdentity;
use std::fs;
use std::path::Path;
use store::testing::{Kind, TestPlace};
use store::{Dialect, Sql, Store, args, insert_if_absent, sql, upsert};

/// The databases that the environment names, and SQLite.
const KINDS: [Kind; 3] = [Kind::Sqlite, Kind::Postgres, Kind::Mysql];

#[tokio::test]
async fn every_statement_prepares_on_every_database() {
    for place in KINDS.into_iter().filter_map(TestPlace::on) {
        all_prepare(&TestIdentity::open_in(place).await.store);
    }
}

#[tokio::test]
async fn the_schema_has_the_same_tables_and_columns_on_every_database() {
    static ON_SQLITE: Sql = sql("SELECT m.name, p.name, p.\"notnull\" = 0
        FROM sqlite_schema m, pragma_table_info(m.name) p
        WHERE m.type = 'table' AND m.name NOT LIKE 'sarsen%' ORDER BY m.name, p.name");
    static ON_MYSQL: Sql =
        sql("SELECT table_name, column_name, is_nullable = 'YES' FROM information_schema.columns
        WHERE table_schema = DATABASE() AND table_name NOT LIKE 'sarsen%' AND table_name NOT LIKE 'change_log%'
        ORDER BY table_name, column_name");
    static ON_POSTGRES: Sql =
        sql("SELECT CAST(table_name AS TEXT), CAST(column_name AS TEXT), is_nullable = 'YES'
        FROM information_schema.columns
        WHERE table_schema = 'public' AND table_name NOT LIKE 'sarsen%' AND table_name NOT LIKE 'change_log%'
        ORDER BY table_name, column_name");
    async fn columns(store: &Store, sql: &'static Sql) -> Vec<(String, String, bool)> {
        let read = store
            .read(|snapshot| snapshot.all(sql, args![], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))));
        let mut columns = read.await.map_err(|error: store::Error| error).expect("reads");
        columns.sort();
        columns
    }
    let mut expected = None;
    for kind in KINDS {
        let Some(place) = TestPlace::on(kind) else { continue };
        let statement = match kind {
            Kind::Sqlite => &ON_SQLITE,
            Kind::Postgres => &ON_POSTGRES,
            Kind::Mysql => &ON_MYSQL,
        };
        let found = columns(&TestIdentity::open_in(place).await.store, statement).await;
        assert!(found.len() > 100, "{kind:?}: {}", found.len());
        let expected: &mut Vec<_> = expected.get_or_insert_with(|| found.clone());
        let missing: Vec<_> = expected.iter().filter(|column| !found.contains(column)).collect();
        let added: Vec<_> = found.iter().filter(|column| !expected.contains(column)).collect();
        assert!(missing.is_empty() && added.is_empty(), "{kind:?}: missing {missing:?}, added {added:?}");
    }
}

/// A few rows at most, whatever the installation: signing keys are renewed each month, and any owner will do.
const SHORT: [&str; 2] = ["SCAN signing_keys", "SCAN platform_owners"];
/// That nothing refers to a service any more is checked by its foreign keys, when an administrator deletes it.
const BY_FOREIGN_KEY: [&str; 1] = ["DELETE FROM services WHERE id = ?1"];

#[tokio::test]
async fn no_statement_looks_through_a_long_table() {
    let place = TestPlace::on(Kind::Sqlite).expect("always there");
    let TestIdentity { store, .. } = &TestIdentity::open_in(place).await;
    let mut wrong = Vec::new();
    let mut searches = 0;
    for (place, sql) in all_statements() {
        let text = sql.text(Dialect::Sqlite);
        let plan = store.explain(&sql).expect("a plan").expect("SQLite says");
        for step in plan.lines().filter(|step| step.starts_with("SEARCH") || step.starts_with("SCAN")) {
            searches += 1;
            // What is swept and walked through is read from one end, a slice at a time.
            let is_slice = text.contains(" LIMIT ?") && step.contains("USING PRIMARY KEY");
            let is_fine = step.starts_with("SEARCH") && (step.contains("=?") || is_slice)
                || step.ends_with("signing_keys USING PRIMARY KEY (id<?)")
                || SHORT.contains(&step)
                || BY_FOREIGN_KEY.contains(&text);
            if !is_fine {
                wrong.push(format!("{place}: {step}\n  {text}"));
            }
        }
    }
    assert!(searches > 100, "only {searches} steps were found: are these plans?");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // The test sees what it looks for.
    let whole = sql("SELECT id FROM sessions WHERE expires_at < ?1");
    assert_eq!(store.explain(&whole).expect("a plan").as_deref(), Some("SCAN sessions"));
}

fn all_statements() -> Vec<(String, Sql)> {
    let mut statements = Vec::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut statements);
    assert!(statements.len() > 100, "only {} were found: is the search right?", statements.len());
    statements
}

fn all_prepare(store: &Store) {
    let mut wrong = Vec::new();
    for (place, sql) in all_statements() {
        if let Err(error) = store.prepare(&sql) {
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
