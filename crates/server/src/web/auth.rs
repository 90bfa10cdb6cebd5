//! Who asks: the address that a request comes from and what its access token stands for.
//!
//! A token is good only where its audience says (audience discipline): for a service's reads, for an
//! organization, for the platform. Which one a handler wants is the type of its argument.

use crate::app::App;
use crate::web::error::Problem;
use axum::extract::{FromRequestParts, Path};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use http::request::Parts;
use identity::administrators::{self, Role};
use identity::audit::Actor;
use identity::ids::{ServiceId, UserId};
use identity::organizations::{self, Organization};
use identity::{Access, Error, Time, scopes};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

/// The connection that a request came over; put into each request by the listener.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// The address of its other end.
    pub address: IpAddr,
    /// How long a body may take.
    pub body_time: Duration,
}

/// The address that a request comes from: the peer, or what a trusted proxy says.
#[derive(Clone, Copy, Debug)]
pub struct Address(pub IpAddr);

impl FromRequestParts<App> for Address {
    type Rejection = std::convert::Infallible;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Address, Self::Rejection> {
        let peer =
            parts.extensions.get::<Peer>().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.address);
        Ok(Address(forwarded(&parts.headers, peer, &app.settings.trusted_proxies)))
    }
}

/// Walks `X-Forwarded-For` from the right, as long as the one who says it is trusted.
pub(crate) fn forwarded(headers: &HeaderMap, peer: IpAddr, trusted: &[IpAddr]) -> IpAddr {
    let mut address = peer.to_canonical();
    if !trusted.contains(&address) {
        return address;
    }
    let said = headers.get_all("x-forwarded-for").iter().filter_map(|value| value.to_str().ok());
    let said: Vec<&str> = said.flat_map(|value| value.split(',')).map(str::trim).collect();
    for hop in said.iter().rev() {
        if !trusted.contains(&address) {
            break;
        }
        match hop.parse::<IpAddr>() {
            Ok(next) => address = next.to_canonical(),
            Err(_) => break,
        }
    }
    address
}

/// What limits by address count by: an IPv6 customer has a whole /64.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => {
            let bits = u128::from(v6) & !u128::from(u64::MAX);
            IpAddr::V6(bits.into())
        }
    }
}

/// The bearer token of a request. In a header only: tokens never travel in URLs.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    // Whatever bytes it has: a good token is a known one, or has a signature.
    let value = headers.get(AUTHORIZATION)?.as_bytes();
    let space = value.iter().position(|byte| *byte == b' ')?;
    let (scheme, token) = value.split_at(space);
    scheme.eq_ignore_ascii_case(b"bearer").then(|| token.trim_ascii())
}

/// Anybody with a good access token.
pub struct Bearer(pub Arc<Access>);

impl FromRequestParts<App> for Bearer {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Bearer, Problem> {
        Ok(Bearer(access(parts, app, app.now()).await?))
    }
}

/// What the request's access token stands for.
async fn access(parts: &Parts, app: &App, now: Time) -> Result<Arc<Access>, Problem> {
    let token = bearer(&parts.headers).ok_or_else(Problem::unauthenticated)?;
    let access = app.lookups.access(token, now).await?;
    access.ok_or_else(|| Problem::invalid_token("The token is not good (any more). Sign in again."))
}

/// A user, at a service that may read about him.
pub struct ServiceUser {
    /// What the token stands for.
    pub access: Arc<Access>,
    /// The user.
    pub user: UserId,
    /// The service.
    pub service: ServiceId,
    /// When he asked: looking at the clock is no small part of such a request.
    pub now: Time,
}

impl FromRequestParts<App> for ServiceUser {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<ServiceUser, Problem> {
        let now = app.now();
        let access = access(parts, app, now).await?;
        let own = access.claims.org.as_deref().zip(access.claims.service.as_deref());
        let good = own.is_some() && access.audiences.iter().any(|audience| named_service(audience) == own);
        match (&access.user, &access.service) {
            (Some(user), Some(service)) if good => {
                app.last_seen.note(app, user, now);
                Ok(ServiceUser { user: user.clone(), service: service.clone(), access, now })
            }
            _ => Err(Problem::insufficient_scope("This needs a user's token for a service.")),
        }
    }
}

/// The slugs in `service:<org>/<service>`.
fn named_service(audience: &str) -> Option<(&str, &str)> {
    audience.strip_prefix("service:")?.split_once('/')
}

/// A user with a token for the platform.
pub struct PlatformUser {
    /// The user.
    pub user: UserId,
    /// Whether he owns the platform.
    pub is_owner: bool,
    /// Where he is.
    pub address: IpAddr,
}

