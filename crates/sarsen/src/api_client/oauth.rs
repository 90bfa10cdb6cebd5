//! OAuth for a terminal: discovery, the device flow (RFC 8628), refresh, revocation.

use super::credentials::Login;
use super::http::{Answer, BEARER, Body, HttpClient, bearer};
use crate::config::Origin;
use crate::error::{Error, Result};
use crate::terminal;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use server::{Clock as _, SystemClock};
use std::time::{Duration, Instant};
use ureq::http::{HeaderName, Method};

/// The client of the platform for terminals.
const CLIENT_ID: &str = "cli";
const DEVICE_GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";
/// Asks for a long poll (RFC 7240).
const PREFER: HeaderName = HeaderName::from_static("prefer");
const HOLD: &str = "wait=10";
const INTERVAL_DEFAULT: Duration = Duration::from_secs(5);
/// What `slow_down` adds to the interval.
const SLOWER: Duration = Duration::from_secs(5);

/// The metadata of a server (RFC 8414).
#[derive(Deserialize)]
pub struct Discovery {
    issuer: String,
    token_endpoint: String,
    device_authorization_endpoint: Option<String>,
    revocation_endpoint: Option<String>,
    userinfo_endpoint: Option<String>,
}

/// The codes of a device.
#[derive(Deserialize)]
pub struct Codes {
    device_code: String,
    /// What the user types.
    pub user_code: String,
    /// Where the user types it.
    pub verification_uri: String,
    /// Seconds.
    pub expires_in: u64,
    interval: Option<u64>,
}

#[derive(Deserialize)]
struct Tokens {
    access_token: String,
    refresh_token: Option<String>,
    expires_in: i64,
    scope: Option<String>,
}

/// Gets the metadata of a server. Its issuer must be the address that was used: its tokens name it.
pub fn discover(http: &HttpClient, server: &str) -> Result<Discovery> {
    if let Some(advice) = address_with_scheme(server) {
        return Err(Error::usage(format!("{server} is not the address of a server; use {advice}")));
    }
    let url = format!("{server}/.well-known/openid-configuration");
    let answer = http.send(&Method::GET, &url, &[], &Body::None)?;
    if answer.status == 404 {
        return Err(Error::failed(format!("{server} is not an identity server: there is no {url}")));
    }
    let discovery: Discovery = read(answer)?;
    if discovery.issuer != server {
        let advice = match Origin::parse(&discovery.issuer) {
            Some(origin) => format!("use sarsen login --server {origin}"),
            None => "that is another server".to_owned(),
        };
        return Err(Error::failed(format!("the issuer of {server} is {:?}; {advice}", discovery.issuer)));
    }
    Ok(discovery)
}

/// The address with its scheme, where that was left out.
fn address_with_scheme(server: &str) -> Option<String> {
    if server.contains("://") {
        return None;
    }
    let with = |scheme: &str| Origin::parse(&format!("{scheme}://{server}"));
    let meant = with("http").filter(Origin::is_loopback).or_else(|| with("https"));
    Some(meant.map_or_else(|| "https://HOST".to_owned(), |origin| origin.to_string()))
}

impl Discovery {
    /// Starts a sign-in.
    pub fn begin(&self, http: &HttpClient, scope: &str) -> Result<Codes> {
        let endpoint = self.device_authorization_endpoint.as_deref();
        let endpoint =
            endpoint.ok_or_else(|| Error::failed("this server has no device flow for terminals"))?;
        let form = [("client_id", CLIENT_ID), ("scope", scope)];
        read(http.send(&Method::POST, endpoint, &[], &Body::Form(&form))?)
    }

    /// Waits for the decision of the user.
    pub fn wait(&self, http: &HttpClient, codes: &Codes) -> Result<Login> {
        let mut interval = codes.interval.map_or(INTERVAL_DEFAULT, Duration::from_secs);
        let ends = Instant::now() + Duration::from_secs(codes.expires_in);
        let form =
            [("grant_type", DEVICE_GRANT), ("device_code", &codes.device_code), ("client_id", CLIENT_ID)];
        while Instant::now() < ends {
            let asked = Instant::now();
            let answer =
                http.send(&Method::POST, &self.token_endpoint, &[(PREFER, HOLD)], &Body::Form(&form))?;
            match answer.body.get("error").and_then(Value::as_str) {
                None => return self.login(http, read(answer)?),
                Some("authorization_pending") => {}
                Some("slow_down") => interval += SLOWER,
                Some("access_denied") => return Err(Error::failed("the sign-in was denied")),
                Some("expired_token") => break,
                Some(_) => return Err(answer.refusal()),
            }
            // A long poll has waited already.
            terminal::sleep(interval.saturating_sub(asked.elapsed()));
        }
        Err(Error::failed("the code has expired; run sarsen login again"))
    }

    fn login(&self, http: &HttpClient, tokens: Tokens) -> Result<Login> {
        let refresh_token =
            tokens.refresh_token.ok_or_else(|| Error::failed("the server sent no refresh token"))?;
        let email = match &self.userinfo_endpoint {
            Some(endpoint) => self.email(http, endpoint, &tokens.access_token)?,
            None => String::new(),
        };
        Ok(Login {
            email,
            scope: tokens.scope.unwrap_or_default(),
            access_token: tokens.access_token,
            refresh_token,
            expires_at: ends_at(tokens.expires_in),
            token_endpoint: self.token_endpoint.clone(),
            revocation_endpoint: self.revocation_endpoint.clone(),
        })
    }

    fn email(&self, http: &HttpClient, endpoint: &str, token: &str) -> Result<String> {
        let headers = [(BEARER, &*bearer(token))];
        let user = http.send(&Method::GET, endpoint, &headers, &Body::None)?.ok()?;
        Ok(user.get("email").and_then(Value::as_str).unwrap_or_default().to_owned())
    }
}

/// Exchanges the refresh token for new tokens. `None`: the sign-in has ended.
pub fn refresh(http: &HttpClient, login: &Login) -> Result<Option<Login>> {
    let form =
        [("grant_type", "refresh_token"), ("refresh_token", &login.refresh_token), ("client_id", CLIENT_ID)];
    let answer = http.send(&Method::POST, &login.token_endpoint, &[], &Body::Form(&form))?;
    if answer.body.get("error").and_then(Value::as_str) == Some("invalid_grant") {
        return Ok(None);
    }
    let tokens: Tokens = read(answer)?;
    Ok(Some(Login {
        scope: tokens.scope.unwrap_or_else(|| login.scope.clone()),
        access_token: tokens.access_token,
        refresh_token: tokens.refresh_token.unwrap_or_else(|| login.refresh_token.clone()),
        expires_at: ends_at(tokens.expires_in),
        ..login.clone()
    }))
}

/// Revokes the tokens of a sign-in (RFC 7009).
pub fn revoke(http: &HttpClient, login: &Login) -> Result<()> {
    let Some(endpoint) = &login.revocation_endpoint else { return Ok(()) };
    let form = [("token", &*login.refresh_token), ("client_id", CLIENT_ID)];
    http.send(&Method::POST, endpoint, &[], &Body::Form(&form))?.ok().map(|_| ())
}

/// Seconds since 1970.
pub fn now() -> i64 {
    SystemClock.now().millis() / 1000
}

fn ends_at(expires_in: i64) -> i64 {
    now().saturating_add(expires_in)
}

/// The body, as this type.
fn read<T: DeserializeOwned>(answer: Answer) -> Result<T> {
    serde_json::from_value(answer.ok()?)
        .map_err(|error| Error::failed(format!("the server's answer is not what it should be: {error}")))
}
