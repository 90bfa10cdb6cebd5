//! Opens a store. The one file of the core that names the back ends.

use crate::engine::Database;
use crate::options::Scheme;
use crate::store::Inner;
use crate::{Error, Options, Store, mysql, postgres, sqlite};
use std::sync::Arc;

impl Store {
    /// Opens the database, brings its schema up to date and starts its threads.
    pub fn open(options: Options) -> Result<Store, Error> {
        let (shared, backend) = database(&options)?.open(options)?;
        Ok(Store { inner: Arc::new(Inner { shared, backend }) })
    }
}

/// The back end for the URL's scheme.
pub(crate) fn database(options: &Options) -> Result<&'static dyn Database, Error> {
    Ok(match options.scheme()? {
        Scheme::Sqlite => &sqlite::Sqlite,
        Scheme::Postgres => &postgres::Postgres,
        Scheme::Mysql => &mysql::Mysql,
    })
}
