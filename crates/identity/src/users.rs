//! Users: a person's account in one organization. Several organizations can have users with the same e-mail address.

use crate::audit::{self, Actor};
use crate::events::{self, Entry};
use crate::ids::{CustomerId, OrganizationId, UserId};
use crate::secrets::Random;
use crate::{Error, Result, Time, customers, names, user_terms};
use store::{
    FromRow, Snapshot, ToRow, Tx, Where, args, insert_row, lock, select_row, sql, statements, update_row,
    upsert,
};

pub use crate::account_keys::all as keys;

/// A user account.
#[derive(Clone, Debug, PartialEq, FromRow)]
#[row(of = "u")]
pub struct User {
    /// The id.
    pub id: UserId,
    /// The organization it belongs to.
    #[row("organization_id")]
    pub organization: OrganizationId,
    /// The e-mail address, normalised.
    pub email: String,
    /// The time at which the address was verified.
    pub email_verified_at: Option<Time>,
    /// The fields that the user may edit.
    #[row(flatten)]
    pub profile: Profile,
    /// The creation time.
    pub created_at: Time,
    /// The time at which the account was suspended; `None` while it is not.
    #[row("s.suspended_at")]
    pub suspended_at: Option<Time>,
    /// The number in the tags of known browsers. A tag with another number is void.
    pub known_browsers_epoch: i64,
}

/// The editable data of an account, without the e-mail address.
#[derive(Clone, Debug, Default, PartialEq, Eq, FromRow, ToRow)]
pub struct Profile {
    /// The display name.
    pub name: String,
}

impl Profile {
    /// Creates a profile with a name; every other field has its default.
    #[allow(clippy::needless_update, reason = "a new field needs no change here")]
    pub fn named(name: impl Into<String>) -> Profile {
        Profile { name: name.into(), ..Profile::default() }
    }

    fn checked(self) -> Result<Profile> {
        Ok(Profile { name: names::display("name", &self.name)? })
    }
}

/// The input for [`create`]: an account with its personal customer.
#[derive(Clone, Debug)]
pub struct NewUser {
    /// The new id.
    pub id: UserId,
    /// The id of its personal customer.
    pub customer: CustomerId,
    /// The e-mail address.
    pub email: String,
    /// The profile. An empty name defaults to the e-mail address, or to its first part.
    pub profile: Profile,
    /// Whether the address counts as verified.
    pub email_verified: bool,
}

impl NewUser {
    /// Generates the ids. The profile is empty and the address is not verified.
    pub fn new(email: impl Into<String>, now: Time, random: &dyn Random) -> NewUser {
        NewUser {
            id: UserId::new(now, random),
            customer: CustomerId::new(now, random),
            email: email.into(),
            profile: Profile::default(),
            email_verified: false,
        }
    }
}

/// A new row of `users`.
#[derive(ToRow)]
struct NewRow<'a> {
    id: &'a UserId,
    organization_id: &'a OrganizationId,
    email: &'a str,
    email_verified_at: Option<Time>,
    created_at: Time,
    #[row(flatten)]
    profile: &'a Profile,
}

const FROM: &str = "FROM users u
     LEFT JOIN user_suspensions s ON s.user_id = u.id
     LEFT JOIN user_deletions d ON d.user_id = u.id";

statements! {
    static INSERT = insert_row::<NewRow<'_>>("users");
    static GET = select_row::<User>(FROM, "WHERE u.id = ?1 AND d.user_id IS NULL");
    static NEWEST = select_row::<User>(FROM, "WHERE u.id > '' AND d.user_id IS NULL ORDER BY u.id DESC LIMIT ?1");
    static FIND = select_row::<User>(FROM, "WHERE u.organization_id = ?1 AND u.email = ?2");
    static SEEN = upsert("user_activity", &["user_id"], &["last_seen_at"]);
    static LAST_SEEN = sql("SELECT last_seen_at FROM user_activity WHERE user_id = ?1");
    static FORGET_BROWSERS =
        sql("UPDATE users SET known_browsers_epoch = known_browsers_epoch + 1 WHERE id = ?1");
    static SET_PROFILE = update_row::<Profile>("users", "id");
    /// The address of a deleted account is its id: no user enters that, and addresses stay unique.
    static BLANK = sql("UPDATE users SET email = id, email_verified_at = NULL WHERE id = ?1");
    static IDS = sql("SELECT id FROM users WHERE organization_id = ?1 ORDER BY id LIMIT ?2");
    static ORGANIZATION = sql("SELECT organization_id FROM users WHERE id = ?1");
    static REMOVE = sql("DELETE FROM users WHERE id = ?1");
    static FORGET_ACTIVITY = sql("DELETE FROM user_activity WHERE user_id = ?1");
    static VERIFY = sql("UPDATE users SET email_verified_at = ?2 WHERE id = ?1 AND email_verified_at IS NULL");
    /// Commands that create a session of a user, or end all of them, take this lock first.
    pub(crate) static LOCK = lock("users", "id");
}

