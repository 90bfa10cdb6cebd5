//! Opens a store. The only file of the core that names the back ends.

use crate::engine::Database;
use crate::migrate::has_migrations;
#[cfg(feature = "mysql")]
use crate::mysql;
use crate::options::Scheme;
#[cfg(feature = "postgres")]
use crate::postgres;
use crate::store::Inner;
use crate::{Error, Options, Snapshot, Store, sqlite};
use std::sync::Arc;
use std::sync::mpsc::channel;

impl Store {
    /// Opens the database, runs its migrations and starts its threads.
    pub fn open(options: Options) -> Result<Store, Error> {
        let (shared, backend) = database(&options)?.open(options)?;
        Ok(Store { inner: Arc::new(Inner { shared, backend }) })
    }
}

/// Runs a query on a database without opening it: no migration runs, and nothing is written. A file must not be in use.
/// The result is `None` if the database has no tables of a store yet.
pub fn look<T: Send + 'static>(
    options: &Options,
    query: impl FnOnce(&mut Snapshot<'_>) -> T + Send + 'static,
) -> Result<Option<T>, Error> {
    let (found, result) = channel();
    let look = move |snapshot: &mut Snapshot<'_>| {
        let has_tables = has_migrations(snapshot).map(|has_them| has_them.then(|| query(snapshot)));
        // The receiver waits below.
        let _ = found.send(has_tables);
    };
    database(options)?.look(options, Box::new(look))?;
    result.recv().unwrap_or_else(|_| Err(Error::Open("the query of the database panicked".to_owned())))
}

/// Does what [`Store::open`] needs of the database and undoes it: whether this user may do it, and whether the server is one
/// that is used. A schema that is to be migrated is left alone, because others may be using it. A file may be in use. A text
/// says what could not be found out.
pub fn rehearse_open(options: &Options) -> Result<Option<&'static str>, Error> {
    database(options)?.rehearse_open(options)
}

/// The back end for the URL's scheme.
pub(crate) fn database(options: &Options) -> Result<&'static dyn Database, Error> {
    match options.scheme()? {
        Scheme::Sqlite => Ok(&sqlite::Sqlite),
        #[cfg(feature = "postgres")]
        Scheme::Postgres => Ok(&postgres::Postgres),
        #[cfg(feature = "mysql")]
        Scheme::Mysql => Ok(&mysql::Mysql),
        #[cfg(not(feature = "postgres"))]
        Scheme::Postgres => Err(left_out("PostgreSQL", "postgres")),
        #[cfg(not(feature = "mysql"))]
        Scheme::Mysql => Err(left_out("MySQL and MariaDB", "mysql")),
    }
}

#[cfg(not(all(feature = "postgres", feature = "mysql")))]
fn left_out(database: &str, feature: &str) -> Error {
    Error::Open(format!(
        "this program was built without {database}; build it with the feature `{feature}`, which a program of your own has \
         in Cargo.toml as a feature of `sarsen`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_accepted_exactly_when_its_feature_is_built_in() {
        for (url, feature, is_built_in) in [
            ("sqlite:sarsen.db", "", true),
            ("postgres://ada:x@db.test/sarsen", "postgres", cfg!(feature = "postgres")),
            ("mariadb://ada:x@db.test/sarsen", "mysql", cfg!(feature = "mysql")),
        ] {
            match database(&Options::new(url, &[])) {
                Ok(_) => assert!(is_built_in, "{url}"),
                Err(refused) => {
                    let text = refused.to_string();
                    assert!(!is_built_in && text.contains(&format!("the feature `{feature}`")), "{text}");
                }
            }
        }
    }
}
