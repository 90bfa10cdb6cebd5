//! Everything in the database that is sealed with the secret key: what a backup is checked for, and what a new key
//! seals again. A module that seals a column is in [`COLUMNS`], or in [`open_all`] and [`reseal`]; a test finds the modules.

use crate::billing::connections;
use crate::secrets::{Random, SecretKey};
use crate::{Result, idempotent_writes, keys, settings};
use store::{Snapshot, Sql, Tx, args, schema_version};

/// Rows that one statement reads.
const PAGE: i64 = 200;

/// A sealed column of a table that is read in pages. Its value may be NULL.
pub(crate) struct SealedColumn {
    /// The number of the migration that creates the table. A backup of an earlier version has no such table.
    pub(crate) migration: i64,
    /// Reads the ids and the values of the next `?2` rows after the id `?1`, in the order of their ids.
    pub(crate) page: &'static Sql,
    /// Sets the value of the row `?1` to `?2`. `None` if the values are dropped before the key changes.
    pub(crate) set: Option<&'static Sql>,
    /// What the value of the row with this id is bound to.
    pub(crate) binding: fn(&str) -> String,
}

/// The tables with a column of that kind.
static COLUMNS: [&SealedColumn; 2] = [&idempotent_writes::ANSWERS, &connections::SECRETS];

impl SealedColumn {
    fn open_all(&self, snapshot: &mut Snapshot<'_>, key: &SecretKey) -> Result<u64> {
        let (mut count, mut after) = (0, String::new());
        loop {
            let rows = self.rows_after(snapshot, &after)?;
            for (id, value) in &rows {
                if let Some(sealed) = value {
                    key.open(&(self.binding)(id), sealed)?;
                    count += 1;
                }
            }
            let Some((last, _)) = rows.into_iter().next_back() else { return Ok(count) };
            after = last;
        }
    }

    fn reseal(&self, tx: &mut Tx<'_>, from: &SecretKey, to: &SecretKey, random: &dyn Random) -> Result<u64> {
        let Some(set) = self.set else { return Ok(0) };
        let (mut count, mut after) = (0, String::new());
        loop {
            let rows = self.rows_after(tx.snapshot(), &after)?;
            for (id, value) in &rows {
                if let Some(sealed) = value {
                    let binding = (self.binding)(id);
                    let resealed = to.seal(&binding, &from.open(&binding, sealed)?, random)?;
                    tx.exec(set, args![id, &resealed])?;
                    count += 1;
                }
            }
            let Some((last, _)) = rows.into_iter().next_back() else { return Ok(count) };
            after = last;
        }
    }

    fn rows_after(&self, snapshot: &mut Snapshot<'_>, after: &str) -> Result<Vec<(String, Option<Vec<u8>>)>> {
        Ok(snapshot.all(self.page, args![after, PAGE], |row| Ok((row.get(0)?, row.get(1)?)))?)
    }
}

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
    const MODULES: [&str; 4] = ["billing/connections.rs", "idempotent_writes.rs", "keys.rs", "settings.rs"];

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
        found.retain(|name| name != "secrets.rs" && name != "sealed.rs");
        found.sort();
        assert_eq!(found, MODULES, "add the module to `open_all` and `reseal`");
    }
}
