//! Consents: the scope that a user has approved for a client. A consent is stored until a newer one replaces it, or the user
//! withdraws it. It no longer counts after a program changed where the client's codes go.

use crate::audit::{self, Actor};
use crate::grants;
use crate::ids::{ClientId, GrantId, UserId};
use crate::scopes::Scope;
use crate::sessions::Session;
use crate::{Result, Time, clients, users};
use store::{Snapshot, Tx, args, sql, statements, upsert};

/// Consents that [`of_user`] returns at most.
const SHOWN_MAX: i64 = 200;
/// Grants that one command of [`withdraw`] revokes.
const REVOKED_MAX: i64 = 200;

statements! {
    static PUT = upsert("consents", &["user_id", "client_id"], &["scope", "granted_at", "client_changes"]);
    static OF_USER = sql("SELECT n.client_id, c.name, n.scope, n.granted_at FROM consents n
     JOIN clients c ON c.id = n.client_id WHERE n.user_id = ?1 ORDER BY n.granted_at DESC, n.client_id LIMIT ?2");
    static DELETE = sql("DELETE FROM consents WHERE user_id = ?1 AND client_id = ?2");
    static GRANTS = sql("SELECT g.id FROM sessions s JOIN grants g ON g.session_id = s.id
     WHERE s.user_id = ?1 AND g.client_id = ?2 AND g.revoked_at IS NULL LIMIT ?3");
    static DELETE_OF_USER = sql("DELETE FROM consents WHERE user_id = ?1");
    static GET = sql("SELECT scope, client_changes FROM consents WHERE user_id = ?1 AND client_id = ?2");
}

/// Stores the consent of the session's user to this scope for the client.
pub fn give(
    tx: &mut Tx<'_>,
    session: &Session,
    client: &ClientId,
    scope: &Scope,
    actor: &Actor,
) -> Result<()> {
    let (scope, changes) = (scope.to_string(), clients::changes(tx.snapshot(), client)?);
    tx.exec(&PUT, args![&session.user, client, &scope, actor.now, changes])?;
    audit::note(tx, &session.organization, actor, "consent.given", client.as_str(), &scope)
}

/// A consent, for people.
#[derive(Clone, Debug)]
pub struct Consent {
    /// The client.
    pub client: ClientId,
    /// Its name.
    pub client_name: String,
    /// What the user has approved.
    pub scope: Scope,
    /// When.
    pub granted_at: Time,
}

/// The consents of a user, the newest first, 200 at most.
pub fn of_user(snapshot: &mut Snapshot<'_>, user: &UserId) -> Result<Vec<Consent>> {
    Ok(snapshot.all(&OF_USER, args![user, SHOWN_MAX], |row| {
        Ok(Consent {
            client: row.get(0)?,
            client_name: row.get(1)?,
            scope: Scope::parse(&row.get::<String>(2)?),
            granted_at: row.get(3)?,
        })
    })?)
}

/// Withdraws the consent of the session's user, and revokes what the client got by it in any of their sessions: some grants
/// at a time. Returns false while some are left. A code that the client has not redeemed is void unless a consent has its scope.
pub fn withdraw(tx: &mut Tx<'_>, session: &Session, client: &ClientId, actor: &Actor) -> Result<bool> {
    // The redemption of a code takes it too, so that no grant is made in between.
    tx.lock(&users::LOCK, (&session.user).into())?;
    let left: Vec<GrantId> = tx.all(&GRANTS, args![&session.user, client, REVOKED_MAX], |row| row.get(0))?;
    for grant in &left {
        grants::revoke(tx, grant, "withdrawn consent", actor.now)?;
    }
    let are_all = (left.len() as i64) < REVOKED_MAX;
    // Last: until then the user sees it, and can press the button again.
    if are_all && tx.exec(&DELETE, args![&session.user, client])? == 1 {
        audit::note(tx, &session.organization, actor, "consent.withdrawn", client.as_str(), "")?;
    }
    Ok(are_all)
}

/// Deletes the consents of a user.
pub(crate) fn delete_of_user(tx: &mut Tx<'_>, user: &UserId) -> Result<()> {
    tx.exec(&DELETE_OF_USER, args![user])?;
    Ok(())
}

/// Whether the user consented to at least this scope for the client as it is now.
pub fn has_consented(
    snapshot: &mut Snapshot<'_>,
    user: &UserId,
    client: &ClientId,
    scope: &Scope,
) -> Result<bool> {
    let known: Option<(String, i64)> =
        snapshot.one(&GET, args![user, client], |row| Ok((row.get(0)?, row.get(1)?)))?;
    match known {
        // Fewer: a program has changed where its codes go since.
        Some((known, knew)) if scope.is_within(&Scope::parse(&known)) => {
            Ok(knew == clients::changes(snapshot, client)?)
        }
        _ => Ok(false),
    }
}
