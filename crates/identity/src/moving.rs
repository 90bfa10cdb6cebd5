//! The mark of a database into which another one is being moved. It is made before the first row arrives and goes
//! when all are there and verified: until then nobody may be served from it.

use crate::{Error, Result, secrets};
use store::{Snapshot, Sql, Tx, args, sql, upsert};

static GET: Sql = sql("SELECT value FROM settings WHERE name = ?1");
static PUT: Sql = upsert("settings", &["name"], &["value"]);
static DELETE: Sql = sql("DELETE FROM settings WHERE name = ?1");

/// The name of the mark among the settings.
pub const MARK: &str = "move_from";

/// What tells one installation from another: a hash of what only its secret key opens.
pub fn installation(snapshot: &mut Snapshot<'_>) -> Result<Option<String>> {
    let sealed: Option<Vec<u8>> = snapshot.one(&GET, args![crate::settings::CHECK], |row| row.get(0))?;
    Ok(sealed.map(|sealed| hex(&secrets::hash(&sealed))))
}

/// From which installation a move into this database is under way, if one is.
pub fn under_way(snapshot: &mut Snapshot<'_>) -> Result<Option<String>> {
    let mark: Option<Vec<u8>> = snapshot.one(&GET, args![MARK], |row| row.get(0))?;
    Ok(mark.map(|mark| String::from_utf8_lossy(&mark).into_owned()))
}

/// Marks this database as the target of a move from `installation`.
pub fn begin(tx: &mut Tx<'_>, installation: &str) -> Result<()> {
    tx.exec(&PUT, args![MARK, installation.as_bytes()])?;
    Ok(())
}

/// Takes the mark away.
pub fn end(tx: &mut Tx<'_>) -> Result<()> {
    tx.exec(&DELETE, args![MARK])?;
    Ok(())
}

/// Fails while a move into this database is not finished.
pub fn check_finished(snapshot: &mut Snapshot<'_>) -> Result<()> {
    match under_way(snapshot)? {
        None => Ok(()),
        Some(_) => Err(Error::invalid(
            "database",
            "a move into it has not been finished; run sarsen move again, or use the old database",
        )),
    }
}

/// Bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
