//! Device authorizations (RFC 8628). A device requests codes, a user decides in a browser, and the device gets tokens.
//! Both codes are short-lived. The device code can be redeemed once.

use crate::audit::{self, Actor};
use crate::authentication::Authentication;
use crate::grants::{self, NewGrant, NewRefresh};
use crate::ids::{ClientId, DeviceId, GrantId, OrganizationId, SessionId, UserId};
use crate::organizations::{self, DeviceFlow, Status};
use crate::scopes::Scope;
use crate::secrets::{self, Hash, Random};
use crate::sessions::{self, NewSession, Session};
use crate::user_codes::UserCodes;
use crate::{Error, Result, Time, clients, users};
use std::time::Duration;
use store::{Key, Row, Snapshot, Tx, args, insert, sql, statements};

/// The lifetime of the codes.
pub const LIFE: Duration = Duration::from_secs(15 * 60);
/// The short lifetime of the codes, for first-party clients, where a stolen code gives more power, and for
/// organizations with [`DeviceFlow::Short`].
pub const SHORT_LIFE: Duration = Duration::from_secs(5 * 60);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// The maximum lifetime of a device's session: a year, and 30 days for a first-party client, whose tokens may
/// administer. The session ends earlier if its refresh token expires or the device signs out.
pub fn session_life(is_first_party: bool) -> Duration {
    if is_first_party { DAY * 30 } else { DAY * 365 }
}

/// The input for [`begin`].
#[derive(Clone, Debug)]
pub struct NewDevice {
    /// The new id.
    pub id: DeviceId,
    /// The device code: `<id>.<secret>`.
    pub device_code: String,
    /// The stored hash of the secret.
    pub hash: Hash,
    /// The user code, without the dash.
    pub user_code: String,
    /// The requesting client.
    pub client: ClientId,
    /// The requested scope.
    pub scope: Scope,
    /// The IP address of the device.
    pub address: String,
    /// The device's `User-Agent`.
    pub agent: String,
    /// The creation time.
    pub created_at: Time,
    /// The expiry time.
    pub expires_at: Time,
}

impl NewDevice {
    /// Generates the codes.
    pub fn generate(
        client: &ClientId,
        scope: Scope,
        life: Duration,
        now: Time,
        codes: &UserCodes,
        random: &dyn Random,
    ) -> Result<NewDevice> {
        let (id, user_code) = codes.generate(now)?;
        let secret = secrets::secret(random);
        Ok(NewDevice {
            device_code: [id.as_str(), ".", &secret].concat(),
            hash: secrets::hash(secret.as_bytes()),
            user_code,
            id,
            client: client.clone(),
            scope,
            address: String::new(),
            agent: String::new(),
            created_at: now,
            expires_at: now + life,
        })
    }

    /// Replaces the codes after a collision with another instance.
    pub fn regenerate(&mut self, codes: &UserCodes, random: &dyn Random) -> Result<()> {
        codes.jump(random);
        let life = self.expires_at.since(self.created_at);
        let other =
            NewDevice::generate(&self.client, self.scope.clone(), life, self.created_at, codes, random)?;
        let (address, agent) = (std::mem::take(&mut self.address), std::mem::take(&mut self.agent));
        *self = NewDevice { address, agent, ..other };
        Ok(())
    }
}

/// The user's decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The device may sign in.
    Allow,
    /// The device may not sign in.
    Deny,
}

impl Decision {
    /// Returns the name used in the table and on the form.
    pub fn as_str(self) -> &'static str {
        match self {
            Decision::Allow => "allow",
            Decision::Deny => "deny",
        }
    }

    /// Parses the name used in the table and on the form.
    pub fn parse(name: &str) -> Option<Decision> {
        [Decision::Allow, Decision::Deny].into_iter().find(|decision| decision.as_str() == name)
    }
}

/// A decision that was made.
#[derive(Clone, Debug)]
pub struct Decided {
    /// The requesting client.
    pub client: ClientId,
    /// The session of the user who decided.
    pub session: SessionId,
    /// The decision.
    pub decision: Decision,
}

/// The state of a device authorization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The user has not decided yet.
    Pending,
    /// Allowed, but not redeemed yet.
    Allowed,
    /// Denied.
    Denied,
    /// Expired before it was redeemed.
    Expired,
    /// Exchanged for tokens.
    Redeemed,
}

/// A stored device authorization.
#[derive(Clone, Debug)]
pub struct Device {
    /// The id.
    pub id: DeviceId,
    /// The requesting client.
    pub client: ClientId,
    /// The requested scope.
    pub scope: Scope,
    /// The IP address of the device.
    pub address: String,
    /// The device's `User-Agent`.
    pub agent: String,
    /// The creation time.
    pub created_at: Time,
    /// The expiry time.
    pub expires_at: Time,
    hash: Vec<u8>,
    decision: Option<String>,
    decided_by: Option<SessionId>,
    redeemed_at: Option<Time>,
    authentication: Option<Authentication>,
}

