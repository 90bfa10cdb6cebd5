//! `/api/organizations/{org}/users/{user}/sessions`: the sessions of a user.

use crate::web::administration::{Admin, Administrator, Written};
use crate::web::error::Result;
use crate::web::json::{Json, List, Page, rfc3339};
use crate::web::path::Path;
use api::users::Session;
use http::StatusCode;
use identity::ids::{SessionId, UserId};
use identity::sessions;
use identity::users;

fn show(session: sessions::Session) -> Session {
    Session {
        id: session.id.to_string(),
        kind: session.kind,
        address: session.address,
        agent: session.agent,
        created_at: rfc3339(session.created_at),
        authenticated_at: rfc3339(session.authentication.at),
        expires_at: rfc3339(session.expires_at),
    }
}

pub(crate) async fn list(
    admin: Administrator,
    Path((_, user)): Path<(String, String)>,
    page: Page<SessionId>,
) -> Result<Json<List<Session>>> {
    let (organization, user, now) = (admin.organization.id.clone(), UserId::parse(&user)?, admin.now());
    let (cursor, fetch) = (page.cursor.clone(), page.fetch());
    let found = admin.list(move |snapshot| {
        let user = users::in_organization(snapshot, &organization, &user)?;
        sessions::list(snapshot, &user.id, now, cursor.as_deref(), fetch)
    });
    Ok(Json(page.list(found.await?, |session| session.id.to_string(), show)))
}

pub(crate) async fn end(
    admin: Admin,
    Path((_, user, session)): Path<(String, String, String)>,
) -> Written<StatusCode> {
    let (user, session) = (UserId::parse(&user)?, SessionId::parse(&session)?);
    let ended = admin.write("user.end_session", move |tx, by| {
        let user = users::in_organization(tx.snapshot(), &by.organization.id, &user)?;
        sessions::end_for(tx, &user, &session, by.actor)?;
        Ok(StatusCode::NO_CONTENT)
    });
    ended.await
}

pub(crate) async fn end_all(admin: Admin, Path((_, user)): Path<(String, String)>) -> Written<StatusCode> {
    let user = UserId::parse(&user)?;
    let ended = admin.write("user.end_sessions", move |tx, by| {
        let user = users::in_organization(tx.snapshot(), &by.organization.id, &user)?;
        sessions::end_all_for(tx, &user, by.actor)?;
        Ok(StatusCode::NO_CONTENT)
    });
    ended.await
}
