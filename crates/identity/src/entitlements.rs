//! Entitlements: the features and limits of a service for a user. They are looked up on request and are
//! not in tokens.

use crate::ids::{CustomerId, PlanId, ServiceId, UserId};
use crate::subscriptions::{self, Status};
use crate::{Error, Result, Time, customers, plans};
use serde_json::value::RawValue;
use std::cmp::Reverse;
use store::{FromValue, Row, Snapshot, ValueRef, args, sql, statements};

/// Stored JSON; equal if its text is. It is validated once, when it is read, and is copied into responses unchanged.
#[derive(Clone, Debug)]
pub struct Json(Box<RawValue>);

impl PartialEq for Json {
    fn eq(&self, other: &Json) -> bool {
        self.0.get() == other.0.get()
    }
}

impl Json {
    fn parse(text: &str) -> Result<Json> {
        let parsed = RawValue::from_string(text.to_owned());
        parsed.map(Json).map_err(|error| Error::Internal(format!("stored JSON: {error}")))
    }

    /// Returns the JSON for a response.
    pub fn raw(&self) -> &RawValue {
        &self.0
    }
}

impl FromValue for Json {
    const KIND: &'static str = "JSON";
    fn from_value(value: ValueRef<'_>) -> Option<Json> {
        if let ValueRef::Text(text) = value { Json::parse(text).ok() } else { None }
    }
}

/// The entitlement of a user for a service.
#[derive(Clone, Debug, PartialEq)]
pub struct Entitlement {
    /// The plan's slug; `free` without a subscription.
    pub plan: String,
    /// The features of the plan: a JSON array of strings.
    pub features: Json,
    /// The limits of the plan: a JSON object.
    pub limits: Json,
    /// The subscription's status; `active` for `free`.
    pub status: String,
    /// The end of the paid period.
    pub current_period_end: Option<Time>,
    /// The time at which it ends unless the subscription changes.
    pub ends_at: Option<Time>,
    /// The customer that the user acts for.
    pub customer: CustomerId,
    /// Whether it comes from a subscription: the user's own, or a seat in that of a team.
    pub is_subscribed: bool,
}

impl Entitlement {
    /// The features of the plan.
    pub fn feature_names(&self) -> Result<Vec<String>> {
        serde_json::from_str(self.features.raw().get())
            .map_err(|error| Error::Internal(format!("features of the plan {}: {error}", self.plan)))
    }
}

/// A subscription of the user or of a team.
struct Candidate {
    entitlement: Entitlement,
    /// False if the plan has seats and the user has none.
    is_usable: bool,
    plan: PlanId,
    price_cents: i64,
    subscription: String,
}

