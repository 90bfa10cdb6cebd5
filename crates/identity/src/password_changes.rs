//! Setting and changing a password, and what ends with the old one: the user's other sessions, with the tokens that belong
//! to them.
//!
//! A link of a user comes from an administrator of the user's own organization or from the server's machine, so using it
//! verifies the e-mail address; so does a mailed link or its code. If the address was not verified before, somebody else may
//! have made the account with it: the password and the sessions from before are void. Only where a session of the user proves
//! the address, who reads the mails is who is signed in, and keeps the password ([`verify`]).

use crate::audit::{self, Actor};
use crate::ids::{LinkId, SessionId, UserId};
use crate::links::{self, Purpose};
use crate::mail::requests;
use crate::secrets::Hash;
use crate::sessions::{self, NewSession, Session};
use crate::users::{self, User};
use crate::{Error, Result, Time, consents, passwords, user_suspensions};
use std::time::Duration;
use store::{Snapshot, Tx};

/// A user who signed in less than this long ago changes the password without the old one.
pub const RECENT_SIGN_IN: Duration = Duration::from_secs(10 * 60);

/// How long the browser that used a sign-in link may use it again.
const SAME_BROWSER_FOR: Duration = Duration::from_secs(60);

/// The text of `ended_by` in the sessions that a new password ends.
const ENDED_BY: &str = "new password";
/// The same of the first proof of an address.
const ENDED_BY_PROOF: &str = "verification of the address";

/// Changes the password of the user of the session `by`. The user's other sessions end. Returns the number of ended
/// sessions, or `None` if `by` has ended in the meantime.
pub fn change(tx: &mut Tx<'_>, by: &Session, hash: &str, actor: &Actor) -> Result<Option<u64>> {
    tx.lock(&users::LOCK, (&by.user).into())?;
    if sessions::live(tx.snapshot(), &by.id, actor.now)?.is_none() {
        return Ok(None);
    }
    let ended = replace(tx, &by.user, Some(&by.id), hash, actor)?;
    let user = by.user.as_str();
    audit::note(tx, &by.organization, actor, "user.password_changed", user, &ended.to_string())?;
    Ok(Some(ended))
}

/// Sets a password with a one-time link. All sessions of the user end. Fails with [`Error::NotFound`] if the link is not
/// valid any more.
pub fn set_by_link(tx: &mut Tx<'_>, token: &str, hash: &str, actor: &Actor) -> Result<User> {
    let user = use_link(tx, Purpose::Password, token, actor)?;
    replace(tx, &user.id, None, hash, actor)?;
    if user.suspended_at.is_some() {
        // Only the link of a recovery is valid then.
        user_suspensions::activate(tx, &user, actor)?;
    }
    audit::note(tx, &user.organization, actor, "user.password_set", user.id.as_str(), "")?;
    users::get(tx.snapshot(), &user.id)
}

/// What shows that somebody has read a mail.
#[derive(Clone, Debug)]
pub enum MailProof {
    /// The mailed link, in any browser.
    Link(String),
    /// The code of the same mail, in the browser that asked for it: the link without its secret.
    Code(LinkId),
}

impl MailProof {
    /// The link of the mail.
    pub fn link(&self) -> Option<LinkId> {
        match self {
            MailProof::Link(token) => links::id_of(token),
            MailProof::Code(link) => Some(link.clone()),
        }
    }

    fn peek(&self, snapshot: &mut Snapshot<'_>, purpose: Purpose, now: Time) -> Result<Option<UserId>> {
        let found = match self {
            MailProof::Link(token) => links::peek(snapshot, purpose, token, now)?,
            MailProof::Code(link) => links::peek_proved(snapshot, purpose, link)?,
        };
        Ok(found.flatten())
    }

    fn was_used(&self, snapshot: &mut Snapshot<'_>, purpose: Purpose) -> Result<bool> {
        match self {
            MailProof::Link(token) => Ok(links::user_of_used(snapshot, purpose, token)?.is_some()),
            MailProof::Code(link) => links::is_used(snapshot, purpose, link),
        }
    }

