//! The client credentials grant (RFC 6749 section 4.4): a client that acts for itself.

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
        Some(_) => return Err(Error::invalid("scope", "this service defines no scopes for programs").into()),
    };
    issue::answer_machine(app, client, &scope).await
}
