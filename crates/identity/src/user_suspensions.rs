//! Suspension of user accounts. A suspended user cannot sign in, and their sessions end.

use crate::audit::{self, Actor};
use crate::events::{self, Entry};
use crate::ids::UserId;
use crate::users::{self, User};
use crate::{Error, Result, administrators, organizations, sessions};
use store::{Tx, args, insert_if_absent, sql, statements};

statements! {
    static INSERT = insert_if_absent("user_suspensions", &["user_id", "reason", "suspended_by", "suspended_at"]);
    static FORGET_REASON = sql("UPDATE user_suspensions SET reason = NULL WHERE user_id = ?1");
    static DELETE = sql("DELETE FROM user_suspensions WHERE user_id = ?1");
}

/// Suspends an account and ends its sessions. Idempotent. Users cannot suspend themselves, and a platform owner cannot be
/// suspended while no other one can sign in.
pub fn suspend(tx: &mut Tx<'_>, user: &User, reason: Option<&str>, actor: &Actor) -> Result<User> {
    let reason = audit::reason(reason)?;
    if actor.who == user.id.as_str() {
        let problem = "you cannot suspend your own account; ask another administrator";
        return Err(Error::refused("own_account", problem));
    }
    if administrators::is_platform_owner(tx.snapshot(), &user.id)? {
        // Of two owners who suspend or remove each other one stays.
        tx.lock(&organizations::LOCK, (&user.organization).into())?;
        administrators::require_another_platform_owner(tx, &user.id)?;
    }
    tx.lock(&users::LOCK, (&user.id).into())?;
    let is_new = tx.exec(&INSERT, args![&user.id, reason.as_deref(), &actor.who, actor.now])? == 1;
    users::keys(&user.id).into_iter().for_each(|key| tx.changed(key));
    if is_new {
        events::note(tx, actor.now, &Entry::user(&user.id, &user.organization))?;
        sessions::end_all_of_user(tx, &user.id, "suspension", actor.now)?;
        let details = reason.as_deref().unwrap_or_default();
        audit::note(tx, &user.organization, actor, "user.suspended", user.id.as_str(), details)?;
    }
    users::get(tx.snapshot(), &user.id)
}

/// Suspends an account for good, as a part of its deletion.
pub(crate) fn suspend_deleted(tx: &mut Tx<'_>, user: &UserId, actor: &Actor) -> Result<()> {
    tx.exec(&INSERT, args![user, Option::<&str>::None, &actor.who, actor.now])?;
    tx.exec(&FORGET_REASON, args![user])?;
    users::keys(user).into_iter().for_each(|key| tx.changed(key));
    Ok(())
}

/// Deletes the suspension of an account that is being removed with its organization.
pub(crate) fn forget(tx: &mut Tx<'_>, user: &UserId) -> Result<()> {
    tx.exec(&DELETE, args![user])?;
    users::keys(user).into_iter().for_each(|key| tx.changed(key));
    Ok(())
}

/// Ends the suspension of an account. Idempotent.
pub fn activate(tx: &mut Tx<'_>, user: &User, actor: &Actor) -> Result<User> {
    let was_suspended = tx.exec(&DELETE, args![&user.id])? == 1;
    users::keys(&user.id).into_iter().for_each(|key| tx.changed(key));
    if was_suspended {
        events::note(tx, actor.now, &Entry::user(&user.id, &user.organization))?;
        audit::note(tx, &user.organization, actor, "user.activated", user.id.as_str(), "")?;
    }
    users::get(tx.snapshot(), &user.id)
}
