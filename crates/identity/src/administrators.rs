//! Administrators: the users of `platform` who administer an organization, with their roles, and the platform owners.
//!
//! An organization always has an owner, unless it was rejected or deleted. Only platform owners administer `platform` itself, because its administrators
//! can sign in as any of its users, and these users administer the other organizations.

use crate::audit::{self, Actor};
use crate::events::{self, Entry};
use crate::ids::{OrganizationId, UserId};
use crate::organizations::{self, Organization, Status};
use crate::{Error, Result, Time, users};
use store::{
    FromRow, FromValue, Key, Snapshot, Tx, ValueRef, Where, args, insert_if_absent, select_row, sql,
    statements,
};

const OWNERS_ONLY: &str = "Only owners may do this; ask an owner.";

/// The role of an administrator. Each role includes the permissions of the roles before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Reads.
    Member,
    /// Changes services, clients, plans, subscriptions and users.
    Admin,
    /// Changes the administrators and the organization itself.
    Owner,
}

impl Role {
    /// Returns the name used in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Member => "member",
            Role::Admin => "admin",
            Role::Owner => "owner",
        }
    }

    /// Parses the name used in the API.
    pub fn parse(word: &str) -> Result<Role> {
        match word {
            "member" => Ok(Role::Member),
            "admin" => Ok(Role::Admin),
            "owner" => Ok(Role::Owner),
            _ => {
                let problem = format!("{word:?} is not a role; use owner, admin or member");
                Err(Error::wrong("not_allowed", "role", problem))
            }
        }
    }
}

impl FromValue for Role {
    const KIND: &'static str = "a role";
    fn from_value(value: ValueRef<'_>) -> Option<Role> {
        if let ValueRef::Text(word) = value { Role::parse(word).ok() } else { None }
    }
}

/// A user who owns the server: reviews organizations and invites other platform owners.
#[derive(Clone, Debug, FromRow)]
#[row(of = "p")]
pub struct PlatformOwner {
    /// The user, who belongs to the organization `platform`.
    #[row("user_id")]
    pub user: UserId,
    /// The user's e-mail address.
    #[row("u.email")]
    pub email: String,
    /// The user's display name.
    #[row("u.name")]
    pub name: String,
    /// The time at which the user became a platform owner.
    pub created_at: Time,
}

/// A user who administers an organization.
#[derive(Clone, Debug, FromRow)]
#[row(of = "a")]
pub struct Administrator {
    /// The user, who belongs to the organization `platform`.
    #[row("user_id")]
    pub user: UserId,
    /// The user's e-mail address.
    #[row("u.email")]
    pub email: String,
    /// The user's display name.
    #[row("u.name")]
    pub name: String,
    /// The role.
    pub role: Role,
    /// The time at which the user was added.
    pub created_at: Time,
}

/// An organization that a user administers, with the role.
#[derive(FromRow)]
struct SlugAndRole {
    #[row("o.slug")]
    slug: String,
    #[row("a.role")]
    role: Role,
}

const FROM: &str = "FROM administrators a JOIN users u ON u.id = a.user_id";
const FROM_PLATFORM_OWNERS: &str = "FROM platform_owners p JOIN users u ON u.id = p.user_id";
const FROM_ORGANIZATIONS: &str = "FROM administrators a JOIN organizations o ON o.id = a.organization_id";

