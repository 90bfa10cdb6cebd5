//! One-time links: `<id>.<secret>` in a URL, with 256 random bits.
//!
//! Opening a link must not consume it, because mail scanners open links too: pages call [`peek`] on GET and
//! [`use_once`] on POST. A set-up link is void once the platform has an owner. A link of a user is void while the user is
//! suspended, unless it recovers an owner, whose suspension it ends: it comes from the server's machine. It is void after a
//! password was set later than the link was made, and when the one who made it may not make it any more.

use crate::administrators::Role;
use crate::audit::{self, Actor};
use crate::ids::{self, ApiKeyId, ClientId, LinkId, SessionId, UserId};
use crate::secrets::{self, Hash, Random};
use crate::users::{self, User};
use crate::{
    Error, Result, Time, administrators, api_keys, clients, organizations, passwords, program_scopes,
};
use std::time::Duration;
use store::{Snapshot, Sql, Tx, args, insert, sql, statements};

/// The lifetime of a set-up link, of a sign-in link, of a mailed link, and of a link that recovers an owner.
pub const LIFE: Duration = Duration::from_secs(60 * 60);
/// The lifetime of a password link for a user who has a password.
pub const FORGOTTEN_LIFE: Duration = Duration::from_secs(24 * 60 * 60);
/// The lifetime of a password link for a user who has none yet. No link lives longer.
pub const LIFE_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The purpose of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The first platform owner creates an account.
    SetUp,
    /// A user without a password, or with a lost one, signs in with a link from an administrator.
    SignIn,
    /// A user sets a password with a link from an administrator, or from the server's own machine.
    Password,
    /// A user sets a new password with a mailed link, in place of a forgotten one.
    Reset,
    /// A mailed link proves the address of an account that is to be made.
    SignUp,
    /// A mailed link proves the address of an account.
    Verify,
}

impl Purpose {
    const ALL: [Purpose; 6] = [
        Purpose::SetUp,
        Purpose::SignIn,
        Purpose::Password,
        Purpose::Reset,
        Purpose::SignUp,
        Purpose::Verify,
    ];

    fn as_str(self) -> &'static str {
        match self {
            Purpose::SetUp => "setup",
            Purpose::SignIn => "sign_in",
            Purpose::Password => "password",
            Purpose::Reset => "reset",
            Purpose::SignUp => "sign_up",
            Purpose::Verify => "verify",
        }
    }
}

/// The input for [`create`], generated before the command.
#[derive(Clone)]
pub struct NewLink {
    /// The new id.
    pub id: LinkId,
    /// The purpose.
    pub purpose: Purpose,
    /// The user of a sign-in link or of a password link.
    pub user: Option<UserId>,
    /// The expiry time.
    pub expires_at: Time,
    /// The token in the URL.
    pub token: String,
    /// The stored hash.
    pub hash: Hash,
}

impl NewLink {
    /// Generates the secret.
    pub fn generate(
        id: LinkId,
        purpose: Purpose,
        user: Option<UserId>,
        expires_at: Time,
        random: &dyn Random,
    ) -> NewLink {
        let secret = secrets::secret(random);
        let (token, hash) = (format!("{id}.{secret}"), secrets::hash(secret.as_bytes()));
        NewLink { id, purpose, user, expires_at, token, hash }
    }
}

