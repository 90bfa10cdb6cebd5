//! Sessions of users, in browsers and on devices.

use crate::audit::{self, Actor};
use crate::authentication::Authentication;
use crate::events;
use crate::ids::{OrganizationId, SessionId, UserId};
use crate::scan::Page;
use crate::secrets::{self, Hash};
use crate::users::{self, User};
use crate::{Error, Result, Time};
use store::{FromRow, Key, Snapshot, ToRow, Tx, Where, args, insert_row, lock, select_row, sql, statements};

/// A session.
#[derive(Clone, Debug, FromRow)]
#[row(of = "s")]
pub struct Session {
    /// The id, which is the `sid` of tokens.
    pub id: SessionId,
    /// The user's organization.
    #[row("organization_id")]
    pub organization: OrganizationId,
    /// The user.
    #[row("user_id")]
    pub user: UserId,
    /// `browser` or `device`.
    pub kind: String,
    /// The IP address at creation.
    pub address: String,
    /// The browser's `User-Agent`, or the name of the device's client.
    pub agent: String,
    /// The creation time.
    pub created_at: Time,
    /// The user's last authentication.
    #[row(flatten)]
    pub authentication: Authentication,
    /// The expiry time.
    pub expires_at: Time,
}

/// The input for [`create`].
#[derive(Clone, Debug, ToRow)]
pub struct NewSession {
    /// The new id.
    pub id: SessionId,
    /// The user's organization.
    #[row("organization_id")]
    pub organization: OrganizationId,
    /// The user.
    #[row("user_id")]
    pub user: UserId,
    /// `browser` or `device`.
    pub kind: &'static str,
    /// The hash of the cookie's secret; `None` for a device, which holds tokens instead.
    pub hash: Option<Hash>,
    /// The IP address.
    pub address: String,
    /// The browser's `User-Agent`, or the name of the device's client.
    pub agent: String,
    /// The creation time.
    pub created_at: Time,
    /// The user's authentication. A device has the authentication of the browser session that allowed it.
    #[row(flatten)]
    pub authentication: Authentication,
    /// The expiry time.
    pub expires_at: Time,
}

/// The most live sessions of a user, or a few more: as many as one command ends. Otherwise who has stolen an account could
/// make so many that they cannot be ended.
pub const SESSIONS_MAX: i64 = 10_000;
/// So many of the oldest end at once where there are too many.
const OLDEST: i64 = 64;
/// The most sessions that the account page shows.
const SHOWN_MAX: i64 = 200;

/// A session with the hash of its cookie's secret.
#[derive(FromRow)]
#[row(of = "s")]
struct WithHash {
    #[row(flatten)]
    session: Session,
    hash: Option<Vec<u8>>,
}

/// When a session stopped or stops.
#[derive(FromRow)]
struct End {
    id: SessionId,
    ended_at: Option<Time>,
    expires_at: Time,
}

const FROM: &str = "FROM sessions s";

statements! {
    static INSERT = insert_row::<NewSession>("sessions");
    /// Commands that create a grant of a session take this lock first, so that its end comes before or after.
    pub(crate) static LOCK = lock("sessions", "id");
    static LIVE = select_row::<Session>(FROM, "WHERE s.id = ?1 AND s.ended_at IS NULL AND s.expires_at > ?2");
    static OF_COOKIE = select_row::<WithHash>(
        "FROM sessions s JOIN organizations o ON o.id = s.organization_id",
        "WHERE s.id = ?1 AND o.slug = ?2 AND s.ended_at IS NULL AND s.expires_at > ?3",
    );
    static BEYOND = sql("SELECT id FROM sessions WHERE user_id = ?1 AND ended_at IS NULL ORDER BY id DESC LIMIT ?2 OFFSET ?3");
    static END = sql("UPDATE sessions SET ended_at = ?2, ended_by = ?3 WHERE id = ?1 AND ended_at IS NULL");
    static RENEW = sql(
        "UPDATE sessions SET hash = ?2, authenticated_at = ?3, expires_at = ?4, authentication = ?5
         WHERE id = ?1 AND ended_at IS NULL",
    );
    static AUTHENTICATE = sql(
        "UPDATE sessions SET authenticated_at = ?2, authentication = ?3 WHERE id = ?1 AND ended_at IS NULL",
    );
    static END_OF_USER = sql(
        "UPDATE sessions SET ended_at = ?2, ended_by = ?3 WHERE user_id = ?1 AND ended_at IS NULL AND id <> ?4",
    );
}

