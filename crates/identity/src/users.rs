//! Users: a person's account in one organization. The same address may exist in each of them.

use crate::audit::{self, Actor};
use crate::ids::{CustomerId, OrganizationId, UserId};
use crate::secrets::Random;
use crate::{Error, Result, Time, customers, names};
use store::{
    Key, Row, Snapshot, Tx, Value, Where, args, insert, lock, select, sql, statements, update, upsert,
};

/// An account.
#[derive(Clone, Debug)]
pub struct User {
    /// Its id.
    pub id: UserId,
    /// Where it belongs.
    pub organization: OrganizationId,
    /// Normalised.
    pub email: String,
    /// When the address was proved, if it was.
    pub email_verified_at: Option<Time>,
    /// What its holder may choose.
    pub profile: Profile,
    /// When it was made.
    pub created_at: Time,
    /// When it was stopped, if it is.
    pub suspended_at: Option<Time>,
}

/// What an account says about its holder, apart from the address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// For people.
    pub name: String,
}

/// The columns of [`Profile`], in the order of [`Profile::values`].
const PROFILE: &[&str] = &["name"];

impl Profile {
    /// One with a name, and nothing else.
    pub fn named(name: impl Into<String>) -> Profile {
        Profile { name: name.into(), ..Profile::default() }
    }

    fn checked(self) -> Result<Profile> {
        Ok(Profile { name: names::display("name", &self.name)? })
    }

    fn values(&self) -> Vec<Value<'_>> {
        args![&self.name].to_vec()
    }
}

/// An account to be made, with the customer that it is for itself.
#[derive(Clone, Debug)]
pub struct NewUser {
    /// Its new id.
    pub id: UserId,
    /// The id of its personal customer.
    pub customer: CustomerId,
    /// Its address.
    pub email: String,
    /// Without a name, the address stands for it.
    pub profile: Profile,
    /// Whether somebody vouches for the address.
    pub email_verified: bool,
}

impl NewUser {
    /// With new ids, a profile that is empty and an address that nobody vouches for.
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

pub(crate) const COLUMNS: &str =
    "SELECT u.id, u.organization_id, u.email, u.email_verified_at, u.created_at, s.suspended_at, u.name
     FROM users u LEFT JOIN user_suspensions s ON s.user_id = u.id";

statements! {
    static INSERT = insert(
        "users",
        &[&["id", "organization_id", "email", "email_verified_at", "created_at"], PROFILE],
    );
    static GET = select(COLUMNS, "WHERE u.id = ?1");
    static FIND = select(COLUMNS, "WHERE u.organization_id = ?1 AND u.email = ?2");
    static SEEN = upsert("user_activity", &["user_id"], &["last_seen_at"]);
    static LAST_SEEN = sql("SELECT last_seen_at FROM user_activity WHERE user_id = ?1");
    static SET_PROFILE = update("users", "id", PROFILE);
    /// Whoever makes a session of a user, or decides about all of them, takes this first.
    pub(crate) static LOCK = lock("users", "id");
}

pub(crate) fn read(row: &Row<'_>) -> std::result::Result<User, store::Error> {
    Ok(User {
        id: row.get(0)?,
        organization: row.get(1)?,
        email: row.get(2)?,
        email_verified_at: row.get(3)?,
        created_at: row.get(4)?,
        suspended_at: row.get(5)?,
        profile: Profile { name: row.get(6)? },
    })
}

/// The keys on which an account's data and state depend.
pub fn keys(id: &UserId) -> [Key; 2] {
    [Key::row("users", "id", id.as_str()), Key::row("user_suspensions", "user_id", id.as_str())]
}

/// Makes an account and its personal customer.
pub fn create(tx: &mut Tx<'_>, organization: &OrganizationId, new: &NewUser, actor: &Actor) -> Result<User> {
    let email = names::email(&new.email)?;
    let mut profile = new.profile.clone();
    if profile.name.trim().is_empty() {
        profile.name.clone_from(&email);
    }
    let profile = profile.checked()?;
    let email_verified_at = new.email_verified.then_some(actor.now);
    let mut values = args![&new.id, organization, &email, email_verified_at, actor.now].to_vec();
    values.extend(profile.values());
    tx.exec(&INSERT, &values).map_err(Error::taken("users_email", "email", &email))?;
    keys(&new.id).into_iter().for_each(|key| tx.changed(key));
    customers::create_personal(tx, organization, &new.customer, &new.id, &profile.name, actor.now)?;
    audit::note(tx, organization, actor, "user.created", new.id.as_str(), "")?;
    get(tx.snapshot(), &new.id)
}

/// Changes what an account says about its holder; the customer that it is for itself takes its name.
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
    let mut values = args![id].to_vec();
    values.extend(profile.values());
    tx.exec(&SET_PROFILE, &values)?;
    keys(id).into_iter().for_each(|key| tx.changed(key));
    customers::rename_personal(tx, id, &profile.name)?;
    audit::note(tx, organization, actor, "user.changed", id.as_str(), "")?;
    Ok(User { profile, ..user })
}

/// The account with this id, if it is one of this organization.
pub fn in_organization(
    snapshot: &mut Snapshot<'_>,
    organization: &OrganizationId,
    id: &UserId,
) -> Result<User> {
    let user = get(snapshot, id)?;
    if user.organization == *organization { Ok(user) } else { Err(Error::NotFound { what: "user" }) }
}

/// Accounts by id, after `cursor`; with `email`, only the one that has it.
pub fn list(
    snapshot: &mut Snapshot<'_>,
    organization: &OrganizationId,
    email: Option<&str>,
    cursor: Option<&str>,
    limit: i64,
) -> Result<Vec<User>> {
    let mut filter = Where::new(COLUMNS);
    if email.is_none() {
        filter.by_index("users u", "users_organization");
    }
    filter.and("u.organization_id =", organization);
    filter.and_if("u.email =", email.map(names::email).transpose()?);
    filter.and_if("u.id >", cursor);
    let (sql, args) = filter.finish(&format!("ORDER BY u.id LIMIT {limit}"));
    Ok(snapshot.all(&sql, &args, read)?)
}

/// When an account was last seen, to within five minutes; never, if it was not.
pub fn last_seen(snapshot: &mut Snapshot<'_>, id: &UserId) -> Result<Option<Time>> {
    Ok(snapshot.one(&LAST_SEEN, args![id], |row| row.get(0))?)
}

/// The account with this id.
pub fn get(snapshot: &mut Snapshot<'_>, id: &UserId) -> Result<User> {
    snapshot.one(&GET, args![id], read)?.ok_or(Error::NotFound { what: "user" })
}

/// The account with this address, if there is one.
pub fn find(snapshot: &mut Snapshot<'_>, organization: &OrganizationId, email: &str) -> Result<Option<User>> {
    Ok(snapshot.one(&FIND, args![organization, email], read)?)
}

/// Notes when an account was last seen; the server calls this at most once in five minutes a user.
pub fn seen(tx: &mut Tx<'_>, id: &UserId, now: Time) -> std::result::Result<(), store::Error> {
    tx.exec(&SEEN, args![id, now])?;
    Ok(())
}