    /// Uses the link of the mail. Of several uses, by the link or the code, one succeeds; the others get [`Error::NotFound`].
    fn use_once(&self, tx: &mut Tx<'_>, purpose: Purpose, now: Time) -> Result<Option<UserId>> {
        match self {
            MailProof::Link(token) => links::use_once(tx, purpose, token, now),
            MailProof::Code(link) => links::use_proved(tx, purpose, link, now),
        }
    }
}

/// Finds the user who may set a new password by a proof. Unknown, used, expired and void ones look the same.
pub fn peek_reset(snapshot: &mut Snapshot<'_>, proof: &MailProof, now: Time) -> Result<Option<UserId>> {
    proof.peek(snapshot, Purpose::Reset, now)
}

/// Whether a password was set by a proof.
pub fn was_reset(snapshot: &mut Snapshot<'_>, proof: &MailProof) -> Result<bool> {
    proof.was_used(snapshot, Purpose::Reset)
}

/// Sets a new password in place of a forgotten one. All sessions of the user end. Of several uses of one mail, by its link or its
/// code, one succeeds; the others get [`Error::NotFound`].
pub fn reset(tx: &mut Tx<'_>, proof: &MailProof, hash: &str, actor: &Actor) -> Result<User> {
    let user = proof.use_once(tx, Purpose::Reset, actor.now)?;
    let user = note_proof(tx, user, actor)?;
    replace(tx, &user.id, None, hash, actor)?;
    audit::note(tx, &user.organization, actor, "user.password_reset", user.id.as_str(), "")?;
    users::get(tx.snapshot(), &user.id)
}

/// Finds the user whose address a proof verifies. Unknown, used, expired and void ones look the same; one is void when the
/// address is verified already, or is not that of the mail any more.
pub fn peek_verify(snapshot: &mut Snapshot<'_>, proof: &MailProof, now: Time) -> Result<Option<User>> {
    match proof.peek(snapshot, Purpose::Verify, now)? {
        Some(user) => to_verify(snapshot, proof, &user),
        None => Ok(None),
    }
}

/// Whether an address was verified by a proof.
pub fn was_verified(snapshot: &mut Snapshot<'_>, proof: &MailProof) -> Result<bool> {
    proof.was_used(snapshot, Purpose::Verify)
}

/// Verifies the address of an account. `by` is a session of the account in the browser that proves it: it stays, and the
/// password with it, and all other sessions end. Without one, what was set before is void, because somebody else may have made
/// the account and have asked for the mail. Of several uses of one mail one succeeds; the others get [`Error::NotFound`], and so does
/// who has no such session any more.
pub fn verify(tx: &mut Tx<'_>, proof: &MailProof, by: Option<&SessionId>, actor: &Actor) -> Result<User> {
    let void = || Error::NotFound { what: "link" };
    let user = proof.use_once(tx, Purpose::Verify, actor.now)?.ok_or_else(void)?;
    let user = to_verify(tx.snapshot(), proof, &user)?.ok_or_else(void)?;
    let Some(session) = by else { return note_proof(tx, Some(user.id), actor) };
    if sessions::live(tx.snapshot(), session, actor.now)?.is_none_or(|found| found.user != user.id) {
        return Err(Error::NotFound { what: "session" });
    }
    users::verify_email(tx, &user, actor.now)?;
    users::forget_known_browsers(tx, &user.id)?;
    sessions::end_all_but(tx, &user.id, Some(session), ENDED_BY_PROOF, actor.now)?;
    audit::note(tx, &user.organization, actor, "user.email_verified", user.id.as_str(), "")?;
    users::get(tx.snapshot(), &user.id)
}

/// The user of a mail, if the address to which it went is theirs and is not verified.
fn to_verify(snapshot: &mut Snapshot<'_>, proof: &MailProof, user: &UserId) -> Result<Option<User>> {
    let Some(link) = proof.link() else { return Ok(None) };
    let user = users::get(snapshot, user)?;
    let is_open = user.email_verified_at.is_none()
        && requests::address_of(snapshot, &link)? == Some(user.email.clone());
    Ok(is_open.then_some(user))
}

