//! The provider's subscriptions: the newest state of each, and what follows from it for ours.
//!
//! A state that cannot be applied (no mapping, a conflict) waits in its row with the [`Problem`]. It is applied when the
//! reason is gone: at once for a customer that becomes known and for a conflict that ends with another event, and by
//! [`retry`] in all cases.
//!
//! | Stripe's status | ours |
//! |---|---|
//! | `active`, `trialing`, `past_due` | the same |
//! | `incomplete` | none yet: nothing is paid |
//! | `unpaid`, `paused` | `canceled`, and live again when it is |
//! | `canceled`, `incomplete_expired` | `canceled`, for good |

use super::connections::{self, Connection};
use super::{ExternalId, customers, prices};
use crate::audit::{self, Actor};
use crate::ids::{BillingConnectionId, CustomerId, SubscriptionId};
use crate::subscriptions::{self, Buyer, NewSubscription, Status, Subscription, SubscriptionPatch};
use crate::{Error, Result, Time};
use std::time::Duration;
use store::{Row, Snapshot, Tx, Where, args, insert_if_absent, select, sql, statements};

/// How long access lasts after the end of a period that is to be renewed. Stripe tries for three days to deliver the
/// event of the renewal.
pub const RENEWAL_TIME: Duration = Duration::from_secs(3 * 24 * 3600);
/// The most waiting subscriptions of a customer that an event applies with its own.
const OTHERS_MAX: i64 = 20;
/// The most subscriptions of a customer among which one is looked for.
const OWN_MAX: i64 = 200;

/// The state of a subscription as the provider sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The provider's id.
    pub id: ExternalId,
    /// The provider's customer.
    pub customer: ExternalId,
    /// The prices of its items.
    pub prices: Vec<ExternalId>,
    /// The provider's status.
    pub status: String,
    /// When it ends or renews.
    pub period: Period,
}

/// When a subscription ends or renews.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    /// The end of the current period, or of its life if that is earlier.
    pub end: Option<Time>,
    /// The end of access, if it is later.
    pub access_until: Option<Time>,
}

impl Period {
    /// A period that ends at `end`, of a subscription that ends at `ends_at` or renews.
    pub fn new(end: Option<Time>, ends_at: Option<Time>) -> Period {
        match (end, ends_at) {
            (Some(end), Some(ends_at)) if ends_at > end => {
                Period { end: Some(end), access_until: Some(ends_at.min(end + RENEWAL_TIME)) }
            }
            (_, Some(ends_at)) => Period { end: Some(ends_at), access_until: None },
            (end, None) => Period { end, access_until: end.map(|end| end + RENEWAL_TIME) },
        }
    }
}

/// What a state asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Live(Status),
    NotLive,
    Ended,
}

/// What a status asks for; `None` if it is unknown.
fn target(status: &str) -> Option<Target> {
    Some(match status {
        "active" => Target::Live(Status::Active),
        "trialing" => Target::Live(Status::Trialing),
        "past_due" => Target::Live(Status::PastDue),
        "incomplete" | "unpaid" | "paused" => Target::NotLive,
        "canceled" | "incomplete_expired" => Target::Ended,
        _ => return None,
    })
}

impl State {
    /// Whether the subscription has ended for good.
    pub(super) fn is_final(&self) -> bool {
        target(&self.status) == Some(Target::Ended)
    }
}

/// Why a state waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The provider's customer stands for no customer.
    UnknownCustomer,
    /// No price stands for a plan.
    UnknownPrice,
    /// The prices stand for several plans.
    SeveralPlans,
    /// The status is not one that is known.
    UnknownStatus,
    /// The customer has another live subscription for the same service.
    AlreadySubscribed,
    /// The customer has as many subscriptions as one may have.
    TooManySubscriptions,
}

