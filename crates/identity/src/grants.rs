//! Grants: a user's authorization of a client, with its family of refresh tokens.
//!
//! Refresh tokens rotate, and each can be used once. The successor's secret is derived from the ids of predecessor and
//! successor. A client that lost the response therefore gets the *same* successor again, for ten seconds and while that
//! successor is unused (RFC 9700 section 4.14). Until two minutes have passed, it gets it once more: a phone sleeps in the
//! middle of a refresh. Two rotations without such a late repeat must follow before the family may have another. Any other
//! reuse revokes the family.

use crate::audit::{self, Actor};
use crate::authentication::Authentication;
use crate::events;
use crate::ids::{ClientId, GrantId, OrganizationId, RefreshTokenId, ServiceId, SessionId, UserId};
use crate::scan::Page;
use crate::scopes::Scope;
use crate::secrets::{self, Hash, Random, SecretKey};
use crate::tokens::ACCESS_LIFE;
use crate::{Error, Result, Time, account_keys, clients, organizations, sessions};
use std::time::Duration;
use store::{FromRow, Key, Snapshot, ToRow, Tx, args, insert_row, lock, select_row, sql, statements};

/// The lifetime of an unused refresh token.
pub const REFRESH_LIFE: Duration = Duration::from_secs(30 * 24 * 3600);
/// How long a used refresh token still returns the same successor.
const SAME_SUCCESSOR_FOR: Duration = Duration::from_secs(10);
/// How long it does so once more.
const LATE_REPEAT_FOR: Duration = Duration::from_secs(120);
/// How many rotations must follow a late repeat before the next one.
const ROTATIONS_BETWEEN: i64 = 2;

/// The input for [`create`].
#[derive(Clone, Debug)]
pub struct NewGrant {
    /// The new id.
    pub id: GrantId,
    /// The user's organization.
    pub organization: OrganizationId,
    /// The user who authorized the client.
    pub user: UserId,
    /// The client.
    pub client: ClientId,
    /// The session of the grant. The grant ends with it.
    pub session: SessionId,
    /// The granted scope.
    pub scope: Scope,
    /// The user's authentication before they authorized the client.
    pub authentication: Authentication,
}

/// A new refresh token, generated before the command.
#[derive(Clone, Debug)]
pub struct NewRefresh {
    /// The new id.
    pub id: RefreshTokenId,
    /// The token for the client: `<id>.<secret>`.
    pub token: String,
    /// The stored hash.
    pub hash: Hash,
}

impl NewRefresh {
    /// Generates the first token of a family.
    pub fn first(now: Time, random: &dyn Random) -> NewRefresh {
        NewRefresh::with(RefreshTokenId::new(now, random), &secrets::secret(random))
    }

    /// Derives the successor `id` of `predecessor`. The same two ids always give the same secret.
    pub fn successor(id: RefreshTokenId, predecessor: &RefreshTokenId, key: &SecretKey) -> NewRefresh {
        let secret = key.derive(&["refresh", predecessor.as_str(), id.as_str()]);
        NewRefresh::with(id, &secret)
    }

    fn with(id: RefreshTokenId, secret: &str) -> NewRefresh {
        NewRefresh { token: format!("{id}.{secret}"), hash: secrets::hash(secret.as_bytes()), id }
    }
}

/// A new row of `grants`.
#[derive(ToRow)]
struct NewRow<'a> {
    id: &'a GrantId,
    organization_id: &'a OrganizationId,
    user_id: &'a UserId,
    client_id: &'a ClientId,
    session_id: &'a SessionId,
    scope: &'a str,
    created_at: Time,
    #[row(flatten)]
    authentication: &'a Authentication,
}

/// A new row of `refresh_tokens`.
#[derive(ToRow)]
struct NewRefreshRow<'a> {
    id: &'a RefreshTokenId,
    grant_id: &'a GrantId,
    hash: &'a Hash,
    created_at: Time,
    expires_at: Time,
    late_repeat_after: i64,
}

/// A row of `refresh_tokens`.
#[derive(FromRow)]
struct RefreshRow {
    grant_id: GrantId,
    hash: Vec<u8>,
    expires_at: Time,
    used_at: Option<Time>,
    successor_id: Option<RefreshTokenId>,
    late_repeat_after: i64,
}

