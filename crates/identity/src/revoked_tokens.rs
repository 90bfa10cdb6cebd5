//! Individually revoked access tokens, by `jti`. Only tokens of clients that act on their own behalf are listed; a
//! token of a user is revoked with its grant.

use crate::ids::{self, AuditId};
use crate::{Result, Time, tokens};
use store::{Key, Snapshot, Tx, args, insert_if_absent, sql, statements};

statements! {
    static INSERT = insert_if_absent("revoked_tokens", &["jti", "expires_at"]);
    static GET = sql("SELECT expires_at FROM revoked_tokens WHERE jti = ?1");
    static OLD = sql("SELECT jti FROM revoked_tokens WHERE jti < ?1 ORDER BY jti LIMIT ?2");
    static DELETE = sql("DELETE FROM revoked_tokens WHERE jti = ?1");
}

/// The key that changes when this token is revoked.
pub(crate) fn key(jti: &str) -> Key {
    Key::row("revoked_tokens", "jti", jti)
}

/// Revokes an access token of a client that acts on its own behalf.
pub fn insert(tx: &mut Tx<'_>, jti: &str, expires_at: Time) -> Result<()> {
    tx.exec(&INSERT, args![jti, expires_at])?;
    tx.changed(key(jti));
    Ok(())
}

/// Whether this token was revoked individually.
pub(crate) fn contains(snapshot: &mut Snapshot<'_>, jti: &str) -> Result<bool> {
    snapshot.depends(|| [key(jti)]);
    Ok(snapshot.one(&GET, args![jti], |row| row.get::<Time>(0))?.is_some())
}

/// Deletes up to `most` revoked tokens that expired before `moment`. Returns the number of deleted tokens.
pub fn delete_older(tx: &mut Tx<'_>, moment: Time, most: i64) -> Result<usize> {
    // Such a `jti` is the part of an id that encodes its creation time. No token outlives `ACCESS_LIFE`.
    let floor = ids::smallest_at(AuditId::PREFIX, moment - tokens::ACCESS_LIFE);
    let floor = &floor[AuditId::PREFIX.len() + 1..];
    let old: Vec<String> = tx.all(&OLD, args![floor, most], |row| row.get(0))?;
    for jti in &old {
        tx.exec(&DELETE, args![jti])?;
        tx.changed(key(jti));
    }
    Ok(old.len())
}
