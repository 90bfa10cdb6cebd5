//! Discovery documents and signing keys.

use super::authorization_response::RESPONSE_MODES;
use super::token::GRANTS;
use crate::app::App;
use crate::authentication::REACHABLE;
use crate::web::error::Result;
use crate::web::json::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use http::header::CACHE_CONTROL;
use identity::authentication::Level;
use identity::scopes;
use serde_json::{Value, json};
use texts::Language;

/// `/.well-known/openid-configuration` and `/.well-known/oauth-authorization-server` (RFC 8414).
pub(crate) async fn configuration(State(app): State<App>) -> impl IntoResponse {
    let authentication = ["client_secret_basic", "client_secret_post", "none"];
    let languages: Vec<&str> = app.settings.languages.offered().iter().map(Language::tag).collect();
    let document: Value = json!({
        "issuer": app.settings.issuer,
        "authorization_endpoint": app.url("/auth/authorize"),
        "token_endpoint": app.url("/auth/token"),
        "device_authorization_endpoint": app.url("/auth/device/code"),
        "userinfo_endpoint": app.url("/auth/userinfo"),
        "revocation_endpoint": app.url("/auth/revoke"),
        "introspection_endpoint": app.url("/auth/introspect"),
        "end_session_endpoint": app.url("/auth/logout"),
        "jwks_uri": app.url("/.well-known/jwks.json"),
        "scopes_supported": scopes::STANDARD,
        "response_types_supported": ["code"],
        "response_modes_supported": RESPONSE_MODES,
        "grant_types_supported": GRANTS,
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256", "ES256"],
        "token_endpoint_auth_methods_supported": authentication,
        "revocation_endpoint_auth_methods_supported": authentication,
        "introspection_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
        "code_challenge_methods_supported": ["S256"],
        "claims_supported": ["sub", "iss", "aud", "exp", "iat", "auth_time", "acr", "amr", "azp", "nonce", "sid", "email", "email_verified", "name"],
        "acr_values_supported": REACHABLE.map(Level::as_str),
        "prompt_values_supported": ["none", "login", "select_account", "consent", "create"],
        "ui_locales_supported": languages,
        "authorization_response_iss_parameter_supported": true,
        "claims_parameter_supported": false,
        "request_parameter_supported": false,
        "request_uri_parameter_supported": false,
    });
    ([(CACHE_CONTROL, "public, max-age=300")], Json(document))
}

/// `/.well-known/oauth-protected-resource` (RFC 9728): the server as a whole.
pub(crate) async fn protected_origin(State(app): State<App>) -> impl IntoResponse {
    protected_resource(&app, "")
}

/// `/.well-known/oauth-protected-resource/api` (RFC 9728): the API. The path of the document is the path of the resource
/// behind the well-known prefix, and clients compare both (section 3.3).
pub(crate) async fn protected_api(State(app): State<App>) -> impl IntoResponse {
    protected_resource(&app, "/api")
}

fn protected_resource(app: &App, path: &str) -> impl IntoResponse + use<> {
    let document = json!({
        "resource": app.url(path),
        "authorization_servers": [app.settings.issuer],
        "scopes_supported": scopes::STANDARD,
        "bearer_methods_supported": ["header"],
    });
    ([(CACHE_CONTROL, "public, max-age=300")], Json(document))
}

/// `/.well-known/jwks.json` (RFC 7517).
pub(crate) async fn jwks(State(app): State<App>) -> Result<impl IntoResponse> {
    let ring = app.lookups.ring(app.now()).await?;
    Ok(([(CACHE_CONTROL, "public, max-age=300")], Json(ring.jwks())))
}
