//! Consents: the scope that a user has approved for a client. A consent is stored until a newer one replaces it.

use crate::Result;
use crate::audit::{self, Actor};
use crate::ids::{ClientId, UserId};
use crate::scopes::Scope;
use crate::sessions::Session;
use store::{Snapshot, Tx, args, sql, statements, upsert};

statements! {
    static PUT = upsert("consents", &["user_id", "client_id"], &["scope", "granted_at"]);
    static DELETE_OF_USER = sql("DELETE FROM consents WHERE user_id = ?1");
    static GET = sql("SELECT scope FROM consents WHERE user_id = ?1 AND client_id = ?2");
}

/// Stores the consent of the session's user to this scope for the client.
pub fn give(
    tx: &mut Tx<'_>,
    session: &Session,
    client: &ClientId,
    scope: &Scope,
    actor: &Actor,
) -> Result<()> {
    let scope = scope.to_string();
    tx.exec(&PUT, args![&session.user, client, &scope, actor.now])?;
    audit::note(tx, &session.organization, actor, "consent.given", client.as_str(), &scope)
}

/// Deletes the consents of a user.
pub(crate) fn delete_of_user(tx: &mut Tx<'_>, user: &UserId) -> Result<()> {
    tx.exec(&DELETE_OF_USER, args![user])?;
    Ok(())
}

/// Whether the user consented to at least this scope for the client.
pub fn has_consented(
    snapshot: &mut Snapshot<'_>,
    user: &UserId,
    client: &ClientId,
    scope: &Scope,
) -> Result<bool> {
    let known: Option<String> = snapshot.one(&GET, args![user, client], |row| row.get(0))?;
    Ok(known.is_some_and(|known| scope.is_within(&Scope::parse(&known))))
}
