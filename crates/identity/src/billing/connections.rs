//! Connections to payment providers. Each has an address for events and the secret that they are signed with, sealed.
//!
//! A connection is made without a secret, because the provider needs its address before it shows the secret. Deleting a
//! connection takes effect at once; the janitor deletes its rows in slices.

use super::ExternalId;
use crate::audit::{self, Actor};
use crate::ids::{BillingConnectionId, OrganizationId, UserId};
use crate::organizations::{self, Organization};
use crate::sealed_column::SealedColumn;
use crate::secrets::{Random, SecretKey};
use crate::{Error, Result, Time, names};
use std::fmt::Display;
use store::{Row, Snapshot, Tx, Where, args, insert, lock, select, sql, statements};

/// The only provider.
pub const STRIPE: &str = "stripe";
/// The most connections of an organization.
const CONNECTIONS_MAX: i64 = 20;
/// What a signing secret begins with.
const SECRET_PREFIX: &str = "whsec_";
const SECRET_LENGTH: std::ops::RangeInclusive<usize> = 16..=255;

/// A connection to a payment provider.
#[derive(Clone, Debug)]
pub struct Connection {
    /// The id.
    pub id: BillingConnectionId,
    /// The organization whose subscriptions its events change.
    pub organization: OrganizationId,
    /// The name that administrators see.
    pub name: String,
    /// Whether it takes events of the live mode, or of the test mode.
    pub livemode: bool,
    /// The connected account whose events it takes; `None` for those of the provider's customer itself.
    pub account: Option<ExternalId>,
    /// Whether it has a secret. Without one it accepts no event.
    pub has_secret: bool,
    /// The id of the user who created it.
    pub created_by: Option<String>,
    /// The creation time.
    pub created_at: Time,
    sealed_secret: Option<Vec<u8>>,
}

/// The input for [`create`].
#[derive(Clone)]
pub struct NewConnection {
    /// The new id.
    pub id: BillingConnectionId,
    /// The name that administrators see.
    pub name: String,
    /// Whether it takes events of the live mode.
    pub livemode: bool,
    /// The connected account whose events it takes.
    pub account: Option<ExternalId>,
    /// The sealed secret, from [`seal_secret`].
    pub sealed_secret: Option<Vec<u8>>,
    /// The owner who creates it.
    pub created_by: UserId,
}

/// The input for [`patch`]. `None` leaves a field unchanged.
#[derive(Clone, Default)]
pub struct ConnectionPatch {
    /// The name that administrators see.
    pub name: Option<String>,
    /// The sealed secret, from [`seal_secret`]. The old one is invalid at once.
    pub sealed_secret: Option<Vec<u8>>,
}

const COLUMNS: &str =
    "SELECT id, organization_id, name, livemode, account, sealed_secret, created_by, created_at, deleted
     FROM billing_connections";

statements! {
    static INSERT = insert("billing_connections", &[&[
        "id", "organization_id", "provider", "name", "livemode", "account", "sealed_secret", "created_by", "created_at",
        "deleted",
    ]]);
    static GET = select(COLUMNS, "WHERE id = ?1");
    static COUNT = sql("SELECT COUNT(*) FROM billing_connections WHERE organization_id = ?1 AND deleted = 0");
    static PATCH = sql("UPDATE billing_connections SET name = ?2, sealed_secret = ?3 WHERE id = ?1 AND deleted = 0");
    /// Locks a connection, also for what is about customers that are not known yet. Taken before the lock of any customer.
    pub(super) static LOCK = lock("billing_connections", "id");
    static DELETE = sql(
        "UPDATE billing_connections SET deleted = 1, sealed_secret = NULL WHERE id = ?1 AND deleted = 0",
    );
    static DELETED = sql("SELECT id FROM billing_connections WHERE deleted = 1 ORDER BY id LIMIT 1");
    static OF_ORGANIZATION = sql("SELECT id FROM billing_connections WHERE organization_id = ?1 ORDER BY id LIMIT 1");
    static REMOVE = sql("DELETE FROM billing_connections WHERE id = ?1");
    static SEALED = sql("SELECT id, sealed_secret FROM billing_connections WHERE id > ?1 ORDER BY id LIMIT ?2");
    static RESEAL = sql("UPDATE billing_connections SET sealed_secret = ?2 WHERE id = ?1");
}

fn read(row: &Row<'_>) -> std::result::Result<Connection, store::Error> {
    let sealed_secret: Option<Vec<u8>> = row.get(5)?;
    Ok(Connection {
        id: row.get(0)?,
        organization: row.get(1)?,
        name: row.get(2)?,
        livemode: row.get::<i64>(3)? != 0,
        account: row.get(4)?,
        has_secret: sealed_secret.is_some(),
        sealed_secret,
        created_by: row.get(6)?,
        created_at: row.get(7)?,
    })
}

/// Seals the secret of a new or changed connection.
pub fn seal_secret(
    id: &BillingConnectionId,
    secret: &str,
    key: &SecretKey,
    random: &dyn Random,
) -> Result<Vec<u8>> {
    check_secret(secret)?;
    key.seal(&binding(id), secret.as_bytes(), random)
}

/// Checks that a text has the form of a signing secret.
pub fn check_secret(secret: &str) -> Result<()> {
    let is_good = secret.starts_with(SECRET_PREFIX)
        && SECRET_LENGTH.contains(&secret.len())
        && secret.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_good {
        let problem = format!(
            "this is no signing secret; copy the one that the provider shows for this address, whole: it begins with \
             {SECRET_PREFIX} and has {} to {} letters, digits and signs",
            SECRET_LENGTH.start(),
            SECRET_LENGTH.end()
        );
        return Err(Error::invalid("secret", problem));
    }
    Ok(())
}

