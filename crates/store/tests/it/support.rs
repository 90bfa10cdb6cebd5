//! A small schema and a store on a throw-away database.

use crate::cluster::{self, TestDatabase};
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Once;
use store::{Error, Migration, Options, Sql, Store, args, sql};

const SQLITE: &str = "
CREATE TABLE notes (id TEXT PRIMARY KEY, owner TEXT NOT NULL, body TEXT NOT NULL, used_at BIGINT);
CREATE UNIQUE INDEX notes_body ON notes (owner, body);
CREATE TABLE samples (number BIGINT, real DOUBLE PRECISION, text TEXT, bytes BLOB);
";
const POSTGRES: &str = "
CREATE TABLE notes (
    id TEXT COLLATE \"C\" PRIMARY KEY,
    owner TEXT COLLATE \"C\" NOT NULL,
    body TEXT COLLATE \"C\" NOT NULL,
    used_at BIGINT
);
CREATE UNIQUE INDEX notes_body ON notes (owner, body);
CREATE TABLE samples (number BIGINT, real DOUBLE PRECISION, text TEXT COLLATE \"C\", bytes BYTEA);
";

pub static MIGRATIONS: &[Migration] =
    &[Migration { number: 1, name: "notes", sqlite: SQLITE, postgres: POSTGRES }];

pub static INSERT: Sql = sql("INSERT INTO notes (id, owner, body) VALUES (?1, ?2, ?3)");
pub static BODY: Sql = sql("SELECT body FROM notes WHERE id = ?1");
pub static COUNT: Sql = sql("SELECT COUNT(*) FROM notes");

/// The databases that a promise is kept on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Database {
    Sqlite,
    Postgres,
}

/// Runs each of the named functions as a test on SQLite, and on PostgreSQL when there is one.
macro_rules! on_each_database {
    ($($name:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name($crate::support::Database::Sqlite).await;
            })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                if let Some(database) = $crate::support::Database::postgres() {
                    super::$name(database).await;
                }
            })*
        }
    };
}

/// Where a test's data is; removed with it.
enum Place {
    File(tempfile::TempDir),
    Server(TestDatabase),
}

pub struct TestStore {
    pub store: Store,
    place: Place,
}

impl Database {
    /// PostgreSQL, unless the environment names none: then one line says that its tests are skipped.
    pub fn postgres() -> Option<Database> {
        static SAID: Once = Once::new();
        if cluster::url().is_none() {
            // Past the test harness, which keeps what passing tests print to itself.
            SAID.call_once(|| {
                let line = b"SKIPPED on PostgreSQL: SARSEN_TEST_POSTGRES names no cluster\n";
                std::io::stderr().write_all(line).expect("stderr");
            });
        }
        cluster::url().map(|_| Database::Postgres)
    }

    pub fn open(self) -> TestStore {
        self.open_with(|_| {})
    }

    pub fn open_with(self, change: impl FnOnce(&mut Options)) -> TestStore {
        let place = match self {
            Database::Sqlite => Place::File(tempfile::tempdir().expect("a folder")),
            Database::Postgres => Place::Server(TestDatabase::create()),
        };
        let mut options = place.options();
        change(&mut options);
        TestStore { store: Store::open(options).expect("opens"), place }
    }
}

impl Place {
    fn options(&self) -> Options {
        let url = match self {
            Place::File(folder) => format!("sqlite:{}", folder.path().join("test.db").display()),
            Place::Server(database) => database.url(),
        };
        let mut options = Options::new(url, MIGRATIONS);
        options.check = true;
        options.watched = &["notes"];
        options
    }
}

impl TestStore {
    /// The same database again, as after a restart.
    pub fn reopen(self) -> TestStore {
        self.store.close();
        TestStore { store: Store::open(self.options()).expect("opens again"), place: self.place }
    }

    /// How this database is opened.
    pub fn options(&self) -> Options {
        self.place.options()
    }

    /// The file of a SQLite database.
    pub fn path(&self) -> PathBuf {
        match &self.place {
            Place::File(folder) => folder.path().join("test.db"),
            Place::Server(_) => panic!("not a file"),
        }
    }

    /// The database on a PostgreSQL server.
    pub fn database(&self) -> &TestDatabase {
        match &self.place {
            Place::File(_) => panic!("not on a server"),
            Place::Server(database) => database,
        }
    }

    pub async fn add(&self, id: &str, owner: &str, body: &str) -> Result<u64, Error> {
        add(&self.store, id, owner, body).await
    }

    pub async fn body(&self, id: &str) -> Option<String> {
        let id = id.to_owned();
        let read = self.store.point(move |snapshot| snapshot.one(&BODY, args![&id], |row| row.get(0)));
        read.await.map_err(|error: Error| error).expect("reads")
    }

    pub async fn count(&self) -> i64 {
        let read = self.store.read(|snapshot| snapshot.one(&COUNT, args![], |row| row.get(0)));
        read.await.map_err(|error: Error| error).expect("reads").expect("a count")
    }
}

pub async fn add(store: &Store, id: &str, owner: &str, body: &str) -> Result<u64, Error> {
    let (id, owner, body) = (id.to_owned(), owner.to_owned(), body.to_owned());
    let added = store.write("note.add", move |tx| {
        tx.changed(store::Key::row("notes", "id", &id));
        tx.exec(&INSERT, args![&id, &owner, &body])
    });
    added.await
}
