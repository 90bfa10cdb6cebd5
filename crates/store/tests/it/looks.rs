//! A look at a database that nobody opens: `sarsen doctor` must not migrate it.

use crate::support::Database;
use store::testing::{Kind, TestPlace};
use store::{Error, Migration, Options, Store, look, rehearse_open, schema_version};

static MIGRATIONS: &[Migration] = &[Migration {
    number: 1,
    name: "notes",
    text: "CREATE TABLE notes (id {key} NOT NULL PRIMARY KEY) {table};",
}];

on_each_database!(a_database_is_looked_at_before_and_after_its_first_start,);

async fn a_database_is_looked_at_before_and_after_its_first_start(database: Database) {
    let kind = match database {
        Database::Sqlite => Kind::Sqlite,
        Database::Postgres => Kind::Postgres,
        Database::Mysql => Kind::Mysql,
    };
    let Some(place) = TestPlace::on(kind) else { return };
    let options = Options::new(place.url(), MIGRATIONS);
    rehearse_open(&options).expect("could be opened");
    if kind != Kind::Sqlite {
        assert_eq!(look(&options, schema_version).expect("looks").map(|found| found.expect("reads")), None);
        let wrong = Options::new(place.url().replacen("sarsen:", "nobody:", 1), MIGRATIONS);
        let refused = look(&wrong, schema_version).expect_err("another user").to_string();
        assert!(refused.contains("nobody"), "{refused}");
    }
    Store::open(options.clone()).expect("opens").close();
    let found = look(&options, schema_version).expect("looks");
    assert!(matches!(found, Some(Ok(1))), "{found:?}");
    rehearse_open(&options).expect("could be opened again");
    let store = Store::open(options.clone()).expect("opens");
    rehearse_open(&options).expect("also while it is open");
    store.close();
}

#[cfg(unix)]
#[tokio::test]
async fn a_symbolic_link_is_the_same_database() {
    let test = Database::Sqlite.open();
    let link = test.path().with_file_name("link.db");
    std::os::unix::fs::symlink(test.path().file_name().expect("a name"), &link).expect("linked");
    let mut options = test.options();
    options.url = format!("sqlite:{}", link.display());
    let Err(Error::Open(refused)) = Store::open(options.clone()) else { panic!("opened twice") };
    assert!(refused.contains("in use by process"), "{refused}");
    test.add("n1", "ada", "one").await.expect("writes");
    test.store.close();
    let again = Store::open(options).expect("opens");
    assert!(!link.with_file_name("link.db-wal").exists());
    again.close();
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_is_made_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let test = Database::Sqlite.open();
    test.add("n1", "ada", "one").await.expect("writes");
    for file in ["test.db", "test.db-wal", "test.db-shm"] {
        let file = std::fs::metadata(test.path().with_file_name(file)).expect("looked at");
        assert_eq!(file.permissions().mode() & 0o077, 0, "{file:?}");
    }
    let mut options = test.options();
    options.url = format!("sqlite:{}", test.path().with_file_name("missing").join("new.db").display());
    let Err(Error::Open(refused)) = Store::open(options) else { panic!("there is no such folder") };
    assert!(refused.contains("missing/new.db does not exist; create it first"), "{refused}");
}
