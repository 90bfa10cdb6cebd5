//! `/api/organizations/{org}/services`: the products of an organization.

use crate::web::administration::{Admin, Administrator};
use crate::web::error::Result;
use crate::web::fields::{FieldErrors, Validate};
use crate::web::json::{Body, Created, Json, List, Page, Slug, rfc3339};
use crate::web::path::Path;
use http::StatusCode;
use identity::catalog;
use identity::ids::ServiceId;
use identity::names;
use identity::services::{self, NewService, Service};
use serde::{Deserialize, Serialize};

#[derive(Serialize)]
pub(crate) struct ServiceBody {
    id: String,
    slug: String,
    name: String,
    created_at: String,
}

fn show(service: Service) -> ServiceBody {
    ServiceBody {
        id: service.id.to_string(),
        slug: service.slug,
        name: service.name,
        created_at: rfc3339(service.created_at),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateBody {
    slug: String,
    name: String,
}

impl Validate for CreateBody {
    fn validate(&self, errors: &mut FieldErrors) {
        errors.check(names::slug("slug", &self.slug));
        errors.check(names::display("name", &self.name));
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChangeBody {
    name: String,
}

impl Validate for ChangeBody {
    fn validate(&self, errors: &mut FieldErrors) {
        errors.check(names::display("name", &self.name));
    }
}

pub(crate) async fn list(admin: Administrator, page: Page<Slug>) -> Result<Json<List<ServiceBody>>> {
    let (organization, cursor, fetch) = (admin.organization.id.clone(), page.cursor.clone(), page.fetch());
    let found = admin.list(move |snapshot| services::list(snapshot, &organization, cursor.as_deref(), fetch));
    Ok(Json(List::new(found.await?, &page, |service| service.slug.clone(), show)))
}

pub(crate) async fn create(admin: Admin, Body(body): Body<CreateBody>) -> Result<Created<ServiceBody>> {
    let now = admin.now();
    let new = NewService { id: ServiceId::new(now, admin.random()), slug: body.slug, name: body.name };
    let made = admin
        .write("service.create", move |tx, by| services::create(tx, &by.organization.id, &new, by.actor));
    Ok(Created(show(made.await?)))
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
) -> Result<Json<ServiceBody>> {
    let changed = admin.write("service.rename", move |tx, by| {
        let service = services::find(tx.snapshot(), &by.organization.id, &slug)?;
        services::rename(tx, &service, &body.name, by.actor)
    });
    Ok(Json(show(changed.await?)))
}

pub(crate) async fn delete(admin: Admin, Path((_, slug)): Path<(String, String)>) -> Result<StatusCode> {
    let deleted = admin.write("service.delete", move |tx, by| {
        let service = services::find(tx.snapshot(), &by.organization.id, &slug)?;
        catalog::delete_service(tx, &service, by.actor)
    });
    deleted.await?;
    Ok(StatusCode::NO_CONTENT)
}
