//! Entitlements: the features and limits of a service for a user. They are looked up on request and are
//! not in tokens.

use crate::ids::{CustomerId, ServiceId, UserId};
use crate::subscriptions::Status;
use crate::{Error, Result, Time, customers};
use serde_json::value::RawValue;
use std::cmp::Reverse;
use store::{FromValue, Key, Snapshot, ValueRef, args, sql, statements};

/// Stored JSON. It is validated once, when it is read, and is copied into responses unchanged.
#[derive(Clone, Debug)]
pub struct Json(Box<RawValue>);

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
#[derive(Clone, Debug)]
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

/// A subscription that entitles the user.
struct Candidate {
    entitlement: Entitlement,
    plan: String,
    price_cents: i64,
    subscription: String,
}

// The subscriptions of the user's personal customer, and of teams in which the user has a seat. A plan without seats
// entitles every member. There are few, so the caller chooses: to sort or to search a list, SQLite makes a table in
// memory, and 2,000 first requests at once then take 12 MiB more.
statements! {
    static OF_USER = sql("SELECT p.slug, p.features, p.limits, s.status, s.current_period_end, s.customer_id, p.id,
            p.price_cents, s.id
     FROM customers c
     JOIN subscriptions s ON s.customer_id = c.id
     JOIN plans p ON p.id = s.plan_id
     JOIN plan_services ps ON ps.plan_id = p.id AND ps.service_id = ?2
     WHERE c.user_id = ?1
       AND s.status <> 'canceled' AND (s.current_period_end IS NULL OR s.current_period_end > ?3)
     UNION ALL
     SELECT p.slug, p.features, p.limits, s.status, s.current_period_end, s.customer_id, p.id,
            p.price_cents, s.id
     FROM customer_members m
     JOIN subscriptions s ON s.customer_id = m.customer_id
     JOIN plans p ON p.id = s.plan_id
     JOIN plan_services ps ON ps.plan_id = p.id AND ps.service_id = ?2
     LEFT JOIN seats t ON t.subscription_id = s.id AND t.user_id = ?1
     WHERE m.user_id = ?1 AND (p.seats IS NULL OR t.user_id IS NOT NULL)
       AND s.status <> 'canceled' AND (s.current_period_end IS NULL OR s.current_period_end > ?3)");
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
    let statuses: Vec<String> = snapshot.all(&OF_USER, args![user, service, now], |row| row.get(3))?;
    Ok(statuses.iter().any(|status| Status::parse(status).is_ok_and(Status::is_live)))
}

/// Reads the entitlement of `user` for `service` at `now`, with the keys of the rows that it depends on. Of several
/// subscriptions, the one with the highest price counts.
pub fn of_user(
    snapshot: &mut Snapshot<'_>,
    user: &UserId,
    service: &ServiceId,
    now: Time,
) -> Result<(Entitlement, Vec<Key>)> {
    let customers: Vec<CustomerId> = snapshot.all(&CUSTOMERS, args![user], |row| row.get(0))?;
    let mut keys = vec![
        customers::key_of_user(user),
        Key::row("customer_members", "user_id", user.as_str()),
        Key::row("seats", "user_id", user.as_str()),
        Key::row("plan_services", "service_id", service.as_str()),
    ];
    keys.extend(customers.iter().map(|id| Key::row("subscriptions", "customer_id", id.as_str())));
    let candidates = snapshot.all(&OF_USER, args![user, service, now], |row| {
        let entitlement = Entitlement {
            plan: row.get(0)?,
            features: row.get(1)?,
            limits: row.get(2)?,
            status: row.get(3)?,
            current_period_end: row.get(4)?,
            customer: row.get(5)?,
            is_subscribed: true,
        };
        Ok(Candidate { entitlement, plan: row.get(6)?, price_cents: row.get(7)?, subscription: row.get(8)? })
    })?;
    // The query reads `plans`, so it must declare a key of `plans` even if it finds no subscription.
    keys.push(Key::row("plans", "id", ""));
    // A new price of any of these plans may change the choice.
    keys.extend(candidates.iter().map(|candidate| Key::row("plans", "id", &candidate.plan)));
    let found = candidates
        .into_iter()
        .filter(|candidate| Status::parse(&candidate.entitlement.status).is_ok_and(Status::is_live))
        .min_by(|one, other| {
            (Reverse(one.price_cents), &one.subscription)
                .cmp(&(Reverse(other.price_cents), &other.subscription))
        });
    let entitlement = match found {
        Some(candidate) => candidate.entitlement,
        None => Entitlement {
            plan: "free".to_owned(),
            features: Json::parse("[]")?,
            limits: Json::parse("{}")?,
            status: "active".to_owned(),
            current_period_end: None,
            customer: customers::of_user(snapshot, user)?,
            is_subscribed: false,
        },
    };
    Ok((entitlement, keys))
}
