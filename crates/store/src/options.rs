//! Settings of a store.

use crate::migrate::Schema;
use crate::{BootTime, Error, Migration, Uptime};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The default of [`Options::cache_memory`]: three eighths of a small server.
pub const CACHE_MEMORY: usize = 448 << 20;

/// Where the database is, and how many threads and how much memory the store may use.
#[derive(Clone)]
pub struct Options {
    /// `sqlite:PATH`, `postgres://…`, `postgresql://…`, `mysql://…` or `mariadb://…`. It may contain a password, so it
    /// is never printed.
    ///
    /// PostgreSQL takes `?sslmode=` (`disable`, `prefer`, `require`, `verify-full`; needed where the host is another machine), `sslrootcert=FILE` and, behind a
    /// pooler that lends connections for one transaction (PgBouncer), `pooler=transaction`. MySQL and MariaDB take
    /// `?ssl-mode=` (`DISABLED`, `PREFERRED`, `REQUIRED`, `VERIFY_IDENTITY`) and `ssl-ca=FILE`.
    pub url: String,
    /// URLs of replicas of a PostgreSQL primary, in order of preference. They answer [`crate::Store::list`].
    pub replicas: Vec<String>,
    /// The migrations, in order.
    pub migrations: &'static [Migration],
    /// Tables of libraries between the store and the program: `CREATE TABLE IF NOT EXISTS`, without indexes, in the
    /// language of migrations.
    pub tables: &'static [&'static str],
    /// Tables that caches or live queries depend on: a command that changes one must declare keys of it.
    pub watched: &'static [&'static str],
    /// Checks these declarations at run time, for tests and development. Costs a look-up for each statement.
    pub check: bool,
    /// The memory that all caches may take together, in bytes.
    pub cache_memory: usize,
    /// Limits of the writer.
    pub writer: WriterLimits,
    /// Threads for scans and lists; on a server, for all reads.
    pub readers: usize,
    /// Threads that run commands on a server, each with its own connection. SQLite has one writer.
    pub writers: usize,
    /// How instances that share a database server learn of each other's changes.
    pub following: Following,
}

/// How instances that share a database server learn of each other's changes. The defaults suit most installations.
/// SQLite uses none of it.
#[derive(Clone)]
pub struct Following {
    /// The longest interval between two reads of the change log.
    pub poll: Duration,
    /// Caches are bypassed while the change log was last read longer ago than this.
    pub lag_max: Duration,
    /// The shortest time that rows of the change log are kept.
    pub kept: Duration,
    /// A commit notifies the other instances, so that they do not wait for their next poll of the change log.
    pub wake_ups: bool,
    /// The URL of the server itself for notifications, if `url` names a pooler. It may contain a password.
    pub direct_url: Option<String>,
    /// Measures `lag_max` and `kept`. It must count the time in which the machine is suspended.
    pub clock: Arc<dyn Uptime>,
}

impl Default for Following {
    fn default() -> Self {
        Following {
            poll: Duration::from_millis(25),
            lag_max: Duration::from_millis(250),
            kept: Duration::from_secs(60),
            wake_ups: true,
            direct_url: None,
            clock: Arc::new(BootTime),
        }
    }
}

/// Limits of the writer. The defaults suit most installations; tests and the load generator change them.
#[derive(Clone, Debug)]
pub struct WriterLimits {
    /// The largest number of commands in one commit.
    pub batch_max: usize,
    /// The longest time that the commands of one commit may run.
    pub batch_time: Duration,
    /// How long a command may wait before it starts.
    pub deadline: Duration,
    /// How long a command may run on SQLite, where it holds up all others. On a server the limit is the server's.
    pub command_time: Duration,
    /// Makes every commit take this much longer.
    #[cfg(feature = "fault-injection")]
    pub commit_delay: Duration,
}

impl Default for WriterLimits {
    fn default() -> Self {
        WriterLimits {
            batch_max: 1024,
            batch_time: Duration::from_millis(5),
            deadline: Duration::from_secs(1),
            command_time: Duration::from_millis(100),
            #[cfg(feature = "fault-injection")]
            commit_delay: Duration::ZERO,
        }
    }
}

