//! `GET /api/subscription`: what the token's user has of the token's service. The hottest route: it
//! normally touches no SQL.

use crate::app::App;
use crate::caller::ServiceUser;
use crate::error::Result;
use crate::wire::{Json, rfc3339};
use axum::extract::State;
use serde::Serialize;
use serde_json::value::RawValue;

#[derive(Serialize)]
pub(crate) struct SubscriptionBody {
    service: String,
    plan: String,
    features: Box<RawValue>,
    limits: Box<RawValue>,
    status: String,
    current_period_end: Option<String>,
    customer: String,
    version: String,
}

pub(crate) async fn get(State(app): State<App>, caller: ServiceUser) -> Result<Json<SubscriptionBody>> {
    // Before the data: it may be newer than it says, never older.
    let version = app.store.version();
    let entitlement = app.directory.entitlement(&caller.user, &caller.service, app.now()).await?;
    Ok(Json(SubscriptionBody {
        service: caller.access.claims.service.clone().unwrap_or_default(),
        plan: entitlement.plan.clone(),
        features: raw(&entitlement.features)?,
        limits: raw(&entitlement.limits)?,
        status: entitlement.status.clone(),
        current_period_end: entitlement.current_period_end.map(rfc3339),
        customer: entitlement.customer.to_string(),
        version: version.to_string(),
    }))
}

/// Stored JSON goes out as it is.
pub(crate) fn raw(json: &str) -> Result<Box<RawValue>> {
    let broken = |error: serde_json::Error| identity::Error::Broken(format!("stored JSON: {error}"));
    Ok(RawValue::from_string(json.to_owned()).map_err(broken)?)
}
