//! Throw-away databases on the MySQL or MariaDB server that the environment names.
#![expect(clippy::expect_used, reason = "a test whose database server does not answer has failed")]

use ::mysql::prelude::Queryable as _;
use ::mysql::{Conn, Opts, OptsBuilder};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::UNIX_EPOCH;

/// The server's URL, if there is one.
pub fn url() -> Option<String> {
    super::variable("SARSEN_TEST_MYSQL")
}

fn opts() -> Opts {
    url().and_then(|url| Opts::from_url(&url).ok()).expect("SARSEN_TEST_MYSQL is a URL of MySQL")
}

/// A database that is dropped with this value, whoever is still connected.
pub struct MysqlDatabase {
    /// Its name on the server.
    pub name: String,
}

impl MysqlDatabase {
    /// A new, empty one.
    pub fn create() -> MysqlDatabase {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let moment = UNIX_EPOCH.elapsed().map_or(0, |since| since.as_millis());
        let name = format!("test_{}_{number}_{moment}", std::process::id());
        connect(None).query_drop(format!("CREATE DATABASE {name}")).expect("a database");
        MysqlDatabase { name }
    }

    /// Where the server is.
    pub fn place(&self) -> (String, u16) {
        (opts().get_ip_or_hostname().into_owned(), opts().get_tcp_port())
    }

    /// For [`crate::Options`].
    pub fn url(&self) -> String {
        let (host, port) = self.place();
        self.url_at(&host, port)
    }

    /// The URL with another place in it: that of a proxy.
    pub fn url_at(&self, host: &str, port: u16) -> String {
        let opts = opts();
        let user = opts.get_user().unwrap_or("root");
        let password = opts.get_pass().map(|password| format!(":{password}")).unwrap_or_default();
        format!("mysql://{user}{password}@{host}:{port}/{}", self.name)
    }

    /// A connection past the store.
    pub fn connect(&self) -> Conn {
        connect(Some(&self.name))
    }

    /// Runs SQL past the store.
    pub fn sql(&self, text: &str) {
        self.connect().query_drop(text).expect("runs");
    }

    /// One text, past the store.
    pub fn text(&self, text: &str) -> String {
        self.connect().query_first(text).expect("runs").expect("a row")
    }

    /// One number, past the store.
    pub fn number(&self, text: &str) -> i64 {
        self.connect().query_first(text).expect("runs").expect("a row")
    }
}

impl Drop for MysqlDatabase {
    fn drop(&mut self) {
        let mut client = connect(None);
        // A transaction of theirs would keep the tables.
        let others = format!("SELECT id FROM information_schema.processlist WHERE db = '{}'", self.name);
        let others: Vec<u64> = client.query(others).unwrap_or_default();
        for id in others {
            client.query_drop(format!("KILL CONNECTION {id}")).ok();
        }
        client.query_drop(format!("DROP DATABASE IF EXISTS {}", self.name)).ok();
    }
}

fn connect(database: Option<&str>) -> Conn {
    let builder = OptsBuilder::from_opts(opts()).db_name(database).prefer_socket(false);
    Conn::new(builder).expect("connects")
}
