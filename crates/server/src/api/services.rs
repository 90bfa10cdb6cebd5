//! `/api/organizations/{org}/services`: the products of an organization.

use crate::app::App;
use crate::web::auth::Administrator;
use crate::web::error::Result;
use crate::web::json::{Body, Created, Json, List, Page, rfc3339};
use axum::extract::{Path, State};
use http::StatusCode;
use identity::ids::ServiceId;
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChangeBody {
    name: String,
}

pub(crate) async fn list(
    State(app): State<App>,
    admin: Administrator,
    page: Page,
) -> Result<Json<List<ServiceBody>>> {
    let (organization, cursor, fetch) = (admin.organization.id, page.cursor.clone(), page.fetch());
    let found =
        app.store.list(move |snapshot| services::list(snapshot, &organization, cursor.as_deref(), fetch));
    Ok(Json(List::new(found.await?, &page, |service| service.slug.clone(), show)))
}

pub(crate) async fn create(
    State(app): State<App>,
    admin: Administrator,
    Body(body): Body<CreateBody>,
) -> Result<Created<ServiceBody>> {
    let admin = admin.may_change()?;
    let actor = admin.actor(&app);
    let new = NewService { id: ServiceId::new(actor.now, app.random()), slug: body.slug, name: body.name };
    let organization = admin.organization.id;
    let made = app.store.write("service.create", move |tx| services::create(tx, &organization, &new, &actor));
    Ok(Created(show(made.await?)))
}

pub(crate) async fn get(
    State(app): State<App>,
    admin: Administrator,
    Path((_, slug)): Path<(String, String)>,
) -> Result<Json<ServiceBody>> {
    let organization = admin.organization.id;
    let found = app.store.point(move |snapshot| services::find(snapshot, &organization, &slug));
    Ok(Json(show(found.await?)))
}

pub(crate) async fn change(
    State(app): State<App>,
    admin: Administrator,
    Path((_, slug)): Path<(String, String)>,
    Body(body): Body<ChangeBody>,
) -> Result<Json<ServiceBody>> {
    let admin = admin.may_change()?;
    let (actor, organization) = (admin.actor(&app), admin.organization.id);
    let changed = app.store.write("service.rename", move |tx| {
        let service = services::find(tx.snapshot(), &organization, &slug)?;
        services::rename(tx, &service, &body.name, &actor)
    });
    Ok(Json(show(changed.await?)))
}

pub(crate) async fn delete(
    State(app): State<App>,
    admin: Administrator,
    Path((_, slug)): Path<(String, String)>,
) -> Result<StatusCode> {
    let admin = admin.may_change()?;
    let (actor, organization) = (admin.actor(&app), admin.organization.id);
    let deleted = app.store.write("service.delete", move |tx| {
        let service = services::find(tx.snapshot(), &organization, &slug)?;
        services::delete(tx, &service, &actor)
    });
    deleted.await?;
    Ok(StatusCode::NO_CONTENT)
}
