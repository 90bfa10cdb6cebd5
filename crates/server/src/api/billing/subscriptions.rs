//! `/api/organizations/{org}/billing/{connection}/subscriptions`: the provider's subscriptions, and those that wait; and
//! `…/retry`: try again to apply them.

use crate::web::administration::{Admin, Administrator, Written};
use crate::web::error::Result;
use crate::web::json::{Json, List, Page, Params, rfc3339};
use crate::web::path::Path;
use identity::billing::subscriptions::{self, BillingSubscription};
use identity::billing::{ExternalId, connections};
use identity::ids::{BillingConnectionId, SubscriptionId};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Subscriptions that one request tries again to apply.
const RETRIED_MAX: i64 = 50;

#[derive(Serialize, ToSchema)]
#[schema(as = BillingSubscription)]
pub(crate) struct SubscriptionBody {
    /// The provider's id.
    billing_subscription: String,
    billing_customer: String,
    prices: Vec<String>,
    /// The provider's status.
    status: String,
    #[schema(required, format = DateTime)]
    current_period_end: Option<String>,
    /// Why it waits; null if it was applied.
    #[schema(required)]
    problem: Option<String>,
    /// The id of our subscription.
    #[schema(required)]
    subscription: Option<String>,
    #[schema(format = DateTime)]
    updated_at: String,
}

fn show(found: BillingSubscription) -> SubscriptionBody {
    let state = found.state;
    SubscriptionBody {
        billing_subscription: state.id.to_string(),
        billing_customer: state.customer.to_string(),
        prices: state.prices.iter().map(ExternalId::to_string).collect(),
        status: state.status,
        current_period_end: state.period.end.map(rfc3339),
        problem: found.problem,
        subscription: found.subscription.map(|id| id.to_string()),
        updated_at: rfc3339(found.updated_at),
    }
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListQuery {
    limit: Option<i64>,
    cursor: Option<String>,
    waiting: Option<bool>,
}

pub(crate) async fn list(
    admin: Administrator,
    Path((_, connection)): Path<(String, String)>,
    Params(query): Params<ListQuery>,
) -> Result<Json<List<SubscriptionBody>>> {
    let filter = query.waiting.filter(|waiting| *waiting).map(|_| "waiting");
    let page = Page::<ExternalId>::filtered(query.limit, query.cursor, &[filter])?;
    let (organization, connection) =
        (admin.organization.id.clone(), BillingConnectionId::parse(&connection)?);
    let (cursor, fetch, waiting) = (page.cursor.clone(), page.fetch(), query.waiting.unwrap_or(false));
    let found = admin.list(move |snapshot| {
        let connection = connections::get(snapshot, &organization, &connection)?;
        subscriptions::list(snapshot, &connection, waiting, cursor.as_deref(), fetch)
    });
    Ok(Json(page.list(found.await?, |found| found.state.id.to_string(), show)))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct RetryQuery {
    cursor: Option<String>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = BillingRetry)]
pub(crate) struct RetriedBody {
    applied: u64,
    waiting: u64,
    /// The cursor of the next request; null at the end.
    #[schema(required)]
    next: Option<String>,
}

pub(crate) async fn retry(
    admin: Admin,
    Path((_, connection)): Path<(String, String)>,
    Params(query): Params<RetryQuery>,
) -> Written<Json<RetriedBody>> {
    let page = Page::<ExternalId>::new(None, query.cursor)?;
    let connection = BillingConnectionId::parse(&connection)?;
    let new = SubscriptionId::new(admin.now(), admin.random());
    let retried = admin.write("billing.retry", move |tx, by| {
        let connection = connections::get(tx.snapshot(), &by.organization.id, &connection)?;
        let cursor = page.cursor.as_deref();
        let retried = subscriptions::retry(tx, &connection, cursor, RETRIED_MAX, &new, by.actor)?;
        let next = retried.next.map(|next| next.to_string());
        Ok(Json(RetriedBody { applied: retried.applied, waiting: retried.waiting, next }))
    });
    retried.await
}