statements! {
    static INSERT = insert_if_absent("administrators", &["organization_id", "user_id", "role", "added_by", "created_at"]);
    static GET = select_row::<Administrator>(FROM, "WHERE a.organization_id = ?1 AND a.user_id = ?2");
    static ROLE = sql("SELECT role FROM administrators WHERE organization_id = ?1 AND user_id = ?2");
    static ORGANIZATIONS_OF_USER = select_row::<Organization>(
        organizations::FROM,
        "JOIN administrators a ON a.organization_id = o.id WHERE a.user_id = ?1 ORDER BY o.slug",
    );
    static SLUGS_OF_USER = select_row::<SlugAndRole>(FROM_ORGANIZATIONS, "WHERE a.user_id = ?1 ORDER BY o.slug");
    static PENDING_OF_USER = sql("SELECT o.id FROM administrators a JOIN organizations o ON o.id = a.organization_id
     LEFT JOIN organization_reviews r ON r.organization_id = o.id
     WHERE a.user_id = ?1 AND r.organization_id IS NULL LIMIT 5");
    static ANOTHER_OWNER = sql("SELECT a.user_id FROM administrators a
     LEFT JOIN user_suspensions s ON s.user_id = a.user_id
     WHERE a.organization_id = ?1 AND a.role = 'owner' AND a.user_id <> ?2 AND s.user_id IS NULL LIMIT 1");
    static CHANGE_ROLE = sql("UPDATE administrators SET role = ?3 WHERE organization_id = ?1 AND user_id = ?2");
    static USERS = sql("SELECT user_id FROM administrators WHERE organization_id = ?1");
    static REMOVE_ALL = sql("DELETE FROM administrators WHERE organization_id = ?1");
    static REMOVE = sql("DELETE FROM administrators WHERE organization_id = ?1 AND user_id = ?2");
    static INSERT_PLATFORM_OWNER = insert_if_absent("platform_owners", &["user_id", "added_by", "created_at"]);
    static PLATFORM_OWNER = sql("SELECT user_id FROM platform_owners WHERE user_id = ?1");
    static ANOTHER_PLATFORM_OWNER = sql("SELECT platform_owners.user_id FROM platform_owners
     LEFT JOIN user_suspensions s ON s.user_id = platform_owners.user_id
     WHERE platform_owners.user_id <> ?1 AND s.user_id IS NULL LIMIT 1");
    static REMOVE_PLATFORM_OWNER = sql("DELETE FROM platform_owners WHERE user_id = ?1");
    static ANY_PLATFORM_OWNER = sql("SELECT user_id FROM platform_owners LIMIT 1");
}

/// The keys that change with a user's role in an organization.
pub fn keys(organization: &OrganizationId, user: &UserId) -> [Key; 2] {
    [Key::row("administrators", "organization_id", organization.as_str()), key_of_user(user)]
}

/// The key that changes with any role of a user.
fn key_of_user(user: &UserId) -> Key {
    Key::row("administrators", "user_id", user.as_str())
}

/// The key that changes when a user becomes a platform owner.
pub fn key_of_platform_owner(user: &UserId) -> Key {
    Key::row("platform_owners", "user_id", user.as_str())
}

/// Gets an organization and the role of a user in it. A user without a role gets the same [`Error::NotFound`] as for an
/// organization that does not exist.
pub fn role_in(
    snapshot: &mut Snapshot<'_>,
    organization: &OrganizationId,
    user: &UserId,
) -> Result<(Organization, Role)> {
    let no_role = Error::NotFound { what: "organization" };
    let role = role_of(snapshot, organization, user)?.ok_or(no_role)?;
    Ok((organizations::get(snapshot, organization)?, role))
}

/// Fails when `role` is below [`Role::Owner`], whatever the state of the organization.
pub fn require_owner(role: Role) -> Result<()> {
    if role == Role::Owner { Ok(()) } else { Err(Error::Forbidden { problem: OWNERS_ONLY }) }
}

/// Fails when `role` is below `least`. A requirement above [`Role::Member`] also fails while the organization is not
/// active.
pub fn require(organization: &Organization, role: Role, least: Role) -> Result<()> {
    match least {
        _ if role >= least => {}
        Role::Owner => return Err(Error::Forbidden { problem: OWNERS_ONLY }),
        _ => return Err(Error::Forbidden { problem: "Members may only read; ask an admin or an owner." }),
    }
    if least > Role::Member && organization.status != Status::Active {
        let status = organization.status.as_str();
        let problem = format!("the organization is {status}; only an active organization can be changed");
        return Err(Error::refused("organization_not_active", problem));
    }
    Ok(())
}

/// Adds a user of `platform` as an administrator. Only platform owners can become administrators of `platform`.
pub fn add(
    tx: &mut Tx<'_>,
    organization: &Organization,
    user: &UserId,
    role: Role,
    actor: &Actor,
) -> Result<Administrator> {
    let platform = organizations::find(tx.snapshot(), organizations::PLATFORM)?;
    let user = users::in_organization(tx.snapshot(), &platform.id, user)?;
    if organization.id == platform.id && !is_platform_owner(tx.snapshot(), &user.id)? {
        return Err(platform_owners_only());
    }
    insert(tx, &organization.id, &user.id, role, actor)?;
    audit::note(tx, &organization.id, actor, "administrator.added", user.id.as_str(), role.as_str())?;
    get(tx.snapshot(), &organization.id, &user.id)
}

/// The most organizations of one user that may wait for their review. The statement above has the same number.
pub const PENDING_MAX: usize = 5;

/// Fails when a user has as many organizations that wait for their review as they may. Nobody else administers such an
/// organization, and its creator cannot leave it.
pub fn require_room_for_pending(tx: &mut Tx<'_>, user: &UserId) -> Result<()> {
    tx.lock(&users::LOCK, user.into())?;
    let pending: Vec<OrganizationId> = tx.all(&PENDING_OF_USER, args![user], |row| row.get(0))?;
    if pending.len() < PENDING_MAX {
        return Ok(());
    }
    let problem =
        "five of your organizations wait for their review; wait until a platform owner has reviewed one";
    Err(Error::refused("too_many_pending_organizations", problem))
}

/// The refusal of anybody else as an administrator of `platform`.
pub(crate) fn platform_owners_only() -> Error {
    let problem = "only platform owners administer the organization platform, and their role there does not change; invite or remove a platform owner instead";
    Error::refused("platform_owners_only", problem)
}

/// Adds the user who created an organization as its owner. The creation itself writes the audit entry.
pub fn add_creator(tx: &mut Tx<'_>, organization: &Organization, user: &UserId, actor: &Actor) -> Result<()> {
    insert(tx, &organization.id, user, Role::Owner, actor)
}

fn insert(
    tx: &mut Tx<'_>,
    organization: &OrganizationId,
    user: &UserId,
    role: Role,
    actor: &Actor,
) -> Result<()> {
    if tx.exec(&INSERT, args![organization, user, role.as_str(), &actor.who, actor.now])? == 0 {
        return Err(already_administrator());
    }
    keys(organization, user).into_iter().for_each(|key| tx.changed(key));
    events::note(tx, actor.now, &Entry::member(user))
}

/// The refusal of a user who has a role already.
pub(crate) fn already_administrator() -> Error {
    let problem = "this user is already an administrator; change the role instead";
    Error::refused("already_administrator", problem)
}

/// Changes the role of an administrator. The last owner must stay an owner. Setting the current role again has no effect.
pub fn change_role(
    tx: &mut Tx<'_>,
    organization: &OrganizationId,
    user: &UserId,
    role: Role,
    actor: &Actor,
) -> Result<Administrator> {
    tx.lock(&organizations::LOCK, organization.into())?;
    refuse_platform(tx, organization)?;
    let administrator = get(tx.snapshot(), organization, user)?;
    if administrator.role == role {
        return Ok(administrator);
    }
    if role != Role::Owner {
        require_another_owner(tx, organization, &administrator)?;
    }
    tx.exec(&CHANGE_ROLE, args![organization, user, role.as_str()])?;
    keys(organization, user).into_iter().for_each(|key| tx.changed(key));
    events::note(tx, actor.now, &Entry::member(user))?;
    audit::note(tx, organization, actor, "administrator.changed", user.as_str(), role.as_str())?;
    Ok(Administrator { role, ..administrator })
}

/// Removes an administrator. Administrators may remove themselves. The last owner cannot be removed, except from an
/// organization that was rejected or deleted.
pub fn remove(tx: &mut Tx<'_>, organization: &OrganizationId, user: &UserId, actor: &Actor) -> Result<()> {
    tx.lock(&organizations::LOCK, organization.into())?;
    refuse_platform(tx, organization)?;
    leave(tx, organization, user, actor)
}

/// The owners of the server administer `platform`: a role there goes with that, or they could neither use the server nor get it
/// back.
fn refuse_platform(tx: &mut Tx<'_>, organization: &OrganizationId) -> Result<()> {
    match organizations::get(tx.snapshot(), organization)?.slug == organizations::PLATFORM {
        true => Err(platform_owners_only()),
        false => Ok(()),
    }
}

/// Removes the role of a user who is being deleted, or who leaves.
pub(crate) fn leave(
    tx: &mut Tx<'_>,
    organization: &OrganizationId,
    user: &UserId,
    actor: &Actor,
) -> Result<()> {
    tx.lock(&organizations::LOCK, organization.into())?;
    let administrator = get(tx.snapshot(), organization, user)?;
    require_another_owner(tx, organization, &administrator)?;
    tx.exec(&REMOVE, args![organization, user])?;
    keys(organization, user).into_iter().for_each(|key| tx.changed(key));
    events::note(tx, actor.now, &Entry::member(user))?;
    audit::note(tx, organization, actor, "administrator.removed", user.as_str(), "")
}

/// Removes all administrators of an organization whose data is being deleted.
pub(crate) fn remove_all(tx: &mut Tx<'_>, organization: &OrganizationId, now: Time) -> Result<()> {
    let all: Vec<UserId> = tx.all(&USERS, args![organization], |row| row.get(0))?;
    if !all.is_empty() {
        tx.exec(&REMOVE_ALL, args![organization])?;
    }
    all.iter().flat_map(|user| keys(organization, user)).for_each(|key| tx.changed(key));
    all.iter().try_for_each(|user| events::note(tx, now, &Entry::member(user)))
}

/// Fails when `leaving` is the only owner who can sign in. The caller holds the lock of the organization. Nobody can use an organization
/// that was rejected or deleted, so that it keeps no owner in.
fn require_another_owner(
    tx: &mut Tx<'_>,
    organization: &OrganizationId,
    leaving: &Administrator,
) -> Result<()> {
    if leaving.role != Role::Owner || has_owner_but(tx.snapshot(), organization, leaving.user.as_str())? {
        return Ok(());
    }
    if matches!(organizations::get(tx.snapshot(), organization)?.status, Status::Rejected | Status::Deleted) {
        return Ok(());
    }
    Err(Error::refused("last_owner", "this is the last owner; make another administrator an owner first"))
}

/// Whether an organization has an owner who can sign in.
pub(crate) fn has_owner(snapshot: &mut Snapshot<'_>, organization: &OrganizationId) -> Result<bool> {
    has_owner_but(snapshot, organization, "")
}

/// The same without the user `user`.
fn has_owner_but(snapshot: &mut Snapshot<'_>, organization: &OrganizationId, user: &str) -> Result<bool> {
    Ok(snapshot.one(&ANOTHER_OWNER, args![organization, user], |row| row.get::<UserId>(0))?.is_some())
}

/// Gets the role of a user in an organization.
pub fn role_of(
    snapshot: &mut Snapshot<'_>,
    organization: &OrganizationId,
    user: &UserId,
) -> Result<Option<Role>> {
    Ok(snapshot.one(&ROLE, args![organization, user], |row| row.get(0))?)
}

/// Gets the administrator entry of a user in an organization.
pub fn get(
    snapshot: &mut Snapshot<'_>,
    organization: &OrganizationId,
    user: &UserId,
) -> Result<Administrator> {
    snapshot
        .one(&GET, args![organization, user], Administrator::from_row)?
        .ok_or(Error::NotFound { what: "administrator" })
}

/// Gets the organizations that a user administers, by slug, with the role in each.
/// (`organizations::list` returns them in pages.)
pub fn of_user(snapshot: &mut Snapshot<'_>, user: &UserId) -> Result<Vec<(Organization, Role)>> {
    let organizations = snapshot.all(&ORGANIZATIONS_OF_USER, args![user], Organization::from_row)?;
    let roles = slugs_of_user(snapshot, user)?.into_iter().map(|(_, role)| role);
    // Both lists are sorted by slug and read from one snapshot.
    Ok(organizations.into_iter().zip(roles).collect())
}

/// Gets the slugs of the organizations that a user administers, with the role in each. A token may be issued for these.
pub fn slugs_of_user(snapshot: &mut Snapshot<'_>, user: &UserId) -> Result<Vec<(String, Role)>> {
    snapshot.depends(|| [key_of_user(user)]);
    let found = snapshot.all(&SLUGS_OF_USER, args![user], SlugAndRole::from_row)?;
    Ok(found.into_iter().map(|SlugAndRole { slug, role }| (slug, role)).collect())
}

/// Lists the administrators of an organization by user id after `cursor`.
pub fn list(
    snapshot: &mut Snapshot<'_>,
    organization: &OrganizationId,
    cursor: Option<&str>,
    limit: i64,
) -> Result<Vec<Administrator>> {
    let mut filter = Where::of::<Administrator>(FROM);
    filter.and("a.organization_id =", organization);
    filter.and_if("a.user_id >", cursor);
    let (sql, args) = filter.finish(&format!("ORDER BY a.user_id LIMIT {limit}"));
    Ok(snapshot.all(&sql, &args, Administrator::from_row)?)
}

/// Whether a user is a platform owner.
pub fn is_platform_owner(snapshot: &mut Snapshot<'_>, user: &UserId) -> Result<bool> {
    Ok(snapshot.one(&PLATFORM_OWNER, args![user], |row| row.get::<UserId>(0))?.is_some())
}

/// Whether a platform owner exists. Set-up links are valid only until then.
pub fn has_platform_owner(snapshot: &mut Snapshot<'_>) -> Result<bool> {
    Ok(snapshot.one(&ANY_PLATFORM_OWNER, args![], |row| row.get::<UserId>(0))?.is_some())
}

/// Makes a user of `platform` a platform owner and an owner of the organization `platform`. Idempotent.
pub fn add_platform_owner(
    tx: &mut Tx<'_>,
    platform: &OrganizationId,
    user: &UserId,
    actor: &Actor,
) -> Result<()> {
    tx.lock(&organizations::LOCK, platform.into())?;
    let organization = organizations::get(tx.snapshot(), platform)?;
    let user = users::in_organization(tx.snapshot(), platform, user)?;
    if organization.slug != organizations::PLATFORM {
        return Err(Error::NotFound { what: "user" });
    }
    let is_new = tx.exec(&INSERT_PLATFORM_OWNER, args![&user.id, &actor.who, actor.now])? == 1;
    tx.changed(key_of_platform_owner(&user.id));
    if !is_new {
        return Ok(());
    }
    if role_of(tx.snapshot(), platform, &user.id)?.is_none() {
        insert(tx, platform, &user.id, Role::Owner, actor)?;
    }
    audit::note(tx, platform, actor, "platform.owner_added", user.id.as_str(), "")
}

/// Removes a platform owner, with their role in the organization `platform`. The last one who can sign in cannot be
/// removed.
pub fn remove_platform_owner(
    tx: &mut Tx<'_>,
    platform: &OrganizationId,
    user: &UserId,
    actor: &Actor,
) -> Result<()> {
    tx.lock(&organizations::LOCK, platform.into())?;
    if !is_platform_owner(tx.snapshot(), user)? {
        return Err(Error::NotFound { what: "platform owner" });
    }
    require_another_platform_owner(tx, user)?;
    if role_of(tx.snapshot(), platform, user)?.is_some() {
        let role = get(tx.snapshot(), platform, user)?;
        require_another_owner(tx, platform, &role)?;
        tx.exec(&REMOVE, args![platform, user])?;
        keys(platform, user).into_iter().for_each(|key| tx.changed(key));
        events::note(tx, actor.now, &Entry::member(user))?;
    }
    tx.exec(&REMOVE_PLATFORM_OWNER, args![user])?;
    tx.changed(key_of_platform_owner(user));
    audit::note(tx, platform, actor, "platform.owner_removed", user.as_str(), "")
}

/// Fails when `leaving` is the only platform owner who can sign in. The caller holds the lock of `platform`.
pub(crate) fn require_another_platform_owner(tx: &mut Tx<'_>, leaving: &UserId) -> Result<()> {
    if tx.one(&ANOTHER_PLATFORM_OWNER, args![leaving], |row| row.get::<UserId>(0))?.is_some() {
        return Ok(());
    }
    Err(Error::refused("last_owner", "this is the last platform owner; invite another one first"))
}

/// Lists the platform owners by user id after `cursor`.
pub fn list_platform_owners(
    snapshot: &mut Snapshot<'_>,
    cursor: Option<&str>,
    limit: i64,
) -> Result<Vec<PlatformOwner>> {
    let mut filter = Where::of::<PlatformOwner>(FROM_PLATFORM_OWNERS);
    filter.and_if("p.user_id >", cursor);
    let (sql, args) = filter.finish(&format!("ORDER BY p.user_id LIMIT {limit}"));
    Ok(snapshot.all(&sql, &args, PlatformOwner::from_row)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_ordered_and_parse_their_names() {
        assert!(Role::Member < Role::Admin && Role::Admin < Role::Owner);
        for role in [Role::Member, Role::Admin, Role::Owner] {
            assert_eq!(Role::parse(role.as_str()).expect("parses its own name"), role);
        }
        let error = Role::parse("root").expect_err("not a role").to_string();
        assert_eq!(error, "role: \"root\" is not a role; use owner, admin or member");
    }
}
