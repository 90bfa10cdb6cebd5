//! Device authorizations (RFC 8628): a terminal asks, a person decides in a browser, the terminal gets
//! tokens. Both codes are short-lived; the device code is used once.

use crate::audit::{self, Actor};
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

/// How long a person has to decide.
pub const LIFE: Duration = Duration::from_secs(15 * 60);
/// The same for clients that administer, because a stolen code is worth more, and where an organization wants it so.
pub const SHORT_LIFE: Duration = Duration::from_secs(5 * 60);
/// How long a device stays signed in if it does not sign out: until its refresh token ends.
const SESSION_LIFE: Duration = Duration::from_secs(365 * 24 * 3600);

/// A device authorization to be made.
#[derive(Clone, Debug)]
pub struct NewDevice {
    /// Its new id.
    pub id: DeviceId,
    /// What the device gets: `<id>.<secret>`.
    pub device_code: String,
    /// What is stored of it.
    pub hash: Hash,
    /// What the person types, without the dash.
    pub user_code: String,
    /// Who asks.
    pub client: ClientId,
    /// For what.
    pub scope: Scope,
    /// From where.
    pub address: String,
    /// With what, in its own words.
    pub agent: String,
    /// When.
    pub created_at: Time,
    /// Until when it can be decided.
    pub expires_at: Time,
}

impl NewDevice {
    /// Draws the codes.
    pub fn draw(
        client: &ClientId,
        scope: Scope,
        life: Duration,
        now: Time,
        codes: &UserCodes,
        random: &dyn Random,
    ) -> Result<NewDevice> {
        let (id, user_code) = codes.draw(now)?;
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

    /// Draws other codes, after the first met its twin.
    pub fn draw_again(&mut self, codes: &UserCodes, random: &dyn Random) -> Result<()> {
        codes.jump(random);
        let life = self.expires_at.since(self.created_at);
        let other = NewDevice::draw(&self.client, self.scope.clone(), life, self.created_at, codes, random)?;
        let (address, agent) = (std::mem::take(&mut self.address), std::mem::take(&mut self.agent));
        *self = NewDevice { address, agent, ..other };
        Ok(())
    }
}

/// What the person decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The device may.
    Allow,
    /// It may not.
    Deny,
}

impl Decision {
    /// The word in the table and on the form.
    pub fn as_str(self) -> &'static str {
        match self {
            Decision::Allow => "allow",
            Decision::Deny => "deny",
        }
    }
}

/// Where a device authorization stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nobody has decided.
    Pending,
    /// Allowed, and not redeemed.
    Allowed,
    /// Denied.
    Denied,
    /// Its time is over.
    Expired,
    /// Tokens were given.
    Redeemed,
}

/// A device authorization as stored.
#[derive(Clone, Debug)]
pub struct Device {
    /// Its id.
    pub id: DeviceId,
    /// Who asks.
    pub client: ClientId,
    /// For what.
    pub scope: Scope,
    /// From where.
    pub address: String,
    /// With what, in its own words.
    pub agent: String,
    /// When.
    pub created_at: Time,
    /// Until when it can be decided.
    pub expires_at: Time,
    hash: Vec<u8>,
    decision: Option<String>,
    decided_by: Option<SessionId>,
    redeemed_at: Option<Time>,
}

