//! `/api/organizations/{org}/billing/{connection}/prices`: which plan a price of the provider stands for.

use crate::openapi::words;
use crate::web::administration::{Admin, Administrator};
use crate::web::error::Result;
use crate::web::fields::{FieldErrors, Validate};
use crate::web::json::{Body, Json, List, Page, rfc3339};
use crate::web::path::Path;
use http::StatusCode;
use identity::billing::prices::{self, Price};
use identity::billing::{ExternalId, connections};
use identity::ids::BillingConnectionId;
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
    Ok(Json(List::new(found.await?, &page, |price| price.external.to_string(), show)))
}

pub(crate) async fn put(
    admin: Admin,
    Path((_, connection, price)): Path<(String, String, String)>,
    Body(body): Body<PutBody>,
) -> Result<Json<PriceBody>> {
    let (connection, price) = (BillingConnectionId::parse(&connection)?, ExternalId::parse("price", &price)?);
    let put = admin.write("billing_price.put", move |tx, by| {
        let connection = connections::get(tx.snapshot(), &by.organization.id, &connection)?;
        prices::put(tx, &connection, &price, &body.plan, by.actor)
    });
    Ok(Json(show(put.await?)))
}

pub(crate) async fn delete(
    admin: Admin,
    Path((_, connection, price)): Path<(String, String, String)>,
) -> Result<StatusCode> {
    let (connection, price) = (BillingConnectionId::parse(&connection)?, ExternalId::parse("price", &price)?);
    let removed = admin.write("billing_price.remove", move |tx, by| {
        let connection = connections::get(tx.snapshot(), &by.organization.id, &connection)?;
        prices::remove(tx, &connection, &price, by.actor)
    });
    removed.await?;
    Ok(StatusCode::NO_CONTENT)
}