/// The key that changes when this session ends alone.
pub fn key(id: &SessionId) -> Key {
    Key::row("sessions", "id", id.as_str())
}

/// The key that changes when many sessions of a user end at once: one key, however many there are. Whatever depends on
/// a session depends on this key too.
pub fn key_of_user(user: &UserId) -> Key {
    Key::row("sessions", "user_id", user.as_str())
}

/// Signs a user in, in a browser that sent `cookie` for this organization, and returns the id of the session that the
/// browser then has. A live session of the same user is kept: it gets a new secret and the new authentication, so that
/// tokens of other clients stay valid. A session of another user ends and a new one is created. Fails if the user was
/// suspended while the password was verified, which takes a while.
pub fn sign_in(
    tx: &mut Tx<'_>,
    new: &NewSession,
    organization: &str,
    cookie: Option<&str>,
    actor: &Actor,
) -> Result<SessionId> {
    tx.lock(&users::LOCK, (&new.user).into())?;
    if users::get(tx.snapshot(), &new.user)?.suspended_at.is_some() {
        return Err(Error::refused(
            "user_suspended",
            "this account was suspended a moment ago; ask an administrator of the organization",
        ));
    }
    // Read under the lock: of two sign-ins with the same cookie only the first one finds its session.
    let before = match cookie {
        Some(cookie) => by_cookie(tx.snapshot(), organization, cookie, actor.now)?,
        None => None,
    };
    if let Some(before) = before {
        if before.user == new.user && renew(tx, &before.id, new)? {
            audit::note(tx, &new.organization, actor, "session.renewed", before.id.as_str(), "")?;
            return Ok(before.id);
        }
        end(tx, &before.id, "sign-in", actor.now)?;
    }
    create(tx, new)?;
    audit::note(tx, &new.organization, actor, "session.created", new.id.as_str(), "")?;
    Ok(new.id.clone())
}

/// Gives a session the secret, the authentication and the end of `new`. Returns false if it has ended.
pub(crate) fn renew(tx: &mut Tx<'_>, id: &SessionId, new: &NewSession) -> Result<bool> {
    let hash = new.hash.as_ref().map(|hash| hash.as_slice());
    let how = &new.authentication;
    let renewed = tx.exec(&RENEW, args![id, hash, how.at, new.expires_at, how.stored()])? == 1;
    tx.changed(key(id));
    Ok(renewed)
}

/// Creates a session. Where the user has [`SESSIONS_MAX`], the oldest end.
pub fn create(tx: &mut Tx<'_>, new: &NewSession) -> Result<()> {
    tx.exec(&INSERT, &new.values())?;
    tx.changed(key(&new.id));
    // One of 32 looks, because to count them takes longer than to create one.
    if new.id.as_str().ends_with('0') {
        let beyond: Vec<SessionId> =
            tx.all(&BEYOND, args![&new.user, OLDEST, SESSIONS_MAX], |row| row.get(0))?;
        for id in &beyond {
            end(tx, id, "newer sessions", new.created_at)?;
        }
    }
    Ok(())
}

/// Finds the live session of a cookie value `<id>.<secret>`. The session must belong to `organization`; the name of the
/// cookie does not prove that, because the browser sends it.
pub fn by_cookie(
    snapshot: &mut Snapshot<'_>,
    organization: &str,
    cookie: &str,
    now: Time,
) -> Result<Option<Session>> {
    let Some((id, secret)) = secrets::split_token(cookie) else { return Ok(None) };
    let Ok(id) = SessionId::parse(id) else { return Ok(None) };
    let found = snapshot.one(&OF_COOKIE, args![&id, organization, now], WithHash::from_row)?;
    Ok(found.and_then(|WithHash { session, hash }| {
        hash.is_some_and(|hash| secrets::matches(secret.as_bytes(), &hash)).then_some(session)
    }))
}

