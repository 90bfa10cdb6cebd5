//! Invitations: a one-time link `<id>.<secret>` with which a person becomes an administrator of an organization, or a
//! platform owner.
//!
//! A link proves that its holder received it, not that the e-mail address is theirs. So the account that gets the role
//! must have the address of the invitation, and the role is the only thing that the account gets. The link of a
//! platform owner also proves the address ([`crate::password_changes`]).
//!
//! Opening a link must not consume it, because mail scanners open links too: pages call [`peek`] on GET, and [`accept`]
//! or [`accept_as_new`] on POST. An invitation is void after [`LIFE`], when it was revoked, while its organization is
//! not active, and while its inviter may not invite any more.

use crate::administrators::{self, Role};
use crate::audit::{self, Actor};
use crate::ids::{self, InvitationId, OrganizationId, UserId};
use crate::organizations::{self, Organization, Status};
use crate::secrets::{self, Hash, Random};
use crate::users::{self, NewUser, User};
use crate::{Error, Result, Time, names, password_changes, passwords};
use std::time::Duration;
use store::{Row, Snapshot, Tx, Where, args, insert, select, sql, statements};

/// The lifetime of an invitation.
pub const LIFE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The number of open invitations that an organization may have.
pub const OPEN_MAX: i64 = 100;

/// What the invited person becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// An administrator of the organization.
    Role(Role),
    /// A platform owner. The organization of the invitation is `platform`.
    PlatformOwner,
}

impl Offer {
    /// Returns the name used in the API and in the table.
    pub fn as_str(self) -> &'static str {
        match self {
            Offer::Role(role) => role.as_str(),
            Offer::PlatformOwner => "platform_owner",
        }
    }

    fn read(row: &Row<'_>, column: usize) -> std::result::Result<Offer, store::Error> {
        match row.get::<String>(column)?.as_str() {
            "platform_owner" => Ok(Offer::PlatformOwner),
            word => Role::parse(word)
                .map(Offer::Role)
                .map_err(|_| store::Error::Database(format!("invitation with the unknown role {word:?}"))),
        }
    }
}

/// An open invitation.
#[derive(Clone, Debug)]
pub struct Invitation {
    /// The id.
    pub id: InvitationId,
    /// The organization.
    pub organization: OrganizationId,
    /// The e-mail address that the account must have.
    pub email: String,
    /// What the invited person becomes.
    pub offer: Offer,
    /// The user who invited.
    pub invited_by: UserId,
    /// The e-mail address of the user who invited; `None` if that account was deleted.
    pub inviter_email: Option<String>,
    /// The creation time.
    pub created_at: Time,
    /// The expiry time.
    pub expires_at: Time,
}

/// The input for [`create`], generated before the command.
#[derive(Clone)]
pub struct NewInvitation {
    /// The new id.
    pub id: InvitationId,
    /// The e-mail address that the account must have.
    pub email: String,
    /// What the invited person becomes.
    pub offer: Offer,
    /// The token in the URL.
    pub token: String,
    /// The stored hash.
    pub hash: Hash,
}

impl NewInvitation {
    /// Generates the id and the secret.
    pub fn generate(email: impl Into<String>, offer: Offer, now: Time, random: &dyn Random) -> NewInvitation {
        let (id, secret) = (InvitationId::new(now, random), secrets::secret(random));
        let (token, hash) = (format!("{id}.{secret}"), secrets::hash(secret.as_bytes()));
        NewInvitation { id, email: email.into(), offer, token, hash }
    }
}

/// A valid invitation with what its page shows and its acceptance depends on.
#[derive(Clone, Debug)]
pub struct Valid {
    /// The invitation.
    pub invitation: Invitation,
    /// Its organization.
    pub organization: Organization,
    /// Whether the link proves the e-mail address: a platform owner made it.
    pub proves_address: bool,
}

/// Every query selects these columns, in the order that [`read`] expects.
const COLUMNS: &str =
    "SELECT i.id, i.organization_id, i.email, i.role, i.invited_by, i.created_at, i.expires_at, u.email,
            i.hash
     FROM invitations i LEFT JOIN users u ON u.id = i.invited_by";

