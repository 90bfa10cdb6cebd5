//! `/api/organizations/{org}/billing/{connection}/prices`: which plan a price of the provider stands for.

use crate::openapi::words;
use crate::web::administration::{Admin, Administrator, Written};
use crate::web::error::Result;
use crate::web::fields::{FieldErrors, Rules as _, Validate};
use crate::web::json::{Body, Json, List, Page, rfc3339};
use crate::web::path::Path;
use http::StatusCode;
use identity::billing::prices::{self, Mapped, Price};
use identity::billing::walks::Applied;
use identity::billing::{ExternalId, connections};
use identity::ids::{BillingConnectionId, SubscriptionId};
use identity::names;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Serialize, ToSchema)]
#[schema(as = BillingPrice)]
pub(crate) struct PriceBody {
    /// The provider's id.
    price: String,
    plan: String,
    #[schema(required)]
    created_by: Option<String>,
    #[schema(format = DateTime)]
    created_at: String,
}

/// A price that was set, and what that has led to for the subscriptions that the provider has sent before.
#[derive(Serialize, ToSchema)]
#[schema(as = BillingPriceSet)]
pub(crate) struct SetBody {
    #[serde(flatten)]
    price: PriceBody,
    /// Subscriptions of the provider that were applied.
    applied: u64,
    /// Subscriptions that wait for something else.
    waiting: u64,
    /// Subscriptions that are still to be checked, up to 10,000; the server does that within minutes.
    pending: u64,
}

fn show(price: Price) -> PriceBody {
    PriceBody {
        price: price.external.to_string(),
        plan: price.plan,
        created_by: price.created_by,
        created_at: rfc3339(price.created_at),
    }
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = PutBillingPrice)]
pub(crate) struct PutBody {
    #[schema(schema_with = words::plan_slug)]
    plan: String,
}

impl Validate for PutBody {
    fn validate(&self, errors: &mut FieldErrors) {
        errors.check(names::slug("plan", &self.plan));
    }
}

pub(crate) async fn list(
    admin: Administrator,
    Path((_, connection)): Path<(String, String)>,
    page: Page<ExternalId>,
) -> Result<Json<List<PriceBody>>> {
    let (organization, connection) =
        (admin.organization.id.clone(), BillingConnectionId::parse(&connection)?);
    let (cursor, fetch) = (page.cursor.clone(), page.fetch());
    let found = admin.list(move |snapshot| {
        let connection = connections::get(snapshot, &organization, &connection)?;
        prices::list(snapshot, &connection, cursor.as_deref(), fetch)
    });
    Ok(Json(page.list(found.await?, |price| price.external.to_string(), show)))
}

pub(crate) async fn put(
    admin: Admin,
    Path((_, connection, price)): Path<(String, String, String)>,
    Body(body): Body<PutBody>,
) -> Written<Json<SetBody>> {
    let new = SubscriptionId::new(admin.now(), admin.random());
    let (connection, price) = (BillingConnectionId::parse(&connection)?, ExternalId::parse("price", &price)?);
    let put = admin.write("billing_price.put", move |tx, by| {
        let connection = connections::get(tx.snapshot(), &by.organization.id, &connection)?;
        let put = prices::put(tx, &connection, &price, &body.plan, &new, by.actor)?;
        let Mapped { price, subscriptions: Applied { applied, waiting, pending } } = put;
        Ok(Json(SetBody { price: show(price), applied, waiting, pending }))
    });
    put.await
}

pub(crate) async fn delete(
    admin: Admin,
    Path((_, connection, price)): Path<(String, String, String)>,
) -> Written<StatusCode> {
    let new = SubscriptionId::new(admin.now(), admin.random());
    let (connection, price) = (BillingConnectionId::parse(&connection)?, ExternalId::parse("price", &price)?);
    let removed = admin.write("billing_price.remove", move |tx, by| {
        let connection = connections::get(tx.snapshot(), &by.organization.id, &connection)?;
        prices::remove(tx, &connection, &price, &new, by.actor)?;
        Ok(StatusCode::NO_CONTENT)
    });
    removed.await
}
