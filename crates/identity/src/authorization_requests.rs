//! Authorization requests sent by POST. Each is stored until its user has signed in. A GET request needs no row,
//! because its parameters stay in the URL.

use crate::ids::{self, ClientId, RequestId};
use crate::{Error, Result, Time};
use std::time::Duration;
use store::{Snapshot, Tx, args, insert_if_absent, sql, statements};

/// The lifetime of a stored request.
pub const LIFE: Duration = Duration::from_secs(30 * 60);

statements! {
    static INSERT = insert_if_absent( "authorization_requests", &["id", "client_id", "parameters", "created_at", "expires_at"], );
    static GET = sql("SELECT client_id, parameters FROM authorization_requests WHERE id = ?1 AND expires_at > ?2");
    static OLD = sql("SELECT id FROM authorization_requests WHERE id < ?1 ORDER BY id LIMIT ?2");
    static DELETE = sql("DELETE FROM authorization_requests WHERE id = ?1");
}

/// Stores the parameters of a request until the user has signed in.
pub fn create(tx: &mut Tx<'_>, id: &RequestId, client: &ClientId, parameters: &str, now: Time) -> Result<()> {
    tx.exec(&INSERT, args![id, client, parameters, now, now + LIFE])?;
    Ok(())
}

/// Gets the client and the parameters of a stored request.
pub fn get(snapshot: &mut Snapshot<'_>, id: &RequestId, now: Time) -> Result<(ClientId, String)> {
    snapshot
        .one(&GET, args![id, now], |row| Ok((row.get(0)?, row.get(1)?)))?
        .ok_or(Error::NotFound { what: "authorization request" })
}

/// Deletes up to `most` requests created before `moment`. Returns the number of deleted requests.
pub fn delete_older(tx: &mut Tx<'_>, moment: Time, most: i64) -> Result<usize> {
    let old: Vec<RequestId> =
        tx.all(&OLD, args![ids::smallest_at(RequestId::PREFIX, moment), most], |row| row.get(0))?;
    for id in &old {
        tx.exec(&DELETE, args![id])?;
    }
    Ok(old.len())
}
