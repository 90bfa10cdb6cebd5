//! Throw-away databases on the MySQL or MariaDB server that the environment names.
#![expect(clippy::expect_used, reason = "a test whose database server does not answer has failed")]

use crate::mysql::client::Client;
use ::mysql_async::prelude::FromRow;
use ::mysql_async::{Opts, OptsBuilder};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::UNIX_EPOCH;

/// The server's URL, if there is one.
pub fn url() -> Option<String> {
    super::variable("SARSEN_TEST_MYSQL")
}

fn opts() -> Opts {
    url().and_then(|url| Opts::from_url(&url).ok()).expect("SARSEN_TEST_MYSQL is a URL of MySQL")
}

/// A database that is dropped with this value, also while connections are open.
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
        MysqlClient::connect(opts_for(None)).run(&format!("CREATE DATABASE {name}"));
        MysqlDatabase { name }
    }

    /// Where the server is.
    pub fn place(&self) -> (String, u16) {
        (opts().ip_or_hostname().to_owned(), opts().tcp_port())
    }

    /// For [`crate::Options`].
    pub fn url(&self) -> String {
        let (host, port) = self.place();
        self.url_at(&host, port)
    }

    /// The URL with another place in it: that of a proxy.
    pub fn url_at(&self, host: &str, port: u16) -> String {
        let opts = opts();
        let user = opts.user().unwrap_or("root");
        let password = opts.pass().map(|password| format!(":{password}")).unwrap_or_default();
        format!("mysql://{user}{password}@{host}:{port}/{}", self.name)
    }

    /// A connection past the store.
    pub fn connect(&self) -> MysqlClient {
        MysqlClient::connect(opts_for(Some(&self.name)))
    }

    /// A connection past the store that uses no database.
    pub fn connect_elsewhere(&self) -> MysqlClient {
        MysqlClient::connect(opts_for(None))
    }

    /// Runs SQL past the store.
    pub fn sql(&self, text: &str) {
        self.connect().run(text);
    }

    /// One text, past the store.
    pub fn text(&self, text: &str) -> String {
        self.connect().first(text)
    }

    /// One number, past the store.
    pub fn number(&self, text: &str) -> i64 {
        self.connect().first(text)
    }
}

impl Drop for MysqlDatabase {
    fn drop(&mut self) {
        let mut client = MysqlClient::connect(opts_for(None));
        // A transaction of theirs would keep the tables.
        let others = format!("FROM information_schema.processlist WHERE db = '{}'", self.name);
        while client.first::<i64>(&format!("SELECT COUNT(*) {others}")) > 0 {
            let id: u64 = client.first(&format!("SELECT COALESCE(MAX(id), 0) {others}"));
            // It may have ended by itself meanwhile.
            let _ = client.try_run(&format!("KILL CONNECTION {id}"));
        }
        client.run(&format!("DROP DATABASE IF EXISTS {}", self.name));
    }
}

/// A connection past the store. Unlike the store's own it may be used on an asynchronous thread.
pub struct MysqlClient(Option<Client>);

impl MysqlClient {
    pub(super) fn connect(opts: Opts) -> MysqlClient {
        MysqlClient(Some(aside(|| Client::connect(opts).expect("connects"))))
    }

    /// Runs statements.
    pub fn run(&mut self, sql: &str) {
        self.try_run(sql).expect("runs");
    }

    /// Runs statements that may fail.
    pub fn try_run(&mut self, sql: &str) -> ::mysql_async::Result<()> {
        let client = self.0.as_mut().expect("open until it is dropped");
        aside(|| client.batch(sql))
    }

    /// The first column of the first row.
    pub fn first<T: FromRow + Send + 'static>(&mut self, sql: &str) -> T {
        let client = self.0.as_mut().expect("open until it is dropped");
        aside(|| client.first(sql).expect("runs").expect("a row"))
    }
}

impl Drop for MysqlClient {
    fn drop(&mut self) {
        let client = self.0.take();
        aside(|| drop(client));
    }
}

/// Runs `work` on a thread where it may block.
fn aside<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(work).join().expect("the database answers"))
}

fn opts_for(database: Option<&str>) -> Opts {
    OptsBuilder::from_opts(opts()).db_name(database).prefer_socket(false).into()
}
