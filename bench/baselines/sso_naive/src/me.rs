//! `GET /api/subscription` and `GET /api/user`: one signature, then rows of session, user and plan. No caches.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use serde::Serialize;
use serde_json::value::RawValue;
use crate::database::Pool;

use crate::AppState;
use crate::error::Failure;
use crate::token::{self, Claims};

struct Caller {
    claims: Claims,
    email: String,
    created_at: i64,
}

struct Plan {
    name: String,
    features: Box<RawValue>,
    status: String,
    current_period_end: Option<i64>,
}

#[derive(Serialize)]
pub struct SubscriptionAnswer {
    service: String,
    plan: String,
    features: Box<RawValue>,
    status: String,
    current_period_end: Option<i64>,
}

#[derive(Serialize)]
pub struct UserAnswer {
    id: String,
    email: String,
    org: String,
    service: String,
    plan: String,
    features: Box<RawValue>,
    created_at: i64,
}

pub async fn subscription(
    State(state): State<AppState>,
    headers: HeaderMap,
) -> Result<Json<SubscriptionAnswer>, Failure> {
    let caller = caller(&state, &headers).await?;
    let plan = plan(&state.pool, &caller.claims).await?;
    Ok(Json(SubscriptionAnswer {
        service: caller.claims.service,
        plan: plan.name,
        features: plan.features,
        status: plan.status,
        current_period_end: plan.current_period_end,
    }))
}

pub async fn user(State(state): State<AppState>, headers: HeaderMap) -> Result<Json<UserAnswer>, Failure> {
    let caller = caller(&state, &headers).await?;
    let plan = plan(&state.pool, &caller.claims).await?;
    Ok(Json(UserAnswer {
        id: caller.claims.sub,
        email: caller.email,
        org: caller.claims.org,
        service: caller.claims.service,
        plan: plan.name,
        features: plan.features,
        created_at: caller.created_at,
    }))
}

/// Checks the signature, reads the session by the hash of the token, then the user.
async fn caller(state: &AppState, headers: &HeaderMap) -> Result<Caller, Failure> {
    let header = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = header.and_then(|value| value.strip_prefix("Bearer ")).ok_or(Failure::UNAUTHORIZED)?;
    let claims = state.keys.verify(token).ok_or(Failure::UNAUTHORIZED)?;
    let session: Option<(String,)> =
        sqlx::query_as("SELECT user_id FROM sessions WHERE token_hash = $1 AND expires_at > $2")
            .bind(token::hash(token))
            .bind(token::now_s())
            .fetch_optional(&state.pool)
            .await?;
    let (user_id,) = session.ok_or(Failure::UNAUTHORIZED)?;
    let user: Option<(String, i64)> = sqlx::query_as("SELECT email, created_at FROM users WHERE id = $1")
        .bind(user_id)
        .fetch_optional(&state.pool)
        .await?;
    let (email, created_at) = user.ok_or(Failure::UNAUTHORIZED)?;
    Ok(Caller { claims, email, created_at })
}

async fn plan(pool: &Pool, claims: &Claims) -> Result<Plan, Failure> {
    let row: Option<(String, String, String, i64)> = sqlx::query_as(
        "SELECT p.name, p.features, sub.status, sub.current_period_end
         FROM subscriptions sub
         JOIN plans p ON p.id = sub.plan_id
         JOIN services s ON s.id = sub.service_id
         JOIN organizations o ON o.id = s.org_id
         WHERE sub.user_id = $1 AND s.slug = $2 AND o.slug = $3",
    )
    .bind(&claims.sub)
    .bind(&claims.service)
    .bind(&claims.org)
    .fetch_optional(pool)
    .await?;
    Ok(match row {
        Some((name, features, status, end)) => {
            Plan { name, features: raw(features), status, current_period_end: Some(end) }
        }
        None => Plan {
            name: "free".into(),
            features: raw("[]".into()),
            status: "active".into(),
            current_period_end: None,
        },
    })
}

/// Features are stored as JSON text and sent unchanged.
fn raw(text: String) -> Box<RawValue> {
    RawValue::from_string(text).unwrap_or_default()
}