impl FromRequestParts<App> for PlatformUser {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<PlatformUser, Problem> {
        let Bearer(access) = Bearer::from_request_parts(parts, app).await?;
        let Ok(Address(address)) = Address::from_request_parts(parts, app).await;
        let good = access.audiences.iter().any(|audience| audience == "platform");
        let (true, Some(user)) = (good, access.user.clone()) else {
            return Err(Problem::insufficient_scope("This needs a token for the platform (scope platform)."));
        };
        let wanted = user.clone();
        let is_owner =
            app.store.point(move |snapshot| administrators::is_platform_owner(snapshot, &wanted)).await?;
        Ok(PlatformUser { user, is_owner, address })
    }
}

impl PlatformUser {
    /// Goes on only for an owner.
    pub fn owner(self) -> Result<PlatformUser, Problem> {
        if self.is_owner { Ok(self) } else { Err(Problem::forbidden("Only platform owners may do this.")) }
    }

    /// Him, for the audit trail.
    pub fn actor(&self, app: &App) -> Actor {
        app.actor(&self.user, self.address)
    }
}

/// An administrator of the organization in the path (`{org}`), with his role.
pub struct Administrator {
    /// The user.
    pub user: UserId,
    /// His role there.
    pub role: Role,
    /// The organization.
    pub organization: Organization,
    /// Where he is.
    pub address: IpAddr,
}

impl FromRequestParts<App> for Administrator {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Administrator, Problem> {
        let Bearer(access) = Bearer::from_request_parts(parts, app).await?;
        let Ok(Address(address)) = Address::from_request_parts(parts, app).await;
        let path: Path<HashMap<String, String>> = Path::from_request_parts(parts, app)
            .await
            .map_err(|error| Problem::bad_request("invalid_path", error.to_string()))?;
        let slug = path.0.get("org").cloned().unwrap_or_default();
        let audience = format!("org:{slug}");
        // A token for all organizations is as good as his role in this one, which is looked up below.
        let good = |own: &String| *own == audience || own == scopes::ANY_ORGANIZATION;
        let (true, Some(user)) = (access.audiences.iter().any(good), access.user.clone()) else {
            let detail = format!("This needs a token for the organization {slug} (scope org:{slug}).");
            return Err(Problem::insufficient_scope(detail));
        };
        let wanted = user.clone();
        let found = app.store.point(move |snapshot| {
            let organization = organizations::find(snapshot, &slug)?;
            let role = administrators::role_of(snapshot, &organization.id, &wanted)?;
            Ok::<_, Error>(role.map(|role| (organization, role)))
        });
        let (organization, role) = found.await?.ok_or_else(|| Problem::not_found("organization"))?;
        Ok(Administrator { user, role, organization, address })
    }
}

impl Administrator {
    /// Goes on only for one who may change things: an admin or an owner, of an active organization.
    pub fn may_change(self) -> Result<Administrator, Problem> {
        if self.role < Role::Admin {
            return Err(Problem::forbidden("Members may look; admins and owners may change."));
        }
        if self.organization.status != organizations::Status::Active {
            let detail = format!(
                "The organization is {}; nothing can be changed in it.",
                self.organization.status.as_str()
            );
            return Err(Problem::new(http::StatusCode::CONFLICT, "organization_not_active", detail));
        }
        Ok(self)
    }

    /// Goes on only for an owner.
    pub fn owner(self) -> Result<Administrator, Problem> {
        if self.role == Role::Owner { Ok(self) } else { Err(Problem::forbidden("Only owners may do this.")) }
    }

    /// Him, for the audit trail.
    pub fn actor(&self, app: &App) -> Actor {
        app.actor(&self.user, self.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_trusted_peers_may_say_where_a_request_comes_from() {
        let mut headers = HeaderMap::new();
        headers.insert("x-forwarded-for", "6.6.6.6, 1.2.3.4".parse().expect("a value"));
        let proxy: IpAddr = "127.0.0.1".parse().expect("an address");
        let stranger: IpAddr = "9.9.9.9".parse().expect("an address");
        assert_eq!(forwarded(&headers, proxy, &[proxy]).to_string(), "1.2.3.4");
        assert_eq!(forwarded(&headers, stranger, &[proxy]), stranger);
        assert_eq!(forwarded(&headers, proxy, &[]), proxy);
        headers.insert("x-forwarded-for", "rubbish".parse().expect("a value"));
        assert_eq!(forwarded(&headers, proxy, &[proxy]), proxy);
    }

    #[test]
    fn an_ipv6_customer_is_one_network() {
        let network = |text: &str| network(text.parse().expect("an address"));
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff:1"));
        assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
    }
}
