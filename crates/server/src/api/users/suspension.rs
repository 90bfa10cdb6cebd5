//! `/api/organizations/{org}/users/{user}/suspension`: suspends an account and activates it again.

use super::show;
use crate::web::administration::{Admin, Written};
use crate::web::fields::{FieldErrors, Rules as _, Validate};
use crate::web::json::{Body, Json};
use crate::web::path::Path;
use api::users::{User, UserSuspension};
use http::StatusCode;
use identity::audit;
use identity::ids::UserId;
use identity::user_suspensions;
use identity::users;

impl Validate for UserSuspension {
    fn validate(&self, errors: &mut FieldErrors) {
        errors.check(audit::reason(self.reason.as_deref()));
    }
}

pub(crate) async fn put(
    admin: Admin,
    Path((_, user)): Path<(String, String)>,
    Body(body): Body<UserSuspension>,
) -> Written<Json<User>> {
    let user = UserId::parse(&user)?;
    let suspended = admin.write("user.suspend", move |tx, by| {
        let user = users::in_organization(tx.snapshot(), &by.organization.id, &user)?;
        Ok(Json(show(user_suspensions::suspend(tx, &user, body.reason.as_deref(), by.actor)?)))
    });
    suspended.await
}

pub(crate) async fn delete(admin: Admin, Path((_, user)): Path<(String, String)>) -> Written<StatusCode> {
    let user = UserId::parse(&user)?;
    let activated = admin.write("user.activate", move |tx, by| {
        let user = users::in_organization(tx.snapshot(), &by.organization.id, &user)?;
        user_suspensions::activate(tx, &user, by.actor)?;
        Ok(StatusCode::NO_CONTENT)
    });
    activated.await
}
