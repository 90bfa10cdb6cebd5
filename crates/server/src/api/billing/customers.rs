//! `/api/organizations/{org}/billing/{connection}/customers`: which customer a customer of the provider stands for; and
//! `…/references`: what a checkout names its customer with.

use crate::openapi::words;
use crate::web::administration::{Admin, Administrator, Written};
use crate::web::error::Result;
use crate::web::fields::{FieldErrors, Rules as _, Validate};
use crate::web::json::{Body, Created, Json, List, Page, rfc3339};
use crate::web::path::Path;
use http::StatusCode;
use identity::billing::customers::{self, BillingCustomer, Existing};
use identity::billing::{ExternalId, connections, references, subscriptions};
use identity::ids::{BillingConnectionId, CustomerId, OrganizationId, SubscriptionId, UserId};
use identity::subscriptions::Buyer;
use identity::{Error, users};
use serde::{Deserialize, Serialize};
use store::Snapshot;
use utoipa::ToSchema;

#[derive(Serialize, ToSchema)]
#[schema(as = BillingCustomer)]
pub(crate) struct CustomerBody {
    /// The provider's id.
    billing_customer: String,
    customer: String,
    customer_name: String,
    #[schema(required)]
    user: Option<String>,
    #[schema(required)]
    created_by: Option<String>,
    #[schema(format = DateTime)]
    created_at: String,
}

fn show(found: BillingCustomer) -> CustomerBody {
    CustomerBody {
        billing_customer: found.external.to_string(),
        customer: found.customer.to_string(),
        customer_name: found.customer_name,
        user: found.user.map(|user| user.to_string()),
        created_by: found.created_by,
        created_at: rfc3339(found.created_at),
    }
}

/// A user stands for their personal customer.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = BillingCustomerOf)]
pub(crate) struct CustomerOf {
    #[schema(schema_with = words::user_id)]
    user: Option<String>,
    #[schema(schema_with = words::customer_id)]
    customer: Option<String>,
}

impl Validate for CustomerOf {
    fn validate(&self, errors: &mut FieldErrors) {
        if self.user.is_some() == self.customer.is_some() {
            errors.check::<()>(Err(one_buyer()));
        }
    }
}

fn one_buyer() -> Error {
    Error::invalid("user", "name either a user or a customer, by id")
}

impl CustomerOf {
    fn buyer(&self) -> Result<Buyer> {
        match (&self.user, &self.customer) {
            (Some(user), None) => Ok(Buyer::User(UserId::parse(user)?)),
            (None, Some(customer)) => Ok(Buyer::Customer(CustomerId::parse(customer)?)),
            _ => Err(one_buyer().into()),
        }
    }
}

/// The id of a buyer's customer.
fn customer_of(
    snapshot: &mut Snapshot<'_>,
    organization: &OrganizationId,
    buyer: &Buyer,
) -> identity::Result<CustomerId> {
    match buyer {
        Buyer::User(user) => {
            let user = users::in_organization(snapshot, organization, user)?;
            identity::customers::of_user(snapshot, &user.id)
        }
        Buyer::Customer(id) => Ok(identity::customers::get(snapshot, organization, id)?.id),
    }
}

pub(crate) async fn list(
    admin: Administrator,
    Path((_, connection)): Path<(String, String)>,
    page: Page<ExternalId>,
) -> Result<Json<List<CustomerBody>>> {
    let (organization, connection) =
        (admin.organization.id.clone(), BillingConnectionId::parse(&connection)?);
    let (cursor, fetch) = (page.cursor.clone(), page.fetch());
    let found = admin.list(move |snapshot| {
        let connection = connections::get(snapshot, &organization, &connection)?;
        customers::list(snapshot, &connection, cursor.as_deref(), fetch)
    });
    Ok(Json(page.list(found.await?, |found| found.external.to_string(), show)))
}

pub(crate) async fn put(
    admin: Admin,
    Path((_, connection, external)): Path<(String, String, String)>,
    Body(body): Body<CustomerOf>,
) -> Written<Json<CustomerBody>> {
    let (connection, external) =
        (BillingConnectionId::parse(&connection)?, ExternalId::parse("billing_customer", &external)?);
    let (buyer, new) = (body.buyer()?, SubscriptionId::new(admin.now(), admin.random()));
    let put = admin.write("billing_customer.put", move |tx, by| {
        let organization = &by.organization.id;
        let connection = connections::get(tx.snapshot(), organization, &connection)?;
        let customer = customer_of(tx.snapshot(), organization, &buyer)?;
        customers::put(tx, &connection, &external, &customer, Existing::IsReplaced, by.actor)?;
        subscriptions::settle_external(tx, &connection, &external, &new, by.actor)?;
        Ok(Json(show(customers::get(tx.snapshot(), &connection, &external)?)))
    });
    put.await
}

pub(crate) async fn delete(
    admin: Admin,
    Path((_, connection, external)): Path<(String, String, String)>,
) -> Written<StatusCode> {
    let (connection, external) =
        (BillingConnectionId::parse(&connection)?, ExternalId::parse("billing_customer", &external)?);
    let removed = admin.write("billing_customer.remove", move |tx, by| {
        let connection = connections::get(tx.snapshot(), &by.organization.id, &connection)?;
        customers::remove(tx, &connection, &external, by.actor)?;
        Ok(StatusCode::NO_CONTENT)
    });
    removed.await
}

#[derive(Serialize, ToSchema)]
#[schema(as = BillingReference)]
pub(crate) struct ReferenceBody {
    customer: String,
    /// For `client_reference_id`.
    reference: String,
}

/// Makes the reference of a customer.
pub(crate) async fn reference(
    admin: Admin,
    Path((_, connection)): Path<(String, String)>,
    Body(body): Body<CustomerOf>,
) -> Written<Created<ReferenceBody>> {
    let (connection, buyer) = (BillingConnectionId::parse(&connection)?, body.buyer()?);
    let key = admin.secret_key().clone();
    let found = admin.write("billing_reference.make", move |tx, by| {
        let organization = &by.organization.id;
        let connection = connections::get(tx.snapshot(), organization, &connection)?;
        let customer = customer_of(tx.snapshot(), organization, &buyer)?;
        references::note(tx, &connection, &customer, by.actor)?;
        let reference = references::make(&key, &connection.id, &customer);
        Ok(Created(ReferenceBody { customer: customer.to_string(), reference }))
    });
    found.await
}
