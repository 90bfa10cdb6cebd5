//! `/api/organizations/{org}/keys`: the API keys of an organization and of its services. Owners create them, admins
//! revoke them, and no key can do either.

use crate::openapi::words;
use crate::web::administration::{Admin, Administrator, Owner, Written};
use crate::web::error::Result;
use crate::web::fields::{FieldErrors, Rules as _, Validate};
use crate::web::json::{Body, Created, Json, List, Page, parse_time, rfc3339};
use crate::web::path::Path;
use http::StatusCode;
use identity::api_keys::{self, ApiKey, Generated, NewApiKey};
use identity::ids::ApiKeyId;
use identity::names;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Serialize, ToSchema)]
#[schema(as = ApiKey)]
pub(crate) struct KeyBody {
    id: String,
    /// Only in the answer to the request that created it.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    name: String,
    /// The slug of its service; null for a key that administers the organization.
    #[schema(required)]
    service: Option<String>,
    #[schema(schema_with = words::scopes)]
    scopes: Vec<String>,
    /// The last characters of the key.
    hint: String,
    /// The id of the user who created it.
    #[schema(required)]
    created_by: Option<String>,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(required, format = DateTime)]
    expires_at: Option<String>,
    /// Accurate to five minutes.
    #[schema(required, format = DateTime)]
    last_used_at: Option<String>,
}

pub(super) fn show(key: ApiKey) -> KeyBody {
    KeyBody {
        id: key.id.to_string(),
        key: None,
        name: key.name,
        service: key.service_slug,
        scopes: key.scope.iter().map(str::to_owned).collect(),
        hint: key.hint,
        created_by: key.created_by,
        created_at: rfc3339(key.created_at),
        expires_at: key.expires_at.map(rfc3339),
        last_used_at: key.last_used_at.map(rfc3339),
    }
}

const EXPIRES_AT: &str = "expires_at";

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = CreateApiKey)]
pub(crate) struct CreateBody {
    #[schema(schema_with = words::name)]
    name: String,
    #[schema(schema_with = words::service_slug)]
    service: Option<String>,
    /// A key of a service gets all scopes of its kind if this is left out.
    #[schema(schema_with = words::scopes)]
    scopes: Option<Vec<String>>,
    #[schema(format = DateTime)]
    expires_at: Option<String>,
}

impl Validate for CreateBody {
    fn validate(&self, errors: &mut FieldErrors) {
        errors.check(names::display("name", &self.name));
        errors.check(api_keys::chosen(self.scopes.as_deref(), self.service.is_some()));
        errors.check_sent(self.expires_at.as_deref(), |time| parse_time(EXPIRES_AT, time));
    }
}

pub(crate) async fn list(admin: Administrator, page: Page<ApiKeyId>) -> Result<Json<List<KeyBody>>> {
    let (organization, cursor, fetch) = (admin.organization.id.clone(), page.cursor.clone(), page.fetch());
    let found = admin.list(move |snapshot| api_keys::list(snapshot, &organization, cursor.as_deref(), fetch));
    Ok(Json(page.list(found.await?, |key| key.id.to_string(), show)))
}

pub(crate) async fn create(owner: Owner, Body(body): Body<CreateBody>) -> Written<Created<KeyBody>> {
    let generated = Generated::new(owner.now(), owner.random());
    let key = generated.key.clone();
    let new = NewApiKey {
        generated,
        name: body.name,
        service: body.service,
        scopes: body.scopes,
        created_by: Some(owner.user.clone()),
        expires_at: body.expires_at.as_deref().map(|time| parse_time(EXPIRES_AT, time)).transpose()?,
    };
    let made = owner.write("api_key.create", move |tx, by| {
        let shown = show(api_keys::create(tx, by.organization, &new, by.actor)?);
        Ok(Created(KeyBody { key: Some(key.clone()), ..shown }))
    });
    made.await
}

pub(crate) async fn get(
    admin: Administrator,
    Path((_, key)): Path<(String, String)>,
) -> Result<Json<KeyBody>> {
    let (organization, key) = (admin.organization.id.clone(), ApiKeyId::parse(&key)?);
    let found = admin.point(move |snapshot| api_keys::get(snapshot, &organization, &key));
    Ok(Json(show(found.await?)))
}

pub(crate) async fn revoke(admin: Admin, Path((_, key)): Path<(String, String)>) -> Written<StatusCode> {
    let key = ApiKeyId::parse(&key)?;
    let revoked = admin.write("api_key.revoke", move |tx, by| {
        api_keys::revoke(tx, &by.organization.id, &key, by.actor)?;
        Ok(StatusCode::NO_CONTENT)
    });
    revoked.await
}