impl WriterLimits {
    /// Waits for the delay that fault injection asks for.
    pub(crate) fn delay_commit(&self) {
        #[cfg(feature = "fault-injection")]
        crate::threads::pause(self.commit_delay);
    }
}

impl Options {
    /// Default options for this database and these migrations.
    pub fn new(url: impl Into<String>, migrations: &'static [Migration]) -> Options {
        Options {
            url: url.into(),
            replicas: Vec::new(),
            migrations,
            tables: &[],
            watched: &[],
            check: false,
            cache_memory: CACHE_MEMORY,
            writer: WriterLimits::default(),
            readers: 2,
            writers: 4,
            following: Following::default(),
        }
    }

    /// What the database must have.
    pub(crate) fn schema(&self) -> Schema {
        Schema { migrations: self.migrations, tables: self.tables }
    }

    /// The kind of database in the URL. The error does not repeat the URL, which may contain a password.
    pub(crate) fn scheme(&self) -> Result<Scheme, Error> {
        let (scheme, rest) = self.url.split_once(':').unwrap_or_default();
        if !self.replicas.is_empty() && !scheme.starts_with("postgres") {
            let text = "replicas work with PostgreSQL only; with another database, leave `replicas` empty";
            return Err(Error::Open(text.to_owned()));
        }
        match scheme {
            "sqlite" if !rest.is_empty() => Ok(Scheme::Sqlite),
            "postgres" | "postgresql" if rest.starts_with("//") => Ok(Scheme::Postgres),
            "mysql" | "mariadb" if rest.starts_with("//") => Ok(Scheme::Mysql),
            _ => {
                let is_name =
                    !scheme.is_empty() && scheme.chars().all(|letter| letter.is_ascii_alphanumeric());
                let given = if is_name { format!("{scheme}:…") } else { "the value".to_owned() };
                Err(Error::Open(format!(
                    "{given} is not a supported database URL; expected sqlite:PATH, \
                     postgres://USER:PASSWORD@HOST:PORT/DATABASE, or the same with mysql://"
                )))
            }
        }
    }
}

/// A kind of database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Sqlite,
    Postgres,
    Mysql,
}

/// Without secrets.
impl fmt::Debug for Options {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = match self.scheme() {
            Ok(Scheme::Sqlite) => self.url.clone(),
            _ => format!(
                "{}:…",
                self.url.split(':').next().filter(|_| self.url.contains(':')).unwrap_or_default()
            ),
        };
        let migrations = self.migrations.len();
        out.debug_struct("Options")
            .field("url", &url)
            .field("migrations", &migrations)
            .field("watched", &self.watched)
            .field("check", &self.check)
            .field("writer", &self.writer)
            .field("readers", &self.readers)
            .field("writers", &self.writers)
            .field("wake_ups", &self.following.wake_ups)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scheme(url: &str) -> Result<Scheme, String> {
        Options::new(url, &[]).scheme().map_err(|error| error.to_string())
    }

    #[test]
    fn the_scheme_selects_the_database() {
        assert_eq!(scheme("sqlite:data/sarsen.db"), Ok(Scheme::Sqlite));
        assert_eq!(scheme("postgres://ada:x@db.test/sarsen"), Ok(Scheme::Postgres));
        assert_eq!(scheme("postgresql:///sarsen?host=/run/postgresql"), Ok(Scheme::Postgres));
        assert_eq!(scheme("mysql://ada:x@db.test/sarsen"), Ok(Scheme::Mysql));
        assert_eq!(scheme("mariadb://ada:x@db.test:3307/sarsen"), Ok(Scheme::Mysql));
    }

    #[test]
    fn other_urls_are_refused_without_repeating_their_secrets() {
        for url in
            ["oracle://ada:hunter2@db/x", "hunter2", "ada:hunter2@db", "sqlite:", "", "postgres:hunter2"]
        {
            let text = scheme(url).expect_err("refused");
            assert!(text.contains("sqlite:PATH") && text.contains("postgres://"), "{text}");
            assert!(!text.contains("hunter2"), "{text}");
        }
    }

    #[test]
    fn options_do_not_print_a_password() {
        let text = format!("{:?}", Options::new("postgres://ada:hunter2@db.test/sarsen", &[]));
        assert!(text.contains("postgres:…") && !text.contains("hunter2"), "{text}");
    }
}
