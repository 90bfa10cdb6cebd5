//! `/api/organizations/{org}/clients/{client}/scopes`: what a machine client may do in the organization. Owners grant
//! scopes, admins revoke them, and no program grants any.

use super::{ClientBody, show};
use crate::openapi::words;
use crate::web::administration::{Admin, Owner, Written};
use crate::web::fields::{FieldErrors, Rules as _, Validate};
use crate::web::json::{Body, Json};
use crate::web::path::Path;
use http::StatusCode;
use identity::ids::ClientId;
use identity::{clients, programs};
use serde::Deserialize;
use utoipa::ToSchema;

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = GrantScopes)]
pub(crate) struct GrantBody {
    #[schema(schema_with = words::scopes)]
    scopes: Vec<String>,
}

impl Validate for GrantBody {
    fn validate(&self, errors: &mut FieldErrors) {
        errors.check(programs::chosen(&self.scopes, programs::SCOPES));
    }
}

/// Replaces the scopes.
pub(crate) async fn put(
    owner: Owner,
    Path((_, client)): Path<(String, String)>,
    Body(body): Body<GrantBody>,
) -> Written<Json<ClientBody>> {
    let client = ClientId::parse(&client)?;
    let granted = owner.write("client.grant_scopes", move |tx, by| {
        Ok(Json(show(clients::grant_scopes(tx, by.organization, &client, &body.scopes, by.actor)?)))
    });
    granted.await
}

pub(crate) async fn delete(admin: Admin, Path((_, client)): Path<(String, String)>) -> Written<StatusCode> {
    let client = ClientId::parse(&client)?;
    let revoked = admin.write("client.revoke_scopes", move |tx, by| {
        clients::revoke_scopes(tx, &by.organization.id, &client, by.actor)?;
        Ok(StatusCode::NO_CONTENT)
    });
    revoked.await
}