/// A refresh token that the cleanup deletes.
#[derive(FromRow)]
struct OldRefresh {
    id: RefreshTokenId,
    grant_id: GrantId,
    used_at: Option<Time>,
}

/// A grant with what its tokens depend on.
#[derive(FromRow)]
#[row(of = "g")]
struct StateRow {
    user_id: UserId,
    organization_id: OrganizationId,
    client_id: ClientId,
    session_id: SessionId,
    scope: Scope,
    revoked_at: Option<Time>,
    #[row("s.ended_at")]
    session_ended_at: Option<Time>,
    #[row("s.expires_at")]
    session_expires_at: Time,
    #[row("s.authenticated_at")]
    session_authenticated_at: Time,
    #[row("us.suspended_at")]
    user_suspended_at: Option<Time>,
    #[row("os.suspended_at")]
    organization_suspended_at: Option<Time>,
    #[row("c.service_id")]
    service_id: Option<ServiceId>,
    #[row("c.organization_id")]
    organization_of_client: OrganizationId,
    #[row("COALESCE(g.authenticated_at, s.authenticated_at)")]
    authenticated_at: Time,
    #[row("COALESCE(g.authentication, s.authentication)")]
    authentication: Option<String>,
}

/// A grant that the cleanup looks at.
#[derive(FromRow)]
#[row(of = "g")]
struct MadeRow {
    id: GrantId,
    scope: Scope,
    revoked_at: Option<Time>,
    #[row("s.kind")]
    kind_of_session: Option<String>,
    /// A later one. Only a grant that is not revoked looks for it: of very many that are revoked, each would pass over the rest.
    #[row(
        "CASE WHEN g.revoked_at IS NULL THEN
            (SELECT n.id FROM grants n WHERE n.session_id = g.session_id AND n.client_id = g.client_id AND n.id > g.id
              AND n.revoked_at IS NULL LIMIT 1) END"
    )]
    followed_by: Option<GrantId>,
}

