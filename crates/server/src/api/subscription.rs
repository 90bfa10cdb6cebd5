//! `GET /api/subscription`: the entitlement of the token's user at the token's service. The most frequent request: it
//! normally runs no SQL, and the text of its answer is cached as long as the entitlement.

use crate::openapi::words;
use crate::web::auth::ServiceUser;
use crate::web::error::Result;
use crate::web::json::{Written, rfc3339};
use axum::response::{IntoResponse as _, Response};
use identity::ids::{ServiceId, UserId};
use identity::{Entitlement, Error, entitlements};
use serde::Serialize;
use serde_json::value::RawValue;
use std::sync::Arc;
use store::{Cache, Filled, Store, Time};
use utoipa::ToSchema;

/// What a user may use of a service now, without the version.
#[derive(Serialize, ToSchema)]
#[schema(as = EntitlementTerms)]
pub(crate) struct SubscriptionBody<'a> {
    /// The slug of the service.
    service: &'a str,
    /// The slug of the plan; `free` if there is no subscription.
    plan: &'a str,
    #[schema(value_type = Vec<String>)]
    features: &'a RawValue,
    #[schema(value_type = BTreeMap<String, f64>)]
    limits: &'a RawValue,
    #[schema(schema_with = words::entitlement_status)]
    status: &'a str,
    #[schema(required, format = DateTime)]
    current_period_end: Option<String>,
    /// The id of the customer.
    customer: &'a str,
}

/// What a user may use of a service now.
// For the description only: `get` appends the version to a text that is cached.
#[derive(Serialize, ToSchema)]
#[schema(as = Entitlement)]
pub(crate) struct AnswerBody<'a> {
    #[serde(flatten)]
    subscription: SubscriptionBody<'a>,
    /// The version of the state that the answer shows.
    version: &'a str,
}

pub(crate) async fn get(caller: ServiceUser) -> Result<Response> {
    // Read before the data, so that the data may be newer than the version but never older.
    let version = caller.version().to_string();
    let start = caller.subscription().await?;
    Ok(Written([&*start, ",\"version\":\"", &version, "\"}"].concat()).into_response())
}

/// A cache of answers without their end: the version, which changes with every commit. Clones share the cache.
pub(crate) struct SubscriptionAnswers {
    store: Store,
    written: Cache<(UserId, ServiceId), Arc<str>>,
}

impl SubscriptionAnswers {
    pub(crate) fn new(store: Store) -> SubscriptionAnswers {
        SubscriptionAnswers { written: store.cache("subscription answers"), store }
    }

    /// The answer for a user of a service. The slug of a service never changes.
    pub(crate) async fn get(
        &self,
        user: &UserId,
        service: &ServiceId,
        slug: &str,
        now: Time,
    ) -> identity::Result<Arc<str>> {
        let key = (user.clone(), service.clone());
        if let Some(start) = self.written.get(&key, now) {
            return Ok(start);
        }
        let (slug, (user, service)) = (slug.to_owned(), key.clone());
        let found = self.store.fill_anew(&self.written, key, now, move |snapshot| {
            let entitlement = entitlements::of_user(snapshot, &user, &service, now)?;
            let until = entitlement.ends_at.unwrap_or(Time::NEVER);
            Ok::<_, Error>(Some(Filled { value: start(&slug, &entitlement)?.into(), until }))
        });
        found.await?.ok_or(Error::NotFound { what: "subscription" })
    }
}

impl<'a> SubscriptionBody<'a> {
    /// What a user may use of the service with this slug.
    pub(crate) fn new(service: &'a str, entitlement: &'a Entitlement) -> SubscriptionBody<'a> {
        SubscriptionBody {
            service,
            plan: &entitlement.plan,
            features: entitlement.features.raw(),
            limits: entitlement.limits.raw(),
            status: &entitlement.status,
            current_period_end: entitlement.current_period_end.map(rfc3339),
            customer: entitlement.customer.as_str(),
        }
    }
}

fn start(service: &str, entitlement: &Entitlement) -> identity::Result<String> {
    let body = SubscriptionBody::new(service, entitlement);
    let mut text = serde_json::to_string(&body).map_err(|error| Error::Internal(error.to_string()))?;
    text.pop(); // The closing brace.
    Ok(text)
}
