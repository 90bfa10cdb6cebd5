//! The authorization code grant (RFC 6749 section 4.1.3) with PKCE (RFC 7636).

use super::issue::{self, Issue};
use crate::app::App;
use crate::oauth::error::{OAuthError, Result};
use crate::oauth::params::Posted;
use axum::response::Response;
use identity::authorization_codes::{self, Presented, Redeemed};
use identity::clients::Client;
use identity::grants::NewRefresh;
use identity::ids::GrantId;
use std::net::IpAddr;

pub(super) async fn redeem(app: &App, client: &Client, posted: &Posted, address: IpAddr) -> Result<Response> {
    let now = app.now();
    let presented = Presented {
        code: posted.params.need("code")?.to_owned(),
        client: client.id.clone(),
        redirect_uri: posted.params.need("redirect_uri")?.to_owned(),
        verifier: posted.params.get("code_verifier").map(str::to_owned),
    };
    let sought = presented.clone();
    let (user, scope) = app.store.point(move |snapshot| authorization_codes::peek(snapshot, &sought)).await?;
    let prepared = issue::prepare(app, client, &user, &scope).await?;
    let (grant, refresh) = (GrantId::new(now, app.random()), NewRefresh::first(now, app.random()));
    let (token, actor) = (refresh.token.clone(), app.unknown(address));
    let redeemed = app
        .store
        .write("code.redeem", move |tx| authorization_codes::redeem(tx, &presented, &grant, &refresh, &actor))
        .await?;
    let Redeemed::Grant { grant, nonce } = redeemed else {
        tracing::warn!(client = %client.id, "an authorization code was used again; its grant was revoked");
        return Err(OAuthError::invalid_grant());
    };
    let refresh_token = grant.scope.contains("offline_access").then_some(token);
    let issue = Issue {
        user: grant.user,
        session: grant.session,
        grant: grant.id,
        scope: grant.scope,
        refresh_token,
        nonce,
        authentication: grant.authentication,
    };
    issue::answer(app, client, issue, prepared).await
}
