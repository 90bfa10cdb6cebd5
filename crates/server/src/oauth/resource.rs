//! `resource` (RFC 8707): the server that the token is meant for. A token for another one than the client asked for would be
//! worse than an error. Only our own resources are known, those of the metadata of RFC 9728: tokens of all audiences work
//! there, so the parameter does not change the audience.

use super::error::{OAuthError, Result};
use super::params::Params;
use crate::app::App;

/// The name of the parameter.
pub(crate) const RESOURCE: &str = "resource";

/// Fails unless each `resource` of a request is ours.
pub(crate) fn check(app: &App, params: &Params) -> Result<()> {
    let [origin, api] = ["", "/api"].map(|path| app.url(path));
    // An origin is the same URI with a slash as without (RFC 3986 section 6.2.3), and clients add it.
    let is_origin = |uri: &str| uri.strip_suffix('/').unwrap_or(uri) == origin;
    if params.all(RESOURCE).all(|uri| uri == api || is_origin(uri)) {
        return Ok(());
    }
    let text =
        format!("resource must be {origin} or {api}, or be left out: no other resource is registered.");
    Err(OAuthError::new("invalid_target", text))
}