impl Device {
    /// Returns the state at `now`.
    pub fn state(&self, now: Time) -> State {
        match (self.redeemed_at, self.decision.as_deref()) {
            (Some(_), _) => State::Redeemed,
            (None, Some("deny")) => State::Denied,
            (None, Some(_)) if self.expires_at > now => State::Allowed,
            (None, None) if self.expires_at > now => State::Pending,
            _ => State::Expired,
        }
    }
}

statements! {
    static INSERT = insert(
        "device_authorizations",
        &[&["id", "hash", "client_id", "scope", "address", "agent", "created_at", "expires_at"]],
    );
    static GET = sql("SELECT id, client_id, scope, address, agent, created_at, expires_at, hash, decision, decided_by, redeemed_at,
            authentication
     FROM device_authorizations WHERE id = ?1");
    static FIND = sql("SELECT id, client_id, scope, address, agent, created_at, expires_at, hash, decision, decided_by, redeemed_at,
            authentication
     FROM device_authorizations WHERE id IN (?1, ?2, ?3)");
    static DECIDE = sql("UPDATE device_authorizations SET decision = ?2, decided_by = ?3, decided_at = ?4, authentication = ?5
     WHERE id = ?1 AND decision IS NULL AND expires_at > ?4");
    static REDEEM = sql("UPDATE device_authorizations SET redeemed_at = ?2
     WHERE id = ?1 AND decision = 'allow' AND redeemed_at IS NULL AND expires_at > ?2");
    static OLD = sql("SELECT id FROM device_authorizations WHERE id < ?1 ORDER BY id LIMIT ?2");
    static DELETE = sql("DELETE FROM device_authorizations WHERE id = ?1");
}

fn read(row: &Row<'_>) -> std::result::Result<Device, store::Error> {
    Ok(Device {
        id: row.get(0)?,
        client: row.get(1)?,
        scope: Scope::parse(&row.get::<String>(2)?),
        address: row.get(3)?,
        agent: row.get(4)?,
        created_at: row.get(5)?,
        expires_at: row.get(6)?,
        hash: row.get(7)?,
        decision: row.get(8)?,
        decided_by: row.get(9)?,
        redeemed_at: row.get(10)?,
        authentication: Authentication::of_column(row.get(11)?),
    })
}

/// The key that changes when a user decides. Long polls wait for it.
pub fn key(id: &DeviceId) -> Key {
    Key::row("device_authorizations", "id", id.as_str())
}

/// Stores a new device authorization. Fails with [`Error::Taken`] if another instance has generated the same codes; the
/// caller then generates new ones.
pub fn begin(tx: &mut Tx<'_>, new: &NewDevice) -> Result<()> {
    let scope = new.scope.joined();
    tx.exec_one(
        &INSERT,
        args![
            &new.id,
            &new.hash,
            &new.client,
            &scope,
            &new.address,
            &new.agent,
            new.created_at,
            new.expires_at
        ],
    )
    .map_err(Error::taken("device_authorizations_pkey", "user_code", ""))?;
    Ok(())
}

/// Splits a device code into id and secret; `None` if it is malformed.
pub fn id_of(device_code: &str) -> Option<(DeviceId, &str)> {
    let (id, secret) = secrets::split_token(device_code)?;
    Some((DeviceId::parse(id).ok()?, secret))
}

/// Finds the device authorization of a device code. The code must belong to `client`.
pub fn by_device_code(snapshot: &mut Snapshot<'_>, device_code: &str, client: &ClientId) -> Result<Device> {
    let (id, secret) = id_of(device_code).ok_or(Error::InvalidGrant)?;
    let device = snapshot.one(&GET, args![&id], read)?.ok_or(Error::InvalidGrant)?;
    let own = secrets::matches(secret.as_bytes(), &device.hash) && device.client == *client;
    if own { Ok(device) } else { Err(Error::InvalidGrant) }
}

/// Finds the pending device authorization of a user code, by its candidate ids ([`UserCodes::ids_of`]). Unknown,
/// expired and used codes look the same, and so does a code that two pending authorizations share.
pub fn find_pending(snapshot: &mut Snapshot<'_>, ids: &[DeviceId; 3], now: Time) -> Result<Device> {
    let [before, this, after] = ids;
    let mut found = snapshot.all(&FIND, args![before, this, after], read)?;
    found.retain(|device| device.state(now) == State::Pending);
    match (found.pop(), found.is_empty()) {
        (Some(device), true) => Ok(device),
        _ => Err(Error::NotFound { what: "code" }),
    }
}

/// Finds the decisions about a user code, by its candidate ids. The caller shows them only to the session that made them.
pub fn decided(snapshot: &mut Snapshot<'_>, ids: &[DeviceId; 3]) -> Result<Vec<Decided>> {
    let [before, this, after] = ids;
    let found = snapshot.all(&FIND, args![before, this, after], read)?;
    let decided = found.into_iter().filter_map(|device| {
        let decision = Decision::parse(device.decision.as_deref()?)?;
        Some(Decided { client: device.client, session: device.decided_by?, decision })
    });
    Ok(decided.collect())
}

/// Stores the decision of the user of `session`. Returns false if the authorization was already decided or has expired,
/// if the session does not belong to `organization`, or if the organization is not active or has turned off the device
/// flow.
pub fn decide(
    tx: &mut Tx<'_>,
    device: &DeviceId,
    organization: &OrganizationId,
    decision: Decision,
    session: &SessionId,
    actor: &Actor,
) -> Result<bool> {
    let session_there = sessions::live(tx.snapshot(), session, actor.now)?;
    let decides = session_there.filter(|session| session.organization == *organization);
    let home = organizations::get(tx.snapshot(), organization)?;
    let Some(decides) = decides else { return Ok(false) };
    if home.status != Status::Active || home.device_flow == DeviceFlow::Off {
        return Ok(false);
    }
    let how = decides.authentication.stored();
    if tx.exec(&DECIDE, args![device, decision.as_str(), session, actor.now, how])? == 0 {
        return Ok(false);
    }
    let action = match decision {
        Decision::Allow => "device.allowed",
        Decision::Deny => "device.denied",
    };
    tx.changed(key(device));
    // The row of the device is deleted soon: the entry says by itself what was let in.
    let client: Option<ClientId> = tx.one(&GET, args![device], |row| row.get(1))?;
    let details = client.map(|client| client.to_string()).unwrap_or_default();
    audit::note(tx, organization, actor, action, device.as_str(), &details)?;
    Ok(true)
}

/// Gets the live session that allowed a device.
pub fn allowed_by(snapshot: &mut Snapshot<'_>, device: &Device, now: Time) -> Result<Session> {
    let session = device.decided_by.as_ref().ok_or(Error::InvalidGrant)?;
    sessions::live(snapshot, session, now)?.ok_or(Error::InvalidGrant)
}

/// The ids and secrets for [`redeem`], generated before the command.
#[derive(Clone, Debug)]
pub struct Redemption {
    /// The id of the device's session.
    pub session: SessionId,
    /// The id of the grant.
    pub grant: GrantId,
    /// The first refresh token.
    pub refresh: NewRefresh,
    /// See [`session_life`].
    pub session_life: Duration,
}

/// The result of [`redeem`].
#[derive(Clone, Debug)]
pub struct Redeemed {
    /// The user who allowed the device.
    pub user: UserId,
    /// The user's organization.
    pub organization: OrganizationId,
    /// The granted scope.
    pub scope: Scope,
    /// The user's authentication as they allowed the device.
    pub authentication: Authentication,
}

/// Redeems an allowed device authorization. Of several concurrent requests, one succeeds. The device gets its own
/// session, so that a sign-out in the browser does not end it.
pub fn redeem(
    tx: &mut Tx<'_>,
    device: &Device,
    new: &Redemption,
    client_name: &str,
    now: Time,
) -> Result<Redeemed> {
    if tx.exec(&REDEEM, args![&device.id, now])? == 0 {
        return Err(Error::InvalidGrant);
    }
    // The device flow may have been turned off since the approval.
    if !clients::may_use_device_flow(tx.snapshot(), &device.client)? {
        return Err(Error::InvalidGrant);
    }
    let user = allowed_by(tx.snapshot(), device, now)?.user;
    tx.lock(&users::LOCK, (&user).into())?;
    // Checks again under the lock: another command may have ended all sessions of this user before, without the new
    // one.
    let session = allowed_by(tx.snapshot(), device, now)?;
    // An instance of an earlier release stores decisions without one.
    let authentication = device.authentication.clone().unwrap_or_else(|| session.authentication.clone());
    sessions::create(
        tx,
        &NewSession {
            id: new.session.clone(),
            organization: session.organization.clone(),
            user: session.user.clone(),
            kind: "device",
            hash: None,
            address: device.address.clone(),
            agent: client_name.to_owned(),
            created_at: now,
            authentication: authentication.clone(),
            expires_at: now + new.session_life,
        },
    )?;
    let grant = NewGrant {
        id: new.grant.clone(),
        organization: session.organization.clone(),
        user: session.user.clone(),
        client: device.client.clone(),
        session: new.session.clone(),
        scope: device.scope.clone(),
        authentication: authentication.clone(),
    };
    grants::create(tx, &grant, Some(&new.refresh), now)?;
    // The user or the organization may have been suspended since the approval.
    let alive = grants::get(tx.snapshot(), &new.grant)?.is_some_and(|grant| grant.is_alive(now));
    if !alive {
        return Err(Error::InvalidGrant);
    }
    Ok(Redeemed {
        user: session.user,
        organization: session.organization,
        scope: device.scope.clone(),
        authentication,
    })
}

/// Deletes up to `most` authorizations created before `moment`. Returns the number of deleted ones.
pub fn delete_older(tx: &mut Tx<'_>, moment: Time, most: i64) -> Result<usize> {
    let floor = crate::ids::smallest_at(DeviceId::PREFIX, moment);
    let old: Vec<DeviceId> = tx.all(&OLD, args![&floor, most], |row| row.get(0))?;
    for id in &old {
        tx.exec(&DELETE, args![id])?;
    }
    Ok(old.len())
}