statements! {
    static INSERT = insert(
        "invitations",
        &[&["id", "organization_id", "email", "role", "hash", "invited_by", "created_at", "expires_at"]],
    );
    static OPEN = select(
        COLUMNS,
        "WHERE i.id = ?1 AND i.used_at IS NULL AND i.revoked_at IS NULL AND i.expires_at > ?2",
    );
    static MADE_BY = select(
        COLUMNS,
        "WHERE i.organization_id = ?1 AND i.invited_by = ?2 AND i.expires_at > ?3
           AND i.used_at IS NULL AND i.revoked_at IS NULL ORDER BY i.id",
    );
    static ACCEPTED_AFTER = sql("SELECT hash, email, used_by FROM invitations WHERE id = ?1 AND used_at > ?2");
    static COUNT_OPEN = sql("SELECT COUNT(*) FROM invitations
     WHERE organization_id = ?1 AND used_at IS NULL AND revoked_at IS NULL AND expires_at > ?2");
    static USE = sql("UPDATE invitations SET used_at = ?2, used_by = ?3
     WHERE id = ?1 AND used_at IS NULL AND revoked_at IS NULL AND expires_at > ?2");
    static REVOKE = sql("UPDATE invitations SET revoked_at = ?3, revoked_by = ?4
     WHERE id = ?1 AND organization_id = ?2 AND used_at IS NULL AND revoked_at IS NULL AND expires_at > ?3");
    static REVOKE_SAME = sql("UPDATE invitations SET revoked_at = ?3, revoked_by = ?4
     WHERE organization_id = ?1 AND email = ?2 AND used_at IS NULL AND revoked_at IS NULL");
    static REVOKE_ALL_OF = sql("UPDATE invitations SET revoked_at = ?2, revoked_by = ?3
     WHERE email = ?1 AND used_at IS NULL AND revoked_at IS NULL");
    static BLANK = sql("UPDATE invitations SET email = '' WHERE email = ?1");
    static OLD = sql("SELECT id FROM invitations WHERE id < ?1 ORDER BY id LIMIT ?2");
    static DELETE = sql("DELETE FROM invitations WHERE id = ?1");
    static DELETE_ALL = sql("DELETE FROM invitations WHERE organization_id = ?1");
}

fn read(row: &Row<'_>) -> std::result::Result<Invitation, store::Error> {
    Ok(Invitation {
        id: row.get(0)?,
        organization: row.get(1)?,
        email: row.get(2)?,
        offer: Offer::read(row, 3)?,
        invited_by: row.get(4)?,
        created_at: row.get(5)?,
        expires_at: row.get(6)?,
        // The address of a deleted user is the id.
        inviter_email: row.get::<Option<String>>(7)?.filter(|email| UserId::parse(email).is_err()),
    })
}

/// Creates an invitation by `inviter`, whose permission the caller has checked. It replaces an open invitation of the
/// same address: the older link is void.
pub fn create(
    tx: &mut Tx<'_>,
    organization: &Organization,
    new: &NewInvitation,
    inviter: &UserId,
    actor: &Actor,
) -> Result<Invitation> {
    let (id, now) = (&organization.id, actor.now);
    let email = deliverable(tx.snapshot(), &new.email)?;
    tx.lock(&organizations::LOCK, id.into())?;
    refuse_without_effect(tx.snapshot(), organization, &email, new.offer)?;
    tx.exec(&REVOKE_SAME, args![id, &email, now, inviter])?;
    let open: i64 = tx.one(&COUNT_OPEN, args![id, now], |row| row.get(0))?.unwrap_or_default();
    if open >= OPEN_MAX {
        let problem = format!("there are {OPEN_MAX} open invitations; revoke one of them first");
        return Err(Error::refused("too_many_invitations", problem));
    }
    let expires_at = now + LIFE;
    let row = args![&new.id, id, &email, new.offer.as_str(), &new.hash, inviter, now, expires_at];
    tx.exec(&INSERT, row)?;
    audit::note(tx, id, actor, "invitation.created", new.id.as_str(), new.offer.as_str())?;
    let found = tx.one(&OPEN, args![&new.id, now], read)?;
    found.ok_or(Error::NotFound { what: "invitation" })
}

/// The address of an invitation: one that a new account may have, or one that an account has already.
fn deliverable(snapshot: &mut Snapshot<'_>, typed: &str) -> Result<String> {
    let refused = match names::email(typed) {
        Ok(email) => return Ok(email),
        Err(refused) => refused,
    };
    let platform = organizations::find(snapshot, organizations::PLATFORM)?.id;
    let email = names::known_email(typed)?;
    if users::find(snapshot, &platform, &email)?.is_some() { Ok(email) } else { Err(refused) }
}

/// Refuses an invitation that nobody could accept. The reply reveals only what the inviter can list: who has the role.
fn refuse_without_effect(
    snapshot: &mut Snapshot<'_>,
    organization: &Organization,
    email: &str,
    offer: Offer,
) -> Result<()> {
    let platform = organizations::find(snapshot, organizations::PLATFORM)?.id;
    if organization.id == platform && offer != Offer::PlatformOwner {
        return Err(administrators::platform_owners_only());
    }
    let Some(user) = users::find(snapshot, &platform, email)? else { return Ok(()) };
    let has_it = match offer {
        Offer::Role(_) => administrators::role_of(snapshot, &organization.id, &user.id)?.is_some(),
        Offer::PlatformOwner => administrators::is_platform_owner(snapshot, &user.id)?,
    };
    if has_it { Err(administrators::already_administrator()) } else { Ok(()) }
}

/// Lists the open invitations of an organization by id after `cursor`.
pub fn list(
    snapshot: &mut Snapshot<'_>,
    organization: &OrganizationId,
    now: Time,
    cursor: Option<&str>,
    limit: i64,
) -> Result<Vec<Invitation>> {
    let mut filter = Where::new(COLUMNS);
    filter.and("i.organization_id =", organization);
    filter.and_if("i.id >", cursor);
    filter.and("i.expires_at >", now);
    let open = format!("AND i.used_at IS NULL AND i.revoked_at IS NULL ORDER BY i.id LIMIT {limit}");
    let (sql, args) = filter.finish(&open);
    Ok(snapshot.all(&sql, &args, read)?)
}

/// The open invitations of an organization that a user made, by id.
pub(crate) fn made_by(
    snapshot: &mut Snapshot<'_>,
    organization: &OrganizationId,
    user: &UserId,
    now: Time,
) -> Result<Vec<Invitation>> {
    Ok(snapshot.all(&MADE_BY, args![organization, user, now], read)?)
}

/// Revokes an open invitation. One that was accepted, revoked or has expired is not found.
pub fn revoke(
    tx: &mut Tx<'_>,
    organization: &OrganizationId,
    id: &InvitationId,
    actor: &Actor,
) -> Result<()> {
    if tx.exec(&REVOKE, args![id, organization, actor.now, &actor.who])? == 0 {
        return Err(Error::NotFound { what: "invitation" });
    }
    audit::note(tx, organization, actor, "invitation.revoked", id.as_str(), "")
}

/// Revokes the open invitations of an address, and removes the address from all of them. Its account is being deleted.
pub(crate) fn forget_email(tx: &mut Tx<'_>, email: &str, actor: &Actor) -> Result<()> {
    tx.exec(&REVOKE_ALL_OF, args![email, actor.now, &actor.who])?;
    tx.exec(&BLANK, args![email])?;
    Ok(())
}

/// Finds the valid invitation of a token without consuming it. Unknown, used, revoked, expired and void invitations look
/// the same.
pub fn peek(snapshot: &mut Snapshot<'_>, token: &str, now: Time) -> Result<Option<Valid>> {
    let Some((id, secret)) = secrets::split_token(token) else { return Ok(None) };
    let Ok(id) = InvitationId::parse(id) else { return Ok(None) };
    let found = snapshot.one(&OPEN, args![&id, now], |row| Ok((read(row)?, row.get::<Vec<u8>>(8)?)))?;
    let Some((invitation, _)) = found.filter(|(_, hash)| secrets::matches(secret.as_bytes(), hash)) else {
        return Ok(None);
    };
    let organization = organizations::get(snapshot, &invitation.organization)?;
    let inviter = &invitation.invited_by;
    let proves_address = administrators::is_platform_owner(snapshot, inviter)?;
    let may_invite = match invitation.offer {
        Offer::Role(_) => administrators::role_of(snapshot, &organization.id, inviter)? == Some(Role::Owner),
        Offer::PlatformOwner => proves_address,
    };
    let is_there = may_invite && users::get(snapshot, inviter)?.suspended_at.is_none();
    let is_valid = is_there && organization.status == Status::Active;
    Ok(is_valid.then_some(Valid { invitation, organization, proves_address }))
}

/// The address and the user of an invitation that was accepted after `moment`, for a browser that sends its form twice.
pub fn accepted_after(
    snapshot: &mut Snapshot<'_>,
    token: &str,
    moment: Time,
) -> Result<Option<(String, UserId)>> {
    let Some((id, secret)) = secrets::split_token(token) else { return Ok(None) };
    let Ok(id) = InvitationId::parse(id) else { return Ok(None) };
    let found: Option<(Vec<u8>, String, Option<UserId>)> =
        snapshot
            .one(&ACCEPTED_AFTER, args![&id, moment], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let found = found.filter(|(hash, ..)| secrets::matches(secret.as_bytes(), hash));
    Ok(found.and_then(|(_, email, user)| Some((email, user?))))
}

/// Accepts an invitation for the user who is signed in. Of several concurrent requests one succeeds; the others get
/// [`Error::NotFound`]. If the link proves an address that was not verified before, the account needs a new password:
/// [`accept_as_new`] sets it.
pub fn accept(tx: &mut Tx<'_>, token: &str, user: &UserId, actor: &Actor) -> Result<Invitation> {
    let valid = find(tx.snapshot(), token, actor.now)?;
    consume(tx, &valid.invitation, user, actor.now)?;
    tx.lock(&users::LOCK, user.into())?;
    let user = platform_user(tx.snapshot(), user)?;
    if user.email != valid.invitation.email {
        let problem = format!("this invitation is for {}; sign in as that user", valid.invitation.email);
        return Err(Error::refused("other_address", problem));
    }
    if valid.must_take_over(&user) {
        let problem = "the e-mail address of this account was not verified before; choose a new password";
        return Err(Error::refused("password_needed", problem));
    }
    give(tx, &valid, &user, actor)?;
    Ok(valid.invitation)
}

/// Accepts an invitation for a person without a session: creates their account, whose password has this `hash`. If the
/// link proves the address and an account has it unverified, that account gets name and password instead, and all of its
/// sessions end. [`Error::Taken`] if the person must sign in to an account that exists.
pub fn accept_as_new(
    tx: &mut Tx<'_>,
    token: &str,
    new: &NewUser,
    hash: &str,
    actor: &Actor,
) -> Result<(Invitation, User)> {
    let valid = find(tx.snapshot(), token, actor.now)?;
    let email = &valid.invitation.email;
    let platform = organizations::find(tx.snapshot(), organizations::PLATFORM)?.id;
    let known = users::find(tx.snapshot(), &platform, email)?;
    let id = known.map_or_else(|| new.id.clone(), |known| known.id);
    consume(tx, &valid.invitation, &id, actor.now)?;
    let actor = actor.as_user(&id);
    let user = if id == new.id {
        let new = NewUser { email: email.clone(), email_verified: valid.proves_address, ..new.clone() };
        let user = users::create(tx, &platform, &new, &actor)?;
        passwords::put(tx, &user.id, hash, actor.now)?;
        user
    } else {
        tx.lock(&users::LOCK, (&id).into())?;
        let known = users::get(tx.snapshot(), &id)?;
        if !valid.must_take_over(&known) || known.suspended_at.is_some() {
            return Err(Error::Taken { field: "email", value: email.clone() });
        }
        users::change(tx, &platform, &id, |_| new.profile.clone(), &actor)?;
        password_changes::take_over(tx, &known, hash, &actor)?
    };
    give(tx, &valid, &user, &actor)?;
    Ok((valid.invitation, user))
}

impl Valid {
    /// Whether the link is the first proof of the address of this account, so that what was set before is void.
    pub fn must_take_over(&self, user: &User) -> bool {
        self.proves_address && user.email_verified_at.is_none()
    }
}

fn find(snapshot: &mut Snapshot<'_>, token: &str, now: Time) -> Result<Valid> {
    peek(snapshot, token, now)?.ok_or(Error::NotFound { what: "invitation" })
}

fn platform_user(snapshot: &mut Snapshot<'_>, user: &UserId) -> Result<User> {
    let platform = organizations::find(snapshot, organizations::PLATFORM)?.id;
    let user = users::in_organization(snapshot, &platform, user)?;
    if user.suspended_at.is_some() {
        return Err(Error::refused("user_suspended", "this account is suspended; ask a platform owner"));
    }
    Ok(user)
}

/// Marks an invitation as used. The command that does this first wins; an error later in the command undoes it.
fn consume(tx: &mut Tx<'_>, invitation: &Invitation, user: &UserId, now: Time) -> Result<()> {
    match tx.exec(&USE, args![&invitation.id, now, user])? {
        0 => Err(Error::NotFound { what: "invitation" }),
        _ => Ok(()),
    }
}

/// Gives the role.
fn give(tx: &mut Tx<'_>, valid: &Valid, user: &User, actor: &Actor) -> Result<()> {
    let Valid { invitation, organization, .. } = valid;
    let (id, offer) = (invitation.id.as_str(), invitation.offer.as_str());
    audit::note(tx, &organization.id, actor, "invitation.accepted", id, offer)?;
    match invitation.offer {
        Offer::Role(role) => administrators::add(tx, organization, &user.id, role, actor).map(|_| ()),
        Offer::PlatformOwner => administrators::add_platform_owner(tx, &organization.id, &user.id, actor),
    }
}

/// Deletes up to `most` invitations created before `moment`. Returns the number of deleted invitations.
pub fn delete_older(tx: &mut Tx<'_>, moment: Time, most: i64) -> Result<usize> {
    let floor = ids::smallest_at(InvitationId::PREFIX, moment);
    let old: Vec<InvitationId> = tx.all(&OLD, args![&floor, most], |row| row.get(0))?;
    for id in &old {
        tx.exec(&DELETE, args![id])?;
    }
    Ok(old.len())
}

/// Deletes the invitations of an organization. They expire within days, so there are few.
pub(crate) fn delete_all(tx: &mut Tx<'_>, organization: &OrganizationId) -> Result<()> {
    tx.exec(&DELETE_ALL, args![organization])?;
    Ok(())
}
