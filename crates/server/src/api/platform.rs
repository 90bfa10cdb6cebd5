//! `/api/platform/organizations`: what platform owners decide about organizations. Inside of them, they
//! have no power.

use super::organizations::{OrganizationBody, show};
use crate::app::App;
use crate::web::auth::PlatformUser;
use crate::web::error::Result;
use crate::web::json::{Body, Json, List, Page};
use axum::extract::{Path, State};
use http::StatusCode;
use identity::organizations::{self, Decision};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReviewBody {
    decision: String,
    reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SuspendBody {
    reason: Option<String>,
}

pub(crate) async fn list(
    State(app): State<App>,
    caller: PlatformUser,
    page: Page,
) -> Result<Json<List<OrganizationBody>>> {
    caller.owner()?;
    let (cursor, fetch) = (page.cursor.clone(), page.fetch());
    let found = app.store.list(move |snapshot| organizations::list(snapshot, None, cursor.as_deref(), fetch));
    Ok(Json(List::new(found.await?, &page, |organization| organization.slug.clone(), show)))
}

pub(crate) async fn review(
    State(app): State<App>,
    caller: PlatformUser,
    Path(slug): Path<String>,
    Body(body): Body<ReviewBody>,
) -> Result<Json<OrganizationBody>> {
    let actor = caller.owner()?.actor(&app);
    let decision = Decision::parse(&body.decision)?;
    let reviewed = app.store.write("organization.review", move |tx| {
        let organization = organizations::find(tx.snapshot(), &slug)?;
        organizations::review(tx, &organization, decision, body.reason.as_deref(), &actor)
    });
    Ok(Json(show(reviewed.await?)))
}

pub(crate) async fn suspend(
    State(app): State<App>,
    caller: PlatformUser,
    Path(slug): Path<String>,
    Body(body): Body<SuspendBody>,
) -> Result<Json<OrganizationBody>> {
    let actor = caller.owner()?.actor(&app);
    let suspended = app.store.write("organization.suspend", move |tx| {
        let organization = organizations::find(tx.snapshot(), &slug)?;
        organizations::suspend(tx, &organization, body.reason.as_deref(), &actor)
    });
    Ok(Json(show(suspended.await?)))
}

pub(crate) async fn activate(
    State(app): State<App>,
    caller: PlatformUser,
    Path(slug): Path<String>,
) -> Result<StatusCode> {
    let actor = caller.owner()?.actor(&app);
    let activated = app.store.write("organization.activate", move |tx| {
        let organization = organizations::find(tx.snapshot(), &slug)?;
        organizations::activate(tx, &organization, &actor)
    });
    activated.await?;
    Ok(StatusCode::NO_CONTENT)
}
