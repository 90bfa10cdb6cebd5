//! Deleting sessions and grants that are over. Both go together: a grant belongs to a session, and the session of a
//! device is of no use without its grant.

use crate::ids::{GrantId, SessionId};
use crate::{Result, Time, grants, sessions};
use store::Tx;

/// Deletes these sessions, which are over, each after the grants that ended with it. False when there are more than
/// `most` rows: then some are left for another command.
pub fn delete_sessions(tx: &mut Tx<'_>, ids: &[SessionId], most: i64) -> Result<bool> {
    let mut left = most;
    for id in ids {
        left -= grants::delete_of_session(tx, id, left)?;
        if left <= 0 {
            return Ok(false);
        }
        left -= sessions::remove(tx, id)? as i64;
    }
    Ok(true)
}

/// Deletes these grants, which are over.
pub fn delete_grants(tx: &mut Tx<'_>, ids: &[GrantId]) -> Result<()> {
    ids.iter().try_for_each(|id| delete_grant(tx, id))
}

/// Deletes up to `most` refresh tokens that were made before `moment`, which must be longer ago than
/// [`grants::REFRESH_LIFE`]; how many there were. One that was never used was the last of its family: its grant goes, too.
pub fn delete_refresh_tokens(tx: &mut Tx<'_>, moment: Time, most: i64) -> Result<usize> {
    let (unused, count) = grants::remove_refresh_tokens(tx, moment, most)?;
    delete_grants(tx, &unused)?;
    Ok(count)
}

/// Deletes a grant, and the session of the device that it was for.
fn delete_grant(tx: &mut Tx<'_>, id: &GrantId) -> Result<()> {
    match grants::remove(tx, id)? {
        Some(session) => sessions::delete_of_device(tx, &session),
        None => Ok(()),
    }
}
