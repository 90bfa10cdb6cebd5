//! Everything in the database that is sealed with the secret key: what a backup is checked for, and what a new key
//! seals again. A module that seals a column is in [`COLUMNS`], or in [`open_all`] and [`reseal`]; a test finds the modules.

use crate::billing::connections;
use crate::sealed_column::SealedColumn;
use crate::secrets::{Random, SecretKey};
use crate::{Result, idempotent_writes, keys, mail, settings};
use store::{Snapshot, Tx, schema_version};

/// The tables with a column of that kind.
static COLUMNS: [&SealedColumn; 4] =
    [&idempotent_writes::ANSWERS, &connections::SECRETS, &mail::SECRETS, &mail::requests::ASKERS];

/// Opens each sealed value. Returns how many there are. Fails if the database belongs to another key. It may have the
/// schema of an earlier version.
pub fn open_all(snapshot: &mut Snapshot<'_>, key: &SecretKey) -> Result<u64> {
    settings::check(snapshot, key)?;
    let mut count = keys::open_all(snapshot, key)?;
    let schema = schema_version(snapshot)?;
    for column in COLUMNS.iter().filter(|column| column.migration <= schema) {
        count += column.open_all(snapshot, key)?;
    }
    Ok(count)
}

/// Seals each sealed value with the key `to`. Returns how many there are. The stored answers must be gone:
/// [`idempotent_writes::drop_answers`].
pub fn reseal(tx: &mut Tx<'_>, from: &SecretKey, to: &SecretKey, random: &dyn Random) -> Result<u64> {
    settings::check(tx.snapshot(), from)?;
    settings::reseal_check(tx, &settings::make_check(to, random)?)?;
    let mut count = keys::reseal(tx, from, to, random)?;
    for column in COLUMNS {
        count += column.reseal(tx, from, to, random)?;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::COLUMNS;
    use crate::schema::MIGRATIONS;
    use std::path::Path;

    /// The modules with sealed columns, as the functions above name them.
    const MODULES: [&str; 6] = [
        "billing/connections.rs",
        "idempotent_writes.rs",
        "keys.rs",
        "mail/mod.rs",
        "mail/requests.rs",
        "settings.rs",
    ];

    #[test]
    fn each_column_is_read_from_the_schema_on_that_has_its_table() {
        for column in COLUMNS {
            let binding = (column.binding)("id");
            let table = binding.split('/').next().expect("a table");
            let creates = format!("CREATE TABLE {table} (");
            let found = MIGRATIONS.iter().find(|migration| migration.text.contains(&creates));
            assert_eq!(found.map(|migration| migration.number), Some(column.migration), "{table}");
        }
    }

    #[test]
    fn each_module_that_seals_a_column_is_known_here() {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let (mut folders, mut found) = (vec![sources.clone()], Vec::new());
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|kind| kind == "rs")
                    && std::fs::read_to_string(&path).expect("a text").contains(".seal(")
                {
                    found.push(path.strip_prefix(&sources).expect("below").display().to_string());
                }
            }
        }
        // The definition and its tests, and this text.
        found.retain(|name| !["secrets.rs", "sealed.rs", "sealed_column.rs"].contains(&&**name));
        found.sort();
        assert_eq!(found, MODULES, "add the module to `open_all` and `reseal`");
    }
}
