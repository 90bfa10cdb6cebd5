//! `/api/organizations/{org}/services`: the products of an organization.

use crate::openapi::words;
use crate::web::administration::{Admin, Administrator, Written};
use crate::web::error::Result;
use crate::web::fields::{FieldErrors, Rules as _, Validate};
use crate::web::json::{Body, Created, Json, List, Page, Slug, rfc3339, sent};
use crate::web::path::Path;
use http::StatusCode;
use identity::catalog;
use identity::ids::ServiceId;
use identity::names;
use identity::services::{self, NewService, Service};
use identity::tokens::AccessTokenTyp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Serialize, ToSchema)]
#[schema(as = Service)]
pub(crate) struct ServiceBody {
    id: String,
    slug: String,
    name: String,
    #[schema(schema_with = words::access_token_typ)]
    access_token_typ: &'static str,
    #[schema(format = DateTime)]
    created_at: String,
}

fn show(service: Service) -> ServiceBody {
    ServiceBody {
        id: service.id.to_string(),
        slug: service.slug,
        name: service.name,
        access_token_typ: service.access_token_typ.as_str(),
        created_at: rfc3339(service.created_at),
    }
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = CreateService)]
pub(crate) struct CreateBody {
    #[schema(schema_with = words::slug)]
    pub(crate) slug: String,
    #[schema(schema_with = words::name)]
    pub(crate) name: String,
    #[schema(schema_with = words::access_token_typ)]
    pub(crate) access_token_typ: Option<String>,
}

impl Validate for CreateBody {
    fn validate(&self, errors: &mut FieldErrors) {
        errors.check(names::slug("slug", &self.slug));
        errors.check(names::display("name", &self.name));
        errors.check_sent(self.access_token_typ.as_deref(), AccessTokenTyp::parse);
    }
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ChangeService)]
pub(crate) struct ChangeBody {
    #[serde(default, deserialize_with = "sent")]
    #[schema(schema_with = words::name)]
    name: Option<String>,
    #[serde(default, deserialize_with = "sent")]
    #[schema(schema_with = words::access_token_typ)]
    access_token_typ: Option<String>,
}

fn typ(name: Option<&str>) -> identity::Result<Option<AccessTokenTyp>> {
    name.map(AccessTokenTyp::parse).transpose()
}

impl Validate for ChangeBody {
    fn validate(&self, errors: &mut FieldErrors) {
        errors.check_sent(self.name.as_deref(), |name| names::display("name", name));
        errors.check_sent(self.access_token_typ.as_deref(), AccessTokenTyp::parse);
    }
}

pub(crate) async fn list(admin: Administrator, page: Page<Slug>) -> Result<Json<List<ServiceBody>>> {
    let (organization, cursor, fetch) = (admin.organization.id.clone(), page.cursor.clone(), page.fetch());
    let found = admin.list(move |snapshot| services::list(snapshot, &organization, cursor.as_deref(), fetch));
    Ok(Json(page.list(found.await?, |service| service.slug.clone(), show)))
}

pub(crate) async fn create(admin: Admin, Body(body): Body<CreateBody>) -> Written<Created<ServiceBody>> {
    let access_token_typ = typ(body.access_token_typ.as_deref())?.unwrap_or_default();
    let id = ServiceId::new(admin.now(), admin.random());
    let new = NewService { id, slug: body.slug, name: body.name, access_token_typ };
    let made = admin.write("service.create", move |tx, by| {
        Ok(Created(show(services::create(tx, &by.organization.id, &new, by.actor)?)))
    });
    made.await
}

pub(crate) async fn get(
    admin: Administrator,
    Path((_, slug)): Path<(String, String)>,
) -> Result<Json<ServiceBody>> {
    let organization = admin.organization.id.clone();
    let found = admin.point(move |snapshot| services::find(snapshot, &organization, &slug));
    Ok(Json(show(found.await?)))
}

pub(crate) async fn change(
    admin: Admin,
    Path((_, slug)): Path<(String, String)>,
    Body(body): Body<ChangeBody>,
) -> Written<Json<ServiceBody>> {
    let typ = typ(body.access_token_typ.as_deref())?;
    let changed = admin.write("service.change", move |tx, by| {
        let mut service = services::find(tx.snapshot(), &by.organization.id, &slug)?;
        if let Some(name) = &body.name {
            service = services::rename(tx, &service, name, by.actor)?;
        }
        if let Some(typ) = typ {
            service = services::set_access_token_typ(tx, &service, typ, by.actor)?;
        }
        Ok(Json(show(service)))
    });
    changed.await
}

pub(crate) async fn delete(admin: Admin, Path((_, slug)): Path<(String, String)>) -> Written<StatusCode> {
    let deleted = admin.write("service.delete", move |tx, by| {
        let service = services::find(tx.snapshot(), &by.organization.id, &slug)?;
        catalog::delete_service(tx, &service, by.actor)?;
        Ok(StatusCode::NO_CONTENT)
    });
    deleted.await
}
