//! API keys: the bearer tokens of programs. A key of a service reads the users of that service and what they may use. A
//! key of an organization administers it within its scopes (`programs.rs`).
//!
//! A key is `sarsen_sk_<id>_<secret>`, where `<id>` is the row's id without its prefix: finding the row is a primary key
//! lookup. The secret is shown once and stored as its SHA-256 hash.

use crate::audit::{self, Actor};
use crate::ids::{ApiKeyId, OrganizationId, ServiceId, UserId};
use crate::organizations::{self, Organization, Status};
use crate::scopes::Scope;
use crate::secrets::{self, Hash, Random};
use crate::services::{self, Service};
use crate::{Error, Result, Time, names, program_scopes};
use store::{Key, Row, Snapshot, Tx, Where, args, insert, select, sql, statements, update};

/// What every key begins with, so that scanners recognise a leaked one.
pub const PREFIX: &str = "sarsen_sk_";
/// What a key of a service may be allowed. Without a choice it gets all of it.
pub const SERVICE_SCOPES: &[&str] = &["users:read", "entitlements:read"];
/// The most keys of an organization.
const KEYS_MAX: usize = 100;
const HINT_LENGTH: usize = 4;

/// A new key, generated before the command.
#[derive(Clone)]
pub struct Generated {
    /// The new id.
    pub id: ApiKeyId,
    /// The key for the program, shown once.
    pub key: String,
    /// The stored hash of its secret.
    pub hash: Hash,
    /// Its last characters. Administrators use them to distinguish keys.
    pub hint: String,
}

impl Generated {
    /// Generates the id and the secret.
    pub fn new(now: Time, random: &dyn Random) -> Generated {
        let (id, secret) = (ApiKeyId::new(now, random), secrets::secret(random));
        let suffix = &id.as_str()[ApiKeyId::PREFIX.len() + 1..];
        Generated {
            key: [PREFIX, suffix, "_", &secret].concat(),
            hash: secrets::hash(secret.as_bytes()),
            hint: secret[secret.len() - HINT_LENGTH..].to_owned(),
            id,
        }
    }

    /// The same of a key that was generated before. Returns `None` if it has not the form of a key.
    pub fn of(key: &str) -> Option<Generated> {
        let Presented { id, secret } = parse(key.as_bytes())?;
        let hint = secret.get(secret.len().saturating_sub(HINT_LENGTH)..).unwrap_or_default().to_owned();
        Some(Generated { id, key: key.to_owned(), hash: secrets::hash(secret.as_bytes()), hint })
    }
}

/// The input for [`create`].
#[derive(Clone)]
pub struct NewApiKey {
    /// The id and the hash.
    pub generated: Generated,
    /// The name that administrators see.
    pub name: String,
    /// The slug of the service whose data it reads; `None` for a key that administers the organization.
    pub service: Option<String>,
    /// The scopes.
    pub scopes: Option<Vec<String>>,
    /// The owner who creates it; `None` for the server itself.
    pub created_by: Option<UserId>,
    /// The time at which it expires.
    pub expires_at: Option<Time>,
}

/// A key, without its secret.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiKey {
    /// The id.
    pub id: ApiKeyId,
    /// The organization it belongs to.
    pub organization: OrganizationId,
    /// The slug of that organization.
    pub organization_slug: String,
    /// The service it belongs to.
    pub service: Option<ServiceId>,
    /// The slug of that service.
    pub service_slug: Option<String>,
    /// The name that administrators see.
    pub name: String,
    /// What it is allowed.
    pub scope: Scope,
    /// The last characters of its secret.
    pub hint: String,
    /// The id of the user who created it.
    pub created_by: Option<String>,
    /// The creation time.
    pub created_at: Time,
    /// The time at which it expires.
    pub expires_at: Option<Time>,
    /// The time of its last use, accurate to five minutes; `None` if it was never used.
    pub last_used_at: Option<Time>,
}

const COLUMNS: &str =
    "SELECT k.id, k.organization_id, o.slug, k.service_id, s.slug, k.name, k.scope, k.hint, k.created_by,
            k.created_at, k.expires_at, u.last_used_at, k.hash
     FROM api_keys k
     JOIN organizations o ON o.id = k.organization_id
     LEFT JOIN services s ON s.id = k.service_id
     LEFT JOIN api_key_uses u ON u.api_key_id = k.id";