impl Device {
    /// Where it stands at `now`.
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
    static GET = sql("SELECT id, client_id, scope, address, agent, created_at, expires_at, hash, decision, decided_by, redeemed_at
     FROM device_authorizations WHERE id = ?1");
    static FIND = sql("SELECT id, client_id, scope, address, agent, created_at, expires_at, hash, decision, decided_by, redeemed_at
     FROM device_authorizations WHERE id IN (?1, ?2, ?3)");
    static DECIDE = sql("UPDATE device_authorizations SET decision = ?2, decided_by = ?3, decided_at = ?4
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
    })
}

/// The key that changes when somebody decides: held polls wait for it.
pub fn key(id: &DeviceId) -> Key {
    Key::row("device_authorizations", "id", id.as_str())
}

/// Stores a new device authorization. [`Error::Taken`] when another instance has drawn the same codes: draw again.
pub fn begin(tx: &mut Tx<'_>, new: &NewDevice) -> Result<()> {
    let scope = new.scope.joined();
    tx.exec(
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

/// The id in a device code, if it has the form of one.
pub fn id_of(device_code: &str) -> Option<(DeviceId, &str)> {
    let (id, secret) = secrets::split_token(device_code)?;
    Some((DeviceId::parse(id).ok()?, secret))
}

/// The device authorization of this device code and client.
pub fn by_device_code(snapshot: &mut Snapshot<'_>, device_code: &str, client: &ClientId) -> Result<Device> {
    let (id, secret) = id_of(device_code).ok_or(Error::InvalidGrant)?;
    let device = snapshot.one(&GET, args![&id], read)?.ok_or(Error::InvalidGrant)?;
    let own = secrets::matches(secret.as_bytes(), &device.hash) && device.client == *client;
    if own { Ok(device) } else { Err(Error::InvalidGrant) }
}

/// The device authorization to which a user code leads ([`UserCodes::ids_of`]), if it waits for a decision. Wrong,
/// expired and used codes look the same, and so does one that two devices show.
pub fn waiting(snapshot: &mut Snapshot<'_>, ids: &[DeviceId; 3], now: Time) -> Result<Device> {
    let [before, this, after] = ids;
    let mut found = snapshot.all(&FIND, args![before, this, after], read)?;
    found.retain(|device| device.state(now) == State::Pending);
    match (found.pop(), found.is_empty()) {
        (Some(device), true) => Ok(device),
        _ => Err(Error::NotFound { what: "code" }),
    }
}

/// Notes what the person of `session` decided. False when somebody else was first, when it is too late, or
/// when the session is not one of this organization, which must be active and have the device flow.
pub fn decide(
    tx: &mut Tx<'_>,
    device: &DeviceId,
    organization: &OrganizationId,
    decision: Decision,
    session: &SessionId,
    actor: &Actor,
) -> Result<bool> {
    let session_there = sessions::live(tx.snapshot(), session, actor.now)?;
    let at_home = session_there.is_some_and(|session| session.organization == *organization);
    let home = organizations::get(tx.snapshot(), organization)?;
    if !at_home || home.status != Status::Active || home.device_flow == DeviceFlow::Off {
        return Ok(false);
    }
    if tx.exec(&DECIDE, args![device, decision.as_str(), session, actor.now])? == 0 {
        return Ok(false);
    }
    let action = match decision {
        Decision::Allow => "device.allowed",
        Decision::Deny => "device.denied",
    };
    tx.changed(key(device));
    audit::note(tx, organization, actor, action, device.as_str(), "")?;
    Ok(true)
}

/// The session that allowed a device, while it lives.
pub fn allowed_by(snapshot: &mut Snapshot<'_>, device: &Device, now: Time) -> Result<Session> {
    let session = device.decided_by.as_ref().ok_or(Error::InvalidGrant)?;
    sessions::live(snapshot, session, now)?.ok_or(Error::InvalidGrant)
}

/// What a redemption makes; ids and secrets are drawn before it.
#[derive(Clone, Debug)]
pub struct Redemption {
    /// The device's own session.
    pub session: SessionId,
    /// The grant.
    pub grant: GrantId,
    /// The first refresh token.
    pub refresh: NewRefresh,
}

/// What a redemption gave.
#[derive(Clone, Debug)]
pub struct Redeemed {
    /// Who allowed it.
    pub user: UserId,
    /// Where he belongs.
    pub organization: OrganizationId,
    /// For what.
    pub scope: Scope,
    /// When he proved who he is.
    pub authenticated_at: Time,
}

/// Redeems an allowed device authorization: of all who try, one wins. The device gets a session of its
/// own, so that signing out of the browser spares it.
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
    // The flow may have been switched off since the approval.
    if !clients::may_use_device_flow(tx.snapshot(), &device.client)? {
        return Err(Error::InvalidGrant);
    }
    let user = allowed_by(tx.snapshot(), device, now)?.user;
    tx.lock(&users::LOCK, (&user).into())?;
    // Looked at again: until the lock was taken somebody could end all sessions of this user, without the new one.
    let session = allowed_by(tx.snapshot(), device, now)?;
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
            authenticated_at: session.authenticated_at,
            expires_at: now + SESSION_LIFE,
        },
    )?;
    let grant = NewGrant {
        id: new.grant.clone(),
        organization: session.organization.clone(),
        user: session.user.clone(),
        client: device.client.clone(),
        session: new.session.clone(),
        scope: device.scope.clone(),
    };
    grants::create(tx, &grant, Some(&new.refresh), now)?;
    // Whoever was suspended since the approval gets nothing.
    let alive = grants::get(tx.snapshot(), &new.grant)?.is_some_and(|grant| grant.is_alive(now));
    if !alive {
        return Err(Error::InvalidGrant);
    }
    Ok(Redeemed {
        user: session.user,
        organization: session.organization,
        scope: device.scope.clone(),
        authenticated_at: session.authenticated_at,
    })
}

/// Deletes up to `most` authorizations that were made before `moment`; how many there were.
pub fn delete_older(tx: &mut Tx<'_>, moment: Time, most: i64) -> Result<usize> {
    let floor = crate::ids::smallest_at(DeviceId::PREFIX, moment);
    let old: Vec<DeviceId> = tx.all(&OLD, args![&floor, most], |row| row.get(0))?;
    for id in &old {
        tx.exec(&DELETE, args![id])?;
    }
    Ok(old.len())
}
