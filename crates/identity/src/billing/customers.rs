//! Which customer a customer of the provider stands for.

use super::ExternalId;
use super::connections::{self, Connection};
use crate::audit::{self, Actor};
use crate::ids::{BillingConnectionId, CustomerId, UserId};
use crate::{Error, Result, Time, customers, users};
use store::{Row, Snapshot, Tx, Where, args, insert_if_absent, select, sql, statements, upsert};

/// The most customers of the provider that stand for one customer.
const MAPPINGS_MAX: i64 = 100;

/// A customer of the provider and the one that it stands for.
#[derive(Clone, Debug)]
pub struct BillingCustomer {
    /// The provider's id.
    pub external: ExternalId,
    /// The customer.
    pub customer: CustomerId,
    /// The customer's display name.
    pub customer_name: String,
    /// The user of a personal customer.
    pub user: Option<UserId>,
    /// The id of the user, the key or the connection that made the mapping.
    pub created_by: Option<String>,
    /// The time at which it was made.
    pub created_at: Time,
}

/// What happens to a mapping that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// An administrator replaces it.
    IsReplaced,
    /// A checkout leaves it as it is.
    Stays,
}

const COLUMNS: &str = "SELECT b.external_id, b.customer_id, c.name, c.user_id, b.created_by, b.created_at
     FROM billing_customers b JOIN customers c ON c.id = b.customer_id";

statements! {
    static PUT = upsert(
        "billing_customers",
        &["connection_id", "external_id"],
        &["customer_id", "created_by", "created_at"],
    );
    static ADD = insert_if_absent(
        "billing_customers",
        &["connection_id", "external_id", "customer_id", "created_by", "created_at"],
    );
    static GET = select(COLUMNS, "WHERE b.connection_id = ?1 AND b.external_id = ?2");
    static FIND = sql("SELECT customer_id FROM billing_customers WHERE connection_id = ?1 AND external_id = ?2");
    static COUNT = sql("SELECT COUNT(*) FROM billing_customers WHERE customer_id = ?1");
    static DELETE = sql("DELETE FROM billing_customers WHERE connection_id = ?1 AND external_id = ?2");
    static OF_CUSTOMER = sql("SELECT connection_id, external_id FROM billing_customers WHERE customer_id = ?1");
    static IDS = sql(
        "SELECT external_id FROM billing_customers WHERE connection_id = ?1 ORDER BY external_id LIMIT ?2",
    );
}

fn read(row: &Row<'_>) -> std::result::Result<BillingCustomer, store::Error> {
    Ok(BillingCustomer {
        external: row.get(0)?,
        customer: row.get(1)?,
        customer_name: row.get(2)?,
        user: row.get(3)?,
        created_by: row.get(4)?,
        created_at: row.get(5)?,
    })
}

/// Locks the customer that a customer of the provider stands for. While it stands for none, locks the connection, so that
/// what makes it known and what is about it take turns.
pub(super) fn lock(tx: &mut Tx<'_>, connection: &Connection, external: &ExternalId) -> Result<()> {
    if find(tx.snapshot(), connection, external)?.is_none() {
        tx.lock(&connections::LOCK, (&connection.id).into())?;
    }
    // It may have become known while the lock was waited for.
    lock_known(tx, connection, external)
}

/// Locks the customer that a customer of the provider stands for, if there is one. The caller holds the lock of the
/// connection.
pub(super) fn lock_known(tx: &mut Tx<'_>, connection: &Connection, external: &ExternalId) -> Result<()> {
    match find(tx.snapshot(), connection, external)? {
        Some(customer) => lock_one(tx, &customer),
        None => Ok(()),
    }
}

/// Locks a customer.
pub(super) fn lock_one(tx: &mut Tx<'_>, customer: &CustomerId) -> Result<()> {
    Ok(tx.lock(&customers::LOCK, customer.into())?)
}

/// Finds the customer that a customer of the provider stands for.
pub(super) fn find(
    snapshot: &mut Snapshot<'_>,
    connection: &Connection,
    external: &ExternalId,
) -> Result<Option<CustomerId>> {
    Ok(snapshot.one(&FIND, args![&connection.id, external], |row| row.get(0))?)
}

