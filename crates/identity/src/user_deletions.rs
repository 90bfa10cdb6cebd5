//! Deletion of user accounts.
//!
//! [`delete`] takes effect at once: the user cannot sign in, sessions and subscriptions end, and what names the user is
//! gone from the rows that are few. The janitor blanks the rest in pages: network addresses and user agents of sessions,
//! and the addresses and details of audit entries about the user. Ids stay, so that the audit trail stays readable.
//!
//! Rows that soon expire are left to expire: a device authorization has the address of the device for two hours, and what a form
//! that mails was asked for has the mail address for a day.
//! Invitations are for accounts of `platform`, so an account elsewhere leaves those of its address alone.

use crate::audit::{self, Actor};
use crate::billing;
use crate::events::{self, Entry};
use crate::ids::{AuditId, OrganizationId, SessionId, UserId};
use crate::scan::Page;
use crate::users::{self, User};
use crate::{
    Error, Result, Time, administrators, consents, customers, invitations, mail, organizations, passwords,
    sessions, subscriptions, user_suspensions,
};
use std::time::Duration;
use store::{FromRow, Snapshot, Tx, args, insert, select_row, sql, statements};

/// The clocks of instances differ by less. What a request had begun before the deletion is written by then too.
const CLOCKS_DIFFER: Duration = Duration::from_secs(10 * 60);

/// A deleted user whose sessions and audit entries are not blanked yet.
#[derive(Clone, Debug, FromRow)]
#[row(of = "d")]
pub struct Deletion {
    /// The user.
    #[row("user_id")]
    pub user: UserId,
    /// The user's organization.
    #[row("organization_id")]
    pub organization: OrganizationId,
    /// The time at which the account was created. No entry about it is older.
    #[row("u.created_at")]
    pub created_at: Time,
    /// The time of the deletion.
    pub deleted_at: Time,
}

statements! {
    static INSERT = insert("user_deletions", &[&["user_id", "organization_id", "deleted_by", "deleted_at"]]);
    static NEXT = select_row::<Deletion>(
        "FROM user_deletions d JOIN users u ON u.id = d.user_id",
        "WHERE d.erased_at IS NULL ORDER BY d.user_id LIMIT 1",
    );
    static FORGET = sql("DELETE FROM user_deletions WHERE user_id = ?1");
    static ERASED = sql("UPDATE user_deletions SET erased_at = ?2 WHERE user_id = ?1 AND erased_at IS NULL");
}

/// Deletes an account. Fails for the actor's own account, for a platform owner and for the last owner of an organization.
pub fn delete(tx: &mut Tx<'_>, user: &User, actor: &Actor) -> Result<()> {
    let id = &user.id;
    if actor.who == id.as_str() {
        let problem = "you cannot delete your own account; ask another administrator";
        return Err(Error::refused("own_account", problem));
    }
    if administrators::is_platform_owner(tx.snapshot(), id)? {
        let problem = "this user owns the server; remove them from the owners first";
        return Err(Error::refused("platform_owner", problem));
    }
    for (organization, _) in administrators::of_user(tx.snapshot(), id)? {
        remove_role(tx, &organization, id, actor)?;
    }
    tx.lock(&users::LOCK, id.into())?;
    // Of two deletions at the same time, the second one does not find the user any more.
    let user = users::in_organization(tx.snapshot(), &user.organization, id)?;
    // Whatever asks whether the user may sign in looks at suspensions.
    user_suspensions::suspend_deleted(tx, id, actor)?;
    sessions::end_all_of_user(tx, id, "deletion", actor.now)?;
    passwords::delete(tx, id)?;
    consents::delete_of_user(tx, id)?;
    let customer = customers::of_user(tx.snapshot(), id)?;
    subscriptions::cancel_all(tx, &customer, actor.now)?;
    billing::customers::forget(tx, &customer)?;
    subscriptions::leave_seats(tx, id, actor.now)?;
    customers::leave_teams(tx, id)?;
    customers::rename_personal(tx, id, "")?;
    let home = organizations::get(tx.snapshot(), &user.organization)?;
    if home.slug == organizations::PLATFORM {
        invitations::forget_email(tx, &user.email, actor)?;
    }
    mail::delete_of_user(tx, id)?;
    users::blank(tx, id)?;
    tx.exec(&INSERT, args![id, &user.organization, &actor.who, actor.now])?;
    users::keys(id).into_iter().for_each(|key| tx.changed(key));
    events::note(tx, actor.now, &Entry::user(id, &user.organization))?;
    audit::note(tx, &user.organization, actor, "user.deleted", id.as_str(), "")
}

