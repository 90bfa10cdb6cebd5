//! Administrators: which users of `platform` run an organization, in which role, and who owns the platform.
//!
//! An organization always keeps an owner. `platform` itself is administered by platform owners only: who
//! runs it can sign in as anybody who runs anything.

use crate::audit::{self, Actor};
use crate::ids::{OrganizationId, UserId};
use crate::organizations::{self, Organization, Status};
use crate::{Error, Result, Time, names, users};
use store::{Key, Row, Snapshot, Tx, Where, args, insert_if_absent, select, sql, statements};

/// What an administrator may do. A later one may all that an earlier one may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Looks.
    Member,
    /// Changes services, clients, plans, subscriptions and users.
    Admin,
    /// Changes the administrators and the organization itself.
    Owner,
}

impl Role {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Member => "member",
            Role::Admin => "admin",
            Role::Owner => "owner",
        }
    }

    /// Reads the word on the wire.
    pub fn parse(word: &str) -> Result<Role> {
        match word {
            "member" => Ok(Role::Member),
            "admin" => Ok(Role::Admin),
            "owner" => Ok(Role::Owner),
            _ => Err(Error::invalid("role", format!("{word:?} is not a role; use owner, admin or member"))),
        }
    }

    fn read(row: &Row<'_>, column: usize) -> std::result::Result<Role, store::Error> {
        let word: String = row.get(column)?;
        Role::parse(&word)
            .map_err(|_| store::Error::Database(format!("administrator of unknown role {word:?}")))
    }
}

/// A user in the administration of an organization.
#[derive(Clone, Debug)]
pub struct Administrator {
    /// The user, of the organization `platform`.
    pub user: UserId,
    /// Its address.
    pub email: String,
    /// Its name for people.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// Since when.
    pub created_at: Time,
}

const COLUMNS: &str = "SELECT a.user_id, u.email, u.name, a.role, a.created_at
     FROM administrators a JOIN users u ON u.id = a.user_id";

