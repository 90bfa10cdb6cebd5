//! OAuth 2.0 and OpenID Connect: one file per endpoint, and in `token/` one file per grant.

mod authorization_response;
pub(crate) mod authorize;
pub(crate) mod client_auth;
pub(crate) mod device_code;
pub(crate) mod discovery;
pub(crate) mod error;
pub(crate) mod introspect;
pub(crate) mod logout;
pub(crate) mod long_poll;
pub(crate) mod params;
pub(crate) mod resource;
pub(crate) mod revoke;
mod sign_in_note;
pub(crate) mod token;
pub(crate) mod userinfo;
mod wanted_level;
