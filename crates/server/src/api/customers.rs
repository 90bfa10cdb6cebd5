//! `/api/organizations/{org}/customers`: the customers of an organization.

use crate::openapi::words;
use crate::web::administration::Administrator;
use crate::web::error::Result;
use crate::web::json::{Json, List, Page, rfc3339};
use identity::customers::{self, Customer};
use identity::ids::CustomerId;
use serde::Serialize;
use utoipa::ToSchema;

#[derive(Serialize, ToSchema)]
#[schema(as = Customer)]
pub(crate) struct CustomerBody {
    id: String,
    #[schema(schema_with = words::customer_kind)]
    kind: String,
    name: String,
    /// The id of the user, of a personal customer.
    #[schema(required)]
    user: Option<String>,
    #[schema(format = DateTime)]
    created_at: String,
}

fn show(customer: Customer) -> CustomerBody {
    CustomerBody {
        id: customer.id.to_string(),
        kind: customer.kind,
        name: customer.name,
        user: customer.user.map(|user| user.to_string()),
        created_at: rfc3339(customer.created_at),
    }
}

pub(crate) async fn list(admin: Administrator, page: Page<CustomerId>) -> Result<Json<List<CustomerBody>>> {
    let (organization, cursor, fetch) = (admin.organization.id.clone(), page.cursor.clone(), page.fetch());
    let found =
        admin.list(move |snapshot| customers::list(snapshot, &organization, cursor.as_deref(), fetch));
    Ok(Json(page.list(found.await?, |customer| customer.id.to_string(), show)))
}
