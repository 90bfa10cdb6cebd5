//! Grants: what a user allowed a client, and the family of refresh tokens that lives on it.
//!
//! Refresh tokens rotate, and one winner uses each. The successor's secret is derived from predecessor
//! and successor id, so that a client whose answer was lost gets the *same* successor again, for ten
//! seconds and while that one is unused (RFC 9700 section 4.14). Later reuse revokes the family.

use crate::ids::{ClientId, GrantId, OrganizationId, RefreshTokenId, ServiceId, SessionId, UserId};
use crate::scopes::Scope;
use crate::secrets::{self, Hash, Random, SecretKey};
use crate::tokens::ACCESS_LIFE;
use crate::walks::Page;
use crate::{Error, Result, Time, sessions};
use std::time::Duration;
use store::{Key, Snapshot, Tx, args, insert, lock, sql, statements};

/// A refresh token that is not used for this long ends.
pub const REFRESH_LIFE: Duration = Duration::from_secs(30 * 24 * 3600);
/// How long a used refresh token still gives the same successor.
const SAME_SUCCESSOR_FOR: Duration = Duration::from_secs(10);

/// A grant to be made.
#[derive(Clone, Debug)]
pub struct NewGrant {
    /// Its new id.
    pub id: GrantId,
    /// Where the user belongs.
    pub organization: OrganizationId,
    /// Who allowed it.
    pub user: UserId,
    /// To whom.
    pub client: ClientId,
    /// The session that it ends with.
    pub session: SessionId,
    /// What.
    pub scope: Scope,
}

/// A refresh token that does not exist yet: ids and secrets are made before the command.
#[derive(Clone, Debug)]
pub struct NewRefresh {
    /// Its new id.
    pub id: RefreshTokenId,
    /// What its owner gets: `<id>.<secret>`.
    pub token: String,
    /// What is stored.
    pub hash: Hash,
}

impl NewRefresh {
    /// The first of a family.
    pub fn first(now: Time, random: &dyn Random) -> NewRefresh {
        NewRefresh::with(RefreshTokenId::new(now, random), &secrets::secret(random))
    }

    /// The successor `id` of `predecessor`: always the same secret for the same two.
    pub fn successor(id: RefreshTokenId, predecessor: &RefreshTokenId, key: &SecretKey) -> NewRefresh {
        let secret = key.derive(&["refresh", predecessor.as_str(), id.as_str()]);
        NewRefresh::with(id, &secret)
    }

    fn with(id: RefreshTokenId, secret: &str) -> NewRefresh {
        NewRefresh { token: format!("{id}.{secret}"), hash: secrets::hash(secret.as_bytes()), id }
    }
}

