//! Customers buy plans. Each user has a personal customer; a team customer has members.

use crate::ids::{CustomerId, OrganizationId, UserId};
use crate::{Error, Result, Time};
use store::{Key, Row, Snapshot, Tx, Where, args, insert, lock, select, sql, statements};

/// A customer.
#[derive(Clone, Debug)]
pub struct Customer {
    /// The id.
    pub id: CustomerId,
    /// The organization it buys from.
    pub organization: OrganizationId,
    /// `personal` or `team`.
    pub kind: String,
    /// The display name.
    pub name: String,
    /// The user of a personal customer.
    pub user: Option<UserId>,
    /// The creation time.
    pub created_at: Time,
}

const COLUMNS: &str = "SELECT id, organization_id, kind, name, user_id, created_at FROM customers";

statements! {
    static INSERT = insert(
        "customers",
        &[&["id", "organization_id", "kind", "name", "user_id", "created_at"]],
    );
    static OF_USER = sql("SELECT id FROM customers WHERE user_id = ?1");
    static USER = sql("SELECT user_id FROM customers WHERE id = ?1");
    static MEMBERS = sql("SELECT user_id FROM customer_members WHERE customer_id = ?1");
    static DELETE_MEMBERS = sql("DELETE FROM customer_members WHERE customer_id = ?1");
    static DELETE = sql("DELETE FROM customers WHERE id = ?1");
    static ANY_MEMBER = sql("SELECT customer_id FROM customer_members LIMIT 1");
    static LEAVE_TEAMS = sql("DELETE FROM customer_members WHERE user_id = ?1");
    static GET = select(COLUMNS, "WHERE id = ?1 AND organization_id = ?2");
    static RENAME_PERSONAL = sql("UPDATE customers SET name = ?2 WHERE user_id = ?1");
    /// Locks a customer for a decision that depends on its subscriptions.
    pub(crate) static LOCK = lock("customers", "id");
}

fn read(row: &Row<'_>) -> std::result::Result<Customer, store::Error> {
    Ok(Customer {
        id: row.get(0)?,
        organization: row.get(1)?,
        kind: row.get(2)?,
        name: row.get(3)?,
        user: row.get(4)?,
        created_at: row.get(5)?,
    })
}

/// The key of a user's personal customer.
pub fn key_of_user(user: &UserId) -> Key {
    Key::row("customers", "user_id", user.as_str())
}

/// The key of the team customers that a user is a member of.
pub(crate) fn key_of_memberships(user: &UserId) -> Key {
    Key::row("customer_members", "user_id", user.as_str())
}

/// Whether anybody is a member of a team. Only members can have several subscriptions for one service.
pub(crate) fn has_members(snapshot: &mut Snapshot<'_>) -> Result<bool> {
    Ok(snapshot.one(&ANY_MEMBER, &[], |row| row.get::<CustomerId>(0))?.is_some())
}

/// Creates the personal customer of a user.
pub fn create_personal(
    tx: &mut Tx<'_>,
    organization: &OrganizationId,
    id: &CustomerId,
    user: &UserId,
    name: &str,
    now: Time,
) -> Result<()> {
    tx.exec(&INSERT, args![id, organization, "personal", name, user, now])?;
    tx.changed(key_of_user(user));
    Ok(())
}

/// Gives the personal customer of a user the user's new name. It is part of renaming the user.
pub(crate) fn rename_personal(tx: &mut Tx<'_>, user: &UserId, name: &str) -> Result<()> {
    tx.exec(&RENAME_PERSONAL, args![user, name])?;
    tx.changed(key_of_user(user));
    Ok(())
}

/// Removes a user from all team customers. The caller removes the seats.
pub(crate) fn leave_teams(tx: &mut Tx<'_>, user: &UserId) -> Result<()> {
    tx.exec(&LEAVE_TEAMS, args![user])?;
    tx.changed(key_of_memberships(user));
    Ok(())
}

/// Deletes a customer without subscriptions, with its members.
pub(crate) fn delete(tx: &mut Tx<'_>, customer: &Customer) -> Result<()> {
    let members: Vec<UserId> = tx.all(&MEMBERS, args![&customer.id], |row| row.get(0))?;
    if !members.is_empty() {
        tx.exec(&DELETE_MEMBERS, args![&customer.id])?;
    }
    tx.exec(&DELETE, args![&customer.id])?;
    members.iter().for_each(|user| tx.changed(key_of_memberships(user)));
    customer.user.iter().for_each(|user| tx.changed(key_of_user(user)));
    Ok(())
}

/// Finds the personal customer of a user.
pub fn of_user(snapshot: &mut Snapshot<'_>, user: &UserId) -> Result<CustomerId> {
    snapshot.depends(|| [key_of_user(user)]);
    snapshot.one(&OF_USER, args![user], |row| row.get(0))?.ok_or(Error::NotFound { what: "customer" })
}

/// The user of a personal customer, or the members of a team.
pub(crate) fn users(snapshot: &mut Snapshot<'_>, customer: &CustomerId) -> Result<Vec<UserId>> {
    let own: Option<Option<UserId>> = snapshot.one(&USER, args![customer], |row| row.get(0))?;
    match own {
        Some(Some(user)) => Ok(vec![user]),
        Some(None) => Ok(snapshot.all(&MEMBERS, args![customer], |row| row.get(0))?),
        None => Ok(Vec::new()),
    }
}

/// Gets the customer with this id.
pub fn get(snapshot: &mut Snapshot<'_>, organization: &OrganizationId, id: &CustomerId) -> Result<Customer> {
    snapshot.one(&GET, args![id, organization], read)?.ok_or(Error::NotFound { what: "customer" })
}

/// Lists customers by id after `cursor`.
pub fn list(
    snapshot: &mut Snapshot<'_>,
    organization: &OrganizationId,
    cursor: Option<&str>,
    limit: i64,
) -> Result<Vec<Customer>> {
    let mut filter = Where::new(COLUMNS);
    filter.by_index("customers", "customers_organization");
    filter.and("organization_id =", organization);
    filter.and_if("id >", cursor);
    let (sql, args) = filter.finish(&format!("ORDER BY id LIMIT {limit}"));
    Ok(snapshot.all(&sql, &args, read)?)
}
