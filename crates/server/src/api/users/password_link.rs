//! `POST /api/organizations/{org}/users/{user}/password-link`: a one-time link with which a user sets a password. The URL
//! in the answer is the only copy of the link's secret.

use crate::web::administration::{Admin, Written};
use crate::web::json::{Created, rfc3339};
use crate::web::path::Path;
use api::users::OneTimeLink;
use identity::ids::{LinkId, UserId};
use identity::links::{self, NewLink, Purpose};
use identity::{Time, users};

pub(crate) async fn create(
    admin: Admin,
    Path((_, user)): Path<(String, String)>,
) -> Written<Created<OneTimeLink>> {
    let user = UserId::parse(&user)?;
    let new = generate(&admin, &user);
    let url = url(&admin, &new);
    let made = admin.write("user.password_link", move |tx, by| {
        let user = users::in_organization(tx.snapshot(), &by.organization.id, &user)?;
        Ok(Created(body(url.clone(), links::create_for(tx, &user, &new, by.actor)?)))
    });
    made.await
}

/// Generates the link of a user.
pub(super) fn generate(admin: &Admin, user: &UserId) -> NewLink {
    let now = admin.now();
    let (id, expires_at) = (LinkId::new(now, admin.random()), now + links::FORGOTTEN_LIFE);
    NewLink::generate(id, Purpose::Password, Some(user.clone()), expires_at, admin.random())
}

pub(super) fn url(admin: &Admin, link: &NewLink) -> String {
    admin.url(&format!("/password?token={}", link.token))
}

pub(super) fn body(url: String, expires_at: Time) -> OneTimeLink {
    OneTimeLink { url: Some(url), expires_at: rfc3339(expires_at) }
}
