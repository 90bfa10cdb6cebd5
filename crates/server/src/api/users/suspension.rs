//! `/api/organizations/{org}/users/{user}/suspension`: stops an account, and lets it go on.

use super::{UserBody, show};
use crate::app::App;
use crate::web::auth::Administrator;
use crate::web::error::Result;
use crate::web::json::{Body, Json};
use axum::extract::{Path, State};
use http::StatusCode;
use identity::ids::UserId;
use identity::users;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SuspendBody {
    reason: Option<String>,
}

pub(crate) async fn put(
    State(app): State<App>,
    admin: Administrator,
    Path((_, user)): Path<(String, String)>,
    Body(body): Body<SuspendBody>,
) -> Result<Json<UserBody>> {
    let admin = admin.may_change()?;
    let (actor, organization, user) = (admin.actor(&app), admin.organization.id, UserId::parse(&user)?);
    let suspended = app.store.write("user.suspend", move |tx| {
        let user = users::in_organization(tx.snapshot(), &organization, &user)?;
        users::suspend(tx, &user, body.reason.as_deref(), &actor)
    });
    Ok(Json(show(suspended.await?)))
}

pub(crate) async fn delete(
    State(app): State<App>,
    admin: Administrator,
    Path((_, user)): Path<(String, String)>,
) -> Result<StatusCode> {
    let admin = admin.may_change()?;
    let (actor, organization, user) = (admin.actor(&app), admin.organization.id, UserId::parse(&user)?);
    let activated = app.store.write("user.activate", move |tx| {
        let user = users::in_organization(tx.snapshot(), &organization, &user)?;
        users::activate(tx, &user, &actor)
    });
    activated.await?;
    Ok(StatusCode::NO_CONTENT)
}
