//! The mark on the target database of a move. It is a lease without an end; its holder is the source installation. It
//! is set before the first row is copied and removed after all rows are copied and compared. A server must not serve
//! from a marked database. Leases, and the turns of repeated work, belong to the running instances of one database and are not
//! moved.

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
    !matches!(table, "leases" | "live_schedules")
}

/// The identity of an installation: a hash of a value sealed with its secret key.
pub fn installation(snapshot: &mut Snapshot<'_>) -> Result<Option<String>> {
    let sealed = crate::settings::sealed_check(snapshot)?;
    Ok(sealed.map(|sealed| URL_SAFE_NO_PAD.encode(secrets::hash(&sealed))))
}

/// Returns the source installation of an unfinished move into this database.
pub fn unfinished_source(snapshot: &mut Snapshot<'_>) -> Result<Option<String>> {
    Ok(snapshot.one(&HOLDER, args![MARK], |row| row.get(0))?)
}

/// Marks this database as the target of a move from `installation`. Returns false if another installation is being
/// moved into it.
pub fn begin(tx: &mut Tx<'_>, installation: &str) -> Result<bool> {
    leases::take(tx, MARK, installation, Time::from_millis(0), Time::NEVER)
}

/// Removes the mark.
pub fn end(tx: &mut Tx<'_>) -> Result<()> {
    tx.exec(&END, args![MARK])?;
    Ok(())
}

/// Fails if a move into this database is unfinished.
pub fn check_finished(snapshot: &mut Snapshot<'_>) -> Result<()> {
    match unfinished_source(snapshot)? {
        None => Ok(()),
        Some(_) => Err(Error::invalid(
            "database",
            "a move into this database is unfinished; run sarsen move again, or use the old database",
        )),
    }
}
