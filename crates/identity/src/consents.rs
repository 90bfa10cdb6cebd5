//! Consents: the scope that a user has approved for a client. A consent is stored until a newer one replaces it.

use crate::ids::{ClientId, UserId};
use crate::scopes::Scope;
use crate::{Result, Time};
use store::{Snapshot, Tx, args, sql, statements, upsert};

statements! {
    static PUT = upsert("consents", &["user_id", "client_id"], &["scope", "granted_at"]);
    static GET = sql("SELECT scope FROM consents WHERE user_id = ?1 AND client_id = ?2 AND granted_at >= ?3");
}

/// Stores the user's consent to this scope for the client.
pub fn give(tx: &mut Tx<'_>, user: &UserId, client: &ClientId, scope: &Scope, now: Time) -> Result<()> {
    tx.exec(&PUT, args![user, client, scope.to_string(), now])?;
    Ok(())
}

/// Whether the user consented to at least this scope for the client, at `after` or later.
pub fn has_consented(
    snapshot: &mut Snapshot<'_>,
    user: &UserId,
    client: &ClientId,
    scope: &Scope,
    after: Time,
) -> Result<bool> {
    let known: Option<String> = snapshot.one(&GET, args![user, client, after], |row| row.get(0))?;
    Ok(known.is_some_and(|known| scope.is_within(&Scope::parse(&known))))
}