statements! {
    static INSERT = insert_if_absent("administrators", &["organization_id", "user_id", "role", "added_by", "created_at"]);
    static GET = select(COLUMNS, "WHERE a.organization_id = ?1 AND a.user_id = ?2");
    static ROLE = sql("SELECT role FROM administrators WHERE organization_id = ?1 AND user_id = ?2");
    static ORGANIZATIONS_OF_USER = select(
        organizations::COLUMNS,
        "JOIN administrators a ON a.organization_id = o.id WHERE a.user_id = ?1 ORDER BY o.slug",
    );
    static SLUGS_OF_USER = sql("SELECT o.slug, a.role FROM administrators a JOIN organizations o ON o.id = a.organization_id
     WHERE a.user_id = ?1 ORDER BY o.slug");
    static ANOTHER_OWNER = sql(
        "SELECT user_id FROM administrators WHERE organization_id = ?1 AND role = 'owner' AND user_id <> ?2 LIMIT 1",
    );
    static CHANGE_ROLE = sql("UPDATE administrators SET role = ?3 WHERE organization_id = ?1 AND user_id = ?2");
    static REMOVE = sql("DELETE FROM administrators WHERE organization_id = ?1 AND user_id = ?2");
    static INSERT_PLATFORM_OWNER = insert_if_absent("platform_owners", &["user_id", "added_by", "created_at"]);
    static PLATFORM_OWNER = sql("SELECT user_id FROM platform_owners WHERE user_id = ?1");
    static ANY_PLATFORM_OWNER = sql("SELECT user_id FROM platform_owners LIMIT 1");
}

fn read(row: &Row<'_>) -> std::result::Result<Administrator, store::Error> {
    Ok(Administrator {
        user: row.get(0)?,
        email: row.get(1)?,
        name: row.get(2)?,
        role: Role::read(row, 3)?,
        created_at: row.get(4)?,
    })
}

/// The keys that change with a user's role in an organization.
pub fn keys(organization: &OrganizationId, user: &UserId) -> [Key; 2] {
    [
        Key::row("administrators", "organization_id", organization.as_str()),
        Key::row("administrators", "user_id", user.as_str()),
    ]
}

/// The key that changes when a user becomes a platform owner.
pub fn key_of_platform_owner(user: &UserId) -> Key {
    Key::row("platform_owners", "user_id", user.as_str())
}

/// The organization and the role of a user in it; [`Error::NotFound`] without a role, as for what does not exist.
pub fn role_in(
    snapshot: &mut Snapshot<'_>,
    organization: &OrganizationId,
    user: &UserId,
) -> Result<(Organization, Role)> {
    let no_role = Error::NotFound { what: "organization" };
    let role = role_of(snapshot, organization, user)?.ok_or(no_role)?;
    Ok((organizations::get(snapshot, organization)?, role))
}

/// Fails when `role` is less than `least`. Admins and owners act in active organizations only.
pub fn require(organization: &Organization, role: Role, least: Role) -> Result<()> {
    match least {
        _ if role >= least => {}
        Role::Owner => return Err(Error::Forbidden { problem: "Only owners may do this." }),
        _ => return Err(Error::Forbidden { problem: "Members may look; admins and owners may change." }),
    }
    if least > Role::Member && organization.status != Status::Active {
        let status = organization.status.as_str();
        let problem = format!("the organization is {status}; it can be changed only while it is active");
        return Err(Error::refused("organization_not_active", problem));
    }
    Ok(())
}

/// Makes the user of `platform` with this address an administrator.
pub fn add(
    tx: &mut Tx<'_>,
    organization: &Organization,
    email: &str,
    role: Role,
    actor: &Actor,
) -> Result<Administrator> {
    let email = names::email(email)?;
    let platform = organizations::find(tx.snapshot(), organizations::PLATFORM)?;
    let user = users::find(tx.snapshot(), &platform.id, &email)?.ok_or(Error::NotFound { what: "user" })?;
    if organization.id == platform.id && !is_platform_owner(tx.snapshot(), &user.id)? {
        let problem = "the organization platform is administered by platform owners only";
        return Err(Error::refused("platform_owners_only", problem));
    }
    insert(tx, &organization.id, &user.id, role, actor)?;
    audit::note(tx, &organization.id, actor, "administrator.added", user.id.as_str(), role.as_str())?;
    get(tx.snapshot(), &organization.id, &user.id)
}

/// Makes the user who made an organization its owner. Part of making it, which leaves the trace.
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
        let problem = "this user is an administrator already; change the role instead";
        return Err(Error::refused("already_administrator", problem));
    }
    keys(organization, user).into_iter().for_each(|key| tx.changed(key));
    Ok(())
}

/// Gives an administrator another role. The last owner stays one.
pub fn change_role(
    tx: &mut Tx<'_>,
    organization: &OrganizationId,
    user: &UserId,
    role: Role,
    actor: &Actor,
) -> Result<Administrator> {
    tx.lock(&organizations::LOCK, organization.into())?;
    let administrator = get(tx.snapshot(), organization, user)?;
    if role != Role::Owner {
        keep_an_owner(tx, organization, &administrator)?;
    }
    tx.exec(&CHANGE_ROLE, args![organization, user, role.as_str()])?;
    keys(organization, user).into_iter().for_each(|key| tx.changed(key));
    audit::note(tx, organization, actor, "administrator.changed", user.as_str(), role.as_str())?;
    Ok(Administrator { role, ..administrator })
}

/// Takes an administrator out; himself too. The last owner stays.
pub fn remove(tx: &mut Tx<'_>, organization: &OrganizationId, user: &UserId, actor: &Actor) -> Result<()> {
    tx.lock(&organizations::LOCK, organization.into())?;
    let administrator = get(tx.snapshot(), organization, user)?;
    keep_an_owner(tx, organization, &administrator)?;
    tx.exec(&REMOVE, args![organization, user])?;
    keys(organization, user).into_iter().for_each(|key| tx.changed(key));
    audit::note(tx, organization, actor, "administrator.removed", user.as_str(), "")
}

