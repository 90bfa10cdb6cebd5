//! `POST /api/organizations/{org}/users/{user}/sign_in_link`: lets a user in who has no password yet, or has
//! lost it. The address is the only copy of the link's secret.

use crate::app::App;
use crate::web::auth::Administrator;
use crate::web::error::Result;
use crate::web::json::{Created, rfc3339};
use axum::extract::{Path, State};
use identity::ids::{LinkId, UserId};
use identity::links::{self, NewLink, Purpose};
use identity::users;
use serde::Serialize;

#[derive(Serialize)]
pub(crate) struct LinkBody {
    url: String,
    expires_at: String,
}

pub(crate) async fn create(
    State(app): State<App>,
    admin: Administrator,
    Path((_, user)): Path<(String, String)>,
) -> Result<Created<LinkBody>> {
    let admin = admin.may_change()?;
    let (actor, user, organization) = (admin.actor(&app), UserId::parse(&user)?, admin.organization);
    let (id, expires_at) = (LinkId::new(actor.now, app.random()), actor.now + links::LIFE);
    let new = NewLink::draw(id, Purpose::SignIn, Some(user.clone()), expires_at, app.random());
    let link = LinkBody {
        url: app.url(&format!("/o/{}/link?token={}", organization.slug, new.token)),
        expires_at: rfc3339(expires_at),
    };
    let made = app.store.write("user.sign_in_link", move |tx| {
        let user = users::in_organization(tx.snapshot(), &organization.id, &user)?;
        links::create_sign_in(tx, &user, &new, &actor)
    });
    made.await?;
    Ok(Created(link))
}
