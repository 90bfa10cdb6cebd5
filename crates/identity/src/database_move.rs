//! The mark of a database into which another one is being moved: a lease without an end, held by the installation that
//! comes. It is made before the first row arrives and goes when all are there and compared: until then nobody may be
//! served from it. Leases belong to the running instances of one database; they are not moved.

use crate::{Error, Result, leases, secrets};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use store::{Snapshot, Time, Tx, args, sql, statements};

statements! {
    static HOLDER = sql("SELECT holder FROM leases WHERE name = ?1");
    static END = sql("DELETE FROM leases WHERE name = ?1");
}

const MARK: &str = "move";

/// Whether the rows of this table are moved.
pub fn is_moved(table: &str) -> bool {
    table != "leases"
}

/// What tells one installation from another: a hash of what only its secret key opens.
pub fn installation(snapshot: &mut Snapshot<'_>) -> Result<Option<String>> {
    let sealed = crate::settings::sealed_check(snapshot)?;
    Ok(sealed.map(|sealed| URL_SAFE_NO_PAD.encode(secrets::hash(&sealed))))
}

/// From which installation a move into this database is under way, if one is.
pub fn under_way(snapshot: &mut Snapshot<'_>) -> Result<Option<String>> {
    Ok(snapshot.one(&HOLDER, args![MARK], |row| row.get(0))?)
}

/// Marks this database as the target of a move from `installation`. False when another one moves into it.
pub fn begin(tx: &mut Tx<'_>, installation: &str) -> Result<bool> {
    leases::take(tx, MARK, installation, Time::from_millis(0), Time::NEVER)
}

/// Takes the mark away.
pub fn end(tx: &mut Tx<'_>) -> Result<()> {
    tx.exec(&END, args![MARK])?;
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
