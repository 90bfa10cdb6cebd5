//! `/api/organizations/{org}/clients/{client}/secrets`: the secrets of a confidential client.

use crate::web::administration::{Admin, Administrator, Written};
use crate::web::error::Result;
use crate::web::json::{Created, Json, List, Page, rfc3339};
use crate::web::path::Path;
use http::StatusCode;
use identity::clients::{self, ClientSecret, NewSecret};
use identity::ids::{ClientId, ClientSecretId};
use serde::Serialize;
use utoipa::ToSchema;

#[derive(Serialize, ToSchema)]
#[schema(as = ClientSecret)]
pub(crate) struct SecretBody {
    id: String,
    /// Only in the answer to the request that created it.
    #[serde(skip_serializing_if = "Option::is_none")]
    client_secret: Option<String>,
    /// Its last characters.
    hint: String,
    #[schema(format = DateTime)]
    created_at: String,
}

fn show(secret: ClientSecret) -> SecretBody {
    SecretBody {
        id: secret.id.to_string(),
        client_secret: None,
        hint: secret.hint,
        created_at: rfc3339(secret.created_at),
    }
}

pub(crate) async fn list(
    admin: Administrator,
    Path((_, client)): Path<(String, String)>,
) -> Result<Json<List<SecretBody>>> {
    let (organization, client) = (admin.organization.id.clone(), ClientId::parse(&client)?);
    let found = admin.list(move |snapshot| {
        let client = clients::in_organization(snapshot, &organization, &client)?;
        clients::list_secrets(snapshot, &client)
    });
    Ok(Json(Page::whole().list(found.await?, |secret| secret.id.to_string(), show)))
}

pub(crate) async fn create(
    admin: Admin,
    Path((_, client)): Path<(String, String)>,
) -> Written<Created<SecretBody>> {
    let now = admin.now();
    let client = ClientId::parse(&client)?;
    let new = NewSecret::generate(now, admin.random());
    let added = admin.write("client.add_secret", move |tx, by| {
        clients::add_secret(tx, &by.organization.id, &client, &new, by.role, by.actor)?;
        Ok(Created(SecretBody {
            id: new.id.to_string(),
            client_secret: Some(new.secret.clone()),
            hint: new.hint.clone(),
            created_at: rfc3339(now),
        }))
    });
    added.await
}

pub(crate) async fn delete(
    admin: Admin,
    Path((_, client, secret)): Path<(String, String, String)>,
) -> Written<StatusCode> {
    let client = ClientId::parse(&client)?;
    let secret = ClientSecretId::parse(&secret)?;
    let deleted = admin.write("client.delete_secret", move |tx, by| {
        let client = clients::in_organization(tx.snapshot(), &by.organization.id, &client)?;
        clients::delete_secret(tx, &client, &secret, by.actor)?;
        Ok(StatusCode::NO_CONTENT)
    });
    deleted.await
}
