//! Throw-away databases for tests of every crate: a file of SQLite, or a database on the server that the environment
//! names (`postgres.rs`, `mysql.rs`). `SARSEN_TEST_DATABASE` says which; `cargo xtask test` starts the servers.
//! `held.rs`: nobody can write to a table for a while. `own_server.rs` and `own_mariadb.rs` are for tests that want a
//! server to themselves (`own.rs`: whichever it is; `pooler.rs`: PgBouncer before it; `galera.rs`: a cluster), `certificates.rs` for those over
//! TLS. `watchdog.rs`: they end with the process. `rows.rs`: tables of cases.

pub mod certificates;
pub mod galera;
pub mod held;
pub mod mysql;
pub mod own;
pub mod own_mariadb;
pub mod own_server;
pub mod parsers;
pub mod pooler;
pub mod postgres;
pub mod rows;
mod watchdog;

use held::Held;
use mysql::MysqlDatabase;
use postgres::PostgresDatabase;

/// Changes a SQLite file as another program may, also beside a server.
#[expect(clippy::expect_used, reason = "a test without its database has failed")]
pub fn change_file(path: &std::path::Path, sql: &str) {
    let raw = rusqlite::Connection::open(path).expect("opens");
    raw.execute_batch(sql).expect("changes");
}

/// Which database the tests of a run are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file.
    Sqlite,
    /// A database on the cluster of `SARSEN_TEST_POSTGRES`.
    Postgres,
    /// A database on the server of `SARSEN_TEST_MYSQL`.
    Mysql,
}

/// The one that `SARSEN_TEST_DATABASE` names; SQLite when it names none.
#[expect(clippy::panic, reason = "a test run for a database that nobody knows has failed")]
pub fn kind() -> Kind {
    match variable("SARSEN_TEST_DATABASE").as_deref() {
        None | Some("sqlite") => Kind::Sqlite,
        Some("postgres") => Kind::Postgres,
        Some("mysql" | "mariadb") => Kind::Mysql,
        Some(other) => panic!("SARSEN_TEST_DATABASE is {other}; expected sqlite, postgres or mariadb"),
    }
}

/// A database that goes with this value.
pub struct TestPlace(Inner);

enum Inner {
    File(tempfile::TempDir),
    Postgres(PostgresDatabase),
    Mysql(MysqlDatabase),
}

impl TestPlace {
    /// A new, empty one of the run's kind.
    #[expect(clippy::expect_used, reason = "a run for a server that is not there has failed")]
    pub fn create() -> TestPlace {
        TestPlace::on(kind()).expect("the environment names the server")
    }

    /// A new, empty one; none when the environment names no server of this kind, and then a line says so.
    pub fn on(kind: Kind) -> Option<TestPlace> {
        let place = TestPlace::available(kind);
        if place.is_none() {
            say_skipped(&format!("on {kind:?}: the environment names no such server"));
        }
        place
    }

    #[expect(clippy::expect_used, reason = "a test without a folder has failed")]
    fn available(kind: Kind) -> Option<TestPlace> {
        Some(TestPlace(match kind {
            Kind::Sqlite => Inner::File(tempfile::tempdir().expect("a folder")),
            Kind::Postgres => Inner::Postgres(postgres::url().map(|_| PostgresDatabase::create())?),
            Kind::Mysql => Inner::Mysql(mysql::url().map(|_| MysqlDatabase::create())?),
        }))
    }

    /// For [`crate::Options`].
    pub fn url(&self) -> String {
        match &self.0 {
            Inner::File(folder) => format!("sqlite:{}", folder.path().join("test.db").display()),
            Inner::Postgres(database) => database.url(),
            Inner::Mysql(database) => database.url(),
        }
    }

    /// The same database on the replica that the environment names (`SARSEN_TEST_POSTGRES_REPLICA`).
    pub fn replica_url(&self) -> Option<String> {
        match &self.0 {
            Inner::Postgres(database) => database.replica_url(),
            Inner::File(_) | Inner::Mysql(_) => None,
        }
    }

    /// Writes to this table wait until the value is dropped. None for a file.
    pub fn hold(&self, table: &str) -> Option<Held> {
        match &self.0 {
            Inner::File(_) => None,
            Inner::Postgres(database) => Some(Held::on_postgres(database, table)),
            Inner::Mysql(database) => Some(Held::on_mysql(database, table)),
        }
    }

    /// Runs statements past the store.
    pub fn run(&self, script: &str) {
        match &self.0 {
            Inner::File(folder) => change_file(&folder.path().join("test.db"), script),
            Inner::Postgres(database) => database.sql(script),
            Inner::Mysql(database) => database.sql(script),
        }
    }

    /// Whether several instances can share it.
    pub fn is_shared(&self) -> bool {
        !matches!(self.0, Inner::File(_))
    }
}

/// For a test that cannot run on this machine. `cargo xtask test` counts these lines, and CI fails on them. They go past
/// the test harness, which keeps what passing tests print to itself and may be in the middle of a line.
pub fn say_skipped(what: &str) {
    use std::io::Write as _;
    // Without stdout there is nobody who counts.
    let _ = std::io::stdout().write_all(format!("\nSKIPPED {what}\n").as_bytes());
}

/// A variable of the environment that is set to something.
fn variable(name: &str) -> Option<String> {
    std::env::var_os(name)?.into_string().ok().filter(|value| !value.is_empty())
}