statements! {
    static INSERT = insert("api_keys", &[&[
        "id", "organization_id", "service_id", "name", "scope", "hash", "hint", "created_by", "created_at", "expires_at",
    ]]);
    static INSERT_USE = insert("api_key_uses", &[&["api_key_id", "last_used_at"]]);
    static SET_LAST_USED = update("api_key_uses", "api_key_id", &["last_used_at"]);
    static GET = select(COLUMNS, "WHERE k.id = ?1");
    static COUNT = sql("SELECT COUNT(*) FROM api_keys WHERE organization_id = ?1");
    static MADE_BY = select(COLUMNS, "WHERE k.organization_id = ?1 AND k.created_by = ?2 ORDER BY k.id");
    static OF_SERVICE = sql("SELECT id, name FROM api_keys WHERE service_id = ?1");
    static OF_ORGANIZATION = sql("SELECT id FROM api_keys WHERE organization_id = ?1");
    static DELETE = sql("DELETE FROM api_keys WHERE id = ?1");
    static DELETE_USE = sql("DELETE FROM api_key_uses WHERE api_key_id = ?1");
}

fn read(row: &Row<'_>) -> std::result::Result<ApiKey, store::Error> {
    Ok(ApiKey {
        id: row.get(0)?,
        organization: row.get(1)?,
        organization_slug: row.get(2)?,
        service: row.get(3)?,
        service_slug: row.get(4)?,
        name: row.get(5)?,
        scope: Scope::parse(&row.get::<String>(6)?),
        hint: row.get(7)?,
        created_by: row.get(8)?,
        created_at: row.get(9)?,
        expires_at: row.get(10)?,
        last_used_at: row.get(11)?,
    })
}

/// The key that changes when an API key is created or revoked.
pub fn key(id: &ApiKeyId) -> Key {
    Key::row("api_keys", "id", id.as_str())
}

/// Creates a key of an organization or of one of its services. The caller is an owner.
pub fn create(
    tx: &mut Tx<'_>,
    organization: &Organization,
    new: &NewApiKey,
    actor: &Actor,
) -> Result<ApiKey> {
    if new.service.is_none() {
        program_scopes::refuse_platform(organization)?;
    }
    let name = names::display("name", &new.name)?;
    if new.expires_at.is_some_and(|at| at <= actor.now) {
        return Err(Error::invalid("expires_at", "the time is in the past; use a later one"));
    }
    tx.lock(&organizations::LOCK, (&organization.id).into())?;
    let service = match &new.service {
        Some(slug) => {
            let service = services::named(tx.snapshot(), &organization.id, slug)?;
            tx.lock(&services::LOCK, (&service.id).into())?;
            Some(service)
        }
        None => None,
    };
    let scope = chosen(new.scopes.as_deref(), service.is_some())?;
    let count: Option<i64> = tx.one(&COUNT, args![&organization.id], |row| row.get(0))?;
    if count.unwrap_or(0) >= KEYS_MAX as i64 {
        let problem = format!("this organization has {KEYS_MAX} API keys already; revoke one first");
        return Err(Error::refused("too_many_keys", problem));
    }
    let Generated { id, hash, hint, .. } = &new.generated;
    let service = service.map(|service| service.id);
    let scope = scope.to_string();
    let (by, now) = (new.created_by.as_ref(), actor.now);
    tx.exec(
        &INSERT,
        args![id, &organization.id, service.as_ref(), &name, &scope, hash, hint, by, now, new.expires_at],
    )?;
    tx.exec(&INSERT_USE, args![id, None::<Time>])?;
    tx.changed(key(id));
    audit::note(tx, &organization.id, actor, "api_key.created", id.as_str(), &format!("{name}: {scope}"))?;
    get(tx.snapshot(), &organization.id, id)
}

/// The scopes of a new key. Without a choice a key of a service gets all scopes for services.
pub fn chosen(requested: Option<&[String]>, of_service: bool) -> Result<Scope> {
    match requested {
        None | Some([]) if of_service => Ok(Scope::parse(&SERVICE_SCOPES.join(" "))),
        requested => {
            let known = if of_service { SERVICE_SCOPES } else { program_scopes::SCOPES };
            program_scopes::chosen(requested.unwrap_or_default(), known)
        }
    }
}

