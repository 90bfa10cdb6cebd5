//! Settings that belong to the database itself: chiefly, whether the `secret_key` is the right one.

use crate::secrets::{Random, SecretKey};
use crate::{Error, Result};
use store::{Snapshot, Tx, args, insert_if_absent, sql, statements};

statements! {
    static PUT = insert_if_absent("settings", &["name", "value"]);
    static GET = sql("SELECT value FROM settings WHERE name = ?1");
}

const CHECK: &str = "secret_key_check";
const CHECK_TEXT: &[u8] = b"sarsen";

/// Stores what only this `secret_key` opens, unless something is stored already.
pub fn seal_check(tx: &mut Tx<'_>, sealed: &[u8]) -> Result<()> {
    tx.exec(&PUT, args![CHECK, sealed])?;
    Ok(())
}

/// What [`seal_check`] is to store.
pub fn make_check(key: &SecretKey, random: &dyn Random) -> Result<Vec<u8>> {
    key.seal(CHECK, CHECK_TEXT, random)
}

/// What is stored to check the key with.
pub(crate) fn sealed_check(snapshot: &mut Snapshot<'_>) -> Result<Option<Vec<u8>>> {
    Ok(snapshot.one(&GET, args![CHECK], |row| row.get(0))?)
}

/// Fails when the database was made with another `secret_key`.
pub fn check(snapshot: &mut Snapshot<'_>, key: &SecretKey) -> Result<()> {
    match sealed_check(snapshot)?.map(|sealed| key.open(CHECK, &sealed)) {
        None | Some(Ok(_)) => Ok(()),
        Some(Err(_)) => {
            let problem = "this is not the key that the database was made with; use that one";
            Err(Error::invalid("secret_key", problem))
        }
    }
}
