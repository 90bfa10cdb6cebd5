//! `/api/organizations/{org}/administrators`: who runs an organization, in which role.

use crate::app::App;
use crate::web::auth::Administrator;
use crate::web::error::Result;
use crate::web::json::{Body, Created, Json, List, Page, rfc3339};
use axum::extract::{Path, State};
use http::StatusCode;
use identity::administrators::{self, Role};
use identity::ids::UserId;
use serde::{Deserialize, Serialize};

#[derive(Serialize)]
pub(crate) struct AdministratorBody {
    user: String,
    email: String,
    name: String,
    role: &'static str,
    created_at: String,
}

fn show(administrator: administrators::Administrator) -> AdministratorBody {
    AdministratorBody {
        user: administrator.user.to_string(),
        email: administrator.email,
        name: administrator.name,
        role: administrator.role.as_str(),
        created_at: rfc3339(administrator.created_at),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AddBody {
    email: String,
    role: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChangeBody {
    role: String,
}

pub(crate) async fn list(
    State(app): State<App>,
    admin: Administrator,
    page: Page,
) -> Result<Json<List<AdministratorBody>>> {
    let (organization, cursor, fetch) = (admin.organization.id, page.cursor.clone(), page.fetch());
    let found = app
        .store
        .list(move |snapshot| administrators::list(snapshot, &organization, cursor.as_deref(), fetch));
    Ok(Json(List::new(found.await?, &page, |administrator| administrator.user.to_string(), show)))
}

pub(crate) async fn add(
    State(app): State<App>,
    admin: Administrator,
    Body(body): Body<AddBody>,
) -> Result<Created<AdministratorBody>> {
    let admin = admin.owner()?;
    let (actor, organization) = (admin.actor(&app), admin.organization);
    let role = Role::parse(&body.role)?;
    let added = app.store.write("administrator.add", move |tx| {
        administrators::add(tx, &organization, &body.email, role, &actor)
    });
    Ok(Created(show(added.await?)))
}

pub(crate) async fn change(
    State(app): State<App>,
    admin: Administrator,
    Path((_, user)): Path<(String, String)>,
    Body(body): Body<ChangeBody>,
) -> Result<Json<AdministratorBody>> {
    let admin = admin.owner()?;
    let (actor, organization) = (admin.actor(&app), admin.organization.id);
    let (user, role) = (UserId::parse(&user)?, Role::parse(&body.role)?);
    let changed = app.store.write("administrator.change", move |tx| {
        administrators::change_role(tx, &organization, &user, role, &actor)
    });
    Ok(Json(show(changed.await?)))
}

/// Owners take others out; everybody may leave.
pub(crate) async fn remove(
    State(app): State<App>,
    admin: Administrator,
    Path((_, user)): Path<(String, String)>,
) -> Result<StatusCode> {
    let user = UserId::parse(&user)?;
    let admin = if user == admin.user { admin } else { admin.owner()? };
    let (actor, organization) = (admin.actor(&app), admin.organization.id);
    let removed = app
        .store
        .write("administrator.remove", move |tx| administrators::remove(tx, &organization, &user, &actor));
    removed.await?;
    Ok(StatusCode::NO_CONTENT)
}
