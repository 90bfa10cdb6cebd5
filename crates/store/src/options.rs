//! How a store is opened.

use crate::postgres::Address;
use crate::{Error, Migration, mysql};
use std::fmt;
use std::path::PathBuf;
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
    /// Fault injection: every commit takes this much longer.
    pub commit_delay: Duration,
}

impl Default for WriterLimits {
    fn default() -> Self {
        WriterLimits {
            batch_max: 1024,
            batch_time: Duration::from_millis(5),
            deadline: Duration::from_secs(1),
            command_time: Duration::from_millis(100),
            commit_delay: Duration::ZERO,
        }
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

    /// Where the URL points to. What cannot be read is not repeated: it may hold a password.
    pub(crate) fn place(&self) -> Result<Place, Error> {
        let (scheme, rest) = self.url.split_once(':').unwrap_or_default();
        if !self.replicas.is_empty() && !scheme.starts_with("postgres") {
            let text = "replicas are read from with PostgreSQL only; with another database, name none";
            return Err(Error::Open(text.to_owned()));
        }
        match scheme {
            "sqlite" if !rest.is_empty() => Ok(Place::Sqlite(PathBuf::from(rest))),
            "postgres" | "postgresql" if rest.starts_with("//") => match Address::parse(&self.url) {
                Some(address) => Ok(Place::Postgres(Box::new(address))),
                None => Err(Error::Open(format!(
                    "the database URL cannot be read; expected {scheme}://USER:PASSWORD@HOST:PORT/DATABASE, \
                     with what is special in a password as %XX"
                ))),
            },
            "mysql" | "mariadb" if rest.starts_with("//") => {
                Ok(Place::Mysql(Box::new(mysql::Address::parse(&self.url)?)))
            }
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

/// What a database URL names.
pub(crate) enum Place {
    Sqlite(PathBuf),
    Postgres(Box<Address>),
    Mysql(Box<mysql::Address>),
}

/// All but the URL's secrets.
impl fmt::Debug for Options {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = match self.place() {
            Ok(Place::Sqlite(path)) => format!("sqlite:{}", path.display()),
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

    fn refusal(url: &str) -> String {
        match Options::new(url, &[]).place() {
            Err(error) => error.to_string(),
            Ok(_) => panic!("accepted"),
        }
    }

    #[test]
    fn the_scheme_chooses_the_database() {
        let place = |url: &str| Options::new(url, &[]).place();
        assert!(
            matches!(place("sqlite:data/sarsen.db"), Ok(Place::Sqlite(path)) if path.ends_with("sarsen.db"))
        );
        assert!(matches!(place("postgres://ada:x@db.test/sarsen"), Ok(Place::Postgres(_))));
        assert!(matches!(place("postgresql:///sarsen?host=/run/postgresql"), Ok(Place::Postgres(_))));
        assert!(matches!(place("mysql://ada:x@db.test/sarsen"), Ok(Place::Mysql(_))));
        assert!(matches!(place("mariadb://ada:x@db.test:3307/sarsen"), Ok(Place::Mysql(_))));
    }

    #[test]
    fn other_urls_are_refused_with_what_is_allowed_and_without_their_secrets() {
        for url in
            ["oracle://ada:hunter2@db/x", "hunter2", "ada:hunter2@db", "sqlite:", "", "postgres:hunter2"]
        {
            let text = refusal(url);
            assert!(text.contains("sqlite:PATH") && text.contains("postgres://"), "{text}");
            assert!(!text.contains("hunter2"), "{text}");
        }
        let text = refusal("postgres://ada:hun@host?ter2=1@db/x");
        assert!(text.contains("%XX") && !text.contains("ter2"), "{text}");
        let text = refusal("mysql://ada:hun@host?ter2=1@db/x");
        assert!(text.contains("%XX") && !text.contains("ter2"), "{text}");
    }

    #[test]
    fn options_do_not_print_a_password() {
        let text = format!("{:?}", Options::new("postgres://ada:hunter2@db.test/sarsen", &[]));
        assert!(text.contains("postgres:…") && !text.contains("hunter2"), "{text}");
    }
}