/// Gets the session with this id if it has not ended or expired.
pub fn live(snapshot: &mut Snapshot<'_>, id: &SessionId, now: Time) -> Result<Option<Session>> {
    Ok(snapshot.one(&LIVE, args![id, now], Session::from_row)?)
}

/// The newest live sessions of a user, newest first: as many as a page shows.
pub fn of_user(snapshot: &mut Snapshot<'_>, user: &UserId, now: Time) -> Result<Vec<Session>> {
    list(snapshot, user, now, None, SHOWN_MAX)
}

/// Lists the live sessions of a user before `cursor`, newest first.
pub fn list(
    snapshot: &mut Snapshot<'_>,
    user: &UserId,
    now: Time,
    cursor: Option<&str>,
    limit: i64,
) -> Result<Vec<Session>> {
    let mut filter = Where::of::<Session>(FROM);
    filter.and("s.user_id =", user);
    filter.and("s.ended_at IS NULL AND s.expires_at >", now);
    filter.and_if("s.id <", cursor);
    let (sql, args) = filter.finish(&format!("ORDER BY s.id DESC LIMIT {limit}"));
    Ok(snapshot.all(&sql, &args, Session::from_row)?)
}

/// Stores that the user has authenticated again. Nothing of the authentication before stays, also if it was stronger.
pub fn authenticate(tx: &mut Tx<'_>, id: &SessionId, how: &Authentication) -> Result<()> {
    tx.exec(&AUTHENTICATE, args![id, how.at, how.stored()])?;
    tx.changed(key(id));
    Ok(())
}

/// Ends a session. Returns false if it had already ended.
pub fn end(tx: &mut Tx<'_>, id: &SessionId, ended_by: &str, now: Time) -> Result<bool> {
    let ended = tx.exec(&END, args![id, now, ended_by])? == 1;
    tx.changed(key(id));
    if ended {
        events::note_session(tx, id, now)?;
    }
    Ok(ended)
}

/// Ends all sessions of a user on behalf of an administrator, in browsers and on devices. Returns the number of ended
/// sessions.
pub fn end_all_for(tx: &mut Tx<'_>, user: &User, actor: &Actor) -> Result<u64> {
    let ended = end_all_of_user(tx, &user.id, "administrator", actor.now)?;
    audit::note(tx, &user.organization, actor, "user.sessions_ended", user.id.as_str(), &ended.to_string())?;
    Ok(ended)
}

/// Ends one session of a user on behalf of an administrator.
pub fn end_for(tx: &mut Tx<'_>, user: &User, id: &SessionId, actor: &Actor) -> Result<()> {
    tx.lock(&users::LOCK, (&user.id).into())?;
    if live(tx.snapshot(), id, actor.now)?.is_none_or(|session| session.user != user.id) {
        return Err(Error::NotFound { what: "session" });
    }
    end(tx, id, "administrator", actor.now)?;
    audit::note(tx, &user.organization, actor, "session.ended", id.as_str(), "")
}

/// Ends all sessions of a user. Returns the number of ended sessions. No browser stays known.
pub fn end_all_of_user(tx: &mut Tx<'_>, user: &UserId, ended_by: &str, now: Time) -> Result<u64> {
    users::forget_known_browsers(tx, user)?;
    end_all_but(tx, user, None, ended_by, now)
}

/// Ends all sessions of a user except `kept`, in one statement, because a user may have thousands. Returns the number
/// of ended sessions.
pub(crate) fn end_all_but(
    tx: &mut Tx<'_>,
    user: &UserId,
    kept: Option<&SessionId>,
    ended_by: &str,
    now: Time,
) -> Result<u64> {
    tx.lock(&users::LOCK, user.into())?;
    let kept = kept.map_or("", SessionId::as_str);
    let ended = tx.exec(&END_OF_USER, args![user, now, ended_by, kept])?;
    tx.changed(key_of_user(user));
    if ended > 0 {
        events::note_sessions(tx, user, now)?;
    }
    Ok(ended)
}

