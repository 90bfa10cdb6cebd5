//! The device authorization grant (RFC 8628) of a client.

use std::time::Duration;

use browser::KnownValues;
use serde::Deserialize;
use tokio::time::{Instant, sleep};

use super::account::Tokens;
use super::browser::Browser;
use super::client::Client;
use crate::error::Error;
use crate::http::RequestDraft;
use crate::json_scan::string_field;

pub(super) const DEVICE_CODE_GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";
/// Polls after the approval. The first one should return the tokens.
const POLLS_MAX: usize = 10;

#[derive(Deserialize)]
pub(super) struct DeviceCode {
    pub device_code: String,
    pub user_code: String,
    pub verification_uri: String,
    pub verification_uri_complete: Option<String>,
    interval: Option<u64>,
}

#[derive(Deserialize)]
pub(super) struct TokenAnswer {
    pub access_token: String,
    pub refresh_token: Option<String>,
    pub expires_in: u64,
    pub scope: Option<String>,
}

impl TokenAnswer {
    pub fn into_tokens(self, received: Instant) -> Tokens {
        Tokens {
            access_token: self.access_token,
            refresh_token: self.refresh_token,
            received,
            lifetime: Duration::from_secs(self.expires_in),
        }
    }
}

/// Requests a code, approves it in `browser`, and redeems it.
pub(super) async fn sign_in(
    browser: &mut Browser<'_>,
    client_id: &str,
    scope: &str,
    known: KnownValues<'_>,
) -> Result<TokenAnswer, Error> {
    let address = browser.address;
    let draft = RequestDraft::post_form("/auth/device/code", &[("client_id", client_id), ("scope", scope)])
        .header("X-Forwarded-For", address);
    let code: DeviceCode = browser.client.send(&draft).await?.expect(&[200])?.json()?;
    // Without a complete address the code has to be typed.
    let url = code.verification_uri_complete.as_ref().unwrap_or(&code.verification_uri);
    let known = KnownValues { user_code: &code.user_code, ..known };
    browser.approve(url, &known).await?;
    redeem(browser.client, client_id, &code, address).await
}

async fn redeem(
    client: &mut Client,
    client_id: &str,
    code: &DeviceCode,
    address: &str,
) -> Result<TokenAnswer, Error> {
    let fields =
        [("grant_type", DEVICE_CODE_GRANT), ("device_code", &code.device_code), ("client_id", client_id)];
    let draft = RequestDraft::post_form("/auth/token", &fields).header("X-Forwarded-For", address);
    for _ in 0..POLLS_MAX {
        let reply = client.send(&draft).await?;
        if reply.status == 200 {
            return reply.json();
        }
        let error = string_field(&reply.body, "error").unwrap_or_default();
        if error != b"authorization_pending" && error != b"slow_down" {
            return Err(reply.unexpected("the approved code was not redeemed"));
        }
        sleep(Duration::from_secs(code.interval.unwrap_or(5))).await;
    }
    Err(Error::set_up("POST /auth/token", "the code was approved in the browser and is still pending"))
}

/// Exchanges a refresh token for the next one.
pub(super) fn refresh_request(client_id: &str, refresh_token: &str, address: &str) -> RequestDraft {
    let fields =
        [("grant_type", "refresh_token"), ("refresh_token", refresh_token), ("client_id", client_id)];
    RequestDraft::post_form("/auth/token", &fields).header("X-Forwarded-For", address)
}
