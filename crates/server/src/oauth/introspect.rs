//! `POST /auth/introspect` (RFC 7662): returns the state of a token to a confidential client of its service.
//! Unknown, expired, revoked and foreign tokens look the same.

use super::client_auth::authenticate;
use super::error::{OAuthError, Result};
use super::params::Posted;
use crate::app::App;
use crate::web::json::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use http::header::CACHE_CONTROL;
use identity::clients::Client;
use identity::scopes::Scope;
use identity::{grants, tokens};
use serde_json::{Value, json};

pub(crate) async fn post(State(app): State<App>, posted: Posted) -> Result<impl IntoResponse> {
    let client = authenticate(&app, &posted).await?;
    if !client.kind.is_confidential() {
        return Err(OAuthError::invalid_client());
    }
    let token = posted.params.need("token")?;
    let body = describe(&app, &client, token).await?.unwrap_or_else(|| json!({ "active": false }));
    Ok(([(CACHE_CONTROL, "no-store")], Json(body)))
}

async fn describe(app: &App, client: &Client, token: &str) -> Result<Option<Value>> {
    let now = app.now();
    if let Some(access) = app.lookups.access(token.as_bytes(), now).await? {
        let terms = &access.terms;
        let is_at_home = terms.service == client.service && terms.organization == client.organization;
        // A token with which another client of the service administers is none for the service.
        let is_for_it = terms.client == client.id || terms.audiences.contains(&client.service_audience());
        if !is_at_home || !is_for_it {
            return Ok(None);
        }
        let mut body = serde_json::to_value(tokens::read_access(token)).unwrap_or_default();
        body["active"] = true.into();
        // Of a client's own token, what the client still has.
        body["token_type"] = "Bearer".into();
        return Ok(Some(with_scope(body, &terms.scope)));
    }
    let sent = token.to_owned();
    let found = app.store.point(move |snapshot| grants::of_refresh_token(snapshot, &sent)).await?;
    Ok(found.and_then(|(grant, ends)| {
        let ends = ends.filter(|ends| *ends > now && grant.is_alive(now) && grant.client == client.id)?;
        let how = &grant.authentication;
        let mut body = json!({
            "active": true, "token_type": "refresh_token", "client_id": grant.client.as_str(),
            "sub": grant.user.as_str(), "exp": ends.seconds(), "sid": grant.session.as_str(),
            "auth_time": how.at.seconds(),
        });
        if let Some(acr) = how.acr() {
            body["acr"] = acr.into();
        }
        if let Some(amr) = how.amr() {
            body["amr"] = amr.into();
        }
        Some(with_scope(body, &grant.scope))
    }))
}

/// An empty scope is left out, as in the token response: RFC 6749 has no empty one.
fn with_scope(mut body: Value, scope: &Scope) -> Value {
    if let Some(body) = body.as_object_mut() {
        body.remove("scope");
        if !scope.is_empty() {
            body.insert("scope".to_owned(), scope.to_string().into());
        }
    }
    body
}