impl Problem {
    const ALL: [(&'static str, Problem); 6] = [
        ("unknown_customer", Problem::UnknownCustomer),
        ("unknown_price", Problem::UnknownPrice),
        ("several_plans", Problem::SeveralPlans),
        ("unknown_status", Problem::UnknownStatus),
        ("already_subscribed", Problem::AlreadySubscribed),
        ("too_many_subscriptions", Problem::TooManySubscriptions),
    ];

    /// The name in answers and lists.
    pub fn as_str(self) -> &'static str {
        Problem::ALL.iter().find(|(_, problem)| *problem == self).map_or("", |(word, _)| word)
    }
}

/// What became of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// Our subscription is in this state.
    Done,
    /// It waits.
    Waits(Problem),
}

/// A subscription of the provider.
#[derive(Clone, Debug)]
pub struct BillingSubscription {
    /// Its newest state.
    pub state: State,
    /// Why it waits.
    pub problem: Option<String>,
    /// Our subscription.
    pub subscription: Option<SubscriptionId>,
    /// The time at which it was last received or applied.
    pub updated_at: Time,
}

const COLUMNS: &str =
    "SELECT b.external_id, b.external_customer, b.prices, b.status, b.period_end, b.access_until, b.problem,
            b.subscription_id, b.updated_at
     FROM billing_subscriptions b";

