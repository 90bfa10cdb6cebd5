//! `GET /api/user`: the token's user, as the token's service may see him.

use crate::app::App;
use crate::web::auth::ServiceUser;
use crate::web::error::Result;
use crate::web::json::{Json, rfc3339};
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use serde_json::value::RawValue;

#[derive(Serialize)]
struct UserBody<'a> {
    id: &'a str,
    email: &'a str,
    email_verified: bool,
    name: &'a str,
    org: &'a str,
    service: &'a str,
    customer: &'a str,
    plan: &'a str,
    features: &'a RawValue,
    created_at: String,
}

pub(crate) async fn get(State(app): State<App>, caller: ServiceUser) -> Result<Response> {
    let user = app.lookups.user(&caller.user, caller.now).await?;
    let entitlement = app.lookups.entitlement(&caller.user, &caller.service, caller.now).await?;
    let body = UserBody {
        id: user.id.as_str(),
        email: &user.email,
        email_verified: user.email_verified_at.is_some(),
        name: &user.name,
        org: caller.access.claims.org.as_deref().unwrap_or_default(),
        service: caller.access.claims.service.as_deref().unwrap_or_default(),
        customer: entitlement.customer.as_str(),
        plan: &entitlement.plan,
        features: entitlement.features.raw(),
        created_at: rfc3339(user.created_at),
    };
    Ok(Json(body).into_response())
}
