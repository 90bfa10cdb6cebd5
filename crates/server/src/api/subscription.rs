//! `GET /api/subscription`: the entitlement of the token's user at the token's service. The most frequent request: it
//! normally runs no SQL: what its answer consists of is cached as long as the entitlement (`subscription_answers`).

use crate::web::auth::ServiceUser;
use crate::web::error::Result;
use crate::web::json::Written;
use axum::response::{IntoResponse as _, Response};

pub(crate) async fn get(caller: ServiceUser) -> Result<Response> {
    // Read before the data, so that the data may be newer than the version but never older.
    let version = caller.version().to_string();
    let answer = caller.subscription().await?;
    Ok(Written(answer.text(&version)).into_response())
}