/// Creates an account and its personal customer.
pub fn create(tx: &mut Tx<'_>, organization: &OrganizationId, new: &NewUser, actor: &Actor) -> Result<User> {
    let email = names::email(&new.email)?;
    let mut profile = new.profile.clone();
    if profile.name.trim().is_empty() {
        profile.name = names::of_address(&email);
    }
    let profile = profile.checked()?;
    let row = NewRow {
        id: &new.id,
        organization_id: organization,
        email: &email,
        email_verified_at: new.email_verified.then_some(actor.now),
        created_at: actor.now,
        profile: &profile,
    };
    tx.exec(&INSERT, &row.values()).map_err(Error::taken("users_email", "email", &email))?;
    keys(&new.id).into_iter().for_each(|key| tx.changed(key));
    customers::create_personal(tx, organization, &new.customer, &new.id, &profile.name, actor.now)?;
    user_terms::add(tx, organization, &new.id, &email, &profile.name)?;
    audit::note(tx, organization, actor, "user.created", new.id.as_str(), "")?;
    get(tx.snapshot(), &new.id)
}

/// Changes the profile of an account. Its personal customer gets the same name.
pub fn change(
    tx: &mut Tx<'_>,
    organization: &OrganizationId,
    id: &UserId,
    change: impl Fn(Profile) -> Profile,
    actor: &Actor,
) -> Result<User> {
    tx.lock(&LOCK, id.into())?;
    let user = in_organization(tx.snapshot(), organization, id)?;
    let profile = change(user.profile.clone()).checked()?;
    if profile == user.profile {
        return Ok(user);
    }
    tx.exec(&SET_PROFILE, &profile.values_of(id))?;
    keys(id).into_iter().for_each(|key| tx.changed(key));
    customers::rename_personal(tx, id, &profile.name)?;
    events::note(tx, actor.now, &Entry::user(id, organization))?;
    audit::note(tx, organization, actor, "user.changed", id.as_str(), "")?;
    let user = User { profile, ..user };
    user_terms::replace(tx, organization, id, &user.email, &user.profile.name)?;
    Ok(user)
}

/// Marks the e-mail address of an account as verified. Returns false if it was verified before.
pub(crate) fn verify_email(tx: &mut Tx<'_>, user: &User, now: Time) -> Result<bool> {
    let verified = tx.exec(&VERIFY, args![&user.id, now])? == 1;
    keys(&user.id).into_iter().for_each(|key| tx.changed(key));
    if verified {
        events::note(tx, now, &Entry::user(&user.id, &user.organization))?;
    }
    Ok(verified)
}

/// Removes the personal data of an account that is being deleted.
pub(crate) fn blank(tx: &mut Tx<'_>, id: &UserId) -> Result<()> {
    tx.exec(&BLANK, args![id])?;
    tx.exec(&SET_PROFILE, &Profile::default().values_of(id))?;
    user_terms::remove(tx, id)?;
    tx.exec(&FORGET_ACTIVITY, args![id])?;
    keys(id).into_iter().for_each(|key| tx.changed(key));
    Ok(())
}

/// Gets the ids of the first accounts of an organization, deleted ones too.
pub(crate) fn ids(
    snapshot: &mut Snapshot<'_>,
    organization: &OrganizationId,
    most: i64,
) -> Result<Vec<UserId>> {
    Ok(snapshot.all(&IDS, args![organization, most], |row| row.get(0))?)
}

/// Deletes the row of an account. The caller has deleted the rows that refer to it.
pub(crate) fn remove(tx: &mut Tx<'_>, id: &UserId) -> Result<()> {
    tx.exec(&FORGET_ACTIVITY, args![id])?;
    user_terms::remove(tx, id)?;
    tx.exec(&REMOVE, args![id])?;
    keys(id).into_iter().for_each(|key| tx.changed(key));
    Ok(())
}

/// Gets the organization of an account, deleted or not.
pub(crate) fn organization_of(snapshot: &mut Snapshot<'_>, id: &UserId) -> Result<Option<OrganizationId>> {
    Ok(snapshot.one(&ORGANIZATION, args![id], |row| row.get(0))?)
}

