//! Throw-away databases on the PostgreSQL cluster that the environment names.
#![expect(clippy::expect_used, reason = "a test whose database server does not answer has failed")]

pub use ::postgres::Config;
use ::postgres::config::Host;
use ::postgres::{Client, NoTls};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::UNIX_EPOCH;

/// The cluster's URL, if there is one.
pub fn url() -> Option<String> {
    super::variable("SARSEN_TEST_POSTGRES")
}

/// The cluster's settings.
pub fn config() -> Config {
    url().and_then(|url| url.parse().ok()).expect("SARSEN_TEST_POSTGRES is a URL of PostgreSQL")
}

/// A database that is dropped with this value, also while connections are open.
pub struct PostgresDatabase {
    /// Its name on the cluster.
    pub name: String,
}

impl PostgresDatabase {
    /// A new, empty one.
    pub fn create() -> PostgresDatabase {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let moment = UNIX_EPOCH.elapsed().map_or(0, |since| since.as_millis());
        let name = format!("test_{}_{number}_{moment}", std::process::id());
        let create = format!("CREATE DATABASE {name}");
        with_client(config(), move |client| client.batch_execute(&create).expect("a database"));
        PostgresDatabase { name }
    }

    /// Where the cluster is.
    pub fn place(&self) -> (String, u16) {
        place(&config())
    }

    /// For [`crate::Options`].
    pub fn url(&self) -> String {
        let (host, port) = self.place();
        self.url_at(&host, port)
    }

    /// The same on the replica of the cluster, if the environment names one.
    pub fn replica_url(&self) -> Option<String> {
        let replica = super::variable("SARSEN_TEST_POSTGRES_REPLICA")?;
        let (host, port) =
            place(&replica.parse().expect("SARSEN_TEST_POSTGRES_REPLICA is a URL of PostgreSQL"));
        Some(self.url_at(&host, port))
    }

    /// The URL with another place in it: that of a proxy.
    pub fn url_at(&self, host: &str, port: u16) -> String {
        let config = config();
        let user = escaped(config.get_user().unwrap_or("postgres").as_bytes());
        let password = escaped(config.get_password().unwrap_or_default());
        format!("postgres://{user}:{password}@{}:{port}/{}", escaped(host.as_bytes()), self.name)
    }

    /// Runs SQL past the store.
    pub fn sql(&self, text: impl Into<String>) {
        let text = text.into();
        with_client(self.config(), move |client| client.batch_execute(&text).expect("runs"));
    }

    /// One number, past the store.
    pub fn number(&self, text: impl Into<String>) -> i64 {
        let text = text.into();
        with_client(self.config(), move |client| client.query_one(&text, &[]).expect("a row").get(0))
    }

    /// A connection past the store; to be used and dropped on threads of its own.
    pub fn config(&self) -> Config {
        let mut config = config();
        config.dbname(&self.name);
        config
    }
}

impl Drop for PostgresDatabase {
    fn drop(&mut self) {
        let drop = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        with_client(config(), move |client| client.batch_execute(&drop).expect("dropped"));
    }
}

fn place(config: &Config) -> (String, u16) {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(host)) => host.clone(),
        Some(Host::Unix(folder)) => folder.display().to_string(),
        None => "localhost".to_owned(),
    };
    (host, config.get_ports().first().copied().unwrap_or(5432))
}

/// Runs `work` on a thread where the driver may block.
pub fn with_client<T: Send + 'static>(
    config: Config,
    work: impl FnOnce(&mut Client) -> T + Send + 'static,
) -> T {
    let thread = std::thread::spawn(move || work(&mut config.connect(NoTls).expect("connects")));
    thread.join().expect("the database answers")
}

fn escaped(bytes: &[u8]) -> String {
    let letter = |byte: &u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' => char::from(*byte).to_string(),
        other => format!("%{other:02X}"),
    };
    bytes.iter().map(letter).collect()
}
