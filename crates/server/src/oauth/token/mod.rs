//! `POST /auth/token`: (RFC 6749 section 3.2). Each grant has a file.

mod authorization_code;
mod client_credentials;
mod device_code;
mod issue;
mod refresh_token;

use super::client_auth::authenticate;
use super::error::{OAuthError, Result};
use super::params::Posted;
use super::resource;
use crate::app::App;
use crate::web::auth::Address;
use axum::extract::State;
use axum::response::Response;
use identity::clients::DEVICE_GRANT;

pub(crate) use issue::subject_claims;

/// The supported grant types.
pub(crate) const GRANTS: [&str; 4] =
    ["authorization_code", "refresh_token", "client_credentials", DEVICE_GRANT];

pub(crate) async fn post(
    State(app): State<App>,
    Address(address): Address,
    posted: Posted,
) -> Result<Response> {
    let grant = posted.params.need("grant_type")?;
    let Some(grant) = GRANTS.into_iter().find(|known| *known == grant) else {
        let known = GRANTS.join(", ");
        return Err(OAuthError::new("unsupported_grant_type", format!("Known grant types are {known}.")));
    };
    let client = match authenticate(&app, &posted).await {
        Err(error) if grant == DEVICE_GRANT => return Err(device_code::patient(error)),
        other => other?,
    };
    if !client.may(grant) {
        return Err(OAuthError::new("unauthorized_client", "This client may not use this grant type."));
    }
    resource::check(&app, &posted.params)?;
    // Polls are the most frequent; the other futures are boxed so that the future of a poll stays small.
    match grant {
        "authorization_code" => Box::pin(authorization_code::redeem(&app, &client, &posted, address)).await,
        "refresh_token" => Box::pin(refresh_token::refresh(&app, &client, &posted, address)).await,
        "client_credentials" => Box::pin(client_credentials::grant(&app, &client, &posted)).await,
        _ => device_code::poll(&app, &client, &posted, address).await,
    }
}
