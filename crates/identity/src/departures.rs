//! The departure of an administrator: the API keys, client secrets and open invitations that they made. Keys and secrets work
//! on, because programs use them; but who made them may have copies.

use crate::administrators;
use crate::api_keys::{self, ApiKey};
use crate::audit::Actor;
use crate::clients::{self, MadeSecret};
use crate::ids::{OrganizationId, UserId};
use crate::invitations::{self, Invitation};
use crate::organizations;
use crate::{Error, Result, Time};
use store::{Snapshot, Tx};

/// The most client secrets of one departure. An organization has at most a hundred API keys and open invitations.
const SECRETS_MAX: usize = 200;

/// What an administrator made in an organization, and what still exists of it.
#[derive(Clone, Debug)]
pub struct Made {
    /// The API keys.
    pub keys: Vec<ApiKey>,
    /// The client secrets.
    pub secrets: Vec<MadeSecret>,
    /// The open invitations. Those of a former owner are void.
    pub invitations: Vec<Invitation>,
    /// Whether there are more client secrets than these.
    pub has_more: bool,
}

impl Made {
    fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.secrets.is_empty() && self.invitations.is_empty()
    }
}

/// Lists what a user made in an organization.
fn made_by(
    snapshot: &mut Snapshot<'_>,
    organization: &OrganizationId,
    user: &UserId,
    now: Time,
) -> Result<Made> {
    let fetch = SECRETS_MAX as i64 + 1;
    let mut secrets = clients::secrets_made_by(snapshot, organization, user, fetch)?;
    let has_more = secrets.len() > SECRETS_MAX;
    secrets.truncate(SECRETS_MAX);
    let keys = api_keys::made_by(snapshot, organization, user)?;
    let invitations = invitations::made_by(snapshot, organization, user, now)?;
    Ok(Made { keys, secrets, invitations, has_more })
}

/// Removes an administrator and returns what they made; with `revoke` it is revoked as well. With `revoke`, the administrator may
/// have left before.
pub fn remove_administrator(
    tx: &mut Tx<'_>,
    organization: &OrganizationId,
    user: &UserId,
    revoke: bool,
    actor: &Actor,
) -> Result<Made> {
    let removed = administrators::remove(tx, organization, user, actor);
    finish(tx, organization, user, removed, revoke, actor)
}

/// Removes a platform owner in the same way, with what they made in the organization `platform`.
pub fn remove_platform_owner(tx: &mut Tx<'_>, user: &UserId, revoke: bool, actor: &Actor) -> Result<Made> {
    let platform = organizations::find(tx.snapshot(), organizations::PLATFORM)?.id;
    let removed = administrators::remove_platform_owner(tx, &platform, user, actor);
    finish(tx, &platform, user, removed, revoke, actor)
}

fn finish(
    tx: &mut Tx<'_>,
    organization: &OrganizationId,
    user: &UserId,
    removed: Result<()>,
    revoke: bool,
    actor: &Actor,
) -> Result<Made> {
    let has_left = matches!(removed, Err(Error::NotFound { .. }));
    if !has_left || !revoke {
        removed?;
    }
    let made = made_by(tx.snapshot(), organization, user, actor.now)?;
    if has_left && made.is_empty() {
        return Err(Error::NotFound { what: "administrator" });
    }
    if revoke {
        made.keys.iter().try_for_each(|key| api_keys::revoke(tx, organization, &key.id, actor))?;
        made.secrets.iter().try_for_each(|secret| clients::delete_made(tx, organization, secret, actor))?;
        made.invitations
            .iter()
            .try_for_each(|invitation| invitations::revoke(tx, organization, &invitation.id, actor))?;
    }
    Ok(made)
}
