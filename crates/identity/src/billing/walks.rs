//! An id of the provider that stands for something else now: what follows for the subscriptions that the provider has sent
//! before.
//!
//! The change itself applies the first few subscriptions, in its transaction. A walk through all of them is stored beside
//! it, and the janitor does it in steps ([`step`]), each a transaction of its own. The walk of a price goes through the
//! first ones again, a few seconds later: events that were being applied at the time of the change have read the old
//! mapping, and are found then. All steps give the same result when they are done twice.

use super::connections::{self, Connection};
use super::{ExternalId, subscriptions};
use crate::audit::Actor;
use crate::ids::{BillingConnectionId, SubscriptionId};
use crate::{Result, Time};
use std::time::Duration;
use store::{Row, Snapshot, Tx, args, select, sql, statements, upsert};

/// The most subscriptions that the change of a mapping applies itself.
pub(super) const AT_ONCE_MAX: i64 = 20;
/// Longer than a command runs.
pub const BEGINS_AFTER: Duration = Duration::from_secs(10);
/// How long a walk rests whose step has failed, so that it does not hold up the others.
const RESTS: Duration = Duration::from_secs(300);
/// The most subscriptions that are counted as pending.
const PENDING_MAX: i64 = 10_000;

/// What the id is that stands for something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Price,
    Customer,
}

/// What the change of a mapping has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Subscriptions of the provider that were applied.
    pub applied: u64,
    /// Those that wait for something else.
    pub waiting: u64,
    /// Those that are still to be checked, up to 10,000.
    pub pending: u64,
}

/// Some subscriptions of a walk.
pub(super) struct Slice {
    pub applied: u64,
    pub waiting: u64,
    /// The last one that was checked, if there may be more.
    pub last: Option<ExternalId>,
}

/// A stored walk.
#[derive(Clone, Debug)]
pub struct Walk {
    connection: BillingConnectionId,
    kind: String,
    external: ExternalId,
    last: String,
}

const COLUMNS: &str = "SELECT connection_id, kind, external_id, last_id FROM billing_walks";

statements! {
    static PUT = upsert("billing_walks", &["connection_id", "kind", "external_id"], &["last_id", "due_at"]);
    static DUE = select(COLUMNS, "WHERE due_at <= ?1 ORDER BY due_at LIMIT 1");
    static GET = select(COLUMNS, "WHERE connection_id = ?1 AND kind = ?2 AND external_id = ?3");
    static DELETE = sql("DELETE FROM billing_walks WHERE connection_id = ?1 AND kind = ?2 AND external_id = ?3");
    static PENDING = sql("SELECT COUNT(*) FROM (SELECT 1 AS found FROM billing_subscriptions
     WHERE connection_id = ?1 AND external_id > ?2 LIMIT ?3) beyond");
    static OF_CONNECTION = select(COLUMNS, "WHERE connection_id = ?1 ORDER BY kind, external_id LIMIT ?2");
}

fn read(row: &Row<'_>) -> std::result::Result<Walk, store::Error> {
    Ok(Walk { connection: row.get(0)?, kind: row.get(1)?, external: row.get(2)?, last: row.get(3)? })
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Kind::Price => "price",
            Kind::Customer => "customer",
        }
    }
}

/// Stores a walk after the subscription `last`, or from the first one on. An earlier walk of the same id is replaced.
pub(super) fn begin(
    tx: &mut Tx<'_>,
    connection: &Connection,
    (kind, external): (Kind, &ExternalId),
    last: Option<&ExternalId>,
    due: Time,
) -> Result<()> {
    let last = last.map_or("", ExternalId::as_str);
    tx.exec(&PUT, args![&connection.id, kind.as_str(), external, last, due])?;
    Ok(())
}

/// How many subscriptions of the connection come after this one.
pub(super) fn pending(
    snapshot: &mut Snapshot<'_>,
    connection: &Connection,
    last: &ExternalId,
) -> Result<u64> {
    let count = snapshot.one(&PENDING, args![&connection.id, last, PENDING_MAX], |row| row.get::<i64>(0))?;
    Ok(count.unwrap_or(0).unsigned_abs())
}

/// A walk that is due.
pub fn due(snapshot: &mut Snapshot<'_>, now: Time) -> Result<Option<Walk>> {
    Ok(snapshot.one(&DUE, args![now], read)?)
}

/// Does a step of a walk: up to `most` subscriptions.
pub fn step(tx: &mut Tx<'_>, walk: &Walk, most: i64, new: &SubscriptionId, actor: &Actor) -> Result<()> {
    let Some(connection) = connections::find(tx.snapshot(), &walk.connection)? else {
        return delete(tx, walk);
    };
    tx.lock(&connections::LOCK, (&connection.id).into())?;
    // Another instance, or a newer change, may have been faster.
    let found = tx.one(&GET, args![&walk.connection, &walk.kind, &walk.external], read)?;
    let Some(walk) = found.filter(|found| found.last == walk.last) else { return Ok(()) };
    let (external, last) = (&walk.external, walk.last.as_str());
    let slice = if walk.kind == Kind::Price.as_str() {
        let some = subscriptions::with_price(tx, &connection, external, last, most)?;
        subscriptions::settle_some(tx, &connection, some, new, actor)?
    } else {
        subscriptions::settle_of_external(tx, &connection, external, last, most, new, actor)?
    };
    match &slice.last {
        Some(last) => {
            tx.exec(&PUT, args![&walk.connection, &walk.kind, external, last, actor.now])?;
        }
        None => delete(tx, &walk)?,
    }
    Ok(())
}

/// Lets a walk whose step has failed rest.
pub fn postpone(tx: &mut Tx<'_>, walk: &Walk, now: Time) -> Result<()> {
    if tx.one(&GET, args![&walk.connection, &walk.kind, &walk.external], read)?.is_some() {
        let due = now + RESTS;
        tx.exec(&PUT, args![&walk.connection, &walk.kind, &walk.external, &walk.last, due])?;
    }
    Ok(())
}

fn delete(tx: &mut Tx<'_>, walk: &Walk) -> Result<()> {
    tx.exec(&DELETE, args![&walk.connection, &walk.kind, &walk.external])?;
    Ok(())
}

/// Deletes up to `most` walks of a connection.
pub(super) fn erase(tx: &mut Tx<'_>, connection: &BillingConnectionId, most: i64) -> Result<i64> {
    let walks: Vec<Walk> = tx.all(&OF_CONNECTION, args![connection, most.max(0)], read)?;
    for walk in &walks {
        delete(tx, walk)?;
    }
    Ok(walks.len() as i64)
}
