//! Device authorizations (RFC 8628): a terminal asks, a person decides in a browser, the terminal gets
//! tokens. Both codes are short-lived; the device code is used once.

use crate::audit::{self, Actor};
use crate::grants::{self, NewGrant, NewRefresh};
use crate::ids::{ClientId, DeviceId, GrantId, OrganizationId, SessionId, UserId};
use crate::organizations::{self, Status};
use crate::scopes::Scope;
use crate::secrets::{self, Hash, Random};
use crate::sessions::{self, NewSession};
use crate::{Error, Result, Time};
use std::time::Duration;
use store::{Key, Row, Snapshot, Sql, Tx, args, sql};

/// How long a person has to decide.
pub const LIFE: Duration = Duration::from_secs(15 * 60);
/// The same for clients that administer: a stolen code is worth more.
pub const FIRST_PARTY_LIFE: Duration = Duration::from_secs(5 * 60);
/// How long a device stays signed in if it does not sign out: until its refresh token ends.
const SESSION_LIFE: Duration = Duration::from_secs(365 * 24 * 3600);
/// Consonants only: no words, no look-alikes; 20^8 is 34.5 bits (RFC 8628 section 6.1).
const USER_CODE_LETTERS: &[u8; 20] = b"BCDFGHJKLMNPQRSTVWXZ";

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
        random: &dyn Random,
    ) -> NewDevice {
        let id = DeviceId::new(now, random);
        let secret = secrets::secret(random);
        NewDevice {
            device_code: [id.as_str(), ".", &secret].concat(),
            hash: secrets::hash(secret.as_bytes()),
            user_code: secrets::letters(USER_CODE_LETTERS, 8, random),
            id,
            client: client.clone(),
            scope,
            address: String::new(),
            agent: String::new(),
            created_at: now,
            expires_at: now + life,
        }
    }

    /// Draws another user code, after the first met its twin.
    pub fn draw_again(&mut self, random: &dyn Random) {
        self.user_code = secrets::letters(USER_CODE_LETTERS, 8, random);
    }
}

/// `BCDFGHJK` → `BCDF-GHJK`.
pub fn show_user_code(code: &str) -> String {
    let (left, right) = code.split_at_checked(4).unwrap_or((code, ""));
    [left, "-", right].concat()
}

/// Reads what a person typed: case, dashes, spaces and dots do not matter, and digits count as the letters
/// that they look like. None when it cannot be a code.
pub fn read_user_code(typed: &str) -> Option<String> {
    let alike = |letter: char| match letter {
        '2' => 'Z',
        '5' => 'S',
        '6' => 'G',
        '8' => 'B',
        _ => letter.to_ascii_uppercase(),
    };
    let code: String = typed.chars().filter(|letter| letter.is_alphanumeric()).map(alike).collect();
    let good = code.len() == 8 && code.bytes().all(|letter| USER_CODE_LETTERS.contains(&letter));
    good.then_some(code)
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
    /// What the person types.
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

static INSERT: Sql = sql(
    "INSERT INTO device_authorizations (id, hash, user_code, client_id, scope, address, agent, created_at, expires_at)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
);
static GET: Sql = sql(
    "SELECT id, user_code, client_id, scope, address, agent, created_at, expires_at, hash, decision, decided_by, redeemed_at
     FROM device_authorizations WHERE id = ?1",
);
static FIND: Sql = sql(
    "SELECT id, user_code, client_id, scope, address, agent, created_at, expires_at, hash, decision, decided_by, redeemed_at
     FROM device_authorizations WHERE user_code = ?1",
);
static DECIDE: Sql = sql("UPDATE device_authorizations SET decision = ?2, decided_by = ?3, decided_at = ?4
     WHERE id = ?1 AND decision IS NULL AND expires_at > ?4");
static REDEEM: Sql = sql("UPDATE device_authorizations SET redeemed_at = ?2
     WHERE id = ?1 AND decision = 'allow' AND redeemed_at IS NULL AND expires_at > ?2");
static OLD: Sql = sql("SELECT id FROM device_authorizations WHERE id < ?1 ORDER BY id LIMIT ?2");
static DELETE: Sql = sql("DELETE FROM device_authorizations WHERE id = ?1");

fn read(row: &Row<'_>) -> std::result::Result<Device, store::Error> {
    Ok(Device {
        id: row.get(0)?,
        user_code: row.get(1)?,
        client: row.get(2)?,
        scope: Scope::parse(&row.get::<String>(3)?),
        address: row.get(4)?,
        agent: row.get(5)?,
        created_at: row.get(6)?,
        expires_at: row.get(7)?,
        hash: row.get(8)?,
        decision: row.get(9)?,
        decided_by: row.get(10)?,
        redeemed_at: row.get(11)?,
    })
}

/// The key that changes when somebody decides: held polls wait for it.
pub fn key(id: &DeviceId) -> Key {
    Key::row("device_authorizations", "id", id.as_str())
}

/// Stores a new device authorization. [`Error::Taken`] when the user code has a twin: draw again.
pub fn begin(tx: &mut Tx<'_>, new: &NewDevice) -> Result<()> {
    let scope = new.scope.joined();
    tx.exec(
        &INSERT,
        args![
            &new.id,
            &new.hash,
            &new.user_code,
            &new.client,
            &scope,
            &new.address,
            &new.agent,
            new.created_at,
            new.expires_at
        ],
    )
    .map_err(Error::taken("device_authorizations_user_code", "user_code", ""))?;
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

/// The device authorization that waits for a decision about this user code. Wrong, expired and used
/// codes look the same.
pub fn waiting(snapshot: &mut Snapshot<'_>, user_code: &str, now: Time) -> Result<Device> {
    let found = snapshot.one(&FIND, args![user_code], read)?;
    found.filter(|device| device.state(now) == State::Pending).ok_or(Error::NotFound { what: "code" })
}

/// Notes what the person of `session` decided. False when somebody else was first, when it is too late, or
/// when the session is not one of this organization, which must be active.
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
    if !at_home || organizations::get(tx.snapshot(), organization)?.status != Status::Active {
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
    let decided_by = device.decided_by.as_ref().ok_or(Error::InvalidGrant)?;
    let session = sessions::live(tx.snapshot(), decided_by, now)?.ok_or(Error::InvalidGrant)?;
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
    let floor = crate::ids::floor(DeviceId::PREFIX, moment);
    let old: Vec<DeviceId> = tx.all(&OLD, args![&floor, most], |row| row.get(0))?;
    for id in &old {
        tx.exec(&DELETE, args![id])?;
    }
    Ok(old.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_type_is_understood() {
        for typed in [
            "BCDF-GHJK",
            "bcdf-ghjk",
            " bcdf ghjk ",
            "bcdfghjk",
            "BCDF–GHJK",
            "b.c.d.f.g.h.j.k",
            "BCDF\u{2212}GHJK\t",
            "8CDF-6HJK",
        ] {
            assert_eq!(read_user_code(typed).as_deref(), Some("BCDFGHJK"), "{typed}");
        }
        for wrong in ["", "BCDF-GHJ", "BCDF-GHJA", "BCDF-GHJK-L", "BCDF-GHJ1", "ЬCDF-GHJK"] {
            assert_eq!(read_user_code(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn user_codes_have_at_least_34_bits() {
        assert!((USER_CODE_LETTERS.len() as f64).log2() * 8.0 >= 34.0);
    }
}
