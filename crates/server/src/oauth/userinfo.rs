//! `/auth/userinfo` (OpenID Connect Core 5.3): the claims about the user that the token's scope allows. The token stands in
//! the header `Authorization` or, by POST, in a form (RFC 6750 sections 2.1 and 2.2), and in one of them only. Errors are
//! those of RFC 6750, as OAuth's objects.

use super::error::OAuthError;
use super::params::Params;
use super::token::subject_claims;
use crate::app::App;
use crate::web::auth::bearer;
use crate::web::json::{self, Json};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::header::{AUTHORIZATION, CACHE_CONTROL, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, StatusCode};
use identity::api_keys;
use web::current_request::note_client;

/// The name of a token in a form or a query.
const TOKEN: &str = "access_token";

type Result<T> = std::result::Result<T, Refusal>;

pub(crate) async fn get(State(app): State<App>, request: Request) -> Result<Response> {
    check_query(&request)?;
    claims(&app, in_header(request.headers())).await
}

pub(crate) async fn post(State(app): State<App>, request: Request) -> Result<Response> {
    check_query(&request)?;
    let headers = request.headers().clone();
    // Any other body holds no token, and is not read.
    let form = match &*json::media_type(&headers) {
        "application/x-www-form-urlencoded" => {
            let body = json::read_body(request).await.map_err(OAuthError::from)?;
            Params::from_form(&body)?
        }
        _ => Params::default(),
    };
    match form.get(TOKEN) {
        None => claims(&app, in_header(&headers)).await,
        Some(_) if names_bearer(&headers) => Err(twice()),
        Some(token) => claims(&app, Some(token.as_bytes())).await,
    }
}

/// An address may hold no token: proxies log addresses.
fn check_query(request: &Request) -> Result<()> {
    let query = request.uri().query().unwrap_or_default();
    let is_in_query = form_urlencoded::parse(query.as_bytes()).any(|(name, _)| name == TOKEN);
    if is_in_query && names_bearer(request.headers()) { Err(twice()) } else { Ok(()) }
}

fn twice() -> Refusal {
    let text = "Send the access token once: in the header Authorization, or as access_token in a form.";
    OAuthError::invalid_request(text).into()
}

fn in_header(headers: &HeaderMap) -> Option<&[u8]> {
    bearer(headers).filter(|token| !token.is_empty())
}

/// Whether the header has a token, also a broken one.
fn names_bearer(headers: &HeaderMap) -> bool {
    let is_bearer = |value: &HeaderValue| {
        value.as_bytes().get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"bearer"))
    };
    headers.get_all(AUTHORIZATION).iter().any(is_bearer)
}

async fn claims(app: &App, token: Option<&[u8]>) -> Result<Response> {
    let token = token.ok_or(Refusal::NoToken)?;
    if api_keys::is_key(token) {
        return Err(Refusal::InvalidToken("An API key is no access token. Send the access token of a user."));
    }
    let access = app.lookups.access(token, app.now()).await.map_err(OAuthError::from)?;
    let invalid = "The access token is not valid: it is unknown, expired or revoked. Get another one.";
    let access = access.ok_or(Refusal::InvalidToken(invalid))?;
    note_client(&access.terms.client);
    let Some(user) = access.user() else {
        return Err(Refusal::InsufficientScope("This is the token of a program, which is no user."));
    };
    if !access.terms.scope.contains("openid") {
        return Err(Refusal::InsufficientScope(
            "The token lacks the scope openid. Request it at the sign-in.",
        ));
    }
    let claims = subject_claims(app, &user, &access.terms.scope).await.map_err(OAuthError::from)?;
    Ok(([(CACHE_CONTROL, "no-store")], Json(claims)).into_response())
}

/// Why there are no claims.
pub(crate) enum Refusal {
    NoToken,
    InvalidToken(&'static str),
    InsufficientScope(&'static str),
    Other(OAuthError),
}

impl From<OAuthError> for Refusal {
    fn from(error: OAuthError) -> Refusal {
        Refusal::Other(error)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, error, text, challenge) = match self {
            // Without a token the challenge has no error code (RFC 6750 section 3.1).
            Refusal::NoToken => {
                let text =
                    "Send an access token: Authorization: Bearer ..., or access_token in a posted form.";
                (StatusCode::UNAUTHORIZED, "invalid_token", text, "Bearer")
            }
            Refusal::InvalidToken(text) => {
                (StatusCode::UNAUTHORIZED, "invalid_token", text, r#"Bearer error="invalid_token""#)
            }
            Refusal::InsufficientScope(text) => {
                let challenge = r#"Bearer error="insufficient_scope", scope="openid""#;
                (StatusCode::FORBIDDEN, "insufficient_scope", text, challenge)
            }
            Refusal::Other(error) => {
                let is_wrong = error.status == StatusCode::BAD_REQUEST;
                let mut response = error.into_response();
                if is_wrong {
                    let challenge = HeaderValue::from_static(r#"Bearer error="invalid_request""#);
                    response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
                }
                return response;
            }
        };
        let mut response = OAuthError { status, ..OAuthError::new(error, text) }.into_response();
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        response
    }
}
