//! Events that were received. The row is in the event's transaction, so that of an event that is sent several times, also
//! at once, one is applied. Rows are kept longer than the provider sends events again.

use super::connections::Connection;
use super::{Event, ExternalId, NewIds, Outcome};
use crate::ids::{self, BillingConnectionId, BillingEventId};
use crate::{Result, Time};
use std::time::Duration;
use store::{Snapshot, Tx, Where, args, insert_if_absent, sql, statements, update};

/// A row is kept at least this long. Stripe sends events of the last 30 days again.
pub const KEPT: Duration = Duration::from_secs(35 * 24 * 3600);

/// An event that was received.
#[derive(Clone, Debug)]
pub struct Received {
    /// The id. Ids sort by the time of receipt.
    pub id: BillingEventId,
    /// The provider's id.
    pub external: ExternalId,
    /// The provider's name of its kind.
    pub kind: String,
    /// The provider's id of the object that it is about.
    pub subject: ExternalId,
    /// What it has led to: [`Outcome::as_str`].
    pub outcome: String,
    /// The time at which it happened.
    pub occurred_at: Time,
}

const COLUMNS: &str = "SELECT id, external_id, kind, subject, outcome, occurred_at FROM billing_events";
/// Replaced in the same transaction.
const BEGUN: &str = "";

statements! {
    static BEGIN = insert_if_absent(
        "billing_events",
        &["id", "connection_id", "external_id", "kind", "subject", "outcome", "occurred_at"],
    );
    static FINISH = update("billing_events", "id", &["outcome"]);
    static OLD = sql("SELECT id FROM billing_events WHERE id < ?1 ORDER BY id LIMIT ?2");
    static OF_CONNECTION = sql("SELECT id FROM billing_events WHERE connection_id = ?1 ORDER BY id LIMIT ?2");
    static DELETE = sql("DELETE FROM billing_events WHERE id = ?1");
}

/// Begins an event. Returns false if it was received before.
pub(super) fn begin(tx: &mut Tx<'_>, connection: &Connection, event: &Event, new: &NewIds) -> Result<bool> {
    let (id, external, subject) = (&new.event, &event.id, event.subject());
    let row = args![id, &connection.id, external, event.kind, subject, BEGUN, event.occurred_at];
    Ok(tx.exec(&BEGIN, row)? == 1)
}

/// Notes what an event has led to.
pub(super) fn finish(tx: &mut Tx<'_>, new: &NewIds, outcome: Outcome) -> Result<()> {
    tx.exec(&FINISH, args![&new.event, outcome.as_str()])?;
    Ok(())
}

/// Lists the events of a connection before `cursor`, newest first.
pub fn list(
    snapshot: &mut Snapshot<'_>,
    connection: &Connection,
    cursor: Option<&str>,
    limit: i64,
) -> Result<Vec<Received>> {
    let mut filter = Where::new(COLUMNS);
    filter.and("connection_id =", &connection.id);
    filter.and_if("id <", cursor);
    let (sql, args) = filter.finish(&format!("ORDER BY id DESC LIMIT {limit}"));
    Ok(snapshot.all(&sql, &args, |row| {
        Ok(Received {
            id: row.get(0)?,
            external: row.get(1)?,
            kind: row.get(2)?,
            subject: row.get(3)?,
            outcome: row.get(4)?,
            occurred_at: row.get(5)?,
        })
    })?)
}

/// Deletes up to `most` rows received before `moment`. Returns the number of deleted rows.
pub fn delete_older(tx: &mut Tx<'_>, moment: Time, most: i64) -> Result<usize> {
    let before = ids::smallest_at(BillingEventId::PREFIX, moment);
    let old: Vec<BillingEventId> = tx.all(&OLD, args![&before, most], |row| row.get(0))?;
    delete(tx, &old)?;
    Ok(old.len())
}

/// Deletes up to `most` events of a connection.
pub(super) fn erase(tx: &mut Tx<'_>, connection: &BillingConnectionId, most: i64) -> Result<i64> {
    let ids: Vec<BillingEventId> =
        tx.all(&OF_CONNECTION, args![connection, most.max(0)], |row| row.get(0))?;
    delete(tx, &ids)?;
    Ok(ids.len() as i64)
}

fn delete(tx: &mut Tx<'_>, ids: &[BillingEventId]) -> Result<()> {
    for id in ids {
        tx.exec(&DELETE, args![id])?;
    }
    Ok(())
}
