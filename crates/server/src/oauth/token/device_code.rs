//! The device grant (RFC 8628 section 3.4). The first poll of a pending code is answered at once; later ones are held
//! until the user decides. Of several polls of an approved code, one redeems it.

use super::issue::{self, Issue};
use crate::app::App;
use crate::oauth::error::{OAuthError, Result};
use crate::oauth::long_poll::Pace;
use crate::oauth::params::Posted;
use axum::response::Response;
use http::HeaderValue;
use identity::clients::Client;
use identity::devices::{self, Device, Redemption, State};
use identity::grants::NewRefresh;
use identity::ids::{GrantId, SessionId};
use identity::organizations::{DeviceFlow, Status};
use std::net::IpAddr;
use std::time::Duration;

/// The longest time that a client may request a poll to be held (RFC 7240 `Prefer: wait`).
const WAIT_MAX: Duration = Duration::from_secs(10);

pub(super) async fn poll(app: &App, client: &Client, posted: &Posted, address: IpAddr) -> Result<Response> {
    let code = posted.params.need("device_code")?;
    let preferred = preferred_wait(posted);
    let answered = answer(app, client, code, preferred, address).await;
    let response = answered.map_err(patient);
    match preferred {
        Some(wait) => Ok(with_preference(response, wait)),
        None => response,
    }
}

/// Every device client handles `slow_down`; few handle 503.
pub(super) fn patient(error: OAuthError) -> OAuthError {
    match error.error {
        "temporarily_unavailable" => {
            OAuthError { retry_after: error.retry_after, ..OAuthError::new("slow_down", error.description) }
        }
        _ => error,
    }
}

async fn answer(
    app: &App,
    client: &Client,
    code: &str,
    preferred: Option<Duration>,
    address: IpAddr,
) -> Result<Response> {
    let now = app.now();
    if app.lookups.status(&client.organization, now).await? != Status::Active {
        return Err(OAuthError::new("access_denied", "The organization is not active."));
    }
    if client.device_flow == DeviceFlow::Off {
        return Err(OAuthError::new("access_denied", "The organization has switched the device flow off."));
    }
    let (id, secret) = devices::id_of(code).ok_or_else(OAuthError::invalid_grant)?;
    if !app.pending_device_codes.has(&id, secret, &client.id, now) {
        let device = look(app, client, code).await?;
        if device.state(now) != State::Pending {
            return decided(app, client, device).await;
        }
    }
    match app.long_polls.pace(&id, now) {
        Pace::TooSoon => {
            let text = "The device polls too often; add five seconds to the interval.";
            return Err(OAuthError::new("slow_down", text));
        }
        Pace::First if preferred.is_none() => return Err(pending()),
        Pace::First | Pace::OnTime => {}
    }
    let Some(hold) = app.long_polls.hold(&id, address) else { return Err(pending()) };
    // The user may have decided between the first read and taking the place, so the row is read again.
    let seen = app.store.position();
    let device = look(app, client, code).await?;
    if device.state(app.now()) != State::Pending {
        return decided(app, client, device).await;
    }
    // Without a watch, the code has changed since that read.
    if let Some(_watch) = app.store.watch(&[devices::key(&id)], seen, hold.waker()) {
        hold.wait(preferred.unwrap_or(app.settings.hold_max)).await;
    }
    if !hold.is_newest() {
        return Err(pending());
    }
    let device = look(app, client, code).await?;
    decided(app, client, device).await
}

async fn look(app: &App, client: &Client, code: &str) -> Result<Device> {
    let (code, client) = (code.to_owned(), client.id.clone());
    Ok(app.store.point(move |snapshot| devices::by_device_code(snapshot, &code, &client)).await?)
}

fn pending() -> OAuthError {
    OAuthError::new("authorization_pending", "The user has not decided yet. Poll again.")
}

async fn decided(app: &App, client: &Client, device: Device) -> Result<Response> {
    match device.state(app.now()) {
        State::Pending => Err(pending()),
        State::Denied => Err(OAuthError::new("access_denied", "The user denied the request.")),
        State::Expired => Err(OAuthError::new("expired_token", "The code has expired. Request a new one.")),
        State::Redeemed => Err(OAuthError::invalid_grant()),
        State::Allowed => Box::pin(redeem(app, client, device)).await,
    }
}

async fn redeem(app: &App, client: &Client, device: Device) -> Result<Response> {
    let now = app.now();
    let new = Redemption {
        session: SessionId::new(now, app.random()),
        grant: GrantId::new(now, app.random()),
        refresh: NewRefresh::first(now, app.random()),
        session_life: devices::session_life(client.is_first_party()),
    };
    let allowed = device.clone();
    let session = app.store.point(move |snapshot| devices::allowed_by(snapshot, &allowed, now)).await?;
    let prepared = issue::prepare(app, client, &session.user, &device.scope).await?;
    let (name, made) = (client.name.clone(), new.clone());
    let redeemed =
        app.store.write("device.redeem", move |tx| devices::redeem(tx, &device, &made, &name, now)).await?;
    let issue = Issue {
        user: redeemed.user,
        session: new.session,
        grant: new.grant,
        scope: redeemed.scope,
        refresh_token: Some(new.refresh.token),
        nonce: None,
        authentication: redeemed.authentication,
    };
    issue::answer(app, client, issue, prepared).await
}

/// `Prefer: wait=N`, at most ten seconds.
fn preferred_wait(posted: &Posted) -> Option<Duration> {
    let value = posted.headers.get("prefer")?.to_str().ok()?;
    let wait = value.split(',').find_map(|part| part.trim().strip_prefix("wait="))?;
    Some(Duration::from_secs(wait.trim().parse().ok()?).min(WAIT_MAX))
}

fn with_preference(response: Result<Response>, wait: Duration) -> Response {
    use axum::response::IntoResponse as _;
    let mut response = response.into_response();
    if let Ok(value) = HeaderValue::from_str(&format!("wait={}", wait.as_secs())) {
        response.headers_mut().insert("preference-applied", value);
    }
    response
}
