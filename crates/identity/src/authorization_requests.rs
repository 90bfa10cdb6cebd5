//! Authorization requests that the release before this one stored when they were posted. Nothing adds one or reads one any
//! more; the janitor deletes those of an instance of that release beside this one.

use crate::ids::{self, RequestId};
use crate::{Result, Time};
use std::time::Duration;
use store::{Tx, args, sql, statements};

/// The lifetime of a stored request.
pub const LIFE: Duration = Duration::from_secs(30 * 60);

statements! {
    static OLD = sql("SELECT id FROM authorization_requests WHERE id < ?1 ORDER BY id LIMIT ?2");
    static DELETE = sql("DELETE FROM authorization_requests WHERE id = ?1");
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