/// The sessions that a user ends.
#[derive(Clone, Debug)]
pub enum Own {
    /// One session. A session of another user is not ended.
    One(SessionId),
    /// All sessions except the requesting one. No other browser stays known.
    Others,
}

/// Ends sessions of the user of the requesting session `by`. Returns the number of ended sessions, or `None` if `by`
/// has ended in the meantime. If two sessions end each other, one succeeds.
pub fn end_own(tx: &mut Tx<'_>, by: &Session, which: &Own, actor: &Actor) -> Result<Option<u64>> {
    const BY: &str = "user";
    tx.lock(&users::LOCK, (&by.user).into())?;
    if live(tx.snapshot(), &by.id, actor.now)?.is_none() {
        return Ok(None);
    }
    let (ended, action, target, details) = match which {
        Own::One(id) => {
            let is_own = live(tx.snapshot(), id, actor.now)?.is_some_and(|found| found.user == by.user);
            let ended = is_own && end(tx, id, BY, actor.now)?;
            (u64::from(ended), "session.ended", id.as_str(), String::new())
        }
        Own::Others => {
            users::forget_known_browsers(tx, &by.user)?;
            let ended = end_all_but(tx, &by.user, Some(&by.id), BY, actor.now)?;
            (ended, "user.sessions_ended", by.user.as_str(), ended.to_string())
        }
    };
    if ended > 0 {
        audit::note(tx, &by.organization, actor, action, target, &details)?;
    }
    Ok(Some(ended))
}

statements! {
    static PAGE_OF_USER = sql("SELECT id FROM sessions WHERE user_id = ?1 AND id > ?2 ORDER BY id LIMIT ?3");
    static BLANK = sql("UPDATE sessions SET address = '', agent = '' WHERE id = ?1");
    static MADE = select_row::<End>("FROM sessions", "WHERE id > ?1 AND id < ?2 ORDER BY id LIMIT ?3");
    static DELETE = sql("DELETE FROM sessions WHERE id = ?1");
    static DELETE_OF_DEVICE = sql("DELETE FROM sessions WHERE id = ?1 AND kind = 'device'
     AND NOT EXISTS (SELECT 1 FROM grants g WHERE g.session_id = ?1)");
}

/// Reads up to `most` sessions of a user after the id `after`, ended or not.
pub(crate) fn page_of_user(
    snapshot: &mut Snapshot<'_>,
    user: &UserId,
    after: &str,
    most: i64,
) -> Result<Page<SessionId>> {
    Ok(Page::of(snapshot.all(&PAGE_OF_USER, args![user, after, most], |row| Ok((row.get(0)?, true)))?, most))
}

/// Removes network address and user agent from a session.
pub(crate) fn blank(tx: &mut Tx<'_>, id: &SessionId) -> Result<()> {
    tx.exec(&BLANK, args![id])?;
    tx.changed(key(id));
    Ok(())
}

/// Reads up to `most` sessions after the id `after`. Returns the ones that had ended or expired before `moment`.
/// Sessions created later are not read.
pub fn ended(snapshot: &mut Snapshot<'_>, after: &str, moment: Time, most: i64) -> Result<Page<SessionId>> {
    let floor = crate::ids::smallest_at(SessionId::PREFIX, moment);
    let rows = snapshot.all(&MADE, args![after, &floor, most], End::from_row)?;
    let has_ended =
        |End { id, ended_at, expires_at }| (id, ended_at.unwrap_or(expires_at).min(expires_at) < moment);
    Ok(Page::of(rows.into_iter().map(has_ended).collect(), most))
}

/// Deletes a session after its grants were deleted ([`crate::cleanup`]). Returns the number of deleted rows.
pub(crate) fn remove(tx: &mut Tx<'_>, id: &SessionId) -> Result<u64> {
    let deleted = tx.exec(&DELETE, args![id])?;
    tx.changed(key(id));
    Ok(deleted)
}

/// Deletes the session of a device after its grant was deleted. Without a grant, and without a cookie, nothing can use
/// it.
pub(crate) fn delete_of_device(tx: &mut Tx<'_>, id: &SessionId) -> Result<()> {
    tx.exec(&DELETE_OF_DEVICE, args![id])?;
    tx.changed(key(id));
    Ok(())
}