statements! {
    static INSERT = insert_row::<NewRow<'_>>("grants");
    static INSERT_REFRESH = insert_row::<NewRefreshRow<'_>>("refresh_tokens");
    static LOCK = lock("refresh_tokens", "id");
    static REFRESH = select_row::<RefreshRow>("FROM refresh_tokens", "WHERE id = ?1");
    static USE = sql("UPDATE refresh_tokens SET used_at = ?2, successor_id = ?3 WHERE id = ?1 AND used_at IS NULL");
    static REPEAT_LATE =
        sql("UPDATE refresh_tokens SET late_repeat_after = ?2 WHERE id = ?1 AND late_repeat_after = 0");
    static REVOKE = sql("UPDATE grants SET revoked_at = ?2, revoked_by = ?3 WHERE id = ?1 AND revoked_at IS NULL");
    static STATE = select_row::<StateRow>(
        "FROM grants g
         JOIN sessions s ON s.id = g.session_id
         JOIN clients c ON c.id = g.client_id
         LEFT JOIN user_suspensions us ON us.user_id = g.user_id
         LEFT JOIN organization_suspensions os ON os.organization_id = c.organization_id",
        "WHERE g.id = ?1",
    );
    static OLD_REFRESH =
        select_row::<OldRefresh>("FROM refresh_tokens", "WHERE id < ?1 ORDER BY id LIMIT ?2");
    static DELETE_REFRESH = sql("DELETE FROM refresh_tokens WHERE id = ?1");
    static MADE = select_row::<MadeRow>(
        "FROM grants g LEFT JOIN sessions s ON s.id = g.session_id",
        "WHERE g.id > ?1 AND g.id < ?2 ORDER BY g.id LIMIT ?3",
    );
    static SESSION = sql("SELECT session_id FROM grants WHERE id = ?1");
    static OF_SESSION = sql("SELECT id FROM grants WHERE session_id = ?1 LIMIT ?2");
    static DELETE = sql("DELETE FROM grants WHERE id = ?1");
    // From the clients of the service: a user may have any number of grants at others.
    static OF_USER_AT_SERVICE = sql("SELECT c.id FROM clients c WHERE c.service_id = ?2 AND EXISTS
     (SELECT 1 FROM sessions s JOIN grants g ON g.session_id = s.id AND g.client_id = c.id
      WHERE s.user_id = ?1 AND g.revoked_at IS NULL) LIMIT 1");
}

/// The key that changes when a grant is revoked.
pub fn key(id: &GrantId) -> Key {
    Key::row("grants", "id", id.as_str())
}

/// A grant with the status of its session, user, client and organization.
#[derive(Clone, Debug)]
pub struct Grant {
    /// The id.
    pub id: GrantId,
    /// The user who authorized the client.
    pub user: UserId,
    /// The user's organization.
    pub organization: OrganizationId,
    /// The client.
    pub client: ClientId,
    /// The client's service.
    pub service: Option<ServiceId>,
    /// The session of the grant. The grant ends with it.
    pub session: SessionId,
    /// The granted scope.
    pub scope: Scope,
    /// The user's authentication before they authorized the client. It stays when the user authenticates again (OpenID
    /// Connect Core 12.2). If an instance of an earlier release made the grant, the session has its words.
    pub authentication: Authentication,
    /// The time of the user's last authentication in its session.
    pub session_authenticated_at: Time,
    /// The expiry time of its session.
    pub session_expires_at: Time,
    alive: bool,
}

impl Grant {
    /// Whether its tokens are valid: the grant is not revoked, its session has not ended or expired, and neither the
    /// user nor the organization is suspended.
    pub fn is_alive(&self, now: Time) -> bool {
        self.alive && self.session_expires_at > now
    }
}

impl StateRow {
    fn grant(self, id: &GrantId) -> Grant {
        let stops =
            [self.revoked_at, self.session_ended_at, self.user_suspended_at, self.organization_suspended_at];
        // A user cannot authorize a client of another organization.
        let is_at_home = self.organization_id == self.organization_of_client;
        Grant {
            id: id.clone(),
            user: self.user_id,
            organization: self.organization_id,
            client: self.client_id,
            service: self.service_id,
            session: self.session_id,
            scope: self.scope,
            authentication: Authentication::of_columns(self.authenticated_at, self.authentication.as_deref()),
            session_authenticated_at: self.session_authenticated_at,
            session_expires_at: self.session_expires_at,
            alive: is_at_home && stops.iter().all(Option::is_none),
        }
    }
}

/// Creates a grant with the first refresh token of its family.
pub fn create(tx: &mut Tx<'_>, new: &NewGrant, refresh: Option<&NewRefresh>, now: Time) -> Result<()> {
    let scope = new.scope.to_string();
    let row = NewRow {
        id: &new.id,
        organization_id: &new.organization,
        user_id: &new.user,
        client_id: &new.client,
        session_id: &new.session,
        scope: &scope,
        created_at: now,
        authentication: &new.authentication,
    };
    tx.exec(&INSERT, &row.values())?;
    tx.changed(key(&new.id));
    if let Some(refresh) = refresh {
        insert_refresh(tx, refresh, &new.id, 0, now)?;
    }
    Ok(())
}

/// Stores a token. `late_after`: how many rotations of the family must come before one that may be repeated late; 0 if
/// that of this token may.
fn insert_refresh(
    tx: &mut Tx<'_>,
    refresh: &NewRefresh,
    grant: &GrantId,
    late_after: i64,
    now: Time,
) -> Result<()> {
    let row = NewRefreshRow {
        id: &refresh.id,
        grant_id: grant,
        hash: &refresh.hash,
        created_at: now,
        expires_at: now + REFRESH_LIFE,
        late_repeat_after: late_after,
    };
    tx.exec(&INSERT_REFRESH, &row.values())?;
    Ok(())
}

/// Gets the grant with this id, with its current status.
pub fn get(snapshot: &mut Snapshot<'_>, id: &GrantId) -> Result<Option<Grant>> {
    snapshot.depends(|| [key(id)]);
    let found = snapshot.one(&STATE, args![id], StateRow::from_row)?.map(|row| row.grant(id));
    if let Some(grant) = &found {
        snapshot.depends(|| {
            [
                sessions::key(&grant.session),
                sessions::key_of_user(&grant.user),
                clients::key(&grant.client),
                account_keys::suspension(&grant.user),
                organizations::key_of_suspension(&grant.organization),
            ]
        });
    }
    Ok(found)
}

/// Whether a user has a grant at a service that is not revoked. The grant of an ended session counts until the cleanup
/// deletes it.
pub fn any_at_service(snapshot: &mut Snapshot<'_>, user: &UserId, service: &ServiceId) -> Result<bool> {
    Ok(snapshot.one(&OF_USER_AT_SERVICE, args![user, service], |row| row.get::<ClientId>(0))?.is_some())
}

/// Revokes a grant with all its tokens. Returns false if it was already revoked.
pub fn revoke(tx: &mut Tx<'_>, id: &GrantId, revoked_by: &str, now: Time) -> Result<bool> {
    let revoked = tx.exec(&REVOKE, args![id, now, revoked_by])? == 1;
    tx.changed(key(id));
    if revoked {
        events::note_grant(tx, id, now)?;
    }
    Ok(revoked)
}

/// The result of [`refresh`].
#[derive(Clone, Debug)]
pub enum Refreshed {
    /// The token was exchanged for this successor. Its secret is derived from both ids.
    Rotated {
        /// The grant.
        grant: Box<Grant>,
        /// The new refresh token.
        successor: RefreshTokenId,
    },
    /// The token was used before, so another party may hold a copy. The family is revoked.
    Reused,
}

/// Exchanges the refresh token `id` with `secret` for `client`. Of several concurrent requests, one creates the
/// successor.
pub fn refresh(
    tx: &mut Tx<'_>,
    id: &RefreshTokenId,
    secret: &str,
    client: &ClientId,
    successor: &NewRefresh,
    actor: &Actor,
) -> Result<Refreshed> {
    let now = actor.now;
    tx.lock(&LOCK, id.into())?;
    let stored = tx.one(&REFRESH, args![id], RefreshRow::from_row)?.ok_or(Error::InvalidGrant)?;
    if !secrets::matches(secret.as_bytes(), &stored.hash) || stored.expires_at <= now {
        return Err(Error::InvalidGrant);
    }
    let grant = get(tx.snapshot(), &stored.grant_id)?.ok_or(Error::InvalidGrant)?;
    if grant.client != *client || !grant.is_alive(now) {
        return Err(Error::InvalidGrant);
    }
    match (stored.used_at, stored.successor_id) {
        (None, _) => {
            tx.exec(&USE, args![id, now, &successor.id])?;
            let late_after = (stored.late_repeat_after - 1).max(0);
            insert_refresh(tx, successor, &grant.id, late_after, now)?;
            Ok(Refreshed::Rotated { grant: Box::new(grant), successor: successor.id.clone() })
        }
        (Some(used_at), Some(earlier))
            if is_unused(tx, &earlier)?
                && (now.since(used_at) <= SAME_SUCCESSOR_FOR
                    || repeat_late(tx, (id, used_at), &earlier, &grant, actor)?) =>
        {
            Ok(Refreshed::Rotated { grant: Box::new(grant), successor: earlier })
        }
        _ => {
            revoke_leaked(tx, &grant, Leak::ReusedRefreshToken, actor)?;
            Ok(Refreshed::Reused)
        }
    }
}

/// Whether a token that was used at this time may return the same successor once more, late. Of several requests, one gets
/// true. The audit log gets a row, because a thief could be the one who repeats.
fn repeat_late(
    tx: &mut Tx<'_>,
    (id, used_at): (&RefreshTokenId, Time),
    successor: &RefreshTokenId,
    grant: &Grant,
    actor: &Actor,
) -> Result<bool> {
    let is_in_time = actor.now.since(used_at) <= LATE_REPEAT_FOR;
    if !is_in_time || tx.exec(&REPEAT_LATE, args![id, ROTATIONS_BETWEEN + 1])? != 1 {
        return Ok(false);
    }
    tx.exec(&REPEAT_LATE, args![successor, ROTATIONS_BETWEEN])?;
    let details = format!("{} {}", grant.client, grant.id);
    let action = "grant.refresh_token_repeated";
    audit::note(tx, &grant.organization, actor, action, grant.user.as_str(), &details)?;
    Ok(true)
}

/// What shows that somebody else may hold a copy of a client's secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leak {
    ReusedRefreshToken,
    ReplayedCode,
}

