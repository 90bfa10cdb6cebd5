//! Deletion of organizations: for 30 days it can be undone, then the data goes.
//!
//! [`delete`] suspends the organization, so nobody signs in and no token is valid. [`restore`] undoes it. After
//! [`GRACE`], the janitor calls [`erase_some`] until nothing is left but the organization's own row, which keeps the slug:
//! tokens and addresses contain it, so nobody else may get it.

use crate::audit::{self, Actor};
use crate::billing::removal;
use crate::ids::{OrganizationId, UserId};
use crate::organizations::{self, Organization, PLATFORM, Status};
use crate::{
    Error, Result, Time, administrators, api_keys, branding, catalog, cleanup, clients, customers,
    invitations, mail, plans, services, sessions, subscriptions, user_deletions, users,
};
use std::time::Duration;
use store::{Snapshot, Tx, args, insert, sql, statements};

/// The time in which a deletion can be undone.
pub const GRACE: Duration = Duration::from_secs(30 * 24 * 3600);

/// How much earlier than here the clock of another instance may be: a request to restore is judged by it.
const CLOCKS_DIFFER: Duration = Duration::from_secs(10 * 60);

/// Rows that an object has, such as the sessions and grants of a user.
const ROWS: i64 = 5;

statements! {
    static INSERT = insert(
        "organization_deletions",
        &[&["organization_id", "was_suspended", "deleted_by", "deleted_at", "final_at"]],
    );
    static WAS_SUSPENDED = sql("SELECT was_suspended FROM organization_deletions WHERE organization_id = ?1");
    static SUSPEND = sql(
        "UPDATE organization_deletions SET was_suspended = 1 WHERE organization_id = ?1 AND was_suspended = 0",
    );
    static RESTORE = sql(
        "DELETE FROM organization_deletions WHERE organization_id = ?1 AND final_at > ?2 AND erased_at IS NULL",
    );
    static IS_DUE = sql("SELECT final_at FROM organization_deletions
     WHERE organization_id = ?1 AND erased_at IS NULL AND final_at <= ?2");
    static DUE = sql("SELECT organization_id FROM organization_deletions
     WHERE erased_at IS NULL AND final_at <= ?1 ORDER BY final_at LIMIT ?2");
    static ERASED = sql("UPDATE organization_deletions SET erased_at = ?2 WHERE organization_id = ?1");
}

/// Deletes an organization. `platform` cannot be deleted.
pub fn delete(tx: &mut Tx<'_>, organization: &Organization, actor: &Actor) -> Result<()> {
    let id = &organization.id;
    tx.lock(&organizations::LOCK, id.into())?;
    let organization = organizations::get(tx.snapshot(), id)?;
    if organization.slug == PLATFORM {
        let problem = "the organization platform cannot be deleted";
        return Err(Error::refused("platform_stays", problem));
    }
    if organization.status == Status::Deleted {
        return Err(Error::NotFound { what: "organization" });
    }
    // Whatever asks whether anybody may sign in looks at suspensions.
    let was_suspended = !organizations::put_suspension(tx, id, None, actor)?;
    let row = args![id, i64::from(was_suspended), &actor.who, actor.now, actor.now + GRACE];
    tx.exec(&INSERT, row)?;
    organizations::keys(id).into_iter().for_each(|key| tx.changed(key));
    audit::note(tx, id, actor, "organization.deleted", id.as_str(), "")
}

/// Undoes the deletion of an organization. Sessions go on where they have not expired. Fails after [`GRACE`], and when
/// its last owner left or was deleted meanwhile.
pub fn restore(tx: &mut Tx<'_>, organization: &Organization, actor: &Actor) -> Result<Organization> {
    let id = &organization.id;
    tx.lock(&organizations::LOCK, id.into())?;
    let was_suspended: Option<i64> = tx.one(&WAS_SUSPENDED, args![id], |row| row.get(0))?;
    if !administrators::has_owner(tx.snapshot(), id)? || tx.exec(&RESTORE, args![id, actor.now])? == 0 {
        let problem = "this organization is not deleted, its 30 days are over, or it has no owner any more; nothing can be restored";
        return Err(Error::refused("not_restorable", problem));
    }
    if was_suspended == Some(0) {
        organizations::end_suspension(tx, id)?;
    }
    organizations::keys(id).into_iter().for_each(|key| tx.changed(key));
    audit::note(tx, id, actor, "organization.restored", id.as_str(), "")?;
    organizations::get(tx.snapshot(), id)
}

/// Suspends a deleted organization: its owners can restore it, but not end the suspension.
pub(crate) fn suspend(
    tx: &mut Tx<'_>,
    organization: &Organization,
    reason: Option<&str>,
    actor: &Actor,
) -> Result<Organization> {
    let id = &organization.id;
    tx.lock(&organizations::LOCK, id.into())?;
    organizations::keys(id).into_iter().for_each(|key| tx.changed(key));
    if tx.exec(&SUSPEND, args![id])? == 1 {
        organizations::suspend_anew(tx, id, reason, actor)?;
        organizations::note_decision(tx, organization, actor, "organization.suspended", reason)?;
    }
    organizations::get(tx.snapshot(), id)
}

/// Gets up to `most` deleted organizations whose data is due to go, those first that are due for longest.
pub fn due(snapshot: &mut Snapshot<'_>, now: Time, most: i64) -> Result<Vec<OrganizationId>> {
    Ok(snapshot.all(&DUE, args![now - CLOCKS_DIFFER, most], |row| row.get(0))?)
}

/// Deletes up to `most` objects of an organization that is due. Returns false while something is left; of one that was
/// restored meanwhile nothing is to be deleted.
pub fn erase_some(tx: &mut Tx<'_>, id: &OrganizationId, most: i64, actor: &Actor) -> Result<bool> {
    tx.lock(&organizations::LOCK, id.into())?;
    if tx.one(&IS_DUE, args![id, actor.now - CLOCKS_DIFFER], |row| row.get::<Time>(0))?.is_none() {
        return Ok(true);
    }
    // Each kind only after those that refer to it: one connection at a time goes, and others may be left.
    if removal::erase_some(tx, id, most)? > 0 {
        return Ok(false);
    }
    let mut left = most;
    for subscription in subscriptions::list(tx.snapshot(), id, &subscriptions::Filter::default(), None, left)?
    {
        subscriptions::delete(tx, &subscription, actor)?;
        left -= 1;
    }
    for customer in page(left, |most| customers::list(tx.snapshot(), id, None, most))? {
        customers::delete(tx, &customer)?;
        left -= 1;
    }
    for user in page(left, |most| users::ids(tx.snapshot(), id, most))? {
        if !erase_user(tx, &user, most * ROWS)? {
            return Ok(false);
        }
        left -= 1;
    }
    for plan in page(left, |most| plans::list(tx.snapshot(), id, None, most))? {
        catalog::delete_plan(tx, &plan, actor)?;
        left -= 1;
    }
    for client in page(left, |most| clients::list(tx.snapshot(), id, None, None, most))? {
        clients::delete(tx, &client, actor)?;
        left -= 1;
    }
    for service in page(left, |most| services::list(tx.snapshot(), id, None, most))? {
        catalog::delete_service(tx, &service, actor)?;
        left -= 1;
    }
    if left <= 0 || audit::delete_some(tx, id, most)? >= most || mail::delete_some(tx, id, most)? >= most {
        return Ok(false);
    }
    api_keys::delete_all(tx, id)?;
    invitations::delete_all(tx, id)?;
    administrators::remove_all(tx, id, actor.now)?;
    branding::delete(tx, id)?;
    organizations::blank(tx, id)?;
    tx.exec(&ERASED, args![id, actor.now])?;
    tx.changed(organizations::key_of_deletion(id));
    Ok(true)
}

/// A list of at most `left` objects; an empty one when no more may be deleted.
fn page<T>(left: i64, list: impl FnOnce(i64) -> Result<Vec<T>>) -> Result<Vec<T>> {
    if left > 0 { list(left) } else { Ok(Vec::new()) }
}

/// Deletes a user of an organization with everything that belongs to them, but at most so many sessions and grants. Returns
/// false if some are left.
fn erase_user(tx: &mut Tx<'_>, user: &UserId, most: i64) -> Result<bool> {
    let sessions = sessions::page_of_user(tx.snapshot(), user, "", most)?;
    if !cleanup::delete_sessions(tx, &sessions.ended, most)? || sessions.last.is_some() {
        return Ok(false);
    }
    user_deletions::forget(tx, user)?;
    users::remove(tx, user)?;
    Ok(true)
}
