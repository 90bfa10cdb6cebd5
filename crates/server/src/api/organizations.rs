//! `/api/organizations`: the organizations that a user administers, and new ones.

use crate::openapi::words;
use crate::web::administration::{Administrator, Owner, OwnerOfDeleted, PlatformUser, Written};
use crate::web::error::Result;
use crate::web::fields::{FieldErrors, Rules as _, Validate};
use crate::web::json::{Body, Created, Json, List, Page, Params, Slug, rfc3339, sent};
use http::StatusCode;
use identity::ids::OrganizationId;
use identity::organization_deletions;
use identity::organizations::{self, DeviceFlow, Organization, Status};
use identity::{administrators, names};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

#[derive(Serialize, ToSchema)]
#[schema(as = Organization)]
pub(crate) struct OrganizationBody {
    id: String,
    slug: String,
    name: String,
    #[schema(schema_with = words::organization_status)]
    status: &'static str,
    #[schema(schema_with = words::device_flow)]
    device_flow: &'static str,
    /// Whether people may create accounts themselves.
    sign_up: bool,
    #[schema(format = DateTime)]
    created_at: String,
}

/// `sign_up` is what holds where an organization does not say whether people may create their own accounts.
pub(super) fn show(sign_up: bool, organization: Organization) -> OrganizationBody {
    OrganizationBody {
        sign_up: organization.allows_sign_up(sign_up),
        id: organization.id.to_string(),
        slug: organization.slug,
        name: organization.name,
        status: organization.status.as_str(),
        device_flow: organization.device_flow.as_str(),
        created_at: rfc3339(organization.created_at),
    }
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = CreateOrganization)]
pub(crate) struct CreateBody {
    #[schema(schema_with = words::slug)]
    slug: String,
    #[schema(schema_with = words::name)]
    name: String,
}

impl Validate for CreateBody {
    fn validate(&self, errors: &mut FieldErrors) {
        errors.check(names::organization_slug(&self.slug));
        errors.check(names::display("name", &self.name));
    }
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ChangeOrganization)]
pub(crate) struct ChangeBody {
    #[serde(default, deserialize_with = "sent")]
    #[schema(schema_with = words::name)]
    name: Option<String>,
    #[serde(default, deserialize_with = "sent")]
    #[schema(schema_with = words::device_flow)]
    device_flow: Option<String>,
    /// Whether people may create accounts themselves.
    #[serde(default, deserialize_with = "sent")]
    #[schema(nullable = false)]
    sign_up: Option<bool>,
}

impl Validate for ChangeBody {
    fn validate(&self, errors: &mut FieldErrors) {
        errors.check_sent(self.name.as_deref(), |name| names::display("name", name));
        errors.check_sent(self.device_flow.as_deref(), DeviceFlow::parse);
    }
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListQuery {
    limit: Option<i64>,
    cursor: Option<String>,
    /// Only organizations of this status.
    #[param(schema_with = words::organization_status)]
    status: Option<String>,
}

impl ListQuery {
    /// The page and the status.
    pub(super) fn read(self) -> Result<(Page<Slug>, Option<Status>)> {
        let mut errors = FieldErrors::default();
        let status = self.status.as_deref().and_then(|status| errors.check(Status::parse(status)));
        errors.finish_query()?;
        Ok((Page::filtered(self.limit, self.cursor, &[self.status.as_deref()])?, status))
    }
}

pub(crate) async fn list(
    caller: PlatformUser,
    Params(query): Params<ListQuery>,
) -> Result<Json<List<OrganizationBody>>> {
    let (page, status) = query.read()?;
    let (user, cursor, fetch) = (caller.user.clone(), page.cursor.clone(), page.fetch());
    let found = caller
        .list(move |snapshot| organizations::list(snapshot, Some(&user), status, cursor.as_deref(), fetch));
    let show = |organization| show(caller.sign_up(), organization);
    Ok(Json(page.list(found.await?, |organization: &Organization| organization.slug.clone(), show)))
}

/// An organization that a platform owner creates is active at once; any other is pending until it is reviewed. The
/// creator becomes its owner.
pub(crate) async fn create(
    caller: PlatformUser,
    Body(body): Body<CreateBody>,
) -> Written<Created<OrganizationBody>> {
    let id = OrganizationId::new(caller.now(), caller.random());
    let (user, sign_up) = (caller.user.clone(), caller.sign_up());
    let made = caller.write("organization.create", move |tx, actor| {
        let approved = administrators::is_platform_owner(tx.snapshot(), &user)?;
        if !approved {
            administrators::require_room_for_pending(tx, &user)?;
        }
        let organization = organizations::create(tx, &id, &body.slug, &body.name, approved, actor)?;
        administrators::add_creator(tx, &organization, &user, actor)?;
        Ok(Created(show(sign_up, organization)))
    });
    made.await
}

pub(crate) async fn get(admin: Administrator) -> Json<OrganizationBody> {
    Json(show(admin.sign_up(), admin.organization.clone()))
}

pub(crate) async fn change(admin: Owner, Body(body): Body<ChangeBody>) -> Written<Json<OrganizationBody>> {
    let device_flow = body.device_flow.as_deref().map(DeviceFlow::parse).transpose()?;
    let sign_up = admin.sign_up();
    let changed = admin.write("organization.change", move |tx, by| {
        let mut organization = by.organization.clone();
        if let Some(device_flow) = device_flow {
            organization = organizations::set_device_flow(tx, &organization, device_flow, by.actor)?;
        }
        if let Some(is_open) = body.sign_up {
            organization = organizations::set_sign_up(tx, &organization, is_open, by.actor)?;
        }
        if let Some(name) = &body.name {
            organization = organizations::rename(tx, &organization, name, by.actor)?;
        }
        Ok(Json(show(sign_up, organization)))
    });
    changed.await
}

/// For 30 days, `restore` undoes it.
pub(crate) async fn delete(admin: Owner) -> Written<StatusCode> {
    let deleted = admin.write("organization.delete", |tx, by| {
        organization_deletions::delete(tx, by.organization, by.actor)?;
        Ok(StatusCode::NO_CONTENT)
    });
    deleted.await
}

/// `DELETE /api/organizations/{org}/deletion`
pub(crate) async fn restore(admin: OwnerOfDeleted) -> Written<Json<OrganizationBody>> {
    let sign_up = admin.sign_up();
    let restored = admin.write("organization.restore", move |tx, by| {
        Ok(Json(show(sign_up, organization_deletions::restore(tx, by.organization, by.actor)?)))
    });
    restored.await
}
