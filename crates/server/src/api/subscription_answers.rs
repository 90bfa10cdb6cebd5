//! The answers of `GET /api/subscription`, cached as long as the entitlement. There may be hundreds of thousands.

use crate::openapi::words;
use crate::web::json::rfc3339;
use identity::ids::{CustomerId, ServiceId, UserId};
use identity::shared::{Common, Shared};
use identity::{Entitlement, Error, entitlements};
use serde::Serialize;
use serde_json::value::RawValue;
use store::{Cache, Filled, Store, Time, Weigh};
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
    // From here on it differs between the users of a plan; `Answer` begins with `OWN_PART` there.
    #[schema(required, format = DateTime)]
    current_period_end: Option<String>,
    /// The id of the customer.
    customer: &'a str,
}

/// What a user may use of a service now.
// For the description only: `Answer::text` writes it.
#[derive(Serialize, ToSchema)]
#[schema(as = Entitlement)]
pub(crate) struct AnswerBody<'a> {
    #[serde(flatten)]
    subscription: SubscriptionBody<'a>,
    /// The version of the state that the answer shows.
    version: &'a str,
}

/// The first field that differs between the users of a plan.
const OWN_PART: &str = ",\"current_period_end\":";

/// A cache of answers. Clones share the cache.
pub(crate) struct SubscriptionAnswers {
    store: Store,
    /// By the UUIDs of user and service.
    answers: Cache<[[u8; 16]; 2], Answer>,
    starts: Shared<String>,
}

/// An answer, as a cache holds it: there may be hundreds of thousands, so each is small.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    /// The text up to what differs between the users of a plan.
    start: Common<String>,
    /// [`Time::NEVER`] if there is none.
    current_period_end: Time,
    customer: [u8; 16],
}

impl SubscriptionAnswers {
    pub(crate) fn new(store: Store) -> SubscriptionAnswers {
        let answers = store.cache("subscription answers");
        SubscriptionAnswers { answers, starts: Shared::default(), store }
    }

    /// The answer for a user of a service. The slug of a service never changes.
    pub(crate) async fn get(
        &self,
        user: &UserId,
        service: &ServiceId,
        slug: &str,
        now: Time,
    ) -> identity::Result<Answer> {
        let none = Error::NotFound { what: "subscription" };
        let (Some(of_user), Some(of_service)) = (user.to_bytes(), service.to_bytes()) else {
            return Err(none);
        };
        let key = [of_user, of_service];
        if let Some(answer) = self.answers.get(&key, now) {
            return Ok(answer);
        }
        let (slug, user, service) = (slug.to_owned(), user.clone(), service.clone());
        let starts = self.starts.clone();
        let found = self.store.fill_anew(&self.answers, key, now, move |snapshot| {
            let entitlement = entitlements::of_user(snapshot, &user, &service, now)?;
            let until = entitlement.ends_at.unwrap_or(Time::NEVER);
            Ok::<_, Error>(Some(Filled { value: Answer::new(&slug, &entitlement, &starts)?, until }))
        });
        found.await?.ok_or(none)
    }
}

impl Answer {
    fn new(slug: &str, entitlement: &Entitlement, starts: &Shared<String>) -> identity::Result<Answer> {
        let body = SubscriptionBody::new(slug, entitlement);
        let mut start = serde_json::to_string(&body).map_err(|error| Error::Internal(error.to_string()))?;
        let end =
            start.rfind(OWN_PART).ok_or_else(|| Error::Internal("an answer in another order".to_owned()))?;
        start.truncate(end);
        start.shrink_to_fit();
        let customer = entitlement.customer.to_bytes();
        Ok(Answer {
            start: starts.share(start),
            current_period_end: entitlement.current_period_end.unwrap_or(Time::NEVER),
            customer: customer.ok_or_else(|| Error::Internal("a customer's id without a UUID".to_owned()))?,
        })
    }

    /// An [`AnswerBody`] as text.
    pub(super) fn text(&self, version: &str) -> String {
        let customer = CustomerId::from_bytes(self.customer);
        let end = Some(self.current_period_end).filter(|end| *end != Time::NEVER).map(rfc3339);
        let (quote, end) = end.as_ref().map_or(("", "null"), |end| ("\"", end));
        let parts = [
            &self.start,
            OWN_PART,
            quote,
            end,
            quote,
            ",\"customer\":\"",
            customer.as_str(),
            "\",\"version\":\"",
            version,
            "\"}",
        ];
        parts.concat()
    }
}

impl Weigh for Answer {
    fn heap_bytes(&self) -> usize {
        self.start.heap_bytes()
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
