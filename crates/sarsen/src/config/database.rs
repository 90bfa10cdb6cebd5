//! The setting `database`: a file of SQLite, or a server.

use server::backups::real_path;
use std::fmt;
use std::path::{Path, PathBuf};

/// The location of a database. Its text form has no password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Database {
    /// The file of an SQLite database.
    Sqlite(PathBuf),
    /// The URL of a server.
    Server(Url),
}

/// A URL that may have a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Url(String);

impl fmt::Debug for Url {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&masked(&self.0))
    }
}

impl Default for Database {
    fn default() -> Self {
        Database::Sqlite(PathBuf::from("sarsen.db"))
    }
}

impl Database {
    /// What a URL of a database may be, for messages.
    pub const FORMS: &str = "sqlite:PATH, postgres://USER:PASSWORD@HOST:PORT/DATABASE or mysql://…";

    /// Reads `sqlite:PATH`, `postgres://…` or `mysql://…`.
    pub fn parse(url: &str) -> Option<Database> {
        let (scheme, rest) = url.split_once(':')?;
        match scheme {
            "sqlite" if !rest.is_empty() => Some(Database::Sqlite(PathBuf::from(rest))),
            "postgres" | "postgresql" | "mysql" | "mariadb" if rest.starts_with("//") => {
                Some(Database::Server(Url(url.to_owned())))
            }
            _ => None,
        }
    }

    /// Makes a relative path relative to `folder`.
    pub(super) fn under(self, folder: &Path) -> Database {
        match self {
            Database::Sqlite(path) => Database::Sqlite(folder.join(path)),
            server => server,
        }
    }

    /// Follows a symbolic link to the file.
    pub(super) fn without_links(self) -> Database {
        match self {
            Database::Sqlite(path) => Database::Sqlite(real_path(&path)),
            server => server,
        }
    }

    /// The URL for the store.
    pub fn url(&self) -> String {
        match self {
            Database::Sqlite(path) => format!("sqlite:{}", path.display()),
            Database::Server(Url(url)) => url.clone(),
        }
    }

    /// Whether it is on a PostgreSQL server.
    pub fn is_postgres(&self) -> bool {
        matches!(self, Database::Server(Url(url)) if url.starts_with("postgres"))
    }

    /// The file, if it is one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Database::Sqlite(path) => Some(path),
            Database::Server(_) => None,
        }
    }
}

/// The URL with its password masked.
impl fmt::Display for Database {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Database::Sqlite(path) => write!(out, "sqlite:{}", path.display()),
            Database::Server(Url(url)) => out.write_str(&masked(url)),
        }
    }
}

/// Scheme, user, host and name: a password may be between `:` and `@`, and in the query.
fn masked(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    if query.contains('@') {
        // A password with a question mark may end here, and its start is not known.
        return format!("{scheme}://…");
    }
    let query = if query.is_empty() { "" } else { "?…" };
    // The last @ ends the password, even one with @ in it.
    let shown = match rest.rsplit_once('@') {
        None => rest.to_owned(),
        Some((login, place)) => match login.split_once(':') {
            Some((user, _)) => format!("{user}:…@{place}"),
            None => format!("{login}@{place}"),
        },
    };
    format!("{scheme}://{shown}{query}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_shown() {
        for (url, shown) in [
            ("postgres://ada:hunter2@db.test:5432/sarsen", "postgres://ada:…@db.test:5432/sarsen"),
            ("postgres://ada:hun@ter2@db.test/sarsen", "postgres://ada:…@db.test/sarsen"),
            ("postgresql:///sarsen?host=/run&password=hunter2", "postgresql:///sarsen?…"),
            ("postgres://ada@db.test/sarsen", "postgres://ada@db.test/sarsen"),
            ("postgres://ada:hunter2?x@db.test/sarsen", "postgres://…"),
            ("postgres://ada:@hunter2?x@db.test/sarsen", "postgres://…"),
        ] {
            let database = Database::parse(url).expect("a database");
            assert_eq!(database.to_string(), shown);
            assert!(!format!("{database:?}").contains("hunter2"));
            assert_eq!(database.url(), url);
        }
    }

    #[test]
    fn other_texts_are_not_databases() {
        for wrong in ["", "sarsen.db", "sqlite:", "oracle://db/x", "postgres:x", "mysql:x"] {
            assert_eq!(Database::parse(wrong), None, "{wrong}");
        }
    }
}
