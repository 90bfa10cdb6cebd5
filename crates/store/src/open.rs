//! Opens a store. The only file of the core that names the back ends.

use crate::engine::Database;
#[cfg(feature = "mysql")]
use crate::mysql;
use crate::options::Scheme;
#[cfg(feature = "postgres")]
use crate::postgres;
use crate::store::Inner;
use crate::{Error, Options, Store, sqlite};
use std::sync::Arc;

impl Store {
    /// Opens the database, runs its migrations and starts its threads.
    pub fn open(options: Options) -> Result<Store, Error> {
        let (shared, backend) = database(&options)?.open(options)?;
        Ok(Store { inner: Arc::new(Inner { shared, backend }) })
    }
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
    Error::Open(format!("this program was built without {database}; build it with the feature `{feature}`"))
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
