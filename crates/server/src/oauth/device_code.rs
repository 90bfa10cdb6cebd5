//! `POST /auth/device/code`: creates codes for a device (RFC 8628 section 3.1). Answers after they are on disk.

use super::client_auth::authenticate;
use super::error::{OAuthError, Result};
use super::params::Posted;
use super::resource;
use crate::app::App;
use crate::oauth::long_poll::INTERVAL;
use crate::web::auth::Address;
use crate::web::json::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::header::{CACHE_CONTROL, USER_AGENT};
use http::{HeaderValue, StatusCode};
use identity::clients::{Client, DEVICE_GRANT};
use identity::devices::{self, NewDevice};
use identity::organizations::{DeviceFlow, Status};
use identity::scopes::Scope;
use identity::{Error, names, user_codes};
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;

/// The number of attempts if another instance has drawn the same codes.
const DRAWS_MAX: usize = 4;

#[derive(Serialize)]
struct Codes<'a> {
    device_code: &'a str,
    user_code: String,
    verification_uri: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    verification_uri_complete: Option<String>,
    expires_in: u64,
    interval: u64,
}

pub(crate) async fn post(
    State(app): State<App>,
    Address(address): Address,
    posted: Posted,
) -> Result<Response> {
    let client = authenticate(&app, &posted).await?;
    check_names(&client, &posted)?;
    if !client.may(DEVICE_GRANT) {
        return Err(OAuthError::new("unauthorized_client", "This client may not use the device flow."));
    }
    resource::check(&app, &posted.params)?;
    let now = app.now();
    if app.lookups.status(&client.organization, now).await? != Status::Active {
        return Err(OAuthError::new("unauthorized_client", "The organization is not active."));
    }
    if client.device_flow == DeviceFlow::Off {
        let text = "The organization has switched the device flow off.";
        return Err(OAuthError::new("unauthorized_client", text));
    }
    app.pending_codes.admit(&client.id, address, app.settings.pending_codes_max, now).map_err(too_many)?;
    let first_party = client.is_first_party();
    let scope = Scope::grant(posted.params.get("scope"), first_party)?;
    let is_short = first_party || client.device_flow == DeviceFlow::Short;
    let life = if is_short { devices::SHORT_LIFE } else { devices::LIFE };
    let agent = posted.headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut device = NewDevice::generate(&client.id, scope, life, now, &app.user_codes, app.random())?;
    device.address = address.to_string();
    device.agent = names::remark(agent);
    // Frees the buffer of the request while the command waits.
    drop(posted);
    let device = begin(&app, device).await?;

    let user_code = user_codes::show(&device.user_code);
    let codes = Codes {
        device_code: &device.device_code,
        verification_uri: app.url("/activate"),
        // For first-party clients the code must be typed, because a link is easy to send to another user.
        verification_uri_complete: (!first_party)
            .then(|| app.url(&["/activate?user_code=", &user_code].concat())),
        user_code,
        expires_in: life.as_secs(),
        interval: INTERVAL.as_secs(),
    };
    let mut response = Json(codes).into_response();
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

fn too_many(wait: Duration) -> OAuthError {
    let text = "This client has too many codes that wait for a decision.";
    OAuthError {
        status: StatusCode::TOO_MANY_REQUESTS,
        retry_after: Some(wait),
        ..OAuthError::new("temporarily_unavailable", text)
    }
}

/// Stores the authorization. Draws other codes if the first are taken.
async fn begin(app: &App, device: NewDevice) -> Result<Arc<NewDevice>> {
    let mut device = Arc::new(device);
    for _ in 0..DRAWS_MAX {
        match app.pending_device_codes.begin(&device).await {
            Ok(()) => return Ok(device),
            Err(Error::Taken { .. }) => {
                Arc::make_mut(&mut device).regenerate(&app.user_codes, app.random())?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::Internal("no free codes could be drawn".to_owned()).into())
}

/// `org` and `service` are optional; if present, they must be those of the client.
fn check_names(client: &Client, posted: &Posted) -> Result<()> {
    for (name, own) in [("org", &client.organization_slug), ("service", &client.service_slug)] {
        if posted.params.get(name).is_some_and(|sent| sent != own) {
            return Err(OAuthError::invalid_request(format!("{name} does not match the client.")));
        }
    }
    Ok(())
}
