//! `/api/organizations/{org}/invitations`: how administrators are added. The answer to a POST is the only copy of the
//! link's secret. An answer does not reveal whether the invited address has an account.

use crate::openapi::words;
use crate::web::administration::{Administrator, Caller, Owner, Written};
use crate::web::error::Result;
use crate::web::fields::{FieldErrors, Rules as _, Validate};
use crate::web::json::{Body, Created, Json, List, Page, rfc3339};
use crate::web::path::Path;
use http::StatusCode;
use identity::administrators::Role;
use identity::ids::InvitationId;
use identity::invitations::{self, Invitation, NewInvitation, Offer};
use identity::names;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Serialize, ToSchema)]
#[schema(as = Invitation)]
pub(crate) struct InvitationBody {
    id: String,
    email: String,
    #[schema(schema_with = words::offer)]
    role: &'static str,
    /// The id of the user who invited.
    invited_by: String,
    #[schema(required)]
    invited_by_email: Option<String>,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    expires_at: String,
}

pub(super) fn show(invitation: Invitation) -> InvitationBody {
    InvitationBody {
        id: invitation.id.to_string(),
        email: invitation.email,
        role: invitation.offer.as_str(),
        invited_by: invitation.invited_by.to_string(),
        invited_by_email: invitation.inviter_email,
        created_at: rfc3339(invitation.created_at),
        expires_at: rfc3339(invitation.expires_at),
    }
}

/// A new invitation, with its link.
#[derive(Serialize, ToSchema)]
#[schema(as = SentInvitation)]
pub(crate) struct SentBody {
    #[serde(flatten)]
    invitation: InvitationBody,
    /// The link to pass on. It is shown once: a replay of the answer leaves it out.
    #[schema(required = false)]
    url: String,
}

impl SentBody {
    pub(super) fn new(invitation: Invitation, url: String) -> SentBody {
        SentBody { invitation: show(invitation), url }
    }
}

/// The address that the inviter passes on.
pub(super) fn url(caller: &Caller, new: &NewInvitation) -> String {
    caller.url(&format!("/invitation?token={}", new.token))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = CreateInvitation)]
pub(crate) struct CreateBody {
    #[schema(schema_with = words::email)]
    email: String,
    #[schema(schema_with = words::role)]
    role: String,
}

impl Validate for CreateBody {
    fn validate(&self, errors: &mut FieldErrors) {
        // Whether a new account may have it is for the command: an older account may be invited.
        errors.check(names::known_email(&self.email));
        errors.check(Role::parse(&self.role));
    }
}

pub(crate) async fn list(
    admin: Administrator,
    page: Page<InvitationId>,
) -> Result<Json<List<InvitationBody>>> {
    let (organization, now) = (admin.organization.id.clone(), admin.now());
    let (cursor, fetch) = (page.cursor.clone(), page.fetch());
    let found =
        admin.list(move |snapshot| invitations::list(snapshot, &organization, now, cursor.as_deref(), fetch));
    Ok(Json(page.list(found.await?, |invitation| invitation.id.to_string(), show)))
}

pub(crate) async fn create(admin: Owner, Body(body): Body<CreateBody>) -> Written<Created<SentBody>> {
    let offer = Offer::Role(Role::parse(&body.role)?);
    let new = NewInvitation::generate(body.email, offer, admin.now(), admin.random());
    let (url, inviter) = (url(&admin, &new), admin.user.clone());
    let made = admin.write("invitation.create", move |tx, by| {
        let made = invitations::create(tx, by.organization, &new, &inviter, by.actor)?;
        Ok(Created(SentBody::new(made, url.clone())))
    });
    made.await
}

pub(crate) async fn revoke(
    admin: Owner,
    Path((_, invitation)): Path<(String, String)>,
) -> Written<StatusCode> {
    let id = InvitationId::parse(&invitation)?;
    let revoked = admin.write("invitation.revoke", move |tx, by| {
        invitations::revoke(tx, &by.organization.id, &id, by.actor)?;
        Ok(StatusCode::NO_CONTENT)
    });
    revoked.await
}
