//! Every statement of this crate prepares on each database and finds its rows by an index.

use crate::support::TestIdentity;
use std::fs;
use std::path::Path;
use store::testing::{Kind, TestPlace};
use store::{Dialect, STATEMENTS, Sql, Store, args, sql};

/// All databases. The tests skip the ones that the environment does not configure.
const KINDS: [Kind; 3] = [Kind::Sqlite, Kind::Postgres, Kind::Mysql];

#[tokio::test]
async fn every_statement_prepares_on_every_database() {
    for kind in KINDS {
        let Some(place) = TestPlace::on(kind) else { continue };
        let dialect = match kind {
            Kind::Sqlite => Dialect::Sqlite,
            Kind::Postgres => Dialect::Postgres,
            Kind::Mysql => Dialect::Mysql,
        };
        all_prepare(&TestIdentity::open_in(place).await.store, dialect);
    }
}

#[tokio::test]
async fn the_schema_has_the_same_tables_and_columns_on_every_database() {
    static ON_SQLITE: Sql = sql("SELECT m.name, p.name, p.\"notnull\" = 0
        FROM sqlite_schema m, pragma_table_info(m.name) p
        WHERE m.type = 'table' AND m.name NOT LIKE 'sarsen%' AND m.name NOT LIKE 'sqlite%'
        ORDER BY m.name, p.name");
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

/// Allowed scans: `signing_keys` is short in any installation, the scans of `platform_owners` and `customer_members` stop at their first row,
/// as does the search of a walk that is due, and `leases` has as many rows of this range as instances were started lately.
const SHORT: [&str; 7] = [
    "SCAN signing_keys",
    "SCAN platform_owners",
    "SCAN customer_members USING COVERING INDEX customer_members_user",
    "SEARCH billing_walks USING INDEX billing_walks_due (due_at<?)",
    // The rows of a subquery with a limit.
    "SCAN beyond",
    "SEARCH leases USING PRIMARY KEY (name>? AND name<?)",
    // The search for the latest of them.
    "SEARCH leases USING PRIMARY KEY",
];

#[tokio::test]
async fn no_statement_scans_a_long_table() {
    let place = TestPlace::on(Kind::Sqlite).expect("SQLite is always available");
    let TestIdentity { store, .. } = &TestIdentity::open_in(place).await;
    let mut wrong = Vec::new();
    let mut searches = 0;
    for (place, sql) in all_statements() {
        let text = sql.text(Dialect::Sqlite);
        if text.is_empty() {
            continue;
        }
        let plan = store.explain(sql).expect("a plan").expect("SQLite explains");
        for step in plan.lines().filter(|step| step.starts_with("SEARCH") || step.starts_with("SCAN")) {
            searches += 1;
            // The newest rows by primary key are read from its end. Cleanup statements read a limited range from one end of the primary key.
            let is_slice = text.contains(" LIMIT ?") && step.contains("USING PRIMARY KEY");
            let is_fine = step.starts_with("SEARCH") && (step.contains("=?") || is_slice)
                || step.ends_with("signing_keys USING PRIMARY KEY (id<?)")
                || step.starts_with("SCAN") && text.ends_with(" ORDER BY u.id DESC LIMIT ?1")
                || SHORT.contains(&step)
                // The rows that a recursive statement has made itself.
                || step == "SCAN used" && text.starts_with("WITH RECURSIVE used ");
            if !is_fine {
                wrong.push(format!("{place}: {step}\n  {text}"));
            }
        }
    }
    assert!(searches > 100, "found only {searches} steps; check the parsing of the plans");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // The check detects a full scan.
    let whole = sql("SELECT id FROM sessions WHERE expires_at < ?1");
    assert_eq!(store.explain(&whole).expect("a plan").as_deref(), Some("SCAN sessions"));
}

/// The statements of this crate, each with its module and name.
fn all_statements() -> Vec<(String, &'static Sql)> {
    let own = STATEMENTS.iter().filter(|statement| statement.module.starts_with("identity::"));
    let named = own.map(|statement| (format!("{}::{}", statement.module, statement.name), statement.sql));
    let statements: Vec<_> = named.collect();
    assert!(statements.len() > 100, "found only {} statements", statements.len());
    statements
}

fn all_prepare(store: &Store, dialect: Dialect) {
    let mut wrong = Vec::new();
    for (place, sql) in all_statements().into_iter().filter(|(_, sql)| !sql.text(dialect).is_empty()) {
        if let Err(error) = store.prepare(sql) {
            wrong.push(format!("{place}: {error}\n  {}", sql.text(Dialect::Sqlite)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Statements outside of the list would not be tested.
#[test]
fn every_statement_is_declared_by_the_macro_that_lists_it() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut unlisted = Vec::new();
    let mut folders = vec![folder];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| kind == "rs")
                && fs::read_to_string(&path).expect("a source file").contains(": Sql =")
            {
                unlisted.push(path);
            }
        }
    }
    assert!(unlisted.is_empty(), "use statements! in {unlisted:?}");
}
