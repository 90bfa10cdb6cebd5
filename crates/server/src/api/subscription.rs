//! `GET /api/subscription`: what the token's user has of the token's service. The hottest route: it
//! normally touches no SQL.

use crate::app::App;
use crate::caller::ServiceUser;
use crate::error::Result;
use crate::wire::{Json, rfc3339};
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use serde_json::value::RawValue;

#[derive(Serialize)]
struct SubscriptionBody<'a> {
    service: &'a str,
    plan: &'a str,
    features: &'a RawValue,
    limits: &'a RawValue,
    status: &'a str,
    current_period_end: Option<String>,
    customer: &'a str,
    version: String,
}

pub(crate) async fn get(State(app): State<App>, caller: ServiceUser) -> Result<Response> {
    // Before the data: it may be newer than it says, never older.
    let version = app.store.version();
    let entitlement = app.directory.entitlement(&caller.user, &caller.service, caller.now).await?;
    let body = SubscriptionBody {
        service: caller.access.claims.service.as_deref().unwrap_or_default(),
        plan: &entitlement.plan,
        features: entitlement.features.raw(),
        limits: entitlement.limits.raw(),
        status: &entitlement.status,
        current_period_end: entitlement.current_period_end.map(rfc3339),
        customer: entitlement.customer.as_str(),
        version: version.to_string(),
    };
    Ok(Json(body).into_response())
}