/// Fails when there is no owner but this one. The organization is locked.
fn keep_an_owner(tx: &mut Tx<'_>, organization: &OrganizationId, leaving: &Administrator) -> Result<()> {
    let another = args![organization, &leaving.user];
    if leaving.role != Role::Owner || tx.one(&ANOTHER_OWNER, another, |row| row.get::<UserId>(0))?.is_some() {
        return Ok(());
    }
    Err(Error::refused("last_owner", "this is the last owner; make somebody else an owner first"))
}

/// The role of a user in an organization, if it has one.
pub fn role_of(
    snapshot: &mut Snapshot<'_>,
    organization: &OrganizationId,
    user: &UserId,
) -> Result<Option<Role>> {
    Ok(snapshot.one(&ROLE, args![organization, user], |row| Role::read(row, 0))?)
}

/// The administrator that a user is in an organization.
pub fn get(
    snapshot: &mut Snapshot<'_>,
    organization: &OrganizationId,
    user: &UserId,
) -> Result<Administrator> {
    snapshot.one(&GET, args![organization, user], read)?.ok_or(Error::NotFound { what: "administrator" })
}

/// The organizations that a user administers, by slug, with the role in each.
/// (`organizations::list` gives them by pages.)
pub fn of_user(snapshot: &mut Snapshot<'_>, user: &UserId) -> Result<Vec<(Organization, Role)>> {
    let organizations = snapshot.all(&ORGANIZATIONS_OF_USER, args![user], organizations::read)?;
    let roles = slugs_of_user(snapshot, user)?.into_iter().map(|(_, role)| role);
    // Both in the order of the slugs, in one snapshot.
    Ok(organizations.into_iter().zip(roles).collect())
}

/// The slugs of the organizations that a user administers, with the role in each: what a token may be for.
pub fn slugs_of_user(snapshot: &mut Snapshot<'_>, user: &UserId) -> Result<Vec<(String, Role)>> {
    Ok(snapshot.all(&SLUGS_OF_USER, args![user], |row| Ok((row.get(0)?, Role::read(row, 1)?)))?)
}

/// The administrators of an organization by user id, after `cursor`.
pub fn list(
    snapshot: &mut Snapshot<'_>,
    organization: &OrganizationId,
    cursor: Option<&str>,
    limit: i64,
) -> Result<Vec<Administrator>> {
    let mut filter = Where::new(COLUMNS);
    filter.and("a.organization_id =", organization);
    filter.and_if("a.user_id >", cursor);
    let (sql, args) = filter.finish(&format!("ORDER BY a.user_id LIMIT {limit}"));
    Ok(snapshot.all(&sql, &args, read)?)
}

/// Whether a user owns the platform.
pub fn is_platform_owner(snapshot: &mut Snapshot<'_>, user: &UserId) -> Result<bool> {
    Ok(snapshot.one(&PLATFORM_OWNER, args![user], |row| row.get::<UserId>(0))?.is_some())
}

/// Whether anybody owns the platform: until then, a set-up link is good.
pub fn has_platform_owner(snapshot: &mut Snapshot<'_>) -> Result<bool> {
    Ok(snapshot.one(&ANY_PLATFORM_OWNER, args![], |row| row.get::<UserId>(0))?.is_some())
}

/// Makes a user of `platform` one of its owners, and an owner of the organization `platform`. Again is fine.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_have_an_order_and_a_word() {
        assert!(Role::Member < Role::Admin && Role::Admin < Role::Owner);
        for role in [Role::Member, Role::Admin, Role::Owner] {
            assert_eq!(Role::parse(role.as_str()).expect("its own word"), role);
        }
        let error = Role::parse("root").expect_err("no role").to_string();
        assert_eq!(error, "role: \"root\" is not a role; use owner, admin or member");
    }
}