statements! {
    static INSERT = insert(
        "grants",
        &[&["id", "organization_id", "user_id", "client_id", "session_id", "scope", "created_at"]],
    );
    static INSERT_REFRESH = insert("refresh_tokens", &[&["id", "grant_id", "hash", "created_at", "expires_at"]]);
    static LOCK = lock("refresh_tokens", "id");
    static REFRESH = sql(
        "SELECT grant_id, hash, expires_at, used_at, successor_id FROM refresh_tokens WHERE id = ?1",
    );
    static USE = sql("UPDATE refresh_tokens SET used_at = ?2, successor_id = ?3 WHERE id = ?1 AND used_at IS NULL");
    static REVOKE = sql("UPDATE grants SET revoked_at = ?2, revoked_by = ?3 WHERE id = ?1 AND revoked_at IS NULL");
    static STATE = sql("SELECT g.user_id, g.organization_id, g.client_id, g.session_id, g.scope, g.revoked_at,
            s.ended_at, s.expires_at, s.authenticated_at, us.suspended_at, os.suspended_at, c.service_id,
            c.organization_id
     FROM grants g
     JOIN sessions s ON s.id = g.session_id
     JOIN clients c ON c.id = g.client_id
     LEFT JOIN user_suspensions us ON us.user_id = g.user_id
     LEFT JOIN organization_suspensions os ON os.organization_id = c.organization_id
     WHERE g.id = ?1");
    static OLD_REFRESH = sql("SELECT id, grant_id, used_at FROM refresh_tokens WHERE id < ?1 ORDER BY id LIMIT ?2");
    static DELETE_REFRESH = sql("DELETE FROM refresh_tokens WHERE id = ?1");
    static MADE = sql("SELECT g.id, g.scope, g.revoked_at, s.kind
     FROM grants g LEFT JOIN sessions s ON s.id = g.session_id
     WHERE g.id > ?1 AND g.id < ?2 ORDER BY g.id LIMIT ?3");
    static SESSION = sql("SELECT session_id FROM grants WHERE id = ?1");
    static OF_SESSION = sql("SELECT id FROM grants WHERE session_id = ?1 ORDER BY id LIMIT ?2");
    static DELETE = sql("DELETE FROM grants WHERE id = ?1");
}

/// The key that changes when a grant is revoked.
pub fn key(id: &GrantId) -> Key {
    Key::row("grants", "id", id.as_str())
}

/// A grant with the state of all that it hangs on.
#[derive(Clone, Debug)]
pub struct Grant {
    /// Its id.
    pub id: GrantId,
    /// Who allowed it.
    pub user: UserId,
    /// Where the user belongs.
    pub organization: OrganizationId,
    /// To whom.
    pub client: ClientId,
    /// The service that the client belongs to.
    pub service: Option<ServiceId>,
    /// The session that it ends with.
    pub session: SessionId,
    /// What.
    pub scope: Scope,
    /// When the user last proved who he is.
    pub authenticated_at: Time,
    /// When its session ends by itself.
    pub session_expires_at: Time,
    alive: bool,
}

impl Grant {
    /// Whether tokens of it are good: neither it, its session, its user nor the organization is stopped.
    pub fn is_alive(&self, now: Time) -> bool {
        self.alive && self.session_expires_at > now
    }

    /// The keys on which [`Grant::is_alive`] depends.
    pub fn keys(&self) -> Vec<Key> {
        vec![
            key(&self.id),
            sessions::key(&self.session),
            Key::row("clients", "id", self.client.as_str()),
            Key::row("user_suspensions", "user_id", self.user.as_str()),
            Key::row("organization_suspensions", "organization_id", self.organization.as_str()),
        ]
    }
}

/// Makes a grant and the first refresh token of its family.
pub fn create(tx: &mut Tx<'_>, new: &NewGrant, refresh: Option<&NewRefresh>, now: Time) -> Result<()> {
    let scope = new.scope.to_string();
    tx.exec(&INSERT, args![&new.id, &new.organization, &new.user, &new.client, &new.session, &scope, now])?;
    tx.changed(key(&new.id));
    if let Some(refresh) = refresh {
        insert_refresh(tx, refresh, &new.id, now)?;
    }
    Ok(())
}

fn insert_refresh(tx: &mut Tx<'_>, refresh: &NewRefresh, grant: &GrantId, now: Time) -> Result<()> {
    tx.exec(&INSERT_REFRESH, args![&refresh.id, grant, &refresh.hash, now, now + REFRESH_LIFE])?;
    Ok(())
}

/// The grant with this id, and how it stands.
pub fn get(snapshot: &mut Snapshot<'_>, id: &GrantId) -> Result<Option<Grant>> {
    Ok(snapshot.one(&STATE, args![id], |row| {
        let stops: [Option<Time>; 4] = [row.get(5)?, row.get(6)?, row.get(9)?, row.get(10)?];
        // A user of one organization has nothing to allow a client of another.
        let (organization, of_client): (OrganizationId, OrganizationId) = (row.get(1)?, row.get(12)?);
        let at_home = organization == of_client;
        Ok(Grant {
            id: id.clone(),
            user: row.get(0)?,
            organization,
            client: row.get(2)?,
            session: row.get(3)?,
            scope: Scope::parse(&row.get::<String>(4)?),
            session_expires_at: row.get(7)?,
            authenticated_at: row.get(8)?,
            service: row.get(11)?,
            alive: at_home && stops.iter().all(Option::is_none),
        })
    })?)
}

/// Revokes a grant with all its tokens. False when it was revoked already.
pub fn revoke(tx: &mut Tx<'_>, id: &GrantId, revoked_by: &str, now: Time) -> Result<bool> {
    let revoked = tx.exec(&REVOKE, args![id, now, revoked_by])? == 1;
    tx.changed(key(id));
    Ok(revoked)
}

/// What became of a refresh.
#[derive(Clone, Debug)]
pub enum Refreshed {
    /// The grant goes on with this successor (its secret is derived from both ids).
    Continues {
        /// What was allowed, to whom.
        grant: Box<Grant>,
        /// The new refresh token.
        successor: RefreshTokenId,
    },
    /// An old token came back: somebody has a copy. The family is revoked.
    Reused,
}

/// Uses the refresh token `id` with `secret` for `client`. One of all who try makes the successor.
pub fn refresh(
    tx: &mut Tx<'_>,
    id: &RefreshTokenId,
    secret: &str,
    client: &ClientId,
    successor: &NewRefresh,
    now: Time,
) -> Result<Refreshed> {
    tx.lock(&LOCK, id.into())?;
    type Stored = (GrantId, Vec<u8>, Time, Option<Time>, Option<RefreshTokenId>);
    let stored: Option<Stored> = tx.one(&REFRESH, args![id], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
    })?;
    let Some((grant, hash, expires_at, used_at, successor_id)) = stored else {
        return Err(Error::InvalidGrant);
    };
    if !secrets::matches(secret.as_bytes(), &hash) || expires_at <= now {
        return Err(Error::InvalidGrant);
    }
    let grant = get(tx.snapshot(), &grant)?.ok_or(Error::InvalidGrant)?;
    if grant.client != *client || !grant.is_alive(now) {
        return Err(Error::InvalidGrant);
    }
    match (used_at, successor_id) {
        (None, _) => {
            tx.exec(&USE, args![id, now, &successor.id])?;
            insert_refresh(tx, successor, &grant.id, now)?;
            Ok(Refreshed::Continues { grant: Box::new(grant), successor: successor.id.clone() })
        }
        (Some(used_at), Some(earlier))
            if now.since(used_at) <= SAME_SUCCESSOR_FOR && is_unused(tx, &earlier)? =>
        {
            Ok(Refreshed::Continues { grant: Box::new(grant), successor: earlier })
        }
        _ => {
            revoke(tx, &grant.id, "reuse of a refresh token", now)?;
            Ok(Refreshed::Reused)
        }
    }
}

fn is_unused(tx: &mut Tx<'_>, id: &RefreshTokenId) -> Result<bool> {
    let used_at: Option<Option<Time>> = tx.one(&REFRESH, args![id], |row| row.get(3))?;
    Ok(used_at == Some(None))
}

/// The grant that a refresh token belongs to, if the token is good; for revocation and introspection.
/// The time is when the token ends; `None` in its place when it was used.
pub fn of_refresh_token(snapshot: &mut Snapshot<'_>, token: &str) -> Result<Option<(Grant, Option<Time>)>> {
    let Some((id, secret)) = secrets::split_token(token) else { return Ok(None) };
    let Ok(id) = RefreshTokenId::parse(id) else { return Ok(None) };
    let stored: Option<(GrantId, Vec<u8>, Time, Option<Time>)> =
        snapshot.one(&REFRESH, args![&id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
    let Some((grant, hash, expires_at, used_at)) = stored else { return Ok(None) };
    if !secrets::matches(secret.as_bytes(), &hash) {
        return Ok(None);
    }
    Ok(get(snapshot, &grant)?.map(|grant| (grant, used_at.is_none().then_some(expires_at))))
}

/// The next up to `most` grants after the id `after`: which of them were over at `moment`, by themselves. Those that end
/// with their session or with their last refresh token are found by these, and what was made later is not looked at.
pub fn over(snapshot: &mut Snapshot<'_>, after: &str, moment: Time, most: i64) -> Result<Page<GrantId>> {
    let floor = crate::ids::smallest_at(GrantId::PREFIX, moment - ACCESS_LIFE);
    let rows = snapshot.all(&MADE, args![after, &floor, most], |row| {
        let (revoked_at, kind): (Option<Time>, Option<String>) = (row.get(2)?, row.get(3)?);
        let is_over = match kind.as_deref() {
            None => true,
            _ if revoked_at.is_some_and(|at| at < moment) => true,
            Some(kind) => !has_refresh(kind, &Scope::parse(&row.get::<String>(1)?)),
        };
        Ok((row.get(0)?, is_over))
    })?;
    Ok(Page::of(rows, most))
}

/// Whether a grant was made with a refresh token: every device's is, and a browser's when its scope asks for one. One
/// without gave one access token and no more.
fn has_refresh(kind_of_session: &str, scope: &Scope) -> bool {
    kind_of_session != "browser" || scope.contains("offline_access")
}

/// Deletes up to `most` grants of a session that is over; how many there were.
pub(crate) fn delete_of_session(tx: &mut Tx<'_>, session: &SessionId, most: i64) -> Result<i64> {
    let ids: Vec<GrantId> = tx.all(&OF_SESSION, args![session, most], |row| row.get(0))?;
    let mut deleted = 0;
    for id in &ids {
        tx.exec(&DELETE, args![id])?;
        tx.changed(key(id));
        deleted += 1;
    }
    Ok(deleted)
}

/// Deletes a grant; the session that it belonged to.
pub(crate) fn remove(tx: &mut Tx<'_>, id: &GrantId) -> Result<Option<SessionId>> {
    let session = tx.one(&SESSION, args![id], |row| row.get(0))?;
    tx.exec(&DELETE, args![id])?;
    tx.changed(key(id));
    Ok(session)
}

/// Deletes up to `most` refresh tokens that were made before `moment`: the grants of those that were never used, and how
/// many tokens there were.
pub(crate) fn remove_refresh_tokens(
    tx: &mut Tx<'_>,
    moment: Time,
    most: i64,
) -> Result<(Vec<GrantId>, usize)> {
    let before = crate::ids::smallest_at(RefreshTokenId::PREFIX, moment);
    let old: Vec<(RefreshTokenId, GrantId, Option<Time>)> =
        tx.all(&OLD_REFRESH, args![&before, most], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    for (id, ..) in &old {
        tx.exec(&DELETE_REFRESH, args![id])?;
    }
    let count = old.len();
    let unused = old.into_iter().filter(|(_, _, used_at)| used_at.is_none()).map(|(_, grant, _)| grant);
    Ok((unused.collect(), count))
}
