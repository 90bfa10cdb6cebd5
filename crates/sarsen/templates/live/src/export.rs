//! A part of the product that not every plan has. The page hides its button, and this decides: it asks Sarsen what the plan
//! of the caller includes.

use crate::settings::Settings;
use axum::extract::State;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use live::{Context, Problem};
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use ureq::Agent;
use ureq::tls::TlsConfig;

/// What the user may use. There is more in the answer: <https://…/api/docs> of the server.
#[derive(Deserialize)]
struct Subscription {
    features: Vec<String>,
}

/// `POST /export`.
pub async fn export(
    State(context): State<Context>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let settings = context.state::<Settings>().ok_or_else(Problem::internal)?;
    let token = headers
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .map(str::to_owned);
    let Some(token) = token else {
        return Err(Problem::unauthenticated());
    };
    let asked = tokio::task::spawn_blocking(move || subscription(&settings.issuer, &token)).await;
    let subscription = asked.map_err(Problem::defect)??;
    if !subscription
        .features
        .iter()
        .any(|feature| feature == "export")
    {
        return Err(Problem::forbidden(
            "Your plan has no export. Plans with the feature `export` have it.",
        ));
    }
    Ok((
        [(CONTENT_TYPE, "text/csv; charset=utf-8")],
        "name,made\nFirst drawing,2026-01-31\n",
    )
        .into_response())
}

/// Sarsen verifies the token, so nothing is decided before its answer.
fn subscription(issuer: &str, token: &str) -> Result<Subscription, Problem> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = TlsConfig::builder()
        .unversioned_rustls_crypto_provider(provider)
        .build();
    let config = Agent::config_builder()
        .tls_config(tls)
        .timeout_global(Some(Duration::from_secs(10)))
        .build();
    let agent = config.new_agent();
    let answer = agent
        .get(format!("{issuer}/api/subscription"))
        .header("Authorization", token)
        .call();
    match answer {
        Ok(mut answer) => answer.body_mut().read_json().map_err(Problem::defect),
        Err(ureq::Error::StatusCode(401)) => Err(Problem::new(
            StatusCode::UNAUTHORIZED,
            "invalid_token",
            "The sign-in has ended. Sign in again.",
        )),
        Err(_) => Err(Problem::unavailable(
            "Sarsen does not answer.",
            Duration::from_secs(2),
        )),
    }
}
