//! `POST /auth/revoke` (RFC 7009): ends the grant of a token. For an unknown token the answer is success too.

use super::client_auth::authenticate;
use super::error::{OAuthError, Result};
use super::params::Posted;
use crate::app::App;
use axum::extract::State;
use http::StatusCode;
use identity::{grants, revoked_tokens};

pub(crate) async fn post(State(app): State<App>, posted: Posted) -> Result<StatusCode> {
    let client = authenticate(&app, &posted).await?;
    let token = posted.params.need("token")?.to_owned();
    let now = app.now();
    let foreign = || OAuthError::new("invalid_grant", "The token belongs to another client.");

    let sent = token.clone();
    let found = app.store.point(move |snapshot| grants::of_refresh_token(snapshot, &sent)).await?;
    let (grant, jti) = match found {
        Some((grant, _)) if grant.client != client.id => return Err(foreign()),
        Some((grant, _)) => (Some(grant.id), None),
        None => match app.lookups.access(token.as_bytes(), now).await? {
            Some(access) if access.terms.client != client.id => return Err(foreign()),
            Some(access) => (access.grant(), access.own_jti().map(|jti| (jti, access.expires_at()))),
            None => return Ok(StatusCode::OK),
        },
    };
    app.store
        .write("grant.revoke", move |tx| match (&grant, &jti) {
            (Some(grant), _) => grants::revoke(tx, grant, "the client", now).map(|_| ()),
            (None, Some((jti, expires_at))) => revoked_tokens::insert(tx, jti, *expires_at),
            (None, None) => Ok(()),
        })
        .await?;
    Ok(StatusCode::OK)
}
