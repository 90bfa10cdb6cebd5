//! Everything in the database that is sealed with the secret key: what a backup is checked for, and what a new key
//! seals again. A module that seals a column has a line in [`open_all`] and in [`reseal`]; a test finds the modules.

use crate::billing::connections;
use crate::secrets::{Random, SecretKey};
use crate::{Result, idempotent_writes, keys, settings};
use store::{Snapshot, Tx};

/// Opens each sealed value. Returns how many there are. Fails if the database belongs to another key.
pub fn open_all(snapshot: &mut Snapshot<'_>, key: &SecretKey) -> Result<u64> {
    settings::check(snapshot, key)?;
    Ok(keys::open_all(snapshot, key)?
        + idempotent_writes::open_all(snapshot, key)?
        + connections::open_all(snapshot, key)?)
}

/// Seals each sealed value with the key `to`. Returns how many there are.
pub fn reseal(tx: &mut Tx<'_>, from: &SecretKey, to: &SecretKey, random: &dyn Random) -> Result<u64> {
    settings::check(tx.snapshot(), from)?;
    settings::reseal_check(tx, &settings::make_check(to, random)?)?;
    Ok(keys::reseal(tx, from, to, random)?
        + idempotent_writes::reseal(tx, from, to, random)?
        + connections::reseal(tx, from, to, random)?)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// The modules with sealed columns, as the functions above name them.
    const MODULES: [&str; 4] = ["billing/connections.rs", "idempotent_writes.rs", "keys.rs", "settings.rs"];

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