/// Gets the account with this id if it belongs to this organization.
pub fn in_organization(
    snapshot: &mut Snapshot<'_>,
    organization: &OrganizationId,
    id: &UserId,
) -> Result<User> {
    let user = get(snapshot, id)?;
    if user.organization == *organization { Ok(user) } else { Err(Error::NotFound { what: "user" }) }
}

/// The order of a list of accounts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The oldest first, by id.
    #[default]
    Oldest,
    /// The newest first, by id.
    Newest,
    /// By e-mail address.
    Email,
}

impl Order {
    /// Every order with its name in the API.
    const ALL: [(&'static str, Order); 3] =
        [("created_at", Order::Oldest), ("-created_at", Order::Newest), ("email", Order::Email)];

    /// Parses the name used in the API.
    pub fn parse(word: &str) -> Result<Order> {
        let found = Order::ALL.iter().find(|(known, _)| *known == word);
        found.map(|(_, order)| *order).ok_or_else(|| {
            let problem = format!("{word:?} is not an order; use created_at, -created_at or email");
            Error::wrong("not_allowed", "sort", problem)
        })
    }
}

/// Lists accounts after `cursor`, an id or an e-mail address, depending on the order. With `email`, lists only the account
/// with this address.
pub fn list(
    snapshot: &mut Snapshot<'_>,
    organization: &OrganizationId,
    email: Option<&str>,
    order: Order,
    cursor: Option<&str>,
    limit: i64,
) -> Result<Vec<User>> {
    let (after, by, index) = match order {
        Order::Oldest => ("u.id >", "u.id", "users_organization"),
        Order::Newest => ("u.id <", "u.id DESC", "users_organization"),
        Order::Email => ("u.email >", "u.email", "users_email"),
    };
    let mut filter = Where::of::<User>(FROM);
    if email.is_none() {
        filter.by_index("users u", index);
    }
    filter.and("u.organization_id =", organization);
    filter.and_if("u.email =", email.map(names::known_email).transpose()?);
    filter.and_if(after, cursor);
    let (sql, args) = filter.finish(&format!("AND d.user_id IS NULL ORDER BY {by} LIMIT {limit}"));
    Ok(snapshot.all(&sql, &args, User::from_row)?)
}

/// Returns the time at which an account was last seen, accurate to five minutes; `None` if it never was.
pub fn last_seen(snapshot: &mut Snapshot<'_>, id: &UserId) -> Result<Option<Time>> {
    Ok(snapshot.one(&LAST_SEEN, args![id], |row| row.get(0))?)
}

/// The newest accounts of all organizations, at most `most`.
pub fn newest(snapshot: &mut Snapshot<'_>, most: i64) -> Result<Vec<User>> {
    Ok(snapshot.all(&NEWEST, args![most], User::from_row)?)
}

/// Gets the account with this id.
pub fn get(snapshot: &mut Snapshot<'_>, id: &UserId) -> Result<User> {
    snapshot.depends(|| keys(id));
    snapshot.one(&GET, args![id], User::from_row)?.ok_or(Error::NotFound { what: "user" })
}

/// Finds the account with this e-mail address.
pub fn find(snapshot: &mut Snapshot<'_>, organization: &OrganizationId, email: &str) -> Result<Option<User>> {
    Ok(snapshot.one(&FIND, args![organization, email], User::from_row)?)
}

/// Sets the time at which an account was last seen. The server calls this at most once per user in five minutes.
pub fn set_last_seen(tx: &mut Tx<'_>, id: &UserId, now: Time) -> std::result::Result<(), store::Error> {
    tx.exec_one(&SEEN, args![id, now])?;
    Ok(())
}

/// Fails if the password of an account changed or all of its sessions ended since `user` was read. A sign-in calls this in
/// its transaction, because verifying a password takes a while.
pub fn require_unchanged(tx: &mut Tx<'_>, user: &User) -> Result<()> {
    tx.lock(&LOCK, (&user.id).into())?;
    if get(tx.snapshot(), &user.id)?.known_browsers_epoch == user.known_browsers_epoch {
        return Ok(());
    }
    let problem = "the password was changed or all sessions were ended a moment ago; sign in again";
    Err(Error::refused("signed_out", problem))
}

/// Voids the tags of all browsers in which a user has signed in. Called when the password changes and when all sessions
/// end, because someone else may hold such a browser.
pub fn forget_known_browsers(tx: &mut Tx<'_>, id: &UserId) -> Result<()> {
    tx.exec(&FORGET_BROWSERS, args![id])?;
    keys(id).into_iter().for_each(|key| tx.changed(key));
    Ok(())
}
