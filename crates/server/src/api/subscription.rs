//! `GET /api/subscription`: what the token's user has of the token's service. The hottest route: it
//! normally touches no SQL.

use crate::web::auth::ServiceUser;
use crate::web::error::Result;
use crate::web::json::{Written, rfc3339};
use axum::response::{IntoResponse as _, Response};
use identity::{Entitlement, Error};
use serde::Serialize;
use serde_json::value::RawValue;

/// All but `version`.
#[derive(Serialize)]
struct SubscriptionBody<'a> {
    service: &'a str,
    plan: &'a str,
    features: &'a RawValue,
    limits: &'a RawValue,
    status: &'a str,
    current_period_end: Option<String>,
    customer: &'a str,
}

pub(crate) async fn get(caller: ServiceUser) -> Result<Response> {
    // Before the data: it may be newer than it says, never older.
    let version = caller.version().to_string();
    let entitlement = caller.lookups().entitlement(&caller.user, &caller.service, caller.now).await?;
    // A service's slug never changes.
    let service = caller.access.claims.service.as_deref().unwrap_or_default();
    let start = entitlement.said(|entitlement| start(service, entitlement))?;
    Ok(Written([&*start, ",\"version\":\"", &version, "\"}"].concat()).into_response())
}

/// The answer but for its end, which is another one after each change anywhere.
fn start(service: &str, entitlement: &Entitlement) -> identity::Result<String> {
    let body = SubscriptionBody {
        service,
        plan: &entitlement.plan,
        features: entitlement.features.raw(),
        limits: entitlement.limits.raw(),
        status: &entitlement.status,
        current_period_end: entitlement.current_period_end.map(rfc3339),
        customer: entitlement.customer.as_str(),
    };
    let mut text = serde_json::to_string(&body).map_err(|error| Error::Broken(error.to_string()))?;
    text.pop(); // The closing brace.
    Ok(text)
}
