//! Entitlements: the features and limits of a service for a user. They are looked up on request and are
//! not in tokens.

use crate::ids::{CustomerId, PlanId, ServiceId, UserId};
use crate::subscriptions::{self, Status};
use crate::{Error, Result, Time, customers, plans};
use serde_json::value::RawValue;
use std::cmp::Reverse;
use store::{FromValue, Row, Snapshot, ValueRef, Weigh, allocated, args, sql, statements};

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

impl Weigh for Json {
    fn heap_bytes(&self) -> usize {
        allocated(self.0.get().len())
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
    /// The same without what the plan gives, which may be long: for those who read that from the plan.
    pub(crate) fn without_terms(self) -> Result<Entitlement> {
        Ok(Entitlement { features: Json::parse("[]")?, limits: Json::parse("{}")?, ..self })
    }

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

// A row for each customer of the user (1: the personal one) and each of its subscriptions; the columns of the plan are
// NULL if there is none to this service. There are few, so the caller chooses: to sort or to search a list, SQLite makes
// a table in memory, and 2,000 first requests at once then take 12 MiB more.
statements! {
    static OF_USER = sql("SELECT c.id, p.slug, p.features, p.limits, s.status, s.current_period_end, p.id, p.price_cents,
            s.id, NULL, NULL, s.access_until, ps.service_id, 1
     FROM customers c
     LEFT JOIN subscriptions s ON s.customer_id = c.id AND s.status <> 'canceled'
       AND (s.current_period_end IS NULL OR COALESCE(s.access_until, s.current_period_end) > ?3)
     LEFT JOIN plan_services ps ON ps.plan_id = s.plan_id AND ps.service_id = ?2
     LEFT JOIN plans p ON p.id = ps.plan_id
     WHERE c.user_id = ?1
     UNION ALL
     SELECT m.customer_id, p.slug, p.features, p.limits, s.status, s.current_period_end, p.id, p.price_cents,
            s.id, p.seats, t.user_id, s.access_until, ps.service_id, 0
     FROM customer_members m
     LEFT JOIN subscriptions s ON s.customer_id = m.customer_id AND s.status <> 'canceled'
       AND (s.current_period_end IS NULL OR COALESCE(s.access_until, s.current_period_end) > ?3)
     LEFT JOIN plan_services ps ON ps.plan_id = s.plan_id AND ps.service_id = ?2
     LEFT JOIN plans p ON p.id = ps.plan_id
     LEFT JOIN seats t ON t.subscription_id = s.id AND t.user_id = ?1
     WHERE m.user_id = ?1");
}

impl Candidate {
    fn is_live(&self) -> bool {
        self.is_usable && Status::parse(&self.entitlement.status).is_ok_and(Status::is_live)
    }
}

/// A customer of a user and, if there is one, a subscription of it to the service.
struct Found {
    customer: CustomerId,
    is_personal: bool,
    candidate: Option<Candidate>,
}

fn read(row: &Row<'_>) -> std::result::Result<Found, store::Error> {
    let customer: CustomerId = row.get(0)?;
    let is_personal = row.get::<i64>(13)? == 1;
    if row.get::<Option<ServiceId>>(12)?.is_none() {
        return Ok(Found { customer, is_personal, candidate: None });
    }
    let (period_end, access_until): (Option<Time>, Option<Time>) = (row.get(5)?, row.get(11)?);
    let entitlement = Entitlement {
        plan: row.get(1)?,
        features: row.get(2)?,
        limits: row.get(3)?,
        status: row.get(4)?,
        current_period_end: period_end,
        ends_at: period_end.map(|end| access_until.unwrap_or(end)),
        customer: customer.clone(),
        is_subscribed: true,
    };
    let candidate = Candidate {
        entitlement,
        is_usable: is_usable(row)?,
        plan: row.get(6)?,
        price_cents: row.get(7)?,
        subscription: row.get(8)?,
    };
    Ok(Found { customer, is_personal, candidate: Some(candidate) })
}

/// Whether a user has a subscription to a service, their own or a seat.
pub fn is_subscribed(
    snapshot: &mut Snapshot<'_>,
    user: &UserId,
    service: &ServiceId,
    now: Time,
) -> Result<bool> {
    let found = snapshot.all(&OF_USER, args![user, service, now], read)?;
    Ok(found.iter().filter_map(|one| one.candidate.as_ref()).any(Candidate::is_live))
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
    let found = snapshot.all(&OF_USER, args![user, service, now], read)?;
    snapshot.depends(|| found.iter().map(|one| subscriptions::key(&one.customer)).collect::<Vec<_>>());
    let personal = found.iter().find(|one| one.is_personal).map(|one| one.customer.clone());
    let candidates: Vec<Candidate> = found.into_iter().filter_map(|one| one.candidate).collect();
    // A new price or number of seats of any of these plans may change the choice. The query reads `plans`, so it must
    // declare a key of it even if it finds no subscription.
    snapshot.depends(|| {
        let plans = candidates.iter().map(|candidate| plans::key_of(Some(&candidate.plan)));
        plans.chain([plans::key_of(None)]).collect::<Vec<_>>()
    });
    let found = candidates.into_iter().filter(Candidate::is_live).min_by(|one, other| {
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
            customer: personal.ok_or(Error::NotFound { what: "customer" })?,
            is_subscribed: false,
        },
    })
}

/// Whether a subscription entitles the user: a plan with seats entitles only members of the team who have one.
fn is_usable(row: &Row<'_>) -> std::result::Result<bool, store::Error> {
    Ok(row.get::<Option<i64>>(9)?.is_none() || row.get::<Option<UserId>>(10)?.is_some())
}
