//! `/api/organizations/{org}/administrators`: the administrators of an organization and their roles. A new one is invited
//! (`invitations.rs`).

use super::invitations::{self, InvitationBody};
use super::keys::{self, KeyBody};
use crate::openapi::words;
use crate::web::administration::{Administrator, Owner, OwnerOrSelf, Written};
use crate::web::error::Result;
use crate::web::fields::{FieldErrors, Rules as _, Validate};
use crate::web::json::{Body, Json, List, Page, Params, rfc3339};
use crate::web::path::Path;
use identity::administrators::{self, Role};
use identity::clients::MadeSecret;
use identity::departures::{self, Made};
use identity::ids::UserId;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

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
    Ok(Json(page.list(found.await?, |administrator| administrator.user.to_string(), show)))
}

pub(crate) async fn change(
    admin: Owner,
    Path((_, user)): Path<(String, String)>,
    Body(body): Body<ChangeBody>,
) -> Written<Json<AdministratorBody>> {
    let (user, role) = (UserId::parse(&user)?, Role::parse(&body.role)?);
    let changed = admin.write("administrator.change", move |tx, by| {
        Ok(Json(show(administrators::change_role(tx, &by.organization.id, &user, role, by.actor)?)))
    });
    changed.await
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct RemoveQuery {
    /// `made` also revokes what they made. It works for one who has left, too.
    #[param(schema_with = words::revoke)]
    revoke: Option<String>,
}

impl RemoveQuery {
    /// Whether what the administrator made is revoked.
    pub(super) fn revokes(&self) -> Result<bool> {
        let mut errors = FieldErrors::default();
        let wrong = self.revoke.as_deref().filter(|word| *word != words::REVOKE_MADE);
        if let Some(word) = wrong {
            errors.note(
                "not_allowed",
                "revoke".to_owned(),
                &format!("{word:?} is not allowed; use {}", words::REVOKE_MADE),
            );
        }
        errors.finish_query()?;
        Ok(self.revoke.is_some())
    }
}

/// A secret of a client that an administrator made.
#[derive(Serialize, ToSchema)]
#[schema(as = MadeClientSecret)]
pub(crate) struct MadeSecretBody {
    id: String,
    client_id: String,
    /// The name of the client.
    client: String,
    /// Its last characters.
    hint: String,
    /// Whether every secret of the client is from this administrator: without these, the client has none.
    last: bool,
    #[schema(format = DateTime)]
    created_at: String,
}

/// An administrator who was removed, with what they made. It goes on working unless it was revoked.
#[derive(Serialize, ToSchema)]
#[schema(as = RemovedAdministrator)]
pub(crate) struct RemovedBody {
    /// The id of the user.
    user: String,
    /// Whether the things in the lists were revoked.
    revoked: bool,
    api_keys: Vec<KeyBody>,
    client_secrets: Vec<MadeSecretBody>,
    /// The open ones. Those of a former owner are void.
    invitations: Vec<InvitationBody>,
    /// Whether there are client secrets beyond these: repeat the request with `revoke=made`.
    more: bool,
}

impl RemovedBody {
    pub(super) fn new(user: &UserId, revoked: bool, made: Made) -> RemovedBody {
        let secret = |made: MadeSecret| MadeSecretBody {
            id: made.secret.id.to_string(),
            client_id: made.client.to_string(),
            client: made.client_name,
            hint: made.secret.hint,
            last: made.is_last,
            created_at: rfc3339(made.secret.created_at),
        };
        RemovedBody {
            user: user.to_string(),
            revoked,
            api_keys: made.keys.into_iter().map(keys::show).collect(),
            client_secrets: made.secrets.into_iter().map(secret).collect(),
            invitations: made.invitations.into_iter().map(invitations::show).collect(),
            more: made.has_more,
        }
    }
}

/// An owner removes others; every administrator may remove themselves. Only an owner revokes what was made.
pub(crate) async fn remove(
    admin: OwnerOrSelf,
    Path((_, user)): Path<(String, String)>,
    Params(query): Params<RemoveQuery>,
) -> Written<Json<RemovedBody>> {
    let (user, revoke) = (UserId::parse(&user)?, query.revokes()?);
    let removed = admin.write("administrator.remove", move |tx, by| {
        if revoke {
            administrators::require_owner(by.role)?;
        }
        let made = departures::remove_administrator(tx, &by.organization.id, &user, revoke, by.actor)?;
        Ok(Json(RemovedBody::new(&user, revoke, made)))
    });
    removed.await
}
