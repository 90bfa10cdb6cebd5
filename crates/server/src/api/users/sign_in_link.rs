//! `POST /api/organizations/{org}/users/{user}/sign-in-link`: creates a one-time link for a user without a password. The
//! URL in the answer is the only copy of the link's secret.

use crate::web::administration::{Admin, Written};
use crate::web::json::{Created, rfc3339};
use crate::web::path::Path;
use api::users::OneTimeLink;
use identity::ids::{LinkId, UserId};
use identity::links::{self, NewLink, Purpose};
use identity::users;

pub(crate) async fn create(
    admin: Admin,
    Path((_, user)): Path<(String, String)>,
) -> Written<Created<OneTimeLink>> {
    let now = admin.now();
    let user = UserId::parse(&user)?;
    let (id, expires_at) = (LinkId::new(now, admin.random()), now + links::LIFE);
    let new = NewLink::generate(id, Purpose::SignIn, Some(user.clone()), expires_at, admin.random());
    let url = admin.url(&format!("/o/{}/link?token={}", admin.organization.slug, new.token));
    let made = admin.write("user.sign_in_link", move |tx, by| {
        let user = users::in_organization(tx.snapshot(), &by.organization.id, &user)?;
        let expires_at = rfc3339(links::create_for(tx, &user, &new, by.actor)?);
        Ok(Created(OneTimeLink { url: Some(url.clone()), expires_at }))
    });
    made.await
}