statements! {
    static ADD = insert_if_absent("billing_subscriptions", &[
        "connection_id", "external_id", "event_order", "external_customer", "prices", "status", "period_end",
        "access_until", "updated_at", "waits",
    ]);
    static ADVANCE = sql("UPDATE billing_subscriptions SET event_order = ?3, external_customer = ?4, prices = ?5,
            status = ?6, period_end = ?7, access_until = ?8, updated_at = ?9
     WHERE connection_id = ?1 AND external_id = ?2 AND event_order < ?3");
    static GET = select(COLUMNS, "WHERE b.connection_id = ?1 AND b.external_id = ?2");
    static SETTLE = sql("UPDATE billing_subscriptions SET waits = ?3, problem = ?4, subscription_id = ?5, updated_at = ?6
     WHERE connection_id = ?1 AND external_id = ?2");
    static WAITING_OF_CUSTOMER = select(COLUMNS,
        "JOIN billing_customers m ON m.connection_id = b.connection_id AND m.external_id = b.external_customer
     WHERE m.customer_id = ?2 AND b.connection_id = ?1 AND b.waits = 1 ORDER BY b.external_id LIMIT ?3");
    static OF_EXTERNAL = select(COLUMNS,
        "WHERE b.connection_id = ?1 AND b.external_customer = ?2 ORDER BY b.external_id LIMIT ?3");
    static LINKED = sql("SELECT external_id FROM billing_subscriptions WHERE subscription_id = ?1 LIMIT 1");
    static IDS = sql("SELECT external_id FROM billing_subscriptions WHERE connection_id = ?1
     ORDER BY external_id LIMIT ?2");
    static DELETE = sql("DELETE FROM billing_subscriptions WHERE connection_id = ?1 AND external_id = ?2");
}

fn read(row: &Row<'_>) -> std::result::Result<BillingSubscription, store::Error> {
    let prices: String = row.get(2)?;
    let broken = |_| store::Error::Database("billing subscription with an invalid price".to_owned());
    Ok(BillingSubscription {
        state: State {
            id: row.get(0)?,
            customer: row.get(1)?,
            prices: prices.split_whitespace().map(str::parse).collect::<Result<_>>().map_err(broken)?,
            status: row.get(3)?,
            period: Period { end: row.get(4)?, access_until: row.get(5)? },
        },
        problem: row.get(6)?,
        subscription: row.get(7)?,
        updated_at: row.get(8)?,
    })
}

/// Stores a state if it is the newest, and applies it. Returns `None` if a newer one is stored. The caller holds the lock
/// of the customer.
pub(super) fn advance(
    tx: &mut Tx<'_>,
    connection: &Connection,
    state: &State,
    order: &str,
    new: &SubscriptionId,
    actor: &Actor,
) -> Result<Option<Settled>> {
    let prices: Vec<&str> = state.prices.iter().map(ExternalId::as_str).collect();
    let (id, prices, Period { end, access_until }) = (&connection.id, prices.join(" "), state.period);
    let row = args![
        id,
        &state.id,
        order,
        &state.customer,
        &prices,
        &state.status,
        end,
        access_until,
        actor.now,
        0_i64
    ];
    if tx.exec(&ADD, row)? == 0 {
        let row = args![
            id,
            &state.id,
            order,
            &state.customer,
            &prices,
            &state.status,
            end,
            access_until,
            actor.now
        ];
        if tx.exec(&ADVANCE, row)? == 0 {
            return Ok(None);
        }
    }
    let stored = get(tx.snapshot(), connection, &state.id)?;
    let settled = settle(tx, connection, &stored, new, actor)?;
    // What ended may have been in the way of another one.
    if let Some(customer) = customers::find(tx.snapshot(), connection, &state.customer)? {
        settle_waiting(tx, connection, &customer, &new.plus(1), actor)?;
    }
    Ok(Some(settled))
}

fn get(
    snapshot: &mut Snapshot<'_>,
    connection: &Connection,
    external: &ExternalId,
) -> Result<BillingSubscription> {
    let found = snapshot.one(&GET, args![&connection.id, external], read)?;
    found.ok_or(Error::NotFound { what: "billing subscription" })
}

/// Applies the states of a customer of the provider, when it has become known or stands for another customer.
pub fn settle_external(
    tx: &mut Tx<'_>,
    connection: &Connection,
    external: &ExternalId,
    new: &SubscriptionId,
    actor: &Actor,
) -> Result<()> {
    let own = tx.all(&OF_EXTERNAL, args![&connection.id, external, OTHERS_MAX], read)?;
    settle_all(tx, connection, &own, new, actor)
}

/// Applies the waiting states of a customer.
fn settle_waiting(
    tx: &mut Tx<'_>,
    connection: &Connection,
    customer: &CustomerId,
    new: &SubscriptionId,
    actor: &Actor,
) -> Result<()> {
    let waiting = tx.all(&WAITING_OF_CUSTOMER, args![&connection.id, customer, OTHERS_MAX], read)?;
    settle_all(tx, connection, &waiting, new, actor)
}

/// Applies each of these states. A new subscription of ours gets an id from `new` on.
fn settle_all(
    tx: &mut Tx<'_>,
    connection: &Connection,
    states: &[BillingSubscription],
    new: &SubscriptionId,
    actor: &Actor,
) -> Result<()> {
    for (stored, number) in states.iter().zip(0..) {
        settle(tx, connection, stored, &new.plus(number), actor)?;
    }
    Ok(())
}

/// What [`retry`] has done.
#[derive(Clone, Debug)]
pub struct Retried {
    /// Subscriptions that were applied.
    pub applied: u64,
    /// Subscriptions that still wait.
    pub waiting: u64,
    /// The provider's id of the last one, if there may be more.
    pub next: Option<ExternalId>,
}

/// Tries again to apply up to `most` states that wait, after the id `cursor`.
pub fn retry(
    tx: &mut Tx<'_>,
    connection: &Connection,
    cursor: Option<&str>,
    most: i64,
    new: &SubscriptionId,
    actor: &Actor,
) -> Result<Retried> {
    let waiting = list(tx.snapshot(), connection, true, cursor, most)?;
    let last = waiting.last().map(|stored| stored.state.id.clone());
    let mut retried = Retried { applied: 0, waiting: 0, next: last.filter(|_| waiting.len() as i64 == most) };
    tx.lock(&connections::LOCK, (&connection.id).into())?;
    for (stored, number) in waiting.iter().zip(0..) {
        customers::lock_known(tx, connection, &stored.state.customer)?;
        match settle(tx, connection, stored, &new.plus(number), actor)? {
            Settled::Done => retried.applied += 1,
            Settled::Waits(_) => retried.waiting += 1,
        }
    }
    let details = format!("{} applied, {} waiting", retried.applied, retried.waiting);
    let (organization, id) = (&connection.organization, connection.id.as_str());
    audit::note(tx, organization, actor, "billing.retried", id, &details)?;
    Ok(retried)
}

/// Applies a state to our subscription, and stores the result in its row.
fn settle(
    tx: &mut Tx<'_>,
    connection: &Connection,
    stored: &BillingSubscription,
    new: &SubscriptionId,
    actor: &Actor,
) -> Result<Settled> {
    let linked = match &stored.subscription {
        Some(id) => optional(subscriptions::get(tx.snapshot(), &connection.organization, id))?,
        None => None,
    };
    let (settled, subscription) = match target(&stored.state.status) {
        None => (Settled::Waits(Problem::UnknownStatus), linked.map(|linked| linked.id)),
        Some(Target::NotLive | Target::Ended) => {
            if let Some(linked) = &linked {
                cancel(tx, linked, actor)?;
            }
            (Settled::Done, linked.map(|linked| linked.id))
        }
        Some(Target::Live(status)) => {
            let kept = linked.as_ref().map(|linked| linked.id.clone());
            match go_live(tx, connection, &stored.state, status, linked, new, actor)? {
                Ok(id) => (Settled::Done, Some(id)),
                Err(problem) => (Settled::Waits(problem), kept),
            }
        }
    };
    let problem = if let Settled::Waits(problem) = settled { Some(problem.as_str()) } else { None };
    let (id, waits) = (&connection.id, i64::from(problem.is_some()));
    tx.exec(&SETTLE, args![id, &stored.state.id, waits, problem, subscription.as_ref(), actor.now])?;
    Ok(settled)
}

fn optional<T>(found: Result<T>) -> Result<Option<T>> {
    match found {
        Err(Error::NotFound { .. }) => Ok(None),
        found => found.map(Some),
    }
}

/// Cancels our subscription. Its entitlements end immediately.
fn cancel(tx: &mut Tx<'_>, subscription: &Subscription, actor: &Actor) -> Result<()> {
    if subscription.status == Status::Canceled {
        return Ok(());
    }
    let patch = SubscriptionPatch { status: Some(Status::Canceled), ..SubscriptionPatch::default() };
    subscriptions::patch(tx, subscription, &patch, actor).map(drop)
}

/// Creates or changes our subscription. Returns its id, or why that cannot be done now; then nothing was changed.
fn go_live(
    tx: &mut Tx<'_>,
    connection: &Connection,
    state: &State,
    status: Status,
    linked: Option<Subscription>,
    new: &SubscriptionId,
    actor: &Actor,
) -> Result<std::result::Result<SubscriptionId, Problem>> {
    let Some(customer) = customers::find(tx.snapshot(), connection, &state.customer)? else {
        return Ok(Err(Problem::UnknownCustomer));
    };
    let plan = match prices::plan_of(tx.snapshot(), connection, &state.prices)? {
        Ok(plan) => plan,
        Err(problem) => return Ok(Err(problem)),
    };
    let (own, of_another) = match linked {
        Some(linked) if linked.customer == customer => (Some(linked), None),
        // An administrator lets the provider's customer stand for another one now.
        of_another => (None, of_another),
    };
    let own = match own {
        Some(own) => Some(own),
        None => adoptable(tx.snapshot(), &customer, &plan.slug, actor.now)?,
    };
    let applied = match own {
        Some(own) => change(tx, &own, &plan.slug, status, state.period, actor),
        None => {
            let Period { end, access_until } = state.period;
            let new = NewSubscription {
                id: new.clone(),
                buyer: Buyer::Customer(customer),
                plan: plan.slug,
                status,
                current_period_end: end,
                access_until,
            };
            subscriptions::create(tx, &connection.organization, &new, actor).map(|made| made.id)
        }
    };
    match applied {
        Ok(id) => {
            if let Some(subscription) = of_another {
                cancel(tx, &subscription, actor)?;
            }
            Ok(Ok(id))
        }
        Err(Error::Refused { code: "already_subscribed", .. }) => Ok(Err(Problem::AlreadySubscribed)),
        Err(Error::Refused { code: "too_many_subscriptions", .. }) => Ok(Err(Problem::TooManySubscriptions)),
        Err(error) => Err(error),
    }
}

/// Changes our subscription, if that is not as it should be.
fn change(
    tx: &mut Tx<'_>,
    own: &Subscription,
    plan: &str,
    status: Status,
    Period { end, access_until }: Period,
    actor: &Actor,
) -> Result<SubscriptionId> {
    let wanted = (plan, status, end, access_until);
    if (own.plan_slug.as_str(), own.status, own.current_period_end, own.access_until) == wanted {
        return Ok(own.id.clone());
    }
    let patch = SubscriptionPatch {
        plan: Some(plan.to_owned()),
        status: Some(status),
        current_period_end: Some(end),
        access_until,
    };
    subscriptions::patch(tx, own, &patch, actor).map(|changed| changed.id)
}

/// A live subscription of the customer to the same plan that an administrator has made. The provider's takes its place.
fn adoptable(
    snapshot: &mut Snapshot<'_>,
    customer: &CustomerId,
    plan: &str,
    now: Time,
) -> Result<Option<Subscription>> {
    for own in subscriptions::of_customer(snapshot, customer, OWN_MAX)? {
        if own.plan_slug == plan && own.is_live(now) && !is_linked(snapshot, &own.id)? {
            return Ok(Some(own));
        }
    }
    Ok(None)
}

fn is_linked(snapshot: &mut Snapshot<'_>, subscription: &SubscriptionId) -> Result<bool> {
    Ok(snapshot.one(&LINKED, args![subscription], |row| row.get::<ExternalId>(0))?.is_some())
}

/// Lists the provider's subscriptions by id after `cursor`; only those that wait if `waiting`.
pub fn list(
    snapshot: &mut Snapshot<'_>,
    connection: &Connection,
    waiting: bool,
    cursor: Option<&str>,
    limit: i64,
) -> Result<Vec<BillingSubscription>> {
    let mut filter = Where::new(COLUMNS);
    filter.and("b.connection_id =", &connection.id);
    filter.and_if("b.waits =", waiting.then_some(1_i64));
    filter.and_if("b.external_id >", cursor);
    let (sql, args) = filter.finish(&format!("ORDER BY b.external_id LIMIT {limit}"));
    Ok(snapshot.all(&sql, &args, read)?)
}

/// Deletes up to `most` subscriptions of a connection.
pub(super) fn erase(tx: &mut Tx<'_>, connection: &BillingConnectionId, most: i64) -> Result<i64> {
    let ids: Vec<ExternalId> = tx.all(&IDS, args![connection, most.max(0)], |row| row.get(0))?;
    for id in &ids {
        tx.exec(&DELETE, args![connection, id])?;
    }
    Ok(ids.len() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_lasts_three_days_longer_only_if_the_subscription_renews() {
        let at = |day: u64| Time::from_millis(0) + Duration::from_secs(day * 24 * 3600);
        for (end, ends_at, expected) in [
            (Some(at(30)), None, (Some(at(30)), Some(at(33)))),
            (Some(at(30)), Some(at(30)), (Some(at(30)), None)),
            (Some(at(30)), Some(at(10)), (Some(at(10)), None)),
            (Some(at(30)), Some(at(60)), (Some(at(30)), Some(at(33)))),
            (Some(at(30)), Some(at(31)), (Some(at(30)), Some(at(31)))),
            (None, Some(at(10)), (Some(at(10)), None)),
            (None, None, (None, None)),
        ] {
            let Period { end: found, access_until } = Period::new(end, ends_at);
            assert_eq!((found, access_until), expected, "{end:?} {ends_at:?}");
        }
    }
}
