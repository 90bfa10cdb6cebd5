//! One-time links: `<id>.<secret>` in a URL, with 256 random bits.
//!
//! Opening a link must not consume it, because mail scanners open links too: pages call [`peek`] on GET and
//! [`use_once`] on POST. A set-up link is void once the platform has an owner. A sign-in link is void while its user is
//! suspended.

use crate::audit::{self, Actor};
use crate::ids::{self, LinkId, UserId};
use crate::secrets::{self, Hash, Random};
use crate::users::{self, User};
use crate::{Error, Result, Time, administrators, organizations};
use std::time::Duration;
use store::{Snapshot, Tx, args, insert, sql, statements};

/// The lifetime of a link.
pub const LIFE: Duration = Duration::from_secs(60 * 60);

/// The purpose of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The first platform owner creates an account.
    SetUp,
    /// A user without a password, or with a lost one, signs in with a link from an administrator.
    SignIn,
}

impl Purpose {
    fn as_str(self) -> &'static str {
        match self {
            Purpose::SetUp => "setup",
            Purpose::SignIn => "sign_in",
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
    /// The user whom a sign-in link signs in.
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
        "SELECT hash, user_id FROM links WHERE id = ?1 AND purpose = ?2 AND used_at IS NULL AND expires_at > ?3",
    );
    static USE = sql("UPDATE links SET used_at = ?2 WHERE id = ?1 AND used_at IS NULL AND expires_at > ?2");
    static OLD = sql("SELECT id FROM links WHERE id < ?1 ORDER BY id LIMIT ?2");
    static DELETE = sql("DELETE FROM links WHERE id = ?1");
}

/// Stores a link. [`create_sign_in`] stores a sign-in link with its checks and its audit entry.
pub fn create(tx: &mut Tx<'_>, new: &NewLink, created_by: &str, now: Time) -> Result<()> {
    if new.purpose == Purpose::SetUp && administrators::has_platform_owner(tx.snapshot())? {
        let problem = "this server already has an owner and needs no set-up link; start it again";
        return Err(Error::refused("owner_exists", problem));
    }
    let purpose = new.purpose.as_str();
    tx.exec(&INSERT, args![&new.id, purpose, new.user.as_ref(), &new.hash, created_by, now, new.expires_at])?;
    Ok(())
}

/// Stores a link that signs in `user`.
pub fn create_sign_in(tx: &mut Tx<'_>, user: &User, new: &NewLink, actor: &Actor) -> Result<()> {
    if new.purpose != Purpose::SignIn || new.user.as_ref() != Some(&user.id) {
        return Err(Error::Internal("a sign-in link for another user".to_owned()));
    }
    if user.suspended_at.is_some() {
        return Err(Error::refused("user_suspended", "this user is suspended; end the suspension first"));
    }
    create(tx, new, &actor.who, actor.now)?;
    audit::note(tx, &user.organization, actor, "user.sign_in_link_made", user.id.as_str(), new.id.as_str())
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
    if purpose == Purpose::SetUp {
        // The lock prevents two links from creating two first owners.
        let platform = organizations::find(tx.snapshot(), organizations::PLATFORM)?.id;
        tx.lock(&organizations::LOCK, (&platform).into())?;
    }
    let no_link = Error::NotFound { what: "link" };
    let Some((id, user)) = find_valid(tx.snapshot(), purpose, token, now)? else { return Err(no_link) };
    if tx.exec(&USE, args![&id, now])? == 1 { Ok(user) } else { Err(no_link) }
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
    let found: Option<(Vec<u8>, Option<UserId>)> =
        snapshot.one(&UNUSED, args![&id, purpose.as_str(), now], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let Some((_, user)) = found.filter(|(hash, _)| secrets::matches(secret.as_bytes(), hash)) else {
        return Ok(None);
    };
    let is_void = match (&user, purpose) {
        (_, Purpose::SetUp) => administrators::has_platform_owner(snapshot)?,
        (Some(user), Purpose::SignIn) => users::get(snapshot, user)?.suspended_at.is_some(),
        (None, Purpose::SignIn) => true,
    };
    Ok((!is_void).then_some((id, user)))
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