/// Revokes a grant that may have leaked. The first time, the audit log gets the user, the client and the address of the
/// request.
pub(crate) fn revoke_leaked(tx: &mut Tx<'_>, grant: &Grant, leak: Leak, actor: &Actor) -> Result<()> {
    let (revoked_by, action) = match leak {
        Leak::ReusedRefreshToken => ("reuse of a refresh token", "grant.refresh_token_reused"),
        Leak::ReplayedCode => ("replay of a code", "grant.code_replayed"),
    };
    if revoke(tx, &grant.id, revoked_by, actor.now)? {
        let details = format!("{} {}", grant.client, grant.id);
        audit::note(tx, &grant.organization, actor, action, grant.user.as_str(), &details)?;
    }
    Ok(())
}

fn is_unused(tx: &mut Tx<'_>, id: &RefreshTokenId) -> Result<bool> {
    Ok(tx.one(&REFRESH, args![id], RefreshRow::from_row)?.is_some_and(|stored| stored.used_at.is_none()))
}

/// Finds the grant of a refresh token with a matching secret, for revocation and introspection.
/// The time is the expiry of the token, or `None` if the token was used.
pub fn of_refresh_token(snapshot: &mut Snapshot<'_>, token: &str) -> Result<Option<(Grant, Option<Time>)>> {
    let Some((id, secret)) = secrets::split_token(token) else { return Ok(None) };
    let Ok(id) = RefreshTokenId::parse(id) else { return Ok(None) };
    let Some(stored) = snapshot.one(&REFRESH, args![&id], RefreshRow::from_row)? else { return Ok(None) };
    if !secrets::matches(secret.as_bytes(), &stored.hash) {
        return Ok(None);
    }
    let expires_at = stored.used_at.is_none().then_some(stored.expires_at);
    Ok(get(snapshot, &stored.grant_id)?.map(|grant| (grant, expires_at)))
}

