//! `GET /api/user`: the token's user, as the token's service may see him.

use super::subscription::raw;
use crate::app::App;
use crate::caller::ServiceUser;
use crate::error::Result;
use crate::wire::{Json, rfc3339};
use axum::extract::State;
use serde::Serialize;
use serde_json::value::RawValue;

#[derive(Serialize)]
pub(crate) struct UserBody {
    id: String,
    email: String,
    email_verified: bool,
    name: String,
    org: String,
    service: String,
    customer: String,
    plan: String,
    features: Box<RawValue>,
    created_at: String,
}

pub(crate) async fn get(State(app): State<App>, caller: ServiceUser) -> Result<Json<UserBody>> {
    let now = app.now();
    let user = app.directory.user(&caller.user, now).await?;
    let entitlement = app.directory.entitlement(&caller.user, &caller.service, now).await?;
    Ok(Json(UserBody {
        id: user.id.to_string(),
        email: user.email.clone(),
        email_verified: user.email_verified_at.is_some(),
        name: user.name.clone(),
        org: caller.access.claims.org.clone().unwrap_or_default(),
        service: caller.access.claims.service.clone().unwrap_or_default(),
        customer: entitlement.customer.to_string(),
        plan: entitlement.plan.clone(),
        features: raw(&entitlement.features)?,
        created_at: rfc3339(user.created_at),
    }))
}