/// Revokes a key. It is invalid when the command has returned.
pub fn revoke(tx: &mut Tx<'_>, organization: &OrganizationId, id: &ApiKeyId, actor: &Actor) -> Result<()> {
    let name = get(tx.snapshot(), organization, id)?.name;
    remove(tx, organization, id, &name, actor)
}

/// Revokes the keys of a service that is being deleted. The caller holds the lock of the service.
pub(crate) fn revoke_of_service(tx: &mut Tx<'_>, service: &Service, actor: &Actor) -> Result<()> {
    let found: Vec<(ApiKeyId, String)> =
        tx.all(&OF_SERVICE, args![&service.id], |row| Ok((row.get(0)?, row.get(1)?)))?;
    found.iter().try_for_each(|(id, name)| remove(tx, &service.organization, id, name, actor))
}

/// Deletes the keys of an organization, of which there are at most [`KEYS_MAX`].
pub(crate) fn delete_all(tx: &mut Tx<'_>, organization: &OrganizationId) -> Result<()> {
    let ids: Vec<ApiKeyId> = tx.all(&OF_ORGANIZATION, args![organization], |row| row.get(0))?;
    for id in &ids {
        tx.exec(&DELETE, args![id])?;
        tx.exec(&DELETE_USE, args![id])?;
        tx.changed(key(id));
    }
    Ok(())
}

fn remove(
    tx: &mut Tx<'_>,
    organization: &OrganizationId,
    id: &ApiKeyId,
    name: &str,
    actor: &Actor,
) -> Result<()> {
    if tx.exec(&DELETE, args![id])? == 0 {
        return Err(Error::NotFound { what: "API key" });
    }
    tx.exec(&DELETE_USE, args![id])?;
    tx.changed(key(id));
    audit::note(tx, organization, actor, "api_key.revoked", id.as_str(), name)
}

/// Gets the key with this id if it belongs to this organization.
pub fn get(snapshot: &mut Snapshot<'_>, organization: &OrganizationId, id: &ApiKeyId) -> Result<ApiKey> {
    let found = snapshot.one(&GET, args![id], read)?.filter(|key| key.organization == *organization);
    found.ok_or(Error::NotFound { what: "API key" })
}

/// Lists the keys of an organization by id after `cursor`.
pub fn list(
    snapshot: &mut Snapshot<'_>,
    organization: &OrganizationId,
    cursor: Option<&str>,
    limit: i64,
) -> Result<Vec<ApiKey>> {
    let mut filter = Where::new(COLUMNS);
    filter.and("k.organization_id =", organization);
    filter.and_if("k.id >", cursor);
    let (sql, args) = filter.finish(&format!("ORDER BY k.id LIMIT {limit}"));
    Ok(snapshot.all(&sql, &args, read)?)
}

/// The keys of an organization that a user made, by id.
pub(crate) fn made_by(
    snapshot: &mut Snapshot<'_>,
    organization: &OrganizationId,
    user: &UserId,
) -> Result<Vec<ApiKey>> {
    Ok(snapshot.all(&MADE_BY, args![organization, user], read)?)
}

/// A presented key in its two parts. Nothing is verified yet.
pub struct Presented {
    id: ApiKeyId,
    secret: String,
}

/// Whether a bearer token has the prefix of a key.
pub fn is_key(token: &[u8]) -> bool {
    token.starts_with(PREFIX.as_bytes())
}

/// Splits a presented key. Returns `None` if it has not the form of a key.
pub fn parse(token: &[u8]) -> Option<Presented> {
    let rest = std::str::from_utf8(token).ok()?.strip_prefix(PREFIX)?;
    let (suffix, secret) = rest.split_once('_')?;
    if secret.len() != secrets::LENGTH {
        return None;
    }
    let id = ApiKeyId::parse(&[ApiKeyId::PREFIX, "_", suffix].concat()).ok()?;
    Some(Presented { id, secret: secret.to_owned() })
}

