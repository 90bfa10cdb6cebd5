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
    let entitlement = app.directory.entitlement(&caller.user, &caller.service, app.now()).await?;
    let body = SubscriptionBody {
        service: caller.access.claims.service.as_deref().unwrap_or_default(),
        plan: &entitlement.plan,
        features: raw(&entitlement.features)?,
        limits: raw(&entitlement.limits)?,
        status: &entitlement.status,
        current_period_end: entitlement.current_period_end.map(rfc3339),
        customer: entitlement.customer.as_str(),
        version: version.to_string(),
    };
    Ok(Json(body).into_response())
}

/// Stored JSON goes out as it is.
pub(crate) fn raw(json: &str) -> Result<&RawValue> {
    let broken = |error: serde_json::Error| identity::Error::Broken(format!("stored JSON: {error}"));
    Ok(serde_json::from_str(json).map_err(broken)?)
}
