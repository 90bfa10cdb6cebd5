//! `/api/platform/owners`: the owners of the server. A new one is invited; the invitation is listed and revoked among
//! those of the organization `platform`.

use crate::api::administrators::{RemoveQuery, RemovedBody};
use crate::api::invitations::{self, SentBody};
use crate::openapi::words;
use crate::web::administration::{PlatformOwner, Written};
use crate::web::error::Result;
use crate::web::fields::{FieldErrors, Rules as _, Validate};
use crate::web::json::{Body, Created, Json, List, Page, Params, rfc3339};
use crate::web::path::Path;
use identity::administrators;
use identity::departures;
use identity::ids::UserId;
use identity::invitations::{NewInvitation, Offer};
use identity::names;
use identity::organizations::{self, PLATFORM};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Serialize, ToSchema)]
#[schema(as = PlatformOwner)]
pub(crate) struct OwnerBody {
    /// The id of the user.
    user: String,
    email: String,
    name: String,
    #[schema(format = DateTime)]
    created_at: String,
}

fn show(owner: administrators::PlatformOwner) -> OwnerBody {
    OwnerBody {
        user: owner.user.to_string(),
        email: owner.email,
        name: owner.name,
        created_at: rfc3339(owner.created_at),
    }
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = InvitePlatformOwner)]
pub(crate) struct InviteBody {
    #[schema(schema_with = words::email)]
    email: String,
}

impl Validate for InviteBody {
    fn validate(&self, errors: &mut FieldErrors) {
        errors.check(names::known_email(&self.email));
    }
}

pub(crate) async fn list(caller: PlatformOwner, page: Page<UserId>) -> Result<Json<List<OwnerBody>>> {
    let (cursor, fetch) = (page.cursor.clone(), page.fetch());
    let found =
        caller.list(move |snapshot| administrators::list_platform_owners(snapshot, cursor.as_deref(), fetch));
    Ok(Json(page.list(found.await?, |owner| owner.user.to_string(), show)))
}

pub(crate) async fn invite(
    caller: PlatformOwner,
    Body(body): Body<InviteBody>,
) -> Written<Created<SentBody>> {
    let new = NewInvitation::generate(body.email, Offer::PlatformOwner, caller.now(), caller.random());
    let (url, inviter) = (invitations::url(&caller, &new), caller.user.clone());
    let made = caller.write("platform_owner.invite", move |tx, actor| {
        let platform = organizations::find(tx.snapshot(), PLATFORM)?;
        let made = identity::invitations::create(tx, &platform, &new, &inviter, actor)?;
        Ok(Created(SentBody::new(made, url.clone())))
    });
    made.await
}

pub(crate) async fn remove(
    caller: PlatformOwner,
    Path(user): Path<String>,
    Params(query): Params<RemoveQuery>,
) -> Written<Json<RemovedBody>> {
    let (user, revoke) = (UserId::parse(&user)?, query.revokes()?);
    let removed = caller.write("platform_owner.remove", move |tx, actor| {
        let made = departures::remove_platform_owner(tx, &user, revoke, actor)?;
        Ok(Json(RemovedBody::new(&user, revoke, made)))
    });
    removed.await
}