/// Verifies a presented key: it exists, its secret matches, it has not expired, and its organization is active. The
/// result may be cached, so it does not have the time of the last use.
pub fn verify(snapshot: &mut Snapshot<'_>, presented: &Presented, now: Time) -> Result<Option<ApiKey>> {
    snapshot.depends(|| [key(&presented.id)]);
    let found: Option<(ApiKey, Vec<u8>)> =
        snapshot.one(&GET, args![&presented.id], |row| Ok((read(row)?, row.get(12)?)))?;
    let Some((found, hash)) = found else { return Ok(None) };
    snapshot.depends(|| [services::key_of(found.service.as_ref())]);
    let is_valid = secrets::matches(presented.secret.as_bytes(), &hash)
        && found.expires_at.is_none_or(|at| at > now)
        && organizations::get(snapshot, &found.organization)?.status == Status::Active;
    Ok(is_valid.then_some(ApiKey { last_used_at: None, ..found }))
}

/// A key that was verified before, if it is still valid: it exists, it has not expired, and its organization is active.
pub fn standing(snapshot: &mut Snapshot<'_>, id: &ApiKeyId, now: Time) -> Result<Option<ApiKey>> {
    snapshot.depends(|| [key(id)]);
    let Some(found) = snapshot.one(&GET, args![id], read)? else { return Ok(None) };
    snapshot.depends(|| [services::key_of(found.service.as_ref())]);
    let is_valid = found.expires_at.is_none_or(|at| at > now)
        && organizations::get(snapshot, &found.organization)?.status == Status::Active;
    Ok(is_valid.then_some(found))
}

/// The scope of a key of this organization, as a command sees it. A key that was revoked, or that expired, is
/// [`Error::InvalidGrant`].
pub(crate) fn scope_now(
    snapshot: &mut Snapshot<'_>,
    organization: &OrganizationId,
    id: &ApiKeyId,
    now: Time,
) -> Result<Scope> {
    let key = match get(snapshot, organization, id) {
        Err(Error::NotFound { .. }) => return Err(Error::InvalidGrant),
        found => found?,
    };
    if key.expires_at.is_some_and(|at| at <= now) {
        return Err(Error::InvalidGrant);
    }
    // A key of a service administers nothing.
    Ok(if key.service.is_some() { Scope::default() } else { key.scope })
}

/// Sets the time at which a key was last used. The server calls this at most once per key in five minutes.
pub fn set_last_used(tx: &mut Tx<'_>, id: &ApiKeyId, now: Time) -> std::result::Result<(), store::Error> {
    // A key that was revoked meanwhile has no row.
    tx.exec(&SET_LAST_USED, args![id, now])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::testing::Seeded;

    #[test]
    fn a_key_is_parsed_into_its_row_and_its_secret() {
        let new = Generated::new(Time::from_millis(1_800_000_000_000), &Seeded::new(3));
        let parsed = parse(new.key.as_bytes()).expect("its own text");
        assert_eq!(parsed.id, new.id);
        assert!(secrets::matches(parsed.secret.as_bytes(), &new.hash));
        assert!(new.key.ends_with(&new.hint) && is_key(new.key.as_bytes()));
        for wrong in [
            "",
            "sarsen_sk_",
            &new.key[1..],
            &new.key[..new.key.len() - 1],
            &format!("{}x", new.key),
            &new.key.replacen("_sk_", "_pk_", 1),
            &new.key.to_uppercase(),
        ] {
            assert!(parse(wrong.as_bytes()).is_none(), "{wrong}");
        }
        assert!(parse(b"sarsen_sk_\xff").is_none());
    }

    #[test]
    fn scopes_are_of_the_kind_of_the_key() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(chosen(None, true).expect("all").to_string(), "users:read entitlements:read");
        assert_eq!(chosen(Some(&words(&["users:read"])), true).expect("one").to_string(), "users:read");
        for (scopes, of_service) in [
            (None, false),
            (Some(words(&[])), false),
            (Some(words(&["entitlements:read"])), false),
            (Some(words(&["users:write"])), true),
            (Some(words(&["users:read plans:write"])), true),
            (Some(words(&["keys:write"])), false),
        ] {
            assert!(chosen(scopes.as_deref(), of_service).is_err(), "{scopes:?} {of_service}");
        }
    }
}
