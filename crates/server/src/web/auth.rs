//! Extractors: the client's address, its access token or API key, and the user of a service's token.
//!
//! A token is valid only for its audience: a service's reads, an organization, or the platform. The type of a handler's
//! argument names the audience; those for administration are in `administration.rs`, those for
//! the API keys of services in `service_key.rs`.

use crate::api::subscription_answers::Answer;
use crate::app::App;
use crate::web::error::Problem;
use axum::extract::FromRequestParts;
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, Method};
use identity::api_keys::{self, ApiKey};
use identity::ids::{ServiceId, UserId};
use identity::{Access, Lookups, Time};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use store::Version;
use web::Peer;
use web::current_request::note_client;
use web::forwarded::forwarded;

/// The client's address: the peer, or the one that a trusted proxy names.
#[derive(Clone, Copy, Debug)]
pub struct Address(pub IpAddr);

impl FromRequestParts<App> for Address {
    type Rejection = std::convert::Infallible;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Address, Self::Rejection> {
        let peer =
            parts.extensions.get::<Peer>().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.address);
        let trusted = &app.settings.trusted_proxies;
        let header = app.settings.client_address_header;
        app.address_sources.note(peer, &parts.headers, trusted, header);
        Ok(Address(forwarded(&parts.headers, peer, trusted, header)))
    }
}

/// The bearer token of a request. Only the header counts, because URLs must not hold tokens.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    // Any bytes will do: a valid token is in the cache, or has a signature.
    let mut sent = headers.get_all(AUTHORIZATION).iter();
    // Of several, a proxy in front of this server may have judged another one.
    let (value, None) = (sent.next()?.as_bytes(), sent.next()) else { return None };
    let space = value.iter().position(|byte| *byte == b' ')?;
    let (scheme, token) = value.split_at(space);
    scheme.eq_ignore_ascii_case(b"bearer").then(|| token.trim_ascii())
}

/// Any caller with a valid access token.
pub struct Bearer(pub Access);

impl FromRequestParts<App> for Bearer {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Bearer, Problem> {
        Ok(Bearer(access(parts, app, app.now()).await?))
    }
}

/// A verified bearer token: of a user or a client, or of a program with an API key.
pub(crate) enum Credential {
    /// An access token.
    Token(Access),
    /// An API key.
    Key(Arc<ApiKey>),
}

impl Credential {
    /// Verifies the bearer token of a request.
    pub(crate) async fn of(parts: &Parts, app: &App) -> Result<Credential, Problem> {
        let token = bearer(&parts.headers).ok_or_else(|| Problem::unauthenticated(&parts.headers))?;
        let now = app.now();
        if !api_keys::is_key(token) {
            return Ok(Credential::Token(access(parts, app, now).await?));
        }
        let Some(key) = app.lookups.api_key(token, now).await? else {
            let detail = "The API key is invalid, expired or revoked, or its organization is not active. Use another key.";
            return Err(Problem::invalid_token(detail));
        };
        if parts.method != Method::HEAD {
            app.key_use.note(&app.store, &key.id, now);
        }
        Ok(Credential::Key(key))
    }
}

/// The access that the request's token gives.
async fn access(parts: &Parts, app: &App, now: Time) -> Result<Access, Problem> {
    let token = bearer(&parts.headers).ok_or_else(|| Problem::unauthenticated(&parts.headers))?;
    if api_keys::is_key(token) {
        let detail = "This route takes no API key. Send the access token of a user.";
        return Err(Problem::insufficient_scope(detail));
    }
    let access = app.lookups.access(token, now).await?;
    let invalid = || Problem::invalid_token("The access token is not valid. Sign in again.");
    let access = access.ok_or_else(invalid)?;
    note_client(&access.terms.client);
    Ok(access)
}

/// A user, at a service that may read their data.
pub struct ServiceUser {
    /// The token's access.
    pub access: Access,
    /// The user.
    pub user: UserId,
    /// The service.
    pub service: ServiceId,
    /// The time of the request: reading the clock again would cost a measurable part of the request.
    pub now: Time,
    app: App,
}

impl ServiceUser {
    /// The version of the state that answers show.
    pub fn version(&self) -> Version {
        self.app.store.version()
    }

    /// The answer about the user's subscription.
    pub(crate) async fn subscription(&self) -> identity::Result<Answer> {
        let slug = self.access.terms.service_slug.as_deref().unwrap_or_default();
        self.app.subscription_answers.get(&self.user, &self.service, slug, self.now).await
    }

    /// The cached lookups of everything that a service may read.
    pub fn lookups(&self) -> &Lookups {
        &self.app.lookups
    }
}

impl FromRequestParts<App> for ServiceUser {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<ServiceUser, Problem> {
        let now = app.now();
        let access = access(parts, app, now).await?;
        let terms = &access.terms;
        let own = terms.organization_slug.as_deref().zip(terms.service_slug.as_deref());
        let good = own.is_some() && terms.audiences.iter().any(|audience| named_service(audience) == own);
        match (access.user(), terms.service.clone()) {
            (Some(user), Some(service)) if good => {
                if parts.method != Method::HEAD {
                    app.last_seen.note(&app.store, &user, now);
                }
                Ok(ServiceUser { user, service, access, now, app: app.clone() })
            }
            _ => Err(Problem::insufficient_scope("This needs a user's token for a service.")),
        }
    }
}

/// The slugs of `service:<org>/<service>`.
fn named_service(audience: &str) -> Option<(&str, &str)> {
    audience.strip_prefix("service:")?.split_once('/')
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn a_request_has_one_token() {
        let mut headers = HeaderMap::new();
        assert_eq!(bearer(&headers), None);
        headers.append(AUTHORIZATION, HeaderValue::from_static("Bearer ada"));
        assert_eq!(bearer(&headers), Some(&b"ada"[..]));
        headers.append(AUTHORIZATION, HeaderValue::from_static("Bearer eve"));
        assert_eq!(bearer(&headers), None, "neither of two");
    }
}
