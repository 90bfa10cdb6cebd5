//! One-time links: `<id>.<secret>` in an address, 256 random bits, used once.
//!
//! Opening a link must use nothing (mail scanners open links too): pages `peek`, and `use_once` on a POST.
//! A set-up link is void once the platform has an owner; a sign-in link, when its user is suspended.

use crate::audit::{self, Actor};
use crate::ids::{self, LinkId, UserId};
use crate::secrets::{self, Hash, Random};
use crate::users::{self, User};
use crate::{Error, Result, Time, administrators, organizations};
use std::time::Duration;
use store::{Snapshot, Tx, args, insert, sql, statements};

/// How long a link is good.
pub const LIFE: Duration = Duration::from_secs(60 * 60);

/// What a link is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The first platform owner makes an account.
    SetUp,
    /// A user for whom an administrator vouches signs in: who has no password yet, or has lost it.
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

/// A link that does not exist yet: drawn before the command.
#[derive(Clone)]
pub struct NewLink {
    /// Its new id.
    pub id: LinkId,
    /// What it is good for.
    pub purpose: Purpose,
    /// Whom a sign-in link lets in.
    pub user: Option<UserId>,
    /// When it ends by itself.
    pub expires_at: Time,
    /// What its address carries.
    pub token: String,
    /// What is stored.
    pub hash: Hash,
}

impl NewLink {
    /// Draws the secret.
    pub fn draw(
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

/// Stores a link. For a sign-in link, [`create_sign_in`] checks and leaves a trace.
pub fn create(tx: &mut Tx<'_>, new: &NewLink, created_by: &str, now: Time) -> Result<()> {
    if new.purpose == Purpose::SetUp && administrators::has_platform_owner(tx.snapshot())? {
        let problem = "this server has an owner already; a set-up link is for the first one only";
        return Err(Error::refused("owner_exists", problem));
    }
    let purpose = new.purpose.as_str();
    tx.exec(&INSERT, args![&new.id, purpose, new.user.as_ref(), &new.hash, created_by, now, new.expires_at])?;
    Ok(())
}

/// Stores a link that lets `user` in.
pub fn create_sign_in(tx: &mut Tx<'_>, user: &User, new: &NewLink, actor: &Actor) -> Result<()> {
    if new.purpose != Purpose::SignIn || new.user.as_ref() != Some(&user.id) {
        return Err(Error::Broken("a sign-in link that is not for its user".to_owned()));
    }
    if user.suspended_at.is_some() {
        return Err(Error::refused("user_suspended", "this user is suspended; end the suspension first"));
    }
    create(tx, new, &actor.who, actor.now)?;
    audit::note(tx, &user.organization, actor, "user.sign_in_link_made", user.id.as_str(), new.id.as_str())
}

/// Whether a link is good, without using it, and whom it lets in. Unknown, used, expired and void look the
/// same. That the user belongs to the organization whose page this is, is for the caller to check.
pub fn peek(
    snapshot: &mut Snapshot<'_>,
    purpose: Purpose,
    token: &str,
    now: Time,
) -> Result<Option<Option<UserId>>> {
    Ok(good(snapshot, purpose, token, now)?.map(|(_, user)| user))
}

/// Uses a link: of all who try, one wins and learns whom it lets in; the others find no link. A set-up
/// link wants the owner made in the same command: that is what voids the other ones.
pub fn use_once(tx: &mut Tx<'_>, purpose: Purpose, token: &str, now: Time) -> Result<Option<UserId>> {
    if purpose == Purpose::SetUp {
        // Two links must not make two first owners.
        let platform = organizations::find(tx.snapshot(), organizations::PLATFORM)?.id;
        tx.lock(&organizations::LOCK, (&platform).into())?;
    }
    let no_link = Error::NotFound { what: "link" };
    let Some((id, user)) = good(tx.snapshot(), purpose, token, now)? else { return Err(no_link) };
    if tx.exec(&USE, args![&id, now])? == 1 { Ok(user) } else { Err(no_link) }
}

/// The link of this token and its user, while it is good.
fn good(
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

/// Deletes up to `most` links that were made before `moment`; how many there were.
pub fn delete_older(tx: &mut Tx<'_>, moment: Time, most: i64) -> Result<usize> {
    let floor = ids::smallest_at(LinkId::PREFIX, moment);
    let old: Vec<LinkId> = tx.all(&OLD, args![&floor, most], |row| row.get(0))?;
    for id in &old {
        tx.exec(&DELETE, args![id])?;
    }
    Ok(old.len())
}
