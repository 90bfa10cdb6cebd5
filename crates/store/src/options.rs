//! How a store is opened.

use crate::{Error, Migration};
use std::fmt;
use std::time::Duration;

/// Where the data is and how the store may use the machine.
#[derive(Clone)]
pub struct Options {
    /// `sqlite:PATH`, `postgres://…`, `postgresql://…`, `mysql://…` or `mariadb://…`. May hold a password: it
    /// is never printed.
    /// For PostgreSQL with `?sslmode=` (`disable`, `prefer`, `require`, `verify-full`), `sslrootcert=FILE`
    /// and, where a pooler like PgBouncer lends connections for a transaction, `pooler=transaction`. For MySQL
    /// and MariaDB with `?ssl-mode=` (`DISABLED`, `PREFERRED`, `REQUIRED`, `VERIFY_IDENTITY`) and `ssl-ca=FILE`.
    pub url: String,
    /// Replicas of a PostgreSQL primary, best first, as `url` is written: lists are read there ([`crate::Store::list`]).
    pub replicas: Vec<String>,
    /// The schema, in order.
    pub migrations: &'static [Migration],
    /// Tables whose changes some cache or live query depends on: commands must declare keys of them.
    pub watched: &'static [&'static str],
    /// Check declarations at run time (tests and development; costs a look-up a statement).
    pub check: bool,
    /// Bounds of the writer.
    pub writer: WriterLimits,
    /// Threads for scans and lists, and on a server for every read.
    pub readers: usize,
    /// Threads that run commands on a server, each with a connection. SQLite has one writer.
    pub writers: usize,
    /// How instances that share a database server hear of each other.
    pub following: Following,
}

/// How instances that share a database server hear of each other's changes. The defaults are meant for
/// everybody; nothing of it concerns SQLite.
#[derive(Clone)]
pub struct Following {
    /// The log of changes is read this often, at least.
    pub poll: Duration,
    /// When the log was last read longer ago than this, nothing that is cached is believed.
    pub lag_max: Duration,
    /// Rows of the log are kept for this long, at least.
    pub kept: Duration,
    /// Commits wake the other instances, so that these need not wait for their next look at the log.
    pub wake_ups: bool,
    /// Where wake-ups are heard when `url` leads to a pooler: the server itself. May hold a password.
    pub direct_url: Option<String>,
}

impl Default for Following {
    fn default() -> Self {
        Following {
            poll: Duration::from_millis(25),
            lag_max: Duration::from_millis(250),
            kept: Duration::from_secs(60),
            wake_ups: true,
            direct_url: None,
        }
    }
}

/// Bounds of the writer. The defaults are meant for everybody; tests and the bench change them.
#[derive(Clone, Debug)]
pub struct WriterLimits {
    /// Commands in one commit, at most.
    pub batch_max: usize,
    /// Time spent running the commands of one commit, at most.
    pub batch_time: Duration,
    /// How long a command may wait before it starts.
    pub deadline: Duration,
    /// How long a command may run on SQLite, where it holds up all others. On a server the limit is the server's.
    pub command_time: Duration,
    /// Every commit takes this much longer.
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
    /// Waits for as long as an injected fault slows commits down.
    pub(crate) fn delay_commit(&self) {
        #[cfg(feature = "fault-injection")]
        crate::threads::pause(self.commit_delay);
    }
}

impl Options {
    /// Options with defaults for everything but the place and the schema.
    pub fn new(url: impl Into<String>, migrations: &'static [Migration]) -> Options {
        Options {
            url: url.into(),
            replicas: Vec::new(),
            migrations,
            watched: &[],
            check: false,
            writer: WriterLimits::default(),
            readers: 2,
            writers: 4,
            following: Following::default(),
        }
    }

    /// Which database the URL is for. What cannot be read is not repeated: it may hold a password.
    pub(crate) fn scheme(&self) -> Result<Scheme, Error> {
        let (scheme, rest) = self.url.split_once(':').unwrap_or_default();
        if !self.replicas.is_empty() && !scheme.starts_with("postgres") {
            let text = "replicas are read from with PostgreSQL only; with another database, name none";
            return Err(Error::Open(text.to_owned()));
        }
        match scheme {
            "sqlite" if !rest.is_empty() => Ok(Scheme::Sqlite),
            "postgres" | "postgresql" if rest.starts_with("//") => Ok(Scheme::Postgres),
            "mysql" | "mariadb" if rest.starts_with("//") => Ok(Scheme::Mysql),
            _ => {
                let is_name =
                    !scheme.is_empty() && scheme.chars().all(|letter| letter.is_ascii_alphanumeric());
                let given = if is_name { format!("{scheme}:…") } else { "that".to_owned() };
                Err(Error::Open(format!(
                    "{given} is not a database that this program knows; expected sqlite:PATH or \
                     postgres://USER:PASSWORD@HOST:PORT/DATABASE, or mysql:// and the same"
                )))
            }
        }
    }
}

/// The kind of database that a URL names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Sqlite,
    Postgres,
    Mysql,
}

/// All but the URL's secrets.
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
    fn the_scheme_chooses_the_database() {
        assert_eq!(scheme("sqlite:data/sarsen.db"), Ok(Scheme::Sqlite));
        assert_eq!(scheme("postgres://ada:x@db.test/sarsen"), Ok(Scheme::Postgres));
        assert_eq!(scheme("postgresql:///sarsen?host=/run/postgresql"), Ok(Scheme::Postgres));
        assert_eq!(scheme("mysql://ada:x@db.test/sarsen"), Ok(Scheme::Mysql));
        assert_eq!(scheme("mariadb://ada:x@db.test:3307/sarsen"), Ok(Scheme::Mysql));
    }

    #[test]
    fn other_urls_are_refused_with_what_is_allowed_and_without_their_secrets() {
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
