//! Subscriptions of customers to plans. A customer has at most one live subscription for a service.

use crate::audit::{self, Actor};
use crate::events::{self, Entry};
use crate::ids::{CustomerId, OrganizationId, PlanId, ServiceId, SubscriptionId, UserId};
use crate::plans::{self, Plan};
use crate::{Error, Result, Time, customers, users};
use std::collections::BTreeSet;
use store::{Key, Row, Snapshot, Tx, Where, args, select, sql, statements};

/// The status of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Paid.
    Active,
    /// In the trial period.
    Trialing,
    /// Payment is late. The subscription is still live.
    PastDue,
    /// Ended.
    Canceled,
}

impl Status {
    /// Every status with its name in the API.
    pub const ALL: [(&'static str, Status); 4] = [
        ("active", Status::Active),
        ("trialing", Status::Trialing),
        ("past_due", Status::PastDue),
        ("canceled", Status::Canceled),
    ];

    /// Returns the name used in the API.
    pub fn as_str(self) -> &'static str {
        Status::ALL.iter().find(|(_, status)| *status == self).map_or("", |(word, _)| word)
    }

    /// Whether a subscription with this status entitles its users.
    pub fn is_live(self) -> bool {
        matches!(self, Status::Active | Status::Trialing | Status::PastDue)
    }

    /// Parses the name used in the API.
    pub fn parse(word: &str) -> Result<Status> {
        let found = Status::ALL.iter().find(|(known, _)| *known == word);
        found.map(|(_, status)| *status).ok_or_else(|| {
            let rule = "use active, trialing, past_due or canceled";
            Error::wrong("not_allowed", "status", format!("{word:?} is not a subscription status; {rule}"))
        })
    }
}

/// A customer's subscription to a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// The id.
    pub id: SubscriptionId,
    /// The organization that sells the plan.
    pub organization: OrganizationId,
    /// The customer.
    pub customer: CustomerId,
    /// The customer's display name.
    pub customer_name: String,
    /// The user of a personal customer.
    pub user: Option<UserId>,
    /// The user's e-mail address.
    pub user_email: Option<String>,
    /// The plan.
    pub plan: PlanId,
    /// The plan's slug.
    pub plan_slug: String,
    /// The status.
    pub status: Status,
    /// The end of the paid period.
    pub current_period_end: Option<Time>,
    /// The end of access, if that is not the end of the period.
    pub access_until: Option<Time>,
    /// The creation time.
    pub created_at: Time,
    /// The time of the last change.
    pub updated_at: Time,
}

/// The buyer of a new subscription.
#[derive(Clone, Debug)]
pub enum Buyer {
    /// The personal customer of a user.
    User(UserId),
    /// A customer.
    Customer(CustomerId),
}

/// The input for [`create`].
#[derive(Clone, Debug)]
pub struct NewSubscription {
    /// The new id.
    pub id: SubscriptionId,
    /// The buyer.
    pub buyer: Buyer,
    /// The plan's slug.
    pub plan: String,
    /// The status.
    pub status: Status,
    /// The end of the paid period.
    pub current_period_end: Option<Time>,
    /// The end of access, if that is not the end of the period.
    pub access_until: Option<Time>,
}

/// The input for [`patch`]. `None` leaves a field unchanged.
#[derive(Clone, Debug, Default)]
pub struct SubscriptionPatch {
    /// The slug of the new plan.
    pub plan: Option<String>,
    /// The status.
    pub status: Option<Status>,
    /// The end of the paid period. `Some(None)` removes it.
    pub current_period_end: Option<Option<Time>>,
    /// The end of access, if that is not the end of the period. It applies to the new `current_period_end` only.
    pub access_until: Option<Time>,
}

/// Every subscription has a customer and a plan. The LEFT JOIN makes MySQL and MariaDB read `subscriptions` first, in
/// the order of the list.
const COLUMNS: &str = "SELECT s.id, s.organization_id, s.customer_id, c.user_id, s.plan_id, p.slug, s.status,
            s.current_period_end, s.created_at, s.updated_at, c.name, u.email, s.access_until
     FROM subscriptions s
     LEFT JOIN customers c ON c.id = s.customer_id
     LEFT JOIN plans p ON p.id = s.plan_id
     LEFT JOIN users u ON u.id = c.user_id";

