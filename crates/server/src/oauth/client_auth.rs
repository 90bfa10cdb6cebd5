//! Client authentication: by Basic, by parameters in the body, or, for public clients, by the client id alone.

use super::error::{OAuthError, Result};
use super::params::Posted;
use crate::app::App;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use identity::Error;
use identity::clients::Client;
use std::sync::Arc;
use web::current_request::note_client;

/// The longest credentials, in base 64. Those of a client of ours have a hundred characters.
const BASIC_MAX: usize = 4096;

/// The client of a request. A confidential client must authenticate by exactly one method.
pub(crate) async fn authenticate(app: &App, posted: &Posted) -> Result<Arc<Client>> {
    let basic = basic_credentials(&posted.headers)?;
    let in_body = posted.params.get("client_secret");
    if basic.is_some() && in_body.is_some() {
        return Err(OAuthError::invalid_request("Authenticate by Basic or in the body, not by both."));
    }
    let used_basic = basic.is_some();
    let (id, secret) = match &basic {
        Some((id, secret)) => {
            if posted.params.get("client_id").is_some_and(|named| named != id) {
                return Err(OAuthError::invalid_request("client_id is not the client that authenticates."));
            }
            (id.as_str(), Some(secret.as_str()).filter(|secret| !secret.is_empty()))
        }
        None => (posted.params.get("client_id").ok_or_else(nobody)?, in_body),
    };
    let refused = || OAuthError { basic: used_basic, ..OAuthError::invalid_client() };
    let client = match app.lookups.client(id, app.now()).await {
        Ok(client) => client,
        Err(Error::NotFound { .. }) => return Err(refused()),
        Err(error) => return Err(error.into()),
    };
    let good = match secret {
        Some(secret) => client.has_secret(secret),
        None => !client.kind.is_confidential(),
    };
    if !good {
        return Err(refused());
    }
    note_client(&client.id);
    Ok(client)
}

/// "No client authentication included" is `invalid_client` too (RFC 6749 section 5.2).
fn nobody() -> OAuthError {
    let description = "Say which client asks: send client_id, or authenticate by Basic.".into();
    OAuthError { description, ..OAuthError::invalid_client() }
}

/// `Authorization: Basic`, its two halves form-decoded (RFC 6749 section 2.3.1).
pub(crate) fn basic_credentials(headers: &HeaderMap) -> Result<Option<(String, String)>> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(OAuthError::invalid_request("There is more than one Authorization header."));
    }
    let broken = || OAuthError { basic: true, ..OAuthError::invalid_client() };
    let value = value.to_str().map_err(|_| broken())?;
    let Some((scheme, encoded)) = value.split_once(' ') else { return Err(broken()) };
    if !scheme.eq_ignore_ascii_case("basic") || encoded.len() > BASIC_MAX {
        return Err(broken());
    }
    let decoded = STANDARD.decode(encoded.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let decoded = decoded.ok_or_else(broken)?;
    let (id, secret) = decoded.split_once(':').ok_or_else(broken)?;
    Ok(Some((form_decoded(id), form_decoded(secret))))
}

fn form_decoded(text: &str) -> String {
    let pair = format!("x={}", text.replace('&', "%26").replace('=', "%3D"));
    form_urlencoded::parse(pair.as_bytes()).next().map_or_else(String::new, |(_, value)| value.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn basic_halves_are_form_decoded() {
        assert_eq!(form_decoded("a%20b+c%3A"), "a b c:");
        assert_eq!(form_decoded("a&b=c"), "a&b=c");
    }
}
