//! The refresh token grant (RFC 6749 section 6), rotating.

use super::issue::{self, Issue};
use crate::app::App;
use crate::oauth::error::{OAuthError, Result};
use crate::oauth::params::Posted;
use axum::response::Response;
use identity::clients::Client;
use identity::grants::{self, NewRefresh, Refreshed};
use identity::ids::RefreshTokenId;
use identity::scopes::Scope;
use identity::secrets;
use std::net::IpAddr;

pub(super) async fn refresh(
    app: &App,
    client: &Client,
    posted: &Posted,
    address: IpAddr,
) -> Result<Response> {
    let now = app.now();
    let (id, secret) =
        secrets::split_token(posted.params.need("refresh_token")?).ok_or_else(OAuthError::invalid_grant)?;
    let id = RefreshTokenId::parse(id).map_err(|_| OAuthError::invalid_grant())?;
    let narrowed = posted.params.get("scope").map(Scope::requested).transpose()?;
    let narrowed = narrowed.filter(|scope| scope.iter().next().is_some());
    let successor = NewRefresh::successor(RefreshTokenId::new(now, app.random()), &id, &app.secret_key);

    let (used, owner, secret) = (id.clone(), client.id.clone(), secret.to_owned());
    let (asked, actor) = (narrowed.clone(), app.unknown(address));
    let refreshed = app.store.write("grant.refresh", move |tx| {
        let refreshed = grants::refresh(tx, &used, &secret, &owner, &successor, &actor)?;
        match (&refreshed, &asked) {
            (Refreshed::Rotated { grant, .. }, Some(asked)) if !asked.is_within(&grant.scope) => {
                // The error rolls the rotation back, so a wrong parameter does not cost the token.
                Err(identity::Error::invalid("scope", "more than was granted"))
            }
            _ => Ok(refreshed),
        }
    });
    let Refreshed::Rotated { grant, successor } = refreshed.await? else {
        tracing::warn!(client = %client.id, "a refresh token was used again; its grant was revoked");
        return Err(OAuthError::invalid_grant());
    };
    let refresh_token = NewRefresh::successor(successor, &id, &app.secret_key).token;
    let issue = Issue {
        user: grant.user,
        session: grant.session,
        grant: grant.id,
        scope: narrowed.unwrap_or(grant.scope),
        refresh_token: Some(refresh_token),
        nonce: None,
        authentication: grant.authentication,
    };
    // If this fails, nothing is lost: a retry returns the same successor.
    let prepared = issue::prepare(app, client, &issue.user, &issue.scope).await?;
    issue::answer(app, client, issue, prepared).await
}