/// Removes a role of a user who is being deleted.
fn remove_role(
    tx: &mut Tx<'_>,
    organization: &organizations::Organization,
    user: &UserId,
    actor: &Actor,
) -> Result<()> {
    match administrators::leave(tx, &organization.id, user, actor) {
        Err(Error::Refused { code: code @ "last_owner", .. }) => {
            let slug = &organization.slug;
            let problem =
                format!("this is the last owner of {slug}; make another administrator an owner first");
            Err(Error::refused(code, problem))
        }
        other => other,
    }
}

/// Deletes what refers to the account of a user who is being removed with their organization.
pub(crate) fn forget(tx: &mut Tx<'_>, user: &UserId) -> Result<()> {
    passwords::delete(tx, user)?;
    consents::delete_of_user(tx, user)?;
    user_suspensions::forget(tx, user)?;
    tx.exec(&FORGET, args![user])?;
    users::keys(user).into_iter().for_each(|key| tx.changed(key));
    Ok(())
}

/// Gets a deletion whose sessions and audit entries are not blanked yet.
pub fn next(snapshot: &mut Snapshot<'_>) -> Result<Option<Deletion>> {
    Ok(snapshot.one(&NEXT, args![], Deletion::from_row)?)
}

/// Finds up to `most` sessions of a deleted user after the id `after`.
pub fn sessions_of(
    snapshot: &mut Snapshot<'_>,
    deletion: &Deletion,
    after: &str,
    most: i64,
) -> Result<Page<SessionId>> {
    sessions::page_of_user(snapshot, &deletion.user, after, most)
}

/// Removes network address and user agent from these sessions.
pub fn blank_sessions(tx: &mut Tx<'_>, ids: &[SessionId]) -> Result<()> {
    ids.iter().try_for_each(|id| sessions::blank(tx, id))
}

/// Finds the organization after the id `after` whose audit trail may name a deleted user: the user's own one, and every
/// one for a user of `platform`, who may have administered it.
pub fn next_trail(
    snapshot: &mut Snapshot<'_>,
    deletion: &Deletion,
    after: Option<&OrganizationId>,
) -> Result<Option<OrganizationId>> {
    let own = organizations::get(snapshot, &deletion.organization)?;
    if own.slug == organizations::PLATFORM {
        return organizations::next_id(snapshot, after);
    }
    Ok(after.is_none().then_some(own.id))
}

/// Finds, among up to `most` audit entries of an organization after the id `after`, those that name a deleted user.
pub fn entries_of(
    snapshot: &mut Snapshot<'_>,
    deletion: &Deletion,
    organization: &OrganizationId,
    after: &str,
    most: i64,
) -> Result<Page<AuditId>> {
    let since = crate::ids::smallest_at(AuditId::PREFIX, deletion.created_at);
    // The first entry may have been written in the same millisecond.
    let after = if after < since.as_str() { &since } else { after };
    // Nothing is done by the user or to them after the deletion. A trail that grows all the time has an end so.
    let until = crate::ids::smallest_at(AuditId::PREFIX, deletion.deleted_at + CLOCKS_DIFFER);
    audit::page_about(snapshot, organization, &deletion.user, (after, until.as_str()), most)
}

/// Removes what names a deleted user from these audit entries.
pub fn blank_entries(
    tx: &mut Tx<'_>,
    organization: &OrganizationId,
    user: &UserId,
    ids: &[AuditId],
) -> Result<()> {
    ids.iter().try_for_each(|id| audit::blank(tx, organization, user, id))
}

/// Notes that nothing is left to blank.
pub fn finish(tx: &mut Tx<'_>, user: &UserId, now: Time) -> Result<()> {
    tx.exec(&ERASED, args![user, now])?;
    users::keys(user).into_iter().for_each(|key| tx.changed(key));
    Ok(())
}
