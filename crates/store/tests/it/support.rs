//! A small schema and a store on a throw-away database.

use std::path::PathBuf;
use std::sync::Once;
use std::sync::mpsc::Sender;
use std::time::Duration;
use store::testing::mysql::{self as server, MysqlDatabase};
use store::testing::postgres::{self as cluster, PostgresDatabase as TestDatabase};
use store::testing::say_skipped;
use store::{Error, Migration, Options, Sql, Store, args, insert, sql};
use tokio::task::JoinHandle;

pub const NOTES: &str = "
CREATE TABLE notes (
    id {key} NOT NULL PRIMARY KEY,
    owner {key} NOT NULL,
    body {key255} NOT NULL,
    used_at BIGINT,
    UNIQUE INDEX notes_body (owner, body)
) {table};
CREATE TABLE samples (number BIGINT, fraction DOUBLE PRECISION, text {text}, bytes {bytes}) {rowid_table};
";

pub static MIGRATIONS: &[Migration] = &[Migration { number: 1, name: "notes", text: NOTES }];

pub static INSERT: Sql = insert("notes", &[&["id", "owner", "body"]]);
pub static BODY: Sql = sql("SELECT body FROM notes WHERE id = ?1");
pub static COUNT: Sql = sql("SELECT COUNT(*) FROM notes");

/// A statement that writes nothing, and takes for ever to find that out.
pub fn endless(database: Database) -> &'static Sql {
    static RECURSIVE: Sql = sql("INSERT INTO notes (id, owner, body)
         WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000000)
         SELECT 'x', 'x', 'x' FROM n WHERE i < 0");
    // MySQL and MariaDB end a recursion by themselves, after a thousand rounds.
    static SLEEPING: Sql =
        sql("INSERT INTO notes (id, owner, body) SELECT 'x', 'x', 'x' WHERE SLEEP(60) = 2");
    if database == Database::Mysql { &SLEEPING } else { &RECURSIVE }
}

/// The databases that a promise is kept on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Database {
    Sqlite,
    Postgres,
    Mysql,
}

/// Runs each of the named functions as a test on SQLite, and on PostgreSQL and MySQL where there is one.
macro_rules! on_each_database {
    ($($name:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name($crate::support::Database::Sqlite).await;
            })*
        }
        on_each_server!($($name),*);
    };
}

/// The same without SQLite.
macro_rules! on_each_server {
    ($($name:ident),* $(,)?) => {
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                if let Some(database) = $crate::support::Database::postgres() {
                    super::$name(database).await;
                }
            })*
        }
        mod mysql {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                if let Some(database) = $crate::support::Database::mysql() {
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
    Mysql(MysqlDatabase),
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
            SAID.call_once(|| say_skipped("on PostgreSQL: SARSEN_TEST_POSTGRES names no cluster"));
        }
        cluster::url().map(|_| Database::Postgres)
    }

    /// MySQL or MariaDB, in the same way.
    pub fn mysql() -> Option<Database> {
        static SAID: Once = Once::new();
        if server::url().is_none() {
            SAID.call_once(|| say_skipped("on MySQL: SARSEN_TEST_MYSQL names no server"));
        }
        server::url().map(|_| Database::Mysql)
    }

    pub fn open(self) -> TestStore {
        self.open_with(|_| {})
    }

    pub fn open_with(self, change: impl FnOnce(&mut Options)) -> TestStore {
        let place = match self {
            Database::Sqlite => Place::File(tempfile::tempdir().expect("a folder")),
            Database::Postgres => Place::Server(TestDatabase::create()),
            Database::Mysql => Place::Mysql(MysqlDatabase::create()),
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
            Place::Mysql(database) => database.url(),
        };
        let mut options = Options::new(url, MIGRATIONS);
        options.check = true;
        options.watched = &["notes"];
        // A busy machine is no reason to refuse or to bypass a cache, but where that is the test.
        options.writer.deadline = Duration::from_secs(30);
        options.writer.command_time = Duration::from_secs(1);
        options.following.lag_max = Duration::from_secs(10);
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
            Place::Server(_) | Place::Mysql(_) => panic!("not a file"),
        }
    }

    /// Where its server is.
    pub fn server(&self) -> (String, u16) {
        match &self.place {
            Place::Server(database) => database.place(),
            Place::Mysql(database) => database.place(),
            Place::File(_) => panic!("not on a server"),
        }
    }

    /// The database's URL with another place in it: that of a proxy.
    pub fn url_at(&self, host: &str, port: u16) -> String {
        match &self.place {
            Place::Server(database) => database.url_at(host, port),
            Place::Mysql(database) => database.url_at(host, port),
            Place::File(_) => panic!("not on a server"),
        }
    }

    /// Runs SQL past the store, on a server.
    pub fn sql(&self, text: &str) {
        match &self.place {
            Place::Server(database) => database.sql(text),
            Place::Mysql(database) => database.sql(text),
            Place::File(_) => panic!("not on a server"),
        }
    }

    /// One number, past the store, on a server.
    pub fn number(&self, text: &str) -> i64 {
        match &self.place {
            Place::Server(database) => database.number(text),
            Place::Mysql(database) => database.number(text),
            Place::File(_) => panic!("not on a server"),
        }
    }

    /// The database on a PostgreSQL server.
    pub fn database(&self) -> &TestDatabase {
        match &self.place {
            Place::Server(database) => database,
            Place::File(_) | Place::Mysql(_) => panic!("not on PostgreSQL"),
        }
    }

    /// The database on a MySQL server.
    pub fn mysql(&self) -> &MysqlDatabase {
        match &self.place {
            Place::Mysql(database) => database,
            Place::File(_) | Place::Server(_) => panic!("not on MySQL"),
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

/// The value of a metric of the store's page.
pub fn metric(store: &Store, name: &str) -> f64 {
    let mut page = metrics::Page::plain();
    store.show(&mut page);
    let page = page.text(metrics::Format::Prometheus);
    let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name} is not in\n{page}"))
}

/// Keeps a store's only writing thread busy until the sender is dropped.
pub async fn keep_busy(test: &TestStore) -> (Sender<()>, JoinHandle<Result<(), Error>>) {
    let (hold, release) = std::sync::mpsc::channel::<()>();
    let (started, mut has_started) = tokio::sync::mpsc::unbounded_channel();
    let release = std::sync::Mutex::new(release);
    let store = test.store.clone();
    let busy = tokio::spawn(async move {
        let blocked = store.write("block", move |_| {
            started.send(()).expect("the test waits");
            let _ = release.lock().map(|release| release.recv());
            Ok::<_, Error>(())
        });
        blocked.await
    });
    has_started.recv().await.expect("starts");
    (hold, busy)
}
