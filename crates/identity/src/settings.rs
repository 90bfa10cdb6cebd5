//! Values about the database itself. The only one is a check value for the `secret_key`.

use crate::secrets::{Random, SecretKey};
use crate::{Error, Result};
use store::{Snapshot, Tx, args, insert_if_absent, sql, statements};

statements! {
    static PUT = insert_if_absent("settings", &["name", "value"]);
    static LOCK = sql("UPDATE settings SET value = value WHERE name = ?1");
    static REPLACE = sql("UPDATE settings SET value = ?2 WHERE name = ?1");
    static GET = sql("SELECT value FROM settings WHERE name = ?1");
}

const CHECK: &str = "secret_key_check";
const CHECK_TEXT: &[u8] = b"sarsen";

/// Stores the check value of the `secret_key`, unless one is already stored.
pub fn seal_check(tx: &mut Tx<'_>, sealed: &[u8]) -> Result<()> {
    tx.exec(&PUT, args![CHECK, sealed])?;
    Ok(())
}

/// Locks the check value until the transaction ends: instances that make a row that may exist only once take turns.
/// It is an update: after the wait PostgreSQL runs the command again, with a snapshot that includes the rows of the
/// other instance.
pub fn lock_installation(tx: &mut Tx<'_>) -> Result<()> {
    tx.exec(&LOCK, args![CHECK])?;
    Ok(())
}

/// Replaces the check value by one of another `secret_key`.
pub(crate) fn reseal_check(tx: &mut Tx<'_>, sealed: &[u8]) -> Result<()> {
    tx.exec(&REPLACE, args![CHECK, sealed])?;
    Ok(())
}

/// Creates the check value for [`seal_check`]: a constant text sealed with the key.
pub fn make_check(key: &SecretKey, random: &dyn Random) -> Result<Vec<u8>> {
    key.seal(CHECK, CHECK_TEXT, random)
}

/// Reads the stored check value.
pub(crate) fn sealed_check(snapshot: &mut Snapshot<'_>) -> Result<Option<Vec<u8>>> {
    Ok(snapshot.one(&GET, args![CHECK], |row| row.get(0))?)
}

/// Fails if the database was created with another `secret_key`.
pub fn check(snapshot: &mut Snapshot<'_>, key: &SecretKey) -> Result<()> {
    match sealed_check(snapshot)?.map(|sealed| key.open(CHECK, &sealed)) {
        None | Some(Ok(_)) => Ok(()),
        Some(Err(_)) => {
            let problem = "the database was created with another key, or is from before a change of the key; use the key that \
                 belongs to it";
            Err(Error::invalid("secret_key", problem))
        }
    }
}
