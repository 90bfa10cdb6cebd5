//! `/api/organizations`: the organizations that a user administers, and new ones.

use crate::app::App;
use crate::web::auth::{Administrator, PlatformUser};
use crate::web::error::Result;
use crate::web::json::{Body, Created, Json, List, Page, rfc3339};
use axum::extract::State;
use identity::ids::OrganizationId;
use identity::organizations::{self, DeviceFlow, Organization};
use identity::{Error, administrators};
use serde::{Deserialize, Serialize};

#[derive(Serialize)]
pub(crate) struct OrganizationBody {
    id: String,
    slug: String,
    name: String,
    status: &'static str,
    device_flow: &'static str,
    created_at: String,
}

pub(super) fn show(organization: Organization) -> OrganizationBody {
    OrganizationBody {
        id: organization.id.to_string(),
        slug: organization.slug,
        name: organization.name,
        status: organization.status.as_str(),
        device_flow: organization.device_flow.as_str(),
        created_at: rfc3339(organization.created_at),
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
    name: Option<String>,
    device_flow: Option<String>,
}

pub(crate) async fn list(
    State(app): State<App>,
    caller: PlatformUser,
    page: Page,
) -> Result<Json<List<OrganizationBody>>> {
    let (user, cursor, fetch) = (caller.user, page.cursor.clone(), page.fetch());
    let found =
        app.store.list(move |snapshot| organizations::list(snapshot, Some(&user), cursor.as_deref(), fetch));
    Ok(Json(List::new(found.await?, &page, |organization| organization.slug.clone(), show)))
}

/// A platform owner's is active at once; anybody else's waits for its review. Its maker owns it.
pub(crate) async fn create(
    State(app): State<App>,
    caller: PlatformUser,
    Body(body): Body<CreateBody>,
) -> Result<Created<OrganizationBody>> {
    let actor = caller.actor(&app);
    let id = OrganizationId::new(actor.now, app.random());
    let made = app.store.write("organization.create", move |tx| {
        let organization = organizations::create(tx, &id, &body.slug, &body.name, caller.is_owner, &actor)?;
        administrators::add_creator(tx, &organization, &caller.user, &actor)?;
        Ok::<_, Error>(organization)
    });
    Ok(Created(show(made.await?)))
}

pub(crate) async fn get(admin: Administrator) -> Json<OrganizationBody> {
    Json(show(admin.organization))
}

pub(crate) async fn change(
    State(app): State<App>,
    admin: Administrator,
    Body(body): Body<ChangeBody>,
) -> Result<Json<OrganizationBody>> {
    let admin = admin.owner()?;
    let (actor, organization) = (admin.actor(&app), admin.organization.id);
    let device_flow = body.device_flow.as_deref().map(DeviceFlow::parse).transpose()?;
    let changed = app.store.write("organization.change", move |tx| {
        let mut organization = organizations::get(tx.snapshot(), &organization)?;
        if let Some(device_flow) = device_flow {
            organization = organizations::set_device_flow(tx, &organization, device_flow, &actor)?;
        }
        if let Some(name) = &body.name {
            organization = organizations::rename(tx, &organization, name, &actor)?;
        }
        Ok::<_, Error>(organization)
    });
    Ok(Json(show(changed.await?)))
}