statements! {
    static INSERT = insert(
        "links",
        &[&["id", "purpose", "user_id", "hash", "created_by", "created_at", "expires_at"]],
    );
    static UNUSED = sql(
        "SELECT hash, user_id, created_at, created_by FROM links WHERE id = ?1 AND purpose = ?2 AND used_at IS NULL AND expires_at > ?3",
    );
    static USED = sql("SELECT hash, user_id FROM links WHERE id = ?1 AND purpose = ?2 AND used_at IS NOT NULL");
    static USED_AFTER = sql("SELECT hash FROM links WHERE id = ?1 AND purpose = ?2 AND used_at > ?3");
    static ANY = sql("SELECT hash, user_id FROM links WHERE id = ?1 AND purpose = ?2");
    static NOTE_USE = sql("UPDATE links SET used_by = ?2, session_id = ?3 WHERE id = ?1");
    static USE_BY = sql("SELECT hash, user_id, session_id FROM links
     WHERE id = ?1 AND purpose = ?2 AND used_by = ?3 AND used_at > ?4");
    static USE = sql("UPDATE links SET used_at = ?2 WHERE id = ?1 AND used_at IS NULL AND expires_at > ?3");
    static PURPOSE = sql("SELECT purpose, hash FROM links WHERE id = ?1");
    static OLD = sql("SELECT id FROM links WHERE id < ?1 ORDER BY id LIMIT ?2");
    static DELETE = sql("DELETE FROM links WHERE id = ?1");
}

/// Stores a link. [`create_for`] stores a link of a user with its checks and its audit entry.
pub fn create(tx: &mut Tx<'_>, new: &NewLink, created_by: &str, now: Time) -> Result<()> {
    if new.purpose == Purpose::SetUp && administrators::has_platform_owner(tx.snapshot())? {
        let problem = "this server already has an owner and needs no set-up link; start it again";
        return Err(Error::refused("owner_exists", problem));
    }
    let purpose = new.purpose.as_str();
    tx.exec(&INSERT, args![&new.id, purpose, new.user.as_ref(), &new.hash, created_by, now, new.expires_at])?;
    Ok(())
}

/// Stores a link of `user` that an administrator makes, to sign in or to set a password. Returns its expiry time: a password link for a user
/// without a password lives longer than `new` says.
pub fn create_for(tx: &mut Tx<'_>, user: &User, new: &NewLink, actor: &Actor) -> Result<Time> {
    let (action, expires_at) = match new.purpose {
        Purpose::SetUp | Purpose::Reset | Purpose::SignUp | Purpose::Verify => {
            return Err(Error::Internal(format!(
                "no administrator makes a link for {}",
                new.purpose.as_str()
            )));
        }
        Purpose::SignIn => ("user.sign_in_link_made", new.expires_at),
        Purpose::Password if passwords::get(tx.snapshot(), &user.id)?.is_none() => {
            ("user.password_link_made", actor.now + LIFE_MAX)
        }
        Purpose::Password => ("user.password_link_made", new.expires_at),
    };
    store_for(tx, user, &NewLink { expires_at, ..new.clone() }, actor)?;
    audit::note(tx, &user.organization, actor, action, user.id.as_str(), new.id.as_str())?;
    Ok(expires_at)
}

/// Stores a password link that lets a platform owner in again. Its use ends a suspension of the owner, and the old password
/// with it: whoever controls the machine decides who owns the server. `details` names who asked for it on the server's machine.
pub fn create_recovery(
    tx: &mut Tx<'_>,
    owner: &User,
    new: &NewLink,
    details: &str,
    actor: &Actor,
) -> Result<()> {
    require_user(owner, new)?;
    create(tx, new, &actor.who, actor.now)?;
    audit::note(tx, &owner.organization, actor, "owner.recovered", owner.id.as_str(), details)
}

fn require_user(user: &User, new: &NewLink) -> Result<()> {
    match new.user.as_ref() == Some(&user.id) {
        true => Ok(()),
        false => Err(Error::Internal("a link for another user".to_owned())),
    }
}

fn store_for(tx: &mut Tx<'_>, user: &User, new: &NewLink, actor: &Actor) -> Result<()> {
    require_user(user, new)?;
    if user.suspended_at.is_some() {
        return Err(Error::refused("user_suspended", "this user is suspended; end the suspension first"));
    }
    create(tx, new, &actor.who, actor.now)
}

/// Checks a link without consuming it. Returns its user if it is valid. Unknown, used, expired and void links look the
/// same. The caller checks that the user belongs to the organization of the page.
pub fn peek(
    snapshot: &mut Snapshot<'_>,
    purpose: Purpose,
    token: &str,
    now: Time,
) -> Result<Option<Option<UserId>>> {
    Ok(find_valid(snapshot, purpose, token, now)?.map(|(_, user)| user))
}

/// Consumes a link and returns its user. Of several concurrent requests one succeeds; the others get
/// [`Error::NotFound`]. The caller of a set-up link creates the owner in the same command, which voids the other set-up
/// links.
pub fn use_once(tx: &mut Tx<'_>, purpose: Purpose, token: &str, now: Time) -> Result<Option<UserId>> {
    let no_link = Error::NotFound { what: "link" };
    // The lock prevents two links from creating two first owners, or from setting two passwords.
    if purpose == Purpose::SetUp {
        let platform = organizations::find(tx.snapshot(), organizations::PLATFORM)?.id;
        tx.lock(&organizations::LOCK, (&platform).into())?;
    } else if let Some((_, Some(user))) = find_valid(tx.snapshot(), purpose, token, now)? {
        tx.lock(&users::LOCK, (&user).into())?;
    }
    let Some((id, user)) = find_valid(tx.snapshot(), purpose, token, now)? else { return Err(no_link) };
    if tx.exec(&USE, args![&id, now, now])? == 1 { Ok(user) } else { Err(no_link) }
}

/// Consumes a link without its secret, after the code of the same mail was entered correctly. The link may have expired since
/// then.
pub(crate) fn use_proved(
    tx: &mut Tx<'_>,
    purpose: Purpose,
    id: &LinkId,
    now: Time,
) -> Result<Option<UserId>> {
    let no_link = Error::NotFound { what: "link" };
    let any_time = Time::from_millis(0);
    if let Some((_, Some(user))) = find_by_id(tx.snapshot(), purpose, id, any_time)? {
        tx.lock(&users::LOCK, (&user).into())?;
    }
    let Some((_, user)) = find_by_id(tx.snapshot(), purpose, id, any_time)? else { return Err(no_link) };
    if tx.exec(&USE, args![id, now, any_time])? == 1 { Ok(user) } else { Err(no_link) }
}

/// The user of a link that [`use_proved`] would consume.
pub(crate) fn peek_proved(
    snapshot: &mut Snapshot<'_>,
    purpose: Purpose,
    id: &LinkId,
) -> Result<Option<Option<UserId>>> {
    Ok(find_by_id(snapshot, purpose, id, Time::from_millis(0))?.map(|(_, user)| user))
}

/// Whether the link with this id was used.
pub(crate) fn is_used(snapshot: &mut Snapshot<'_>, purpose: Purpose, id: &LinkId) -> Result<bool> {
    Ok(snapshot.one(&USED, args![id, purpose.as_str()], |_| Ok(()))?.is_some())
}

/// The id in a token.
pub fn id_of(token: &str) -> Option<LinkId> {
    secrets::split_token(token).and_then(|(id, _)| LinkId::parse(id).ok())
}

/// What the link of a token is for, valid or not; `None` if there is no such link.
pub fn purpose_of(snapshot: &mut Snapshot<'_>, token: &str) -> Result<Option<Purpose>> {
    let Some((id, secret)) = secrets::split_token(token) else { return Ok(None) };
    let Ok(id) = LinkId::parse(id) else { return Ok(None) };
    let found: Option<(String, Vec<u8>)> =
        snapshot.one(&PURPOSE, args![&id], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let found = found.filter(|(_, hash)| secrets::matches(secret.as_bytes(), hash));
    Ok(found.and_then(|(word, _)| Purpose::ALL.into_iter().find(|purpose| purpose.as_str() == word)))
}

/// Finds the valid link of a token, with its user.
fn find_valid(
    snapshot: &mut Snapshot<'_>,
    purpose: Purpose,
    token: &str,
    now: Time,
) -> Result<Option<(LinkId, Option<UserId>)>> {
    let Some((id, secret)) = secrets::split_token(token) else { return Ok(None) };
    let Ok(id) = LinkId::parse(id) else { return Ok(None) };
    let found = find_by_id(snapshot, purpose, &id, now)?;
    Ok(found.filter(|(hash, _)| secrets::matches(secret.as_bytes(), hash)).map(|(_, user)| (id, user)))
}

/// Finds the valid link with this id: the hash of its secret, and its user.
fn find_by_id(
    snapshot: &mut Snapshot<'_>,
    purpose: Purpose,
    id: &LinkId,
    now: Time,
) -> Result<Option<(Vec<u8>, Option<UserId>)>> {
    let found: Option<(Vec<u8>, Option<UserId>, Time, String)> =
        snapshot.one(&UNUSED, args![id, purpose.as_str(), now], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        })?;
    let Some((hash, user, made_at, maker)) = found else { return Ok(None) };
    let is_void = match (&user, purpose) {
        (_, Purpose::SetUp) => administrators::has_platform_owner(snapshot)?,
        // That of a sign-up has no user yet.
        (of, Purpose::SignUp) => of.is_some(),
        (Some(id), _) => match users::get(snapshot, id) {
            Ok(user) => {
                user.suspended_at.is_some()
                    && !(purpose == Purpose::Password && is_recovery(snapshot, &maker, id)?)
                    || !may_make(snapshot, &maker, &user)?
                    || passwords::changed_at(snapshot, id)?.is_some_and(|changed_at| changed_at > made_at)
            }
            Err(Error::NotFound { .. }) => true,
            Err(error) => return Err(error),
        },
        (None, _) => true,
    };
    Ok((!is_void).then_some((hash, user)))
}

/// Whether a link was made on the server's machine for an owner of the server ([`create_recovery`]).
fn is_recovery(snapshot: &mut Snapshot<'_>, maker: &str, user: &UserId) -> Result<bool> {
    Ok(maker == audit::SYSTEM && administrators::is_platform_owner(snapshot, user)?)
}

/// Whether `maker` may make a link of this user now. Who was removed leaves none behind that work.
fn may_make(snapshot: &mut Snapshot<'_>, maker: &str, user: &User) -> Result<bool> {
    if maker == audit::SYSTEM {
        return Ok(true);
    }
    let scope = if let Ok(maker) = UserId::parse(maker) {
        let role = administrators::role_of(snapshot, &user.organization, &maker)?;
        let may = role >= Some(Role::Admin) || administrators::is_platform_owner(snapshot, &maker)?;
        return Ok(may && users::get(snapshot, &maker)?.suspended_at.is_none());
    } else if let Ok(key) = ApiKeyId::parse(maker) {
        // One that has only expired was good when it made the link.
        match api_keys::get(snapshot, &user.organization, &key) {
            Err(Error::NotFound { .. }) => None,
            key => Some(key?.scope),
        }
    } else if let Ok(client) = ClientId::parse(maker) {
        match clients::in_organization(snapshot, &user.organization, &client) {
            Err(Error::NotFound { .. }) => None,
            client => Some(client?.scope),
        }
    } else {
        None
    };
    Ok(scope.is_some_and(|scope| scope.contains(program_scopes::USER_LINKS)))
}

/// Whether a link was used after `moment`, for a browser that sends its form twice.
pub fn was_used_after(
    snapshot: &mut Snapshot<'_>,
    purpose: Purpose,
    token: &str,
    moment: Time,
) -> Result<bool> {
    let Some((id, secret)) = secrets::split_token(token) else { return Ok(false) };
    let Ok(id) = LinkId::parse(id) else { return Ok(false) };
    let found: Option<Vec<u8>> =
        snapshot.one(&USED_AFTER, args![&id, purpose.as_str(), moment], |row| row.get(0))?;
    Ok(found.is_some_and(|hash| secrets::matches(secret.as_bytes(), &hash)))
}

/// The user of a link that was used, for a browser that sends its form twice.
pub fn user_of_used(snapshot: &mut Snapshot<'_>, purpose: Purpose, token: &str) -> Result<Option<UserId>> {
    user_of(snapshot, &USED, purpose, token)
}

/// The user of a link, valid or not, for a page that says what they can do without it.
pub fn user_of_any(snapshot: &mut Snapshot<'_>, purpose: Purpose, token: &str) -> Result<Option<UserId>> {
    user_of(snapshot, &ANY, purpose, token)
}

fn user_of(
    snapshot: &mut Snapshot<'_>,
    statement: &'static Sql,
    purpose: Purpose,
    token: &str,
) -> Result<Option<UserId>> {
    let Some((id, secret)) = secrets::split_token(token) else { return Ok(None) };
    let Ok(id) = LinkId::parse(id) else { return Ok(None) };
    let found: Option<(Vec<u8>, Option<UserId>)> =
        snapshot.one(statement, args![&id, purpose.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(found.filter(|(hash, _)| secrets::matches(secret.as_bytes(), hash)).and_then(|(_, user)| user))
}

/// Stores which browser used a sign-in link, and the session that it got.
pub(crate) fn note_use(tx: &mut Tx<'_>, token: &str, browser: &Hash, session: &SessionId) -> Result<()> {
    let (id, _) = secrets::split_token(token).ok_or(Error::NotFound { what: "link" })?;
    tx.exec(&NOTE_USE, args![id, browser, session])?;
    Ok(())
}

/// The user and the session of a sign-in link that this browser used after `moment`.
pub(crate) fn use_by(
    snapshot: &mut Snapshot<'_>,
    token: &str,
    browser: &Hash,
    moment: Time,
) -> Result<Option<(UserId, SessionId)>> {
    let Some((id, secret)) = secrets::split_token(token) else { return Ok(None) };
    let Ok(id) = LinkId::parse(id) else { return Ok(None) };
    let purpose = Purpose::SignIn.as_str();
    let found: Option<(Vec<u8>, Option<UserId>, Option<SessionId>)> =
        snapshot.one(&USE_BY, args![&id, purpose, browser, moment], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?;
    let found = found.filter(|(hash, ..)| secrets::matches(secret.as_bytes(), hash));
    Ok(found.and_then(|(_, user, session)| user.zip(session)))
}

/// Deletes up to `most` links created before `moment`. Returns the number of deleted links.
pub fn delete_older(tx: &mut Tx<'_>, moment: Time, most: i64) -> Result<usize> {
    let floor = ids::smallest_at(LinkId::PREFIX, moment);
    let old: Vec<LinkId> = tx.all(&OLD, args![&floor, most], |row| row.get(0))?;
    for id in &old {
        tx.exec(&DELETE, args![id])?;
    }
    Ok(old.len())
}
