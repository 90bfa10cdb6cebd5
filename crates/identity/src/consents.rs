//! Consents: which scope a user has allowed a client. Kept until the user decides otherwise.

use crate::ids::{ClientId, UserId};
use crate::scopes::Scope;
use crate::{Result, Time};
use store::{Snapshot, Tx, args, sql, statements, upsert};

statements! {
    static PUT = upsert("consents", &["user_id", "client_id"], &["scope", "granted_at"]);
    static GET = sql("SELECT scope FROM consents WHERE user_id = ?1 AND client_id = ?2 AND granted_at >= ?3");
}

/// Notes that the user allowed the client this scope.
pub fn give(tx: &mut Tx<'_>, user: &UserId, client: &ClientId, scope: &Scope, now: Time) -> Result<()> {
    tx.exec(&PUT, args![user, client, scope.to_string(), now])?;
    Ok(())
}

/// Whether the user has allowed the client at least this scope, at `after` or later.
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