fn binding(id: &dyn Display) -> String {
    format!("billing_connections/{id}/sealed_secret")
}

impl Connection {
    /// Opens the secret; `None` if it has none yet.
    pub fn open_secret(&self, key: &SecretKey) -> Result<Option<Vec<u8>>> {
        self.sealed_secret.as_ref().map(|sealed| key.open(&binding(&self.id), sealed)).transpose()
    }
}

/// Creates a connection. The caller is an owner.
pub fn create(
    tx: &mut Tx<'_>,
    organization: &Organization,
    new: &NewConnection,
    actor: &Actor,
) -> Result<Connection> {
    let name = names::display("name", &new.name)?;
    tx.lock(&organizations::LOCK, (&organization.id).into())?;
    let count: Option<i64> = tx.one(&COUNT, args![&organization.id], |row| row.get(0))?;
    if count.unwrap_or(0) >= CONNECTIONS_MAX {
        let problem =
            format!("this organization has {CONNECTIONS_MAX} billing connections; delete one first");
        return Err(Error::refused("too_many_connections", problem));
    }
    let (livemode, account) = (i64::from(new.livemode), new.account.as_ref());
    let (id, sealed, by) = (&new.id, new.sealed_secret.as_deref(), &new.created_by);
    tx.exec(
        &INSERT,
        args![id, &organization.id, STRIPE, &name, livemode, account, sealed, by, actor.now, 0_i64],
    )?;
    audit::note(tx, &organization.id, actor, "billing.connection_created", id.as_str(), &name)?;
    get(tx.snapshot(), &organization.id, id)
}

/// Changes a connection. The caller is an owner. Setting the current name again has no effect; a secret always counts as new.
pub fn patch(
    tx: &mut Tx<'_>,
    organization: &OrganizationId,
    id: &BillingConnectionId,
    patch: &ConnectionPatch,
    actor: &Actor,
) -> Result<Connection> {
    tx.lock(&LOCK, id.into())?;
    let before = get(tx.snapshot(), organization, id)?;
    let name = patch.name.as_deref().map(|name| names::display("name", name)).transpose()?;
    let name = name.as_ref().unwrap_or(&before.name);
    let fields = audit::fields(&[("name", *name != before.name), ("secret", patch.sealed_secret.is_some())]);
    if fields.is_empty() {
        return Ok(before);
    }
    let sealed = patch.sealed_secret.as_ref().or(before.sealed_secret.as_ref());
    tx.exec(&PATCH, args![id, name, sealed.map(Vec::as_slice)])?;
    audit::note(tx, organization, actor, "billing.connection_changed", id.as_str(), &fields)?;
    get(tx.snapshot(), organization, id)
}

/// Deletes a connection: it accepts no event any more. Subscriptions stay as they are. The caller is an owner.
pub fn delete(
    tx: &mut Tx<'_>,
    organization: &OrganizationId,
    id: &BillingConnectionId,
    actor: &Actor,
) -> Result<()> {
    let name = get(tx.snapshot(), organization, id)?.name;
    if tx.exec(&DELETE, args![id])? == 0 {
        return Err(Error::NotFound { what: "billing connection" });
    }
    audit::note(tx, organization, actor, "billing.connection_deleted", id.as_str(), &name)
}

/// Gets the connection with this id if it belongs to this organization.
pub fn get(
    snapshot: &mut Snapshot<'_>,
    organization: &OrganizationId,
    id: &BillingConnectionId,
) -> Result<Connection> {
    let found = find(snapshot, id)?.filter(|connection| connection.organization == *organization);
    found.ok_or(Error::NotFound { what: "billing connection" })
}

/// Finds the connection that an event is sent to.
pub fn find(snapshot: &mut Snapshot<'_>, id: &BillingConnectionId) -> Result<Option<Connection>> {
    let found = snapshot.one(&GET, args![id], |row| Ok((read(row)?, row.get::<i64>(8)?)))?;
    Ok(found.filter(|(_, deleted)| *deleted == 0).map(|(connection, _)| connection))
}

/// Lists the connections of an organization by id after `cursor`.
pub fn list(
    snapshot: &mut Snapshot<'_>,
    organization: &OrganizationId,
    cursor: Option<&str>,
    limit: i64,
) -> Result<Vec<Connection>> {
    let mut filter = Where::new(COLUMNS);
    filter.and("organization_id =", organization);
    filter.and("deleted =", 0_i64);
    filter.and_if("id >", cursor);
    let (sql, args) = filter.finish(&format!("ORDER BY id LIMIT {limit}"));
    Ok(snapshot.all(&sql, &args, read)?)
}

/// A connection that was deleted and still has rows.
pub(super) fn next_deleted(tx: &mut Tx<'_>) -> Result<Option<BillingConnectionId>> {
    Ok(tx.one(&DELETED, args![], |row| row.get(0))?)
}

/// A connection of this organization, deleted or not.
pub(super) fn next_of(tx: &mut Tx<'_>, organization: &OrganizationId) -> Result<Option<BillingConnectionId>> {
    Ok(tx.one(&OF_ORGANIZATION, args![organization], |row| row.get(0))?)
}

/// Deletes the row of a connection. The caller has deleted the rows that refer to it.
pub(super) fn remove(tx: &mut Tx<'_>, id: &BillingConnectionId) -> Result<()> {
    tx.exec(&REMOVE, args![id])?;
    Ok(())
}

/// The sealed secrets.
pub(crate) static SECRETS: SealedColumn =
    SealedColumn { migration: 15, page: &SEALED, set: Some(&RESEAL), binding: |id| binding(&id) };
