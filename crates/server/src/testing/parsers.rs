//! What reads bytes from outside, as it stands and without a server around it: for the fuzz targets (`fuzz/`).

use crate::oauth::client_auth;
use crate::oauth::params::Params;
use crate::pages::browser;
use crate::web::json::{self, Page, Slug};
use crate::web::{auth, middleware};
use crate::webhooks::{stripe_event, stripe_signature};
use axum::extract::FromRequestParts as _;
use http::{HeaderMap, Request};
use identity::Time;
use identity::billing::Content;
use serde::de::DeserializeOwned;
use std::net::IpAddr;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use web::{AddressHeader, Cidr};

/// A form's parameters, written as a form again.
pub fn form(bytes: &[u8]) -> Option<String> {
    Params::from_form(bytes).ok().map(|params| params.to_form())
}

/// The parameters of a JSON object, written as a form.
pub fn json_parameters(bytes: &[u8]) -> Option<String> {
    Params::from_json(bytes).ok().map(|params| params.to_form())
}

/// A body of the JSON API.
pub fn body<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    json::parse(bytes).ok()
}

/// `limit` and `cursor` of the URL of a list that is sorted by slug.
pub fn page(address: &str) -> Option<(i64, Option<String>)> {
    let (mut parts, ()) = Request::get(address).body(()).ok()?.into_parts();
    let reading = pin!(Page::<Slug>::from_request_parts(&mut parts, &()));
    match reading.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(page) => page.ok().map(|page| (page.limit, page.cursor)),
        Poll::Pending => None,
    }
}

/// A time, and how it is answered.
pub fn time(text: &str) -> Option<(Time, String)> {
    json::parse_time("time", text).ok().map(|time| (time, json::rfc3339(time)))
}

/// The media type of a body.
pub fn media_type(headers: &HeaderMap) -> String {
    json::media_type(headers)
}

/// The client's address, behind proxies that send `X-Forwarded-For`, or `Forwarded`.
pub fn forwarded(headers: &HeaderMap, peer: IpAddr, trusted: &[IpAddr], header: AddressHeader) -> IpAddr {
    let trusted: Vec<Cidr> = trusted.iter().copied().map(Cidr::from).collect();
    web::forwarded::forwarded(headers, peer, &trusted, header)
}

/// A bearer token.
pub fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    auth::bearer(headers)
}

/// A client's id and secret.
pub fn basic(headers: &HeaderMap) -> Option<(String, String)> {
    client_auth::basic_credentials(headers).ok().flatten()
}

/// The number of the version that a caller has seen; `Err` when it is none.
#[expect(clippy::result_unit_err, reason = "how it is refused is not asked here")]
pub fn version(headers: &HeaderMap) -> Result<Option<store::Version>, ()> {
    middleware::carried(headers).map_err(drop)
}

/// The cookies of a browser whose names begin like this.
pub fn cookies(headers: &HeaderMap, prefix: &str) -> Vec<(String, String)> {
    browser::cookies(headers, prefix)
}

/// The header of a billing event; what it gives verifies a body with a secret.
pub fn billing_signature(header: &[u8]) -> Option<impl Fn(&[u8], &[u8]) -> bool> {
    let signature = stripe_signature::Signature::parse(header)?;
    Some(move |secret: &[u8], body: &[u8]| signature.matches(secret, body))
}

/// The provider's ids in a billing event.
pub fn billing_event(body: &[u8]) -> Option<Vec<String>> {
    let event = stripe_event::parse(body, |_| None).ok().flatten()?;
    let mut ids = vec![event.id.to_string()];
    ids.extend(event.account.iter().map(ToString::to_string));
    match event.content {
        Content::Subscription { state, .. } => {
            ids.extend([state.id.to_string(), state.customer.to_string()]);
            ids.extend(state.prices.iter().map(ToString::to_string));
        }
        Content::Checkout { id, external_customer, .. } => {
            ids.extend([id.to_string(), external_customer.to_string()]);
        }
    }
    Some(ids)
}

/// Where a sign-in leads.
pub fn next_page<'a>(sent: &'a str, otherwise: &'a str) -> &'a str {
    browser::safe_next(Some(sent), otherwise)
}