/// Lets a customer of the provider stand for a customer whose user is not deleted. Returns false if it stands for another
/// one and that stays.
pub fn put(
    tx: &mut Tx<'_>,
    connection: &Connection,
    external: &ExternalId,
    customer: &CustomerId,
    existing: Existing,
    actor: &Actor,
) -> Result<bool> {
    let organization = &connection.organization;
    let customer = customers::get(tx.snapshot(), organization, customer)?;
    lock(tx, connection, external)?;
    tx.lock(&customers::LOCK, (&customer.id).into())?;
    if let Some(user) = &customer.user {
        users::in_organization(tx.snapshot(), organization, user)?;
    }
    let before = find(tx.snapshot(), connection, external)?;
    if before.as_ref() == Some(&customer.id) {
        return Ok(true);
    }
    let count: Option<i64> = tx.one(&COUNT, args![&customer.id], |row| row.get(0))?;
    if count.unwrap_or(0) >= MAPPINGS_MAX {
        let problem =
            format!("{MAPPINGS_MAX} customers of the provider stand for this customer; remove one first");
        return Err(Error::refused("too_many_billing_customers", problem));
    }
    let row = args![&connection.id, external, &customer.id, &actor.who, actor.now];
    match existing {
        Existing::IsReplaced => tx.exec(&PUT, row)?,
        Existing::Stays if tx.exec(&ADD, row)? == 0 => return Ok(false),
        Existing::Stays => 1,
    };
    let details = format!("{external}: {}", customer.id);
    audit::note(tx, organization, actor, "billing.customer_set", connection.id.as_str(), &details)?;
    Ok(true)
}

/// Removes a mapping. Subscriptions that it has led to stay as they are; later events wait.
pub fn remove(tx: &mut Tx<'_>, connection: &Connection, external: &ExternalId, actor: &Actor) -> Result<()> {
    if tx.exec(&DELETE, args![&connection.id, external])? == 0 {
        return Err(Error::NotFound { what: "billing customer" });
    }
    let (organization, id) = (&connection.organization, connection.id.as_str());
    audit::note(tx, organization, actor, "billing.customer_removed", id, external.as_str())
}

/// Removes the mappings to a customer whose user is being deleted. Later events wait, so that an administrator sees that
/// the provider still has the customer.
pub(crate) fn forget(tx: &mut Tx<'_>, customer: &CustomerId) -> Result<()> {
    let mappings: Vec<(BillingConnectionId, ExternalId)> =
        tx.all(&OF_CUSTOMER, args![customer], |row| Ok((row.get(0)?, row.get(1)?)))?;
    for (connection, external) in &mappings {
        tx.exec(&DELETE, args![connection, external])?;
    }
    Ok(())
}

/// Gets what a customer of the provider stands for.
pub fn get(
    snapshot: &mut Snapshot<'_>,
    connection: &Connection,
    external: &ExternalId,
) -> Result<BillingCustomer> {
    let found = snapshot.one(&GET, args![&connection.id, external], read)?;
    found.ok_or(Error::NotFound { what: "billing customer" })
}

/// Lists the mappings of a connection by the provider's id after `cursor`.
pub fn list(
    snapshot: &mut Snapshot<'_>,
    connection: &Connection,
    cursor: Option<&str>,
    limit: i64,
) -> Result<Vec<BillingCustomer>> {
    let mut filter = Where::new(COLUMNS);
    filter.and("b.connection_id =", &connection.id);
    filter.and_if("b.external_id >", cursor);
    let (sql, args) = filter.finish(&format!("ORDER BY b.external_id LIMIT {limit}"));
    Ok(snapshot.all(&sql, &args, read)?)
}

/// Deletes up to `most` mappings of a connection.
pub(super) fn erase(tx: &mut Tx<'_>, connection: &BillingConnectionId, most: i64) -> Result<i64> {
    let ids: Vec<ExternalId> = tx.all(&IDS, args![connection, most.max(0)], |row| row.get(0))?;
    for id in &ids {
        tx.exec(&DELETE, args![connection, id])?;
    }
    Ok(ids.len() as i64)
}
