//! The provider's subscriptions: the newest state of each, and what follows from it for ours.
//!
//! A state that cannot be applied (no mapping, a conflict) waits in its row with the [`Problem`]. It is applied when the
//! reason is gone: at once for a price or a customer that is mapped anew and for a conflict that ends with another event, and
//! by [`retry`] in all cases.
//!
//! | Stripe's status | ours |
//! |---|---|
//! | `active`, `trialing`, `past_due` | the same |
//! | `incomplete` | none yet: nothing is paid |
//! | `unpaid`, `paused` | `canceled`, and live again when it is |
//! | `canceled`, `incomplete_expired` | `canceled`, for good |

use super::connections::{self, Connection};
use super::external_id::{ExternalId, PLACE_LENGTH};
use super::same_second::{self, Change};
use super::walks::{self, Kind, Slice};
use super::{customers, prices};
use crate::audit::{self, Actor};
use crate::ids::{BillingConnectionId, CustomerId, SubscriptionId};
use crate::subscriptions::{self, Buyer, NewSubscription, Status, Subscription, SubscriptionPatch};
use crate::{Error, Result, Time};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::time::Duration;
use store::{Row, Snapshot, Tx, Where, args, insert, select, sql, statements};

/// How long access lasts after the end of a period that is to be renewed. Stripe tries for three days to deliver the
/// event of the renewal.
pub const RENEWAL_TIME: Duration = Duration::from_secs(3 * 24 * 3600);
/// The most waiting subscriptions of a customer that an event applies with its own.
const OTHERS_MAX: i64 = 20;
/// The most subscriptions of a connection that are read at a time, to find those with a price.
const SCANNED_MAX: i64 = 1000;
/// A state may create a subscription of ours, and let waiting ones create theirs.
const IDS_OF_ONE: u32 = 1 + OTHERS_MAX as u32;
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
    /// Whether it has items beside these, which the event does not show.
    pub more_items: bool,
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
    /// No price stands for a plan, and the event did not show all of them.
    MoreItems,
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
    const ALL: [(&'static str, Problem); 7] = [
        ("unknown_customer", Problem::UnknownCustomer),
        ("unknown_price", Problem::UnknownPrice),
        ("more_items", Problem::MoreItems),
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
            b.subscription_id, b.updated_at, b.more_items
     FROM billing_subscriptions b";

statements! {
    static ADD = insert("billing_subscriptions", &[&[
        "connection_id", "external_id", "event_order", "external_customer", "prices", "status", "period_end",
        "access_until", "updated_at", "more_items", "same_second", "waits",
    ]]);
    static REPLACE = sql("UPDATE billing_subscriptions SET event_order = ?3, external_customer = ?4, prices = ?5,
            status = ?6, period_end = ?7, access_until = ?8, updated_at = ?9, more_items = ?10, same_second = ?11
     WHERE connection_id = ?1 AND external_id = ?2");
    static COMPARED = sql("UPDATE billing_subscriptions SET same_second = ?3 WHERE connection_id = ?1 AND external_id = ?2");
    static PLACE = sql("SELECT event_order, same_second FROM billing_subscriptions
     WHERE connection_id = ?1 AND external_id = ?2");
    static SCAN = sql("SELECT external_id, external_customer, prices, status FROM billing_subscriptions
     WHERE connection_id = ?1 AND external_id > ?2 ORDER BY external_id LIMIT ?3");
    static GET = select(COLUMNS, "WHERE b.connection_id = ?1 AND b.external_id = ?2");
    static SETTLE = sql("UPDATE billing_subscriptions SET waits = ?3, problem = ?4, subscription_id = ?5, updated_at = ?6
     WHERE connection_id = ?1 AND external_id = ?2");
    static WAITING_OF_CUSTOMER = select(COLUMNS,
        "JOIN billing_customers m ON m.connection_id = b.connection_id AND m.external_id = b.external_customer
     WHERE m.customer_id = ?2 AND b.connection_id = ?1 AND b.waits = 1 ORDER BY b.external_id LIMIT ?3");
    static OF_EXTERNAL = select(COLUMNS,
        "WHERE b.connection_id = ?1 AND b.external_customer = ?2 AND b.external_id > ?3 ORDER BY b.external_id LIMIT ?4");
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
            more_items: row.get::<i64>(9)? != 0,
            status: row.get(3)?,
            period: Period { end: row.get(4)?, access_until: row.get(5)? },
        },
        problem: row.get(6)?,
        subscription: row.get(7)?,
        updated_at: row.get(8)?,
    })
}

/// Stores a state and applies it, if it is the newest. Returns `None` if a newer one is stored. The caller holds the lock of
/// the customer, so that events about one subscription take turns.
pub(super) fn advance(
    tx: &mut Tx<'_>,
    connection: &Connection,
    change: Change,
    place: &str,
    new: &SubscriptionId,
    actor: &Actor,
) -> Result<Option<Settled>> {
    let (id, external) = (&connection.id, change.after.id.clone());
    let read_place = |row: &Row<'_>| Ok((row.get::<String>(0)?, row.get::<Option<String>>(1)?));
    let stored = tx.one(&PLACE, args![id, &external], read_place)?;
    let mut changes = Vec::new();
    if let Some((order, same_second)) = &stored {
        match order.get(..PLACE_LENGTH).map(|stored| place.cmp(stored)) {
            Some(Ordering::Greater) | None => {}
            Some(Ordering::Less) => return Ok(None),
            Some(Ordering::Equal) => {
                let current = order[PLACE_LENGTH..].parse()?;
                let after = get(tx.snapshot(), connection, &external)?.state;
                let current = Change { id: current, before: None, after };
                changes = same_second::read(same_second.as_deref(), current);
                if changes.iter().any(|known| known.id == change.id) {
                    return Ok(None);
                }
            }
        }
    }
    changes.push(change);
    let Some(newest) = same_second::newest(&changes) else { return Ok(None) };
    let same_second = same_second::write(&changes);
    let order = [place, newest.id.as_str()].concat();
    if stored.as_ref().is_some_and(|(stored, _)| *stored == order) {
        tx.exec(&COMPARED, args![id, &external, same_second.as_deref()])?;
        return Ok(None);
    }
    let State { customer, prices, more_items, status, period, .. } = &newest.after;
    let (prices, more_items) = (joined(prices), i64::from(*more_items));
    let Period { end, access_until } = *period;
    let (order, prices, same_second) = (order.as_str(), prices.as_str(), same_second.as_deref());
    let statement = if stored.is_some() { &REPLACE } else { &ADD };
    let row = args![
        id,
        &external,
        order,
        customer,
        prices,
        status,
        end,
        access_until,
        actor.now,
        more_items,
        same_second,
        0_i64
    ];
    let count = if stored.is_some() { row.len() - 1 } else { row.len() };
    tx.exec(statement, &row[..count])?;
    let stored = get(tx.snapshot(), connection, &external)?;
    let settled = settle(tx, connection, &stored, new, actor)?;
    make_way(tx, connection, &stored.state, new, actor)?;
    Ok(Some(settled))
}

fn joined(prices: &[ExternalId]) -> String {
    let prices: Vec<&str> = prices.iter().map(ExternalId::as_str).collect();
    prices.join(" ")
}

/// What was changed may have been in the way of another subscription of the customer.
fn make_way(
    tx: &mut Tx<'_>,
    connection: &Connection,
    state: &State,
    new: &SubscriptionId,
    actor: &Actor,
) -> Result<()> {
    match customers::find(tx.snapshot(), connection, &state.customer)? {
        Some(customer) => settle_waiting(tx, connection, &customer, &new.plus(1), actor),
        None => Ok(()),
    }
}

fn get(
    snapshot: &mut Snapshot<'_>,
    connection: &Connection,
    external: &ExternalId,
) -> Result<BillingSubscription> {
    let found = snapshot.one(&GET, args![&connection.id, external], read)?;
    found.ok_or(Error::NotFound { what: "billing subscription" })
}

/// Applies the states of a customer of the provider, when it has become known or stands for another customer. The first of
/// them now; a walk applies the others.
pub fn settle_external(
    tx: &mut Tx<'_>,
    connection: &Connection,
    external: &ExternalId,
    new: &SubscriptionId,
    actor: &Actor,
) -> Result<()> {
    let slice = settle_of_external(tx, connection, external, "", OTHERS_MAX, new, actor)?;
    match &slice.last {
        Some(last) => walks::begin(tx, connection, (Kind::Customer, external), Some(last), actor.now),
        None => Ok(()),
    }
}

/// Applies up to `most` states of a customer of the provider after the id `after`.
pub(super) fn settle_of_external(
    tx: &mut Tx<'_>,
    connection: &Connection,
    external: &ExternalId,
    after: &str,
    most: i64,
    new: &SubscriptionId,
    actor: &Actor,
) -> Result<Slice> {
    customers::lock_known(tx, connection, external)?;
    let own = tx.all(&OF_EXTERNAL, args![&connection.id, external, after, most], read)?;
    let last = own.last().map(|stored| stored.state.id.clone()).filter(|_| own.len() as i64 >= most);
    let mut slice = Slice { applied: 0, waiting: 0, last };
    for (stored, number) in own.iter().zip(0..) {
        match settle(tx, connection, stored, &new.plus(number), actor)? {
            Settled::Done => slice.applied += 1,
            Settled::Waits(_) => slice.waiting += 1,
        }
    }
    Ok(slice)
}

/// Subscriptions whose plan depends on a price, with their customers locked.
pub(super) struct Dependent {
    found: Vec<ExternalId>,
    last: Option<ExternalId>,
}

/// Finds up to `most` subscriptions with this price after the id `after`, and locks their customers. The caller holds the lock
/// of the connection. Those that are not live do not depend on prices.
pub(super) fn with_price(
    tx: &mut Tx<'_>,
    connection: &Connection,
    price: &ExternalId,
    after: &str,
    most: i64,
) -> Result<Dependent> {
    type Seen = (ExternalId, ExternalId, String, String);
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
    let seen: Vec<Seen> = tx.all(&SCAN, args![&connection.id, after, SCANNED_MAX], read)?;
    let (mut found, mut buyers, mut checked) = (Vec::new(), BTreeSet::new(), 0);
    for (id, customer, prices, status) in &seen {
        if found.len() as i64 >= most {
            break;
        }
        checked += 1;
        let is_live = matches!(target(status), Some(Target::Live(_)));
        if is_live && prices.split_whitespace().any(|own| own == price.as_str()) {
            found.push(id.clone());
            buyers.insert(customer.clone());
        }
    }
    let is_end = checked == seen.len() && (seen.len() as i64) < SCANNED_MAX;
    let last = seen[..checked].last().filter(|_| !is_end).map(|(id, ..)| id.clone());
    // In one order, whoever locks several.
    let mut customers = BTreeSet::new();
    for buyer in &buyers {
        customers.extend(customers::find(tx.snapshot(), connection, buyer)?);
    }
    for customer in &customers {
        customers::lock_one(tx, customer)?;
    }
    Ok(Dependent { found, last })
}

/// Applies the states of these subscriptions, as they are under the locks.
pub(super) fn settle_some(
    tx: &mut Tx<'_>,
    connection: &Connection,
    some: Dependent,
    new: &SubscriptionId,
    actor: &Actor,
) -> Result<Slice> {
    let mut slice = Slice { applied: 0, waiting: 0, last: some.last };
    for (id, number) in some.found.iter().zip(0..) {
        let stored = get(tx.snapshot(), connection, id)?;
        let new = new.plus(number * IDS_OF_ONE);
        match settle(tx, connection, &stored, &new, actor)? {
            Settled::Done => {
                slice.applied += 1;
                make_way(tx, connection, &stored.state, &new, actor)?;
            }
            Settled::Waits(_) => slice.waiting += 1,
        }
    }
    Ok(slice)
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
    tx.lock(&connections::LOCK, (&connection.id).into())?;
    let waiting = list(tx.snapshot(), connection, true, cursor, most)?;
    let last = waiting.last().map(|stored| stored.state.id.clone());
    let mut retried = Retried { applied: 0, waiting: 0, next: last.filter(|_| waiting.len() as i64 == most) };
    for (stored, number) in waiting.iter().zip(0..) {
        customers::lock_known(tx, connection, &stored.state.customer)?;
        // An event may have come before the lock.
        let stored = get(tx.snapshot(), connection, &stored.state.id)?;
        match settle(tx, connection, &stored, &new.plus(number), actor)? {
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
    if (problem, &subscription) == (stored.problem.as_deref(), &stored.subscription) {
        return Ok(settled);
    }
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
        Err(Problem::UnknownPrice) if state.more_items => return Ok(Err(Problem::MoreItems)),
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
