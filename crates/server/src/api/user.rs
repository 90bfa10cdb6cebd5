//! `GET /api/user`: the account of the token's user, as far as the token's service may see it.

use super::users::AccountBody;
use crate::web::auth::ServiceUser;
use crate::web::error::Result;
use crate::web::json::Json;
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use serde_json::value::RawValue;

#[derive(Serialize)]
struct UserBody<'a> {
    #[serde(flatten)]
    account: AccountBody,
    org: &'a str,
    service: &'a str,
    customer: &'a str,
    plan: &'a str,
    features: &'a RawValue,
}

pub(crate) async fn get(caller: ServiceUser) -> Result<Response> {
    let user = caller.lookups().user(&caller.user, caller.now).await?;
    let entitlement = caller.lookups().entitlement(&caller.user, &caller.service, caller.now).await?;
    let body = UserBody {
        account: AccountBody::from(&*user),
        org: caller.access.claims.org.as_deref().unwrap_or_default(),
        service: caller.access.claims.service.as_deref().unwrap_or_default(),
        customer: entitlement.customer.as_str(),
        plan: &entitlement.plan,
        features: entitlement.features.raw(),
    };
    Ok(Json(body).into_response())
}
