//! `GET /api/user`: the account of the token's user, as far as the token's service may see it.

use super::users;
use crate::web::auth::ServiceUser;
use crate::web::error::Result;
use crate::web::json::Json;
use api::users::Account;
use axum::response::{IntoResponse as _, Response};
use identity::Entitlement;
use identity::users::User;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

/// A user as a service may see them, with what they may use there.
#[derive(Serialize, ToSchema)]
#[schema(as = ServiceUser)]
pub(crate) struct UserBody<'a> {
    #[serde(flatten)]
    account: Account,
    /// The slug of the organization.
    org: &'a str,
    /// The slug of the service.
    service: &'a str,
    /// The id of the customer.
    customer: &'a str,
    /// The slug of the plan.
    plan: &'a str,
    #[schema(value_type = Vec<String>)]
    features: &'a RawValue,
}

impl<'a> UserBody<'a> {
    /// A user as a service may see them, with what they may use there.
    pub(super) fn new(user: &User, entitlement: &'a Entitlement, org: &'a str, service: &'a str) -> Self {
        UserBody {
            account: users::account(user),
            org,
            service,
            customer: entitlement.customer.as_str(),
            plan: &entitlement.plan,
            features: entitlement.features.raw(),
        }
    }
}

pub(crate) async fn get(caller: ServiceUser) -> Result<Response> {
    let user = caller.lookups().user(&caller.user, caller.now).await?;
    let entitlement = caller.lookups().entitlement(&caller.user, &caller.service, caller.now).await?;
    let terms = &caller.access.terms;
    let (org, service) = (terms.organization_slug.as_deref(), terms.service_slug.as_deref());
    let (org, service) = (org.unwrap_or_default(), service.unwrap_or_default());
    Ok(Json(UserBody::new(&user, &entitlement, org, service)).into_response())
}