/// Reads up to `most` grants after the id `after`. Returns the ones that had ended on their own before `moment`. The
/// scans of sessions and of refresh tokens find the grants that end with these. Grants created too late to have ended
/// are not read.
///
/// The last grant of a session at a client stays with the session, also without a refresh token: by it a service learns
/// that the session has ended, and what changes about the user.
pub fn ended(snapshot: &mut Snapshot<'_>, after: &str, moment: Time, most: i64) -> Result<Page<GrantId>> {
    let floor = crate::ids::smallest_at(GrantId::PREFIX, moment - ACCESS_LIFE);
    let rows = snapshot.all(&MADE, args![after, &floor, most], MadeRow::from_row)?;
    let has_ended = |row: &MadeRow| match row.kind_of_session.as_deref() {
        None => true,
        _ if row.revoked_at.is_some_and(|at| at < moment) => true,
        Some(kind) => row.followed_by.is_some() && !has_refresh(kind, &row.scope),
    };
    let rows = rows.into_iter().map(|row| {
        let ended = has_ended(&row);
        (row.id, ended)
    });
    Ok(Page::of(rows.collect(), most))
}

/// Whether a grant was created with a refresh token: the grant of a device always, the grant of a browser session if
/// its scope includes `offline_access`. A grant without a refresh token gave a single access token.
fn has_refresh(kind_of_session: &str, scope: &Scope) -> bool {
    kind_of_session != "browser" || scope.contains("offline_access")
}

/// Deletes up to `most` grants of an ended session. Returns the number of deleted grants.
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

/// Deletes a grant. Returns its session.
pub(crate) fn remove(tx: &mut Tx<'_>, id: &GrantId) -> Result<Option<SessionId>> {
    let session = tx.one(&SESSION, args![id], |row| row.get(0))?;
    tx.exec(&DELETE, args![id])?;
    tx.changed(key(id));
    Ok(session)
}

/// Deletes up to `most` refresh tokens created before `moment`. Returns the grants of the tokens that were never used,
/// and the number of deleted tokens.
pub(crate) fn remove_refresh_tokens(
    tx: &mut Tx<'_>,
    moment: Time,
    most: i64,
) -> Result<(Vec<GrantId>, usize)> {
    let before = crate::ids::smallest_at(RefreshTokenId::PREFIX, moment);
    let old = tx.all(&OLD_REFRESH, args![&before, most], OldRefresh::from_row)?;
    for row in &old {
        tx.exec(&DELETE_REFRESH, args![&row.id])?;
    }
    let count = old.len();
    let unused = old.into_iter().filter(|row| row.used_at.is_none()).map(|row| row.grant_id);
    Ok((unused.collect(), count))
}
