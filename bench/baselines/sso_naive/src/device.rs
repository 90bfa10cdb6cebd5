//! The device flow: `POST /auth/device/code` is one read and one INSERT, `POST /auth/token` reads the code. Codes are never
//! approved here, so the answer is "pending".

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use crate::database::Pool;

use crate::AppState;
use crate::error::Failure;
use crate::token;

const CODE_LIFE_S: i64 = 900;
const INTERVAL_S: i64 = 5;
const DEVICE_GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";

#[derive(Deserialize)]
struct CodeRequest {
    client_id: String,
    org: String,
    service: String,
}

#[derive(Serialize)]
pub struct CodeAnswer {
    device_code: String,
    user_code: String,
    verification_uri: String,
    expires_in: i64,
    interval: i64,
}

#[derive(Deserialize)]
struct TokenRequest {
    grant_type: String,
    device_code: String,
    client_id: String,
}

pub async fn code(
    State(state): State<AppState>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<CodeAnswer>, Failure> {
    let request: CodeRequest = parse(&headers, &body)?;
    let verification_uri = activation_uri(&state.pool, &request).await?;
    let (device_code, user_code) = insert_code(&state.pool, &request).await?;
    Ok(Json(CodeAnswer {
        device_code,
        user_code,
        verification_uri,
        expires_in: CODE_LIFE_S,
        interval: INTERVAL_S,
    }))
}

pub async fn token(State(state): State<AppState>, headers: HeaderMap, body: Bytes) -> Failure {
    match pending(&state.pool, &headers, &body).await {
        Ok(()) => Failure::PENDING,
        Err(failure) => failure,
    }
}

/// A form or a JSON object, by its Content-Type.
fn parse<T: DeserializeOwned>(headers: &HeaderMap, body: &[u8]) -> Result<T, Failure> {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if content_type.starts_with("application/json") {
        serde_json::from_slice(body).map_err(|_| Failure::INVALID_REQUEST)
    } else {
        serde_urlencoded::from_bytes(body).map_err(|_| Failure::INVALID_REQUEST)
    }
}

/// The read: client, organization and service must belong together.
async fn activation_uri(pool: &Pool, request: &CodeRequest) -> Result<String, Failure> {
    let row: Option<(Option<String>,)> = sqlx::query_as(
        "SELECT s.device_activation_uri FROM services s JOIN organizations o ON o.id = s.org_id
         WHERE s.client_id = $1 AND o.slug = $2 AND s.slug = $3 AND o.status = 'active'",
    )
    .bind(&request.client_id)
    .bind(&request.org)
    .bind(&request.service)
    .fetch_optional(pool)
    .await?;
    row.and_then(|(uri,)| uri).ok_or(Failure::INVALID_CLIENT)
}

/// The write: one statement, one implicit transaction, one request.
async fn insert_code(pool: &Pool, request: &CodeRequest) -> Result<(String, String), Failure> {
    let (id, device_code) = (token::random_uuid()?, token::random_uuid()?);
    let user_code = token::random_user_code()?;
    sqlx::query(
        "INSERT INTO device_codes (id, device_code, user_code, client_id, org_slug, service_slug, expires_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
    )
    .bind(id)
    .bind(&device_code)
    .bind(&user_code)
    .bind(&request.client_id)
    .bind(&request.org)
    .bind(&request.service)
    .bind(token::now_s() + CODE_LIFE_S)
    .execute(pool)
    .await?;
    Ok((device_code, user_code))
}

async fn pending(pool: &Pool, headers: &HeaderMap, body: &[u8]) -> Result<(), Failure> {
    let request: TokenRequest = parse(headers, body)?;
    if request.grant_type != DEVICE_GRANT {
        return Err(Failure::INVALID_REQUEST);
    }
    let row: Option<(String, String, i64)> =
        sqlx::query_as("SELECT client_id, status, expires_at FROM device_codes WHERE device_code = $1")
            .bind(&request.device_code)
            .fetch_optional(pool)
            .await?;
    match row {
        Some((client_id, ..)) if client_id != request.client_id => Err(Failure::INVALID_GRANT),
        Some((_, _, expires_at)) if expires_at <= token::now_s() => Err(Failure::EXPIRED),
        Some((_, status, _)) if status == "pending" => Ok(()),
        _ => Err(Failure::INVALID_GRANT),
    }
}