/// Verifies the address of an account with the invitation of a platform owner, and sets its password. All sessions of the
/// user end. The caller does this only for an address that was not verified before: a verified account keeps its
/// password.
pub(crate) fn take_over(tx: &mut Tx<'_>, user: &User, hash: &str, actor: &Actor) -> Result<User> {
    tx.lock(&users::LOCK, (&user.id).into())?;
    users::verify_email(tx, user, actor.now)?;
    consents::delete_of_user(tx, &user.id)?;
    replace(tx, &user.id, None, hash, actor)?;
    audit::note(tx, &user.organization, actor, "user.email_verified", user.id.as_str(), "")?;
    users::get(tx.snapshot(), &user.id)
}

/// A browser that uses a sign-in link.
#[derive(Clone, Debug)]
pub struct LinkUse {
    /// The token of the link.
    pub token: String,
    /// The hash of what only this browser has.
    pub browser: Hash,
    /// The session for it.
    pub session: NewSession,
    /// The slug of the organization, and the cookie that the browser has sent for it.
    pub organization: String,
    pub cookie: Option<String>,
}

/// Signs a user in with a sign-in link. Returns the user and the session. Fails with [`Error::NotFound`] if the link is not
/// valid any more. For a minute, the browser that has used the link gets a new secret for its session: the user may have
/// clicked twice, or lost the first answer.
pub fn sign_in_by_link(tx: &mut Tx<'_>, by: &LinkUse, actor: &Actor) -> Result<(User, SessionId)> {
    let user = match use_link(tx, Purpose::SignIn, &by.token, actor) {
        Err(Error::NotFound { what: "link" }) => return sign_in_again(tx, by, actor),
        user => user?,
    };
    if user.id != by.session.user {
        return Err(Error::Internal("a session for another user than that of the link".to_owned()));
    }
    let cookie = by.cookie.as_deref();
    let session = sessions::sign_in(tx, &by.session, &by.organization, cookie, actor)?;
    links::note_use(tx, &by.token, &by.browser, &session)?;
    audit::note(tx, &user.organization, actor, "user.sign_in_link_used", user.id.as_str(), "")?;
    Ok((user, session))
}

fn sign_in_again(tx: &mut Tx<'_>, by: &LinkUse, actor: &Actor) -> Result<(User, SessionId)> {
    let void = Error::NotFound { what: "link" };
    let used = links::use_by(tx.snapshot(), &by.token, &by.browser, actor.now - SAME_BROWSER_FOR)?;
    let Some((user, session)) = used else { return Err(void) };
    tx.lock(&users::LOCK, (&user).into())?;
    // The end of a user's sessions comes before this, or ends this one too. A suspension ends them all.
    let is_live = sessions::live(tx.snapshot(), &session, actor.now)?.is_some();
    if !is_live || !sessions::renew(tx, &session, &by.session)? {
        return Err(void);
    }
    let user = users::get(tx.snapshot(), &user)?;
    audit::note(tx, &user.organization, actor, "session.renewed", session.as_str(), "")?;
    Ok((user, session))
}

/// Consumes a link and verifies its user's address.
fn use_link(tx: &mut Tx<'_>, purpose: Purpose, token: &str, actor: &Actor) -> Result<User> {
    let user = links::use_once(tx, purpose, token, actor.now)?;
    note_proof(tx, user, actor)
}

/// Verifies the address of the user of a link that was used. What was set before is void then: somebody else may have made the
/// account.
fn note_proof(tx: &mut Tx<'_>, user: Option<UserId>, actor: &Actor) -> Result<User> {
    let user = users::get(tx.snapshot(), &user.ok_or(Error::NotFound { what: "link" })?)?;
    if !users::verify_email(tx, &user, actor.now)? {
        return Ok(user);
    }
    passwords::delete(tx, &user.id)?;
    consents::delete_of_user(tx, &user.id)?;
    sessions::end_all_of_user(tx, &user.id, ENDED_BY_PROOF, actor.now)?;
    audit::note(tx, &user.organization, actor, "user.email_verified", user.id.as_str(), "")?;
    users::get(tx.snapshot(), &user.id)
}

/// Stores the hash of a new password. The other sessions end, and no browser stays known.
fn replace(
    tx: &mut Tx<'_>,
    user: &UserId,
    kept: Option<&SessionId>,
    hash: &str,
    actor: &Actor,
) -> Result<u64> {
    passwords::put(tx, user, hash, actor.now)?;
    users::forget_known_browsers(tx, user)?;
    sessions::end_all_but(tx, user, kept, ENDED_BY, actor.now)
}
