//! Authorization requests that were sent by POST: stored until their user has signed in. A GET needs no row, its
//! parameters stay in the address.

use crate::ids::{self, ClientId, RequestId};
use crate::{Error, Result, Time};
use std::time::Duration;
use store::{Snapshot, Tx, args, insert_if_absent, sql, statements};

/// How long a request waits for its user to sign in.
pub const LIFE: Duration = Duration::from_secs(30 * 60);

statements! {
    static INSERT = insert_if_absent( "authorization_requests", &["id", "client_id", "parameters", "created_at", "expires_at"], );
    static GET = sql("SELECT client_id, parameters FROM authorization_requests WHERE id = ?1 AND expires_at > ?2");
    static OLD = sql("SELECT id FROM authorization_requests WHERE id < ?1 ORDER BY id LIMIT ?2");
    static DELETE = sql("DELETE FROM authorization_requests WHERE id = ?1");
}

/// Stores the parameters of a request that waits for its user.
pub fn create(tx: &mut Tx<'_>, id: &RequestId, client: &ClientId, parameters: &str, now: Time) -> Result<()> {
    tx.exec(&INSERT, args![id, client, parameters, now, now + LIFE])?;
    Ok(())
}

/// The client and the parameters of a request that waits.
pub fn get(snapshot: &mut Snapshot<'_>, id: &RequestId, now: Time) -> Result<(ClientId, String)> {
    snapshot
        .one(&GET, args![id, now], |row| Ok((row.get(0)?, row.get(1)?)))?
        .ok_or(Error::NotFound { what: "authorization request" })
}

/// Deletes up to `most` requests that were made before `moment`; how many there were.
pub fn delete_older(tx: &mut Tx<'_>, moment: Time, most: i64) -> Result<usize> {
    let old: Vec<RequestId> =
        tx.all(&OLD, args![ids::smallest_at(RequestId::PREFIX, moment), most], |row| row.get(0))?;
    for id in &old {
        tx.exec(&DELETE, args![id])?;
    }
    Ok(old.len())
}