// The subscriptions of the user's personal customer, and of the user's teams. There are few, so the caller chooses: to
// sort or to search a list, SQLite makes a table in memory, and 2,000 first requests at once then take 12 MiB more.
statements! {
    static OF_USER = sql("SELECT p.slug, p.features, p.limits, s.status, s.current_period_end, s.customer_id, p.id,
            p.price_cents, s.id, NULL, NULL, s.access_until
     FROM customers c
     JOIN subscriptions s ON s.customer_id = c.id
     JOIN plans p ON p.id = s.plan_id
     JOIN plan_services ps ON ps.plan_id = p.id AND ps.service_id = ?2
     WHERE c.user_id = ?1
       AND s.status <> 'canceled'
       AND (s.current_period_end IS NULL OR COALESCE(s.access_until, s.current_period_end) > ?3)
     UNION ALL
     SELECT p.slug, p.features, p.limits, s.status, s.current_period_end, s.customer_id, p.id,
            p.price_cents, s.id, p.seats, t.user_id, s.access_until
     FROM customer_members m
     JOIN subscriptions s ON s.customer_id = m.customer_id
     JOIN plans p ON p.id = s.plan_id
     JOIN plan_services ps ON ps.plan_id = p.id AND ps.service_id = ?2
     LEFT JOIN seats t ON t.subscription_id = s.id AND t.user_id = ?1
     WHERE m.user_id = ?1
       AND s.status <> 'canceled'
       AND (s.current_period_end IS NULL OR COALESCE(s.access_until, s.current_period_end) > ?3)");
    static CUSTOMERS = sql("SELECT id FROM customers WHERE user_id = ?1
     UNION ALL SELECT customer_id FROM customer_members WHERE user_id = ?1");
}

/// Whether a user has a subscription to a service, their own or a seat.
pub fn is_subscribed(
    snapshot: &mut Snapshot<'_>,
    user: &UserId,
    service: &ServiceId,
    now: Time,
) -> Result<bool> {
    let statuses: Vec<(String, bool)> =
        snapshot.all(&OF_USER, args![user, service, now], |row| Ok((row.get(3)?, is_usable(row)?)))?;
    Ok(statuses.iter().any(|(status, usable)| *usable && Status::parse(status).is_ok_and(Status::is_live)))
}

/// Reads the entitlement of `user` for `service` at `now`. Of several subscriptions, the one with the highest price
/// counts. A plan with seats entitles only members who have one.
pub fn of_user(
    snapshot: &mut Snapshot<'_>,
    user: &UserId,
    service: &ServiceId,
    now: Time,
) -> Result<Entitlement> {
    snapshot.depends(|| {
        [
            customers::key_of_user(user),
            customers::key_of_memberships(user),
            subscriptions::key_of_seats(user),
            plans::key_of_service(service),
        ]
    });
    let customers: Vec<CustomerId> = snapshot.all(&CUSTOMERS, args![user], |row| row.get(0))?;
    snapshot.depends(|| customers.iter().map(subscriptions::key));
    let candidates = snapshot.all(&OF_USER, args![user, service, now], |row| {
        let (period_end, access_until): (Option<Time>, Option<Time>) = (row.get(4)?, row.get(11)?);
        let entitlement = Entitlement {
            plan: row.get(0)?,
            features: row.get(1)?,
            limits: row.get(2)?,
            status: row.get(3)?,
            current_period_end: period_end,
            ends_at: period_end.map(|end| access_until.unwrap_or(end)),
            customer: row.get(5)?,
            is_subscribed: true,
        };
        Ok(Candidate {
            entitlement,
            is_usable: is_usable(row)?,
            plan: row.get(6)?,
            price_cents: row.get(7)?,
            subscription: row.get(8)?,
        })
    })?;
    // A new price or number of seats of any of these plans may change the choice. The query reads `plans`, so it must
    // declare a key of it even if it finds no subscription.
    snapshot.depends(|| {
        let plans = candidates.iter().map(|candidate| plans::key_of(Some(&candidate.plan)));
        plans.chain([plans::key_of(None)]).collect::<Vec<_>>()
    });
    let is_live = |candidate: &Candidate| {
        candidate.is_usable && Status::parse(&candidate.entitlement.status).is_ok_and(Status::is_live)
    };
    let found = candidates.into_iter().filter(is_live).min_by(|one, other| {
        (Reverse(one.price_cents), &one.subscription).cmp(&(Reverse(other.price_cents), &other.subscription))
    });
    Ok(match found {
        Some(candidate) => candidate.entitlement,
        None => Entitlement {
            plan: "free".to_owned(),
            features: Json::parse("[]")?,
            limits: Json::parse("{}")?,
            status: "active".to_owned(),
            current_period_end: None,
            ends_at: None,
            customer: customers::of_user(snapshot, user)?,
            is_subscribed: false,
        },
    })
}

/// Whether a subscription entitles the user: a plan with seats entitles only members of the team who have one.
fn is_usable(row: &Row<'_>) -> std::result::Result<bool, store::Error> {
    Ok(row.get::<Option<i64>>(9)?.is_none() || row.get::<Option<UserId>>(10)?.is_some())
}
