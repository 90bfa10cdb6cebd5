//! What a database is, without opening it: for `sarsen doctor`, which must not migrate it.

use identity::secrets::SecretKey;
use identity::{database_move, schema, settings};
use store::{Error as StoreError, Options, Snapshot};

/// A database that has tables of Sarsen.
pub struct Looked {
    /// The number of its last migration.
    pub schema: i64,
    /// Why this program cannot serve it.
    pub problem: Option<String>,
}

/// Connects to a database and looks. A file must not be in use. `None` is a database without tables.
pub fn look(options: &Options, key: Option<SecretKey>) -> Result<Option<Looked>, StoreError> {
    let found = store::look(options, move |snapshot| looked(snapshot, key.as_ref()))?;
    found.transpose()
}

fn looked(snapshot: &mut Snapshot<'_>, key: Option<&SecretKey>) -> Result<Looked, StoreError> {
    let schema = store::schema_version(snapshot)?;
    let newest = schema::MIGRATIONS.last().map_or(0, |migration| migration.number);
    let problem = if schema > newest {
        Some(format!("it has schema {schema}, this program knows up to {newest}; use the newer program"))
    } else {
        let fit = key.map_or(Ok(()), |key| settings::check(snapshot, key));
        fit.and_then(|()| database_move::check_finished(snapshot)).err().map(|error| error.to_string())
    };
    Ok(Looked { schema, problem })
}
