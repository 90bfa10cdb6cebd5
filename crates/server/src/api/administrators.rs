//! `/api/organizations/{org}/administrators`: the administrators of an organization and their roles. A new one is invited
//! (`invitations.rs`).

use crate::openapi::words;
use crate::web::administration::{Administrator, Owner, OwnerOrSelf};
use crate::web::error::Result;
use crate::web::fields::{FieldErrors, Validate};
use crate::web::json::{Body, Json, List, Page, rfc3339};
use crate::web::path::Path;
use http::StatusCode;
use identity::administrators::{self, Role};
use identity::ids::UserId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Serialize, ToSchema)]
#[schema(as = Administrator)]
pub(crate) struct AdministratorBody {
    /// The id of the user.
    user: String,
    email: String,
    name: String,
    #[schema(schema_with = words::role)]
    role: &'static str,
    #[schema(format = DateTime)]
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

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ChangeAdministrator)]
pub(crate) struct ChangeBody {
    #[schema(schema_with = words::role)]
    role: String,
}

impl Validate for ChangeBody {
    fn validate(&self, errors: &mut FieldErrors) {
        errors.check(Role::parse(&self.role));
    }
}

pub(crate) async fn list(admin: Administrator, page: Page<UserId>) -> Result<Json<List<AdministratorBody>>> {
    let (organization, cursor, fetch) = (admin.organization.id.clone(), page.cursor.clone(), page.fetch());
    let found =
        admin.list(move |snapshot| administrators::list(snapshot, &organization, cursor.as_deref(), fetch));
    Ok(Json(List::new(found.await?, &page, |administrator| administrator.user.to_string(), show)))
}

pub(crate) async fn change(
    admin: Owner,
    Path((_, user)): Path<(String, String)>,
    Body(body): Body<ChangeBody>,
) -> Result<Json<AdministratorBody>> {
    let (user, role) = (UserId::parse(&user)?, Role::parse(&body.role)?);
    let changed = admin.write("administrator.change", move |tx, by| {
        administrators::change_role(tx, &by.organization.id, &user, role, by.actor)
    });
    Ok(Json(show(changed.await?)))
}

/// An owner removes others; every administrator may remove themselves.
pub(crate) async fn remove(
    admin: OwnerOrSelf,
    Path((_, user)): Path<(String, String)>,
) -> Result<StatusCode> {
    let user = UserId::parse(&user)?;
    let removed = admin.write("administrator.remove", move |tx, by| {
        administrators::remove(tx, &by.organization.id, &user, by.actor)
    });
    removed.await?;
    Ok(StatusCode::NO_CONTENT)
}
