//! The client credentials grant (RFC 6749 section 4.4): a client that acts for itself. Without a scope its token is for its
//! service. With some of the scopes that an owner has granted to it, the token administers the organization.

use super::issue;
use crate::app::App;
use crate::oauth::error::{OAuthError, Result};
use crate::oauth::params::Posted;
use axum::response::Response;
use identity::Error;
use identity::clients::Client;
use identity::organizations::{self, Status};
use identity::scopes::Scope;

pub(super) async fn grant(app: &App, client: &Client, posted: &Posted) -> Result<Response> {
    if !client.kind.is_confidential() {
        return Err(OAuthError::new(
            "unauthorized_client",
            "Only a client with a secret may act for itself.",
        ));
    }
    let organization = client.organization.clone();
    let organization = app.store.point(move |snapshot| organizations::get(snapshot, &organization)).await?;
    if organization.status != Status::Active {
        return Err(OAuthError::new("invalid_client", "The organization is not active."));
    }
    // A client has no name, e-mail address or session, so the standard scopes do not apply.
    let scope = match posted.params.get("scope") {
        None => Scope::default(),
        Some(requested) => Scope::requested(requested)?.within(&client.scope),
    };
    if scope.is_empty() && posted.params.get("scope").is_some() {
        let problem = if client.scope.is_empty() {
            "this client has no scopes; an owner of the organization grants them to machine clients"
                .to_owned()
        } else {
            format!("this client has none of these scopes; request some of {}", client.scope)
        };
        return Err(Error::invalid("scope", problem).into());
    }
    issue::answer_machine(app, client, &scope).await
}
