//! What a database is, without opening it: for `sarsen doctor`, which must not migrate it, and for a server, which must not
//! migrate one that it cannot serve.

use identity::secrets::SecretKey;
use identity::{Error, Result, database_move, schema, settings};
use store::{Error as StoreError, Options, Snapshot};

/// A database that has tables of Sarsen.
pub struct Looked {
    /// The number of its last migration.
    pub schema: i64,
    /// Why this program cannot serve it.
    pub problem: Option<Error>,
}

/// Connects to a database and looks. A file must not be in use. `None` is a database without tables.
pub fn look(options: &Options, key: Option<SecretKey>) -> std::result::Result<Option<Looked>, StoreError> {
    let found = store::look(options, move |snapshot| looked(snapshot, key.as_ref()))?;
    found.transpose()
}

fn looked(snapshot: &mut Snapshot<'_>, key: Option<&SecretKey>) -> std::result::Result<Looked, StoreError> {
    let schema = store::schema_version(snapshot)?;
    match require_servable(snapshot, schema, key) {
        Err(Error::Store(error)) if !matches!(error, StoreError::NewerSchema { .. }) => Err(error),
        servable => Ok(Looked { schema, problem: servable.err() }),
    }
}

fn require_servable(snapshot: &mut Snapshot<'_>, found: i64, key: Option<&SecretKey>) -> Result<()> {
    let known = schema::MIGRATIONS.last().map_or(0, |migration| migration.number);
    if found > known {
        return Err(StoreError::NewerSchema { found, known }.into());
    }
    key.map_or(Ok(()), |key| settings::check(snapshot, key))?;
    database_move::check_finished(snapshot)
}
