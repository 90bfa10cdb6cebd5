//! Deletion of ended sessions and grants. They are deleted together: a grant belongs to a session, and the session of a
//! device is useless without its grant.

use crate::ids::{GrantId, SessionId};
use crate::{Result, Time, grants, sessions};
use store::Tx;

/// Deletes these ended sessions, each after its grants. Returns false if there are more than `most` rows; the caller
/// runs another command for the rest.
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

/// Deletes these ended grants.
pub fn delete_grants(tx: &mut Tx<'_>, ids: &[GrantId]) -> Result<()> {
    ids.iter().try_for_each(|id| delete_grant(tx, id))
}

/// Deletes up to `most` refresh tokens created before `moment`, which must be longer ago than [`grants::REFRESH_LIFE`].
/// Returns the number of deleted tokens. A token that was never used was the last of its family, so its grant is
/// deleted too.
pub fn delete_refresh_tokens(tx: &mut Tx<'_>, moment: Time, most: i64) -> Result<usize> {
    let (unused, count) = grants::remove_refresh_tokens(tx, moment, most)?;
    delete_grants(tx, &unused)?;
    Ok(count)
}

/// Deletes a grant, and its session if that is the session of a device.
fn delete_grant(tx: &mut Tx<'_>, id: &GrantId) -> Result<()> {
    match grants::remove(tx, id)? {
        Some(session) => sessions::delete_of_device(tx, &session),
        None => Ok(()),
    }
}
