//! The scopes with which a machine client administers its organization. An owner grants them. They count when a token is
//! issued, when it is used, and in each command's transaction, so that a revocation holds at once.

use super::{Client, Kind, get, in_organization, keys, secrets};
use crate::audit::{self, Actor};
use crate::ids::{ClientId, OrganizationId};
use crate::organizations::Organization;
use crate::scopes::Scope;
use crate::{Access, Error, Result, Time, program_scopes, revoked_tokens};
use store::{Snapshot, Tx, args, sql, statements};

statements! {
    static SET_SCOPE = sql("UPDATE clients SET administration_scope = ?2 WHERE id = ?1");
}

/// Grants these scopes to a machine client, instead of those that it has. The caller is an owner.
pub fn grant_scopes(
    tx: &mut Tx<'_>,
    organization: &Organization,
    id: &ClientId,
    scopes: &[String],
    actor: &Actor,
) -> Result<Client> {
    program_scopes::refuse_platform(organization)?;
    let scope = program_scopes::chosen(scopes, program_scopes::SCOPES)?;
    tx.lock(&secrets::LOCK, id.into())?;
    let client = in_organization(tx.snapshot(), &organization.id, id)?;
    if client.kind != Kind::Machine {
        let kind = client.kind.as_str();
        let problem =
            format!("a {kind} client acts for users and has no scopes of its own; use a machine client");
        return Err(Error::invalid("scopes", problem));
    }
    if client.scope == scope {
        return Ok(client);
    }
    set(tx, &client, Some(&scope))?;
    audit::note(tx, &organization.id, actor, "client.scopes_granted", id.as_str(), &scope.joined())?;
    get(tx.snapshot(), id)
}

/// Revokes all scopes of a client. Its tokens administer nothing when the command has returned.
pub fn revoke_scopes(
    tx: &mut Tx<'_>,
    organization: &OrganizationId,
    id: &ClientId,
    actor: &Actor,
) -> Result<()> {
    tx.lock(&secrets::LOCK, id.into())?;
    let client = in_organization(tx.snapshot(), organization, id)?;
    if client.scope.is_empty() {
        return Ok(());
    }
    set(tx, &client, None)?;
    audit::note(tx, organization, actor, "client.scopes_revoked", id.as_str(), &client.scope.joined())
}

fn set(tx: &mut Tx<'_>, client: &Client, scope: Option<&Scope>) -> Result<()> {
    tx.exec(&SET_SCOPE, args![&client.id, scope.map(Scope::joined)])?;
    keys(&client.id).into_iter().for_each(|key| tx.changed(key));
    Ok(())
}

/// The part of the scope of a client's own token that the client still has, as a command sees it. A token that is no
/// longer valid is [`Error::InvalidGrant`].
pub(crate) fn scope_now(
    snapshot: &mut Snapshot<'_>,
    organization: &OrganizationId,
    access: &Access,
    now: Time,
) -> Result<Scope> {
    let client = match in_organization(snapshot, organization, &access.terms.client) {
        Err(Error::NotFound { .. }) => return Err(Error::InvalidGrant),
        found => found?,
    };
    let Some(jti) = access.own_jti().filter(|_| access.expires_at() > now) else {
        return Err(Error::InvalidGrant);
    };
    if revoked_tokens::contains(snapshot, &jti)? {
        return Err(Error::InvalidGrant);
    }
    Ok(access.terms.scope.within(&client.scope))
}
