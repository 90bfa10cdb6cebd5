//! Throw-away databases for tests of every crate: a file of SQLite, or a database on the server that the environment
//! names. `SARSEN_TEST_DATABASE` says which (`sqlite`, `postgres`); `cargo xtask test` starts the servers.

use postgres::config::Host;
use postgres::{Client, Config, NoTls};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::UNIX_EPOCH;

/// Which database the tests of a run are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file.
    Sqlite,
    /// A database on the cluster of `SARSEN_TEST_POSTGRES`.
    Postgres,
}

/// The one that `SARSEN_TEST_DATABASE` names; SQLite when it names none.
#[expect(clippy::panic, reason = "a test run for a database that nobody knows has failed")]
pub fn kind() -> Kind {
    match variable("SARSEN_TEST_DATABASE").as_deref() {
        None | Some("sqlite") => Kind::Sqlite,
        Some("postgres") => Kind::Postgres,
        Some(other) => panic!("SARSEN_TEST_DATABASE is {other}; expected sqlite or postgres"),
    }
}

/// A database that goes with this value.
pub struct TestPlace(Inner);

enum Inner {
    File(tempfile::TempDir),
    Postgres(PostgresDatabase),
}

impl TestPlace {
    /// A new, empty one of the run's kind.
    #[expect(clippy::expect_used, reason = "a test without a folder has failed")]
    pub fn create() -> TestPlace {
        TestPlace(match kind() {
            Kind::Sqlite => Inner::File(tempfile::tempdir().expect("a folder")),
            Kind::Postgres => Inner::Postgres(PostgresDatabase::create()),
        })
    }

    /// For [`crate::Options`].
    pub fn url(&self) -> String {
        match &self.0 {
            Inner::File(folder) => format!("sqlite:{}", folder.path().join("test.db").display()),
            Inner::Postgres(database) => database.url(),
        }
    }

    /// Whether several instances can share it.
    pub fn is_shared(&self) -> bool {
        !matches!(self.0, Inner::File(_))
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var_os(name)?.into_string().ok().filter(|value| !value.is_empty())
}

/// A database on a PostgreSQL cluster, dropped with this value, whoever is still connected.
struct PostgresDatabase {
    name: String,
}

impl PostgresDatabase {
    fn create() -> PostgresDatabase {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let moment = UNIX_EPOCH.elapsed().map_or(0, |since| since.as_millis());
        let name = format!("test_{}_{number}_{moment}", std::process::id());
        run(format!("CREATE DATABASE {name}"));
        PostgresDatabase { name }
    }

    fn url(&self) -> String {
        let config = cluster();
        let host = match config.get_hosts().first() {
            Some(Host::Tcp(host)) => host.clone(),
            Some(Host::Unix(folder)) => folder.display().to_string(),
            None => "localhost".to_owned(),
        };
        let user = escaped(config.get_user().unwrap_or("postgres").as_bytes());
        let password = escaped(config.get_password().unwrap_or_default());
        let port = config.get_ports().first().copied().unwrap_or(5432);
        format!("postgres://{user}:{password}@{}:{port}/{}", escaped(host.as_bytes()), self.name)
    }
}

impl Drop for PostgresDatabase {
    fn drop(&mut self) {
        run(format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name));
    }
}

#[expect(clippy::expect_used, reason = "a run for PostgreSQL without a cluster has failed")]
fn cluster() -> Config {
    let url = variable("SARSEN_TEST_POSTGRES").and_then(|url| url.parse().ok());
    url.expect("SARSEN_TEST_POSTGRES is the URL of a PostgreSQL cluster")
}

/// Runs SQL on a thread where the driver may block.
#[expect(clippy::expect_used, reason = "a test whose database server does not answer has failed")]
fn run(sql: String) {
    let thread = std::thread::spawn(move || {
        let mut client: Client = cluster().connect(NoTls).expect("connects");
        client.batch_execute(&sql).expect("runs");
    });
    thread.join().expect("the database answers");
}

fn escaped(bytes: &[u8]) -> String {
    let letter = |byte: &u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' => char::from(*byte).to_string(),
        other => format!("%{other:02X}"),
    };
    bytes.iter().map(letter).collect()
}