/// The most subscriptions of a customer, canceled ones among them.
pub const SUBSCRIPTIONS_MAX: i64 = 200;

statements! {
    static NUMBERED = sql("SELECT id FROM subscriptions WHERE customer_id = ?1 LIMIT 1 OFFSET ?2");
    static INSERT = sql("INSERT INTO subscriptions (id, organization_id, customer_id, plan_id, status, current_period_end,
                                access_until, created_at, updated_at)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8)");
    static GET = sql("SELECT s.id, s.organization_id, s.customer_id, c.user_id, s.plan_id, p.slug, s.status,
            s.current_period_end, s.created_at, s.updated_at, c.name, u.email, s.access_until
     FROM subscriptions s
     JOIN customers c ON c.id = s.customer_id
     JOIN plans p ON p.id = s.plan_id
     LEFT JOIN users u ON u.id = c.user_id
     WHERE s.id = ?1 AND s.organization_id = ?2");
}
// `entitlements` uses the same definition of a live subscription.
statements! {
    static ANOTHER_LIVE = sql("SELECT p.slug FROM subscriptions s JOIN plans p ON p.id = s.plan_id
     WHERE s.customer_id = ?1 AND s.id <> ?2 AND s.status IN ('active', 'trialing', 'past_due')
       AND (s.current_period_end IS NULL OR COALESCE(s.access_until, s.current_period_end) > ?4)
       AND EXISTS (SELECT 1 FROM plan_services mine JOIN plan_services other ON other.service_id = mine.service_id
                   WHERE mine.plan_id = ?3 AND other.plan_id = s.plan_id)
     LIMIT 1");
    static PATCH = sql(
        "UPDATE subscriptions SET plan_id = ?2, status = ?3, current_period_end = ?4, access_until = ?5, updated_at = ?6
     WHERE id = ?1",
    );
    static CANCEL_ALL = sql(
        "UPDATE subscriptions SET status = 'canceled', updated_at = ?2 WHERE customer_id = ?1 AND status <> 'canceled'",
    );
    static PLANS_OF_CUSTOMER =
        sql("SELECT plan_id FROM subscriptions WHERE customer_id = ?1 AND status <> 'canceled'");
    static PLANS_OF_TEAMS = sql("SELECT s.plan_id FROM customer_members m
     JOIN subscriptions s ON s.customer_id = m.customer_id WHERE m.user_id = ?1 AND s.status <> 'canceled'");
    static CUSTOMERS_OF_PLAN = sql("SELECT id, customer_id FROM subscriptions
     WHERE plan_id = ?1 AND id > ?2 AND status <> 'canceled' ORDER BY id LIMIT ?3");
    static LEAVE_SEATS = sql("DELETE FROM seats WHERE user_id = ?1");
    static OF_CUSTOMER = select(COLUMNS, "WHERE s.customer_id = ?1 ORDER BY s.id LIMIT ?2");
    static SEATED = sql("SELECT user_id FROM seats WHERE subscription_id = ?1");
    static DELETE_SEATS = sql("DELETE FROM seats WHERE subscription_id = ?1");
    static DELETE = sql("DELETE FROM subscriptions WHERE id = ?1");
    static ANY_OF_PLAN = sql("SELECT id FROM subscriptions WHERE plan_id = ?1 LIMIT 1");
}

fn read(row: &Row<'_>) -> std::result::Result<Subscription, store::Error> {
    let status: String = row.get(6)?;
    let broken = |_| store::Error::Database(format!("subscription with the unknown status {status:?}"));
    Ok(Subscription {
        id: row.get(0)?,
        organization: row.get(1)?,
        customer: row.get(2)?,
        user: row.get(3)?,
        plan: row.get(4)?,
        plan_slug: row.get(5)?,
        status: Status::parse(&status).map_err(broken)?,
        current_period_end: row.get(7)?,
        created_at: row.get(8)?,
        updated_at: row.get(9)?,
        customer_name: row.get(10)?,
        // The address of a deleted user is the id.
        user_email: row.get::<Option<String>>(11)?.filter(|email| UserId::parse(email).is_err()),
        access_until: row.get(12)?,
    })
}

/// The key that changes with the subscriptions of a customer.
pub fn key(customer: &CustomerId) -> Key {
    Key::row("subscriptions", "customer_id", customer.as_str())
}

/// The key of a user's seats.
pub(crate) fn key_of_seats(user: &UserId) -> Key {
    Key::row("seats", "user_id", user.as_str())
}

/// Creates a subscription.
pub fn create(
    tx: &mut Tx<'_>,
    organization: &OrganizationId,
    new: &NewSubscription,
    actor: &Actor,
) -> Result<Subscription> {
    let id = match &new.buyer {
        Buyer::Customer(id) => id.clone(),
        Buyer::User(id) => {
            let user = users::in_organization(tx.snapshot(), organization, id)?;
            customers::of_user(tx.snapshot(), &user.id)?
        }
    };
    let customer = customers::get(tx.snapshot(), organization, &id)?;
    let user = customer.user.as_ref().map(|user| users::get(tx.snapshot(), user)).transpose()?;
    tx.lock(&customers::LOCK, (&customer.id).into())?;
    let plan = plans::named(tx.snapshot(), organization, &new.plan)?;
    let made = Subscription {
        id: new.id.clone(),
        organization: organization.clone(),
        customer: customer.id,
        customer_name: customer.name,
        user: customer.user,
        user_email: user.map(|user| user.email),
        plan: plan.id.clone(),
        plan_slug: plan.slug.clone(),
        status: new.status,
        current_period_end: new.current_period_end,
        access_until: new.access_until,
        created_at: actor.now,
        updated_at: actor.now,
    };
    require_room(tx, &made.customer)?;
    require_one_live(tx, &made, &plan, actor.now)?;
    let (customer, status) = (&made.customer, made.status.as_str());
    let (end, until) = (made.current_period_end, made.access_until);
    tx.exec(&INSERT, args![&made.id, organization, customer, &plan.id, status, end, until, actor.now])?;
    tx.changed(key(customer));
    note_change(tx, customer, &[&plan.id], actor.now)?;
    audit::note(tx, organization, actor, "subscription.created", made.id.as_str(), &plan.slug)?;
    Ok(made)
}

/// Changes a subscription. Setting the current values again has no effect.
pub fn patch(
    tx: &mut Tx<'_>,
    subscription: &Subscription,
    patch: &SubscriptionPatch,
    actor: &Actor,
) -> Result<Subscription> {
    let organization = &subscription.organization;
    tx.lock(&customers::LOCK, (&subscription.customer).into())?;
    let before = get(tx.snapshot(), organization, &subscription.id)?;
    let slug = patch.plan.clone().unwrap_or_else(|| before.plan_slug.clone());
    let plan = plans::named(tx.snapshot(), organization, &slug)?;
    let mut changed = Subscription { plan: plan.id.clone(), plan_slug: slug, ..before.clone() };
    changed.status = patch.status.unwrap_or(changed.status);
    if let Some(end) = patch.current_period_end {
        (changed.current_period_end, changed.access_until) = (end, patch.access_until);
    }
    if changed == before {
        return Ok(before);
    }
    changed.updated_at = actor.now;
    require_one_live(tx, &changed, &plan, actor.now)?;
    let (id, status) = (&changed.id, changed.status.as_str());
    let (end, until) = (changed.current_period_end, changed.access_until);
    tx.exec(&PATCH, args![id, &plan.id, status, end, until, actor.now])?;
    tx.changed(key(&changed.customer));
    note_change(tx, &changed.customer, &[&before.plan, &changed.plan], actor.now)?;
    let details = format!("{} {}", changed.plan_slug, changed.status.as_str());
    audit::note(tx, organization, actor, "subscription.changed", changed.id.as_str(), &details)?;
    Ok(changed)
}

/// Fails when the customer has as many subscriptions as one may have, canceled ones among them: whatever asks for the plan of
/// a user reads them all. The caller holds the lock of the customer.
fn require_room(tx: &mut Tx<'_>, customer: &CustomerId) -> Result<()> {
    let last: Option<SubscriptionId> =
        tx.one(&NUMBERED, args![customer, SUBSCRIPTIONS_MAX - 1], |row| row.get(0))?;
    match last {
        None => Ok(()),
        Some(_) => {
            let problem = format!(
                "this customer has {SUBSCRIPTIONS_MAX} subscriptions already; change one, or delete those that have ended"
            );
            Err(Error::refused("too_many_subscriptions", problem))
        }
    }
}

/// Fails when the customer has another live subscription for a service that `plan` covers. The caller holds the lock of
/// the customer.
fn require_one_live(tx: &mut Tx<'_>, wanted: &Subscription, plan: &Plan, now: Time) -> Result<()> {
    if !wanted.is_live(now) {
        return Ok(());
    }
    let args = args![&wanted.customer, &wanted.id, &plan.id, now];
    let other: Option<String> = tx.one(&ANOTHER_LIVE, args, |row| row.get(0))?;
    match other {
        None => Ok(()),
        Some(other) => {
            let problem = format!(
                "this customer already has the plan {other:?} for the same service; change or end that subscription"
            );
            Err(Error::refused("already_subscribed", problem))
        }
    }
}

impl Subscription {
    /// Whether it grants its entitlements at `now`.
    pub fn is_live(&self, now: Time) -> bool {
        is_live(self.status, self.current_period_end.map(|end| self.access_until.unwrap_or(end)), now)
    }
}

fn is_live(status: Status, access_until: Option<Time>, now: Time) -> bool {
    status.is_live() && access_until.is_none_or(|end| end > now)
}

/// Deletes a subscription with its seats. Its entitlements end immediately.
pub fn delete(tx: &mut Tx<'_>, subscription: &Subscription, actor: &Actor) -> Result<()> {
    tx.lock(&customers::LOCK, (&subscription.customer).into())?;
    // Again under the lock: its plan may have changed since, and the services of that one must hear of the end.
    let subscription = &get(tx.snapshot(), &subscription.organization, &subscription.id)?;
    let seated: Vec<UserId> = tx.all(&SEATED, args![&subscription.id], |row| row.get(0))?;
    if !seated.is_empty() {
        tx.exec(&DELETE_SEATS, args![&subscription.id])?;
        seated.iter().for_each(|user| tx.changed(key_of_seats(user)));
    }
    if tx.exec(&DELETE, args![&subscription.id])? == 0 {
        return Err(Error::NotFound { what: "subscription" });
    }
    tx.changed(key(&subscription.customer));
    note_change(tx, &subscription.customer, &[&subscription.plan], actor.now)?;
    let (organization, id) = (&subscription.organization, &subscription.id);
    audit::note(tx, organization, actor, "subscription.deleted", id.as_str(), &subscription.plan_slug)
}

/// Cancels all subscriptions of a customer. Their entitlements end immediately.
pub(crate) fn cancel_all(tx: &mut Tx<'_>, customer: &CustomerId, now: Time) -> Result<()> {
    tx.lock(&customers::LOCK, customer.into())?;
    let plans: Vec<PlanId> = tx.all(&PLANS_OF_CUSTOMER, args![customer], |row| row.get(0))?;
    tx.exec(&CANCEL_ALL, args![customer, now])?;
    tx.changed(key(customer));
    note_change(tx, customer, &plans.iter().collect::<Vec<_>>(), now)
}

/// Notes for products that a customer's subscriptions to these plans changed.
fn note_change(tx: &mut Tx<'_>, customer: &CustomerId, plans: &[&PlanId], now: Time) -> Result<()> {
    let services = services_of(tx, plans)?;
    events::note(tx, now, &Entry::subscription(customer, &services))
}

fn services_of(tx: &mut Tx<'_>, plans: &[&PlanId]) -> Result<BTreeSet<ServiceId>> {
    let mut services = BTreeSet::new();
    for plan in plans {
        services.extend(plans::service_ids(tx.snapshot(), plan)?);
    }
    Ok(services)
}

/// Removes a user from all seats.
pub(crate) fn leave_seats(tx: &mut Tx<'_>, user: &UserId, now: Time) -> Result<()> {
    let plans: Vec<PlanId> = tx.all(&PLANS_OF_TEAMS, args![user], |row| row.get(0))?;
    tx.exec(&LEAVE_SEATS, args![user])?;
    tx.changed(key_of_seats(user));
    if plans.is_empty() {
        return Ok(());
    }
    let services = services_of(tx, &plans.iter().collect::<Vec<_>>())?;
    events::note(tx, now, &Entry::seats(user, &services))
}

/// Reads up to `most` subscriptions to a plan that are not canceled, after the id `after`, with their customers.
pub(crate) fn customers_of_plan(
    snapshot: &mut Snapshot<'_>,
    plan: &PlanId,
    after: &str,
    most: i64,
) -> Result<Vec<(SubscriptionId, CustomerId)>> {
    let args = args![plan, after, most];
    Ok(snapshot.all(&CUSTOMERS_OF_PLAN, args, |row| Ok((row.get(0)?, row.get(1)?)))?)
}

/// Gets the subscription with this id.
pub fn get(
    snapshot: &mut Snapshot<'_>,
    organization: &OrganizationId,
    id: &SubscriptionId,
) -> Result<Subscription> {
    snapshot.one(&GET, args![id, organization], read)?.ok_or(Error::NotFound { what: "subscription" })
}

/// Lists up to `most` subscriptions of a customer by id.
pub(crate) fn of_customer(
    snapshot: &mut Snapshot<'_>,
    customer: &CustomerId,
    most: i64,
) -> Result<Vec<Subscription>> {
    Ok(snapshot.all(&OF_CUSTOMER, args![customer, most], read)?)
}

/// A filter for [`list`]. The default matches all subscriptions.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Matches subscriptions of this user's personal customer.
    pub user: Option<UserId>,
    /// Matches subscriptions to the plan with this slug.
    pub plan: Option<String>,
}

/// Lists subscriptions by id after `cursor`.
pub fn list(
    snapshot: &mut Snapshot<'_>,
    organization: &OrganizationId,
    filter: &Filter,
    cursor: Option<&str>,
    limit: i64,
) -> Result<Vec<Subscription>> {
    let mut conditions = Where::new(COLUMNS);
    conditions.and("s.organization_id =", organization);
    match (&filter.user, &filter.plan) {
        (None, None) => conditions.by_index("subscriptions s", "subscriptions_organization"),
        (None, Some(_)) => conditions.by_index("subscriptions s", "subscriptions_plan"),
        // One user has few subscriptions.
        (Some(_), _) => {}
    }
    conditions.and_if("c.user_id =", filter.user.as_ref());
    if let Some(plan) = &filter.plan {
        // Both columns of the unique key, so that the optimiser reads the plan before the subscriptions.
        conditions.and("p.organization_id =", organization);
        conditions.and("p.slug =", plan.as_str());
    }
    conditions.and_if("s.id >", cursor);
    let (sql, args) = conditions.finish(&format!("ORDER BY s.id LIMIT {limit}"));
    Ok(snapshot.all(&sql, &args, read)?)
}

/// Whether a plan has any subscription, live or ended.
pub(crate) fn any_of_plan(snapshot: &mut Snapshot<'_>, plan: &PlanId) -> Result<bool> {
    Ok(snapshot.one(&ANY_OF_PLAN, args![plan], |row| row.get::<SubscriptionId>(0))?.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subscription_is_live_until_it_is_canceled_or_its_period_ends() {
        let now = Time::from_millis(1000);
        for status in [Status::Active, Status::Trialing, Status::PastDue] {
            assert!(is_live(status, None, now));
            assert!(is_live(status, Some(Time::from_millis(1001)), now));
            assert!(!is_live(status, Some(now), now), "the end is exclusive");
        }
        assert!(!is_live(Status::Canceled, None, now));
    }

    #[test]
    fn a_status_parses_its_own_name() {
        for (word, status) in Status::ALL {
            assert_eq!(Status::parse(word).expect("parses its own name"), status);
            assert_eq!(status.as_str(), word);
        }
        let error = Status::parse("paid").expect_err("not a status").to_string();
        assert!(error.starts_with("status: \"paid\"") && error.contains("past_due"), "{error}");
    }
}
