//! Which plan a price of the provider stands for.

use super::ExternalId;
use super::connections::{self, Connection};
use super::subscriptions::{self, Dependent, Problem};
use super::walks::{self, Applied, Kind, Slice};
use crate::audit::{self, Actor};
use crate::ids::{BillingConnectionId, PlanId, SubscriptionId};
use crate::plans::{self, Plan};
use crate::{Error, Result, Time};
use store::{Row, Snapshot, Tx, Where, args, select, sql, statements, upsert};

/// The most prices of a connection.
const PRICES_MAX: i64 = 1000;

/// A price and its plan.
#[derive(Clone, Debug)]
pub struct Price {
    /// The provider's id.
    pub external: ExternalId,
    /// The slug of the plan.
    pub plan: String,
    /// The id of the user or the key that made the mapping.
    pub created_by: Option<String>,
    /// The time at which it was made.
    pub created_at: Time,
}

const COLUMNS: &str = "SELECT b.external_id, p.slug, b.created_by, b.created_at
     FROM billing_prices b JOIN plans p ON p.id = b.plan_id";

statements! {
    static PUT = upsert(
        "billing_prices",
        &["connection_id", "external_id"],
        &["plan_id", "created_by", "created_at"],
    );
    static FIND = select(COLUMNS, "WHERE b.connection_id = ?1 AND b.external_id = ?2");
    static COUNT = sql("SELECT COUNT(*) FROM billing_prices WHERE connection_id = ?1");
    static PLAN = sql("SELECT p.id, p.slug FROM billing_prices b JOIN plans p ON p.id = b.plan_id
     WHERE b.connection_id = ?1 AND b.external_id = ?2");
    static DELETE = sql("DELETE FROM billing_prices WHERE connection_id = ?1 AND external_id = ?2");
    static ANY_OF_PLAN = sql("SELECT external_id FROM billing_prices WHERE plan_id = ?1 LIMIT 1");
    static IDS = sql("SELECT external_id FROM billing_prices WHERE connection_id = ?1 ORDER BY external_id LIMIT ?2");
}

fn read(row: &Row<'_>) -> std::result::Result<Price, store::Error> {
    Ok(Price { external: row.get(0)?, plan: row.get(1)?, created_by: row.get(2)?, created_at: row.get(3)? })
}

/// What a price stands for now, and what that has led to.
#[derive(Clone, Debug)]
pub struct Mapped {
    /// The price.
    pub price: Price,
    /// The subscriptions that the provider has sent before.
    pub subscriptions: Applied,
}

/// Lets a price stand for a plan, also for the subscriptions that the provider has sent before. Setting the current plan again
/// changes no mapping; the subscriptions are checked again.
pub fn put(
    tx: &mut Tx<'_>,
    connection: &Connection,
    external: &ExternalId,
    plan: &str,
    new: &SubscriptionId,
    actor: &Actor,
) -> Result<Mapped> {
    let plan = plans::named(tx.snapshot(), &connection.organization, plan)?;
    let concerned = lock(tx, connection, external)?;
    tx.lock(&plans::LOCK, (&plan.id).into())?;
    let before = tx.one(&FIND, args![&connection.id, external], read)?;
    if before.is_none() {
        require_room(tx, connection)?;
    }
    let price = match before {
        Some(before) if before.plan == plan.slug => before,
        _ => {
            tx.exec(&PUT, args![&connection.id, external, &plan.id, &actor.who, actor.now])?;
            let details = format!("{external}: {}", plan.slug);
            let (organization, id) = (&connection.organization, connection.id.as_str());
            audit::note(tx, organization, actor, "billing.price_set", id, &details)?;
            Price {
                external: external.clone(),
                plan: plan.slug,
                created_by: Some(actor.who.clone()),
                created_at: actor.now,
            }
        }
    };
    let subscriptions = settle(tx, connection, external, concerned, new, actor)?;
    Ok(Mapped { price, subscriptions })
}

/// Locks the connection, and then the first customers whose subscriptions have the price. An event takes its locks in the same
/// order and the plan's last, so that the two cannot wait for each other in a circle.
fn lock(tx: &mut Tx<'_>, connection: &Connection, external: &ExternalId) -> Result<Dependent> {
    tx.lock(&connections::LOCK, (&connection.id).into())?;
    subscriptions::with_price(tx, connection, external, "", walks::AT_ONCE_MAX)
}

/// Applies the first subscriptions with the price, and lets a walk apply all of them.
fn settle(
    tx: &mut Tx<'_>,
    connection: &Connection,
    external: &ExternalId,
    concerned: Dependent,
    new: &SubscriptionId,
    actor: &Actor,
) -> Result<Applied> {
    let Slice { applied, waiting, last } = subscriptions::settle_some(tx, connection, concerned, new, actor)?;
    walks::begin(tx, connection, (Kind::Price, external), None, actor.now + walks::BEGINS_AFTER)?;
    let pending = match last {
        Some(last) => walks::pending(tx.snapshot(), connection, &last)?,
        None => 0,
    };
    Ok(Applied { applied, waiting, pending })
}

fn require_room(tx: &mut Tx<'_>, connection: &Connection) -> Result<()> {
    let count: Option<i64> = tx.one(&COUNT, args![&connection.id], |row| row.get(0))?;
    if count.unwrap_or(0) >= PRICES_MAX {
        let problem = format!("this connection has {PRICES_MAX} prices; remove one first");
        return Err(Error::refused("too_many_prices", problem));
    }
    Ok(())
}

/// Removes a price. A subscription that has another price with a plan gets that one. The others stay as they are, and wait
/// for a price.
pub fn remove(
    tx: &mut Tx<'_>,
    connection: &Connection,
    external: &ExternalId,
    new: &SubscriptionId,
    actor: &Actor,
) -> Result<Applied> {
    let concerned = lock(tx, connection, external)?;
    if tx.exec(&DELETE, args![&connection.id, external])? == 0 {
        return Err(Error::NotFound { what: "price" });
    }
    let (organization, id) = (&connection.organization, connection.id.as_str());
    audit::note(tx, organization, actor, "billing.price_removed", id, external.as_str())?;
    settle(tx, connection, external, concerned, new, actor)
}

/// A plan as a price names it.
pub(super) struct Named {
    pub id: PlanId,
    pub slug: String,
}

/// Finds the plan of a subscription with these prices. Prices without a plan are ignored, if another one has a plan.
pub(super) fn plan_of(
    snapshot: &mut Snapshot<'_>,
    connection: &Connection,
    prices: &[ExternalId],
) -> Result<std::result::Result<Named, Problem>> {
    let mut found: Option<Named> = None;
    for price in prices {
        let plan = snapshot.one(&PLAN, args![&connection.id, price], |row| {
            Ok(Named { id: row.get(0)?, slug: row.get(1)? })
        })?;
        match (&found, plan) {
            (Some(first), Some(plan)) if first.id != plan.id => return Ok(Err(Problem::SeveralPlans)),
            (None, Some(plan)) => found = Some(plan),
            _ => {}
        }
    }
    Ok(found.ok_or(Problem::UnknownPrice))
}

/// Lists the prices of a connection by the provider's id after `cursor`.
pub fn list(
    snapshot: &mut Snapshot<'_>,
    connection: &Connection,
    cursor: Option<&str>,
    limit: i64,
) -> Result<Vec<Price>> {
    let mut filter = Where::new(COLUMNS);
    filter.and("b.connection_id =", &connection.id);
    filter.and_if("b.external_id >", cursor);
    let (sql, args) = filter.finish(&format!("ORDER BY b.external_id LIMIT {limit}"));
    Ok(snapshot.all(&sql, &args, read)?)
}

/// Whether any price stands for this plan.
pub(crate) fn any_of_plan(snapshot: &mut Snapshot<'_>, plan: &Plan) -> Result<bool> {
    Ok(snapshot.one(&ANY_OF_PLAN, args![&plan.id], |row| row.get::<ExternalId>(0))?.is_some())
}

/// Deletes up to `most` prices of a connection.
pub(super) fn erase(tx: &mut Tx<'_>, connection: &BillingConnectionId, most: i64) -> Result<i64> {
    let ids: Vec<ExternalId> = tx.all(&IDS, args![connection, most.max(0)], |row| row.get(0))?;
    for id in &ids {
        tx.exec(&DELETE, args![connection, id])?;
    }
    Ok(ids.len() as i64)
}
