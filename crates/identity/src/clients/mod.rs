//! OAuth clients: web, spa, native, device and machine; each with its grants, redirect URIs and secrets.
//!
//! - `kind.rs`: what kinds there are. `redirects.rs`: where codes may be sent. `secrets.rs`: how it proves itself.

mod kind;
mod redirects;
mod secrets;

pub use kind::{DEVICE_GRANT, Kind};
pub use redirects::check_redirect_uri;
pub use secrets::{ClientSecret, NewSecret, add_secret, delete_secret, list_secrets};

use crate::audit::{self, Actor};
use crate::ids::{ClientId, OrganizationId, ServiceId};
use crate::organizations::DeviceFlow;
use crate::secrets::matches;
use crate::{Error, Result, Time, names};
use store::{Key, Row, Snapshot, Tx, Where, args, select, sql, statements};

/// A client with all that a request needs to know of it.
#[derive(Clone, Debug)]
pub struct Client {
    /// Its `client_id`.
    pub id: ClientId,
    /// Whose it is.
    pub organization: OrganizationId,
    /// The organization's slug.
    pub organization_slug: String,
    /// The organization's name for people.
    pub organization_name: String,
    /// The service that its tokens are for; none for the clients of `platform`.
    pub service: Option<ServiceId>,
    /// The service's slug.
    pub service_slug: String,
    /// The service's name for people.
    pub service_name: String,
    /// What it is.
    pub kind: Kind,
    /// Its name for people.
    pub name: String,
    /// Grant types.
    pub grants: Vec<String>,
    /// What its organization has to say about the device flow.
    pub device_flow: DeviceFlow,
    /// Whether the authorization endpoint insists on PKCE.
    pub pkce_required: bool,
    /// Whether the user is asked before it gets its first code.
    pub consent_required: bool,
    /// How its ID tokens are signed.
    pub id_token_alg: String,
    /// Where codes may be sent.
    pub redirect_uris: Vec<String>,
    /// The hashes of its secrets.
    pub secret_hashes: Vec<Vec<u8>>,
    /// When it was made.
    pub created_at: Time,
}

impl Client {
    /// Whether it may use this grant type.
    pub fn may(&self, grant: &str) -> bool {
        self.grants.iter().any(|known| known == grant)
    }

    /// Whether it may use the device flow: neither it nor its organization has it switched off.
    pub fn may_use_device_flow(&self) -> bool {
        self.may(DEVICE_GRANT) && self.device_flow != DeviceFlow::Off
    }

    /// Whether it belongs to `platform`: its tokens administer.
    pub fn is_first_party(&self) -> bool {
        self.service.is_none()
    }

    /// Whether this is one of its secrets. Looks at all of them, so that time tells nothing.
    pub fn knows_secret(&self, secret: &str) -> bool {
        let hits = self.secret_hashes.iter().filter(|hash| matches(secret.as_bytes(), hash));
        hits.count() > 0
    }
}

/// A client to be made.
#[derive(Clone, Debug)]
pub struct NewClient {
    /// Its new id.
    pub id: ClientId,
    /// What it is.
    pub kind: Kind,
    /// For people.
    pub name: String,
    /// Where codes may be sent.
    pub redirect_uris: Vec<String>,
    /// Whether the user is asked before it gets its first code.
    pub consent_required: bool,
}

/// What is to change of a client; what is none stays.
#[derive(Clone, Debug, Default)]
pub struct ClientPatch {
    /// For people.
    pub name: Option<String>,
    /// In the place of all that there are.
    pub redirect_uris: Option<Vec<String>>,
    /// Whether the user is asked before it gets its first code.
    pub consent_required: Option<bool>,
    /// Whether the authorization endpoint insists on PKCE; only confidential clients may do without.
    pub pkce_required: Option<bool>,
    /// Whether it may use the device flow; only for kinds that have it.
    pub device_flow: Option<bool>,
}

const COLUMNS: &str =
    "SELECT c.id, c.organization_id, o.slug, o.name, c.service_id, s.slug, s.name, c.kind, c.name, c.grants,
            c.pkce_required, c.consent_required, c.id_token_alg, c.created_at, f.device_flow
     FROM clients c
     JOIN organizations o ON o.id = c.organization_id
     LEFT JOIN organization_rules f ON f.organization_id = c.organization_id
     LEFT JOIN services s ON s.id = c.service_id";

statements! {
    static INSERT = sql("INSERT INTO clients (id, organization_id, service_id, kind, name, grants, pkce_required,
                          consent_required, id_token_alg, created_at)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1, ?7, 'RS256', ?8)");
    static GET = select(COLUMNS, "WHERE c.id = ?1");
    static URIS = sql("SELECT uri FROM redirect_uris WHERE client_id = ?1 ORDER BY uri");
    static SECRET_HASHES = sql("SELECT hash FROM client_secrets WHERE client_id = ?1 ORDER BY id");
    // For a page of a list: what belongs to the clients from ?2 to ?3.
    static URIS_OF_PAGE = sql("SELECT r.client_id, r.uri FROM clients c JOIN redirect_uris r ON r.client_id = c.id
     WHERE c.organization_id = ?1 AND c.id >= ?2 AND c.id <= ?3 ORDER BY r.uri");
    static SECRET_HASHES_OF_PAGE = sql("SELECT r.client_id, r.hash FROM clients c JOIN client_secrets r ON r.client_id = c.id
     WHERE c.organization_id = ?1 AND c.id >= ?2 AND c.id <= ?3 ORDER BY r.id");
    static PATCH = sql("UPDATE clients SET name = ?2, consent_required = ?3, pkce_required = ?4 WHERE id = ?1");
    static SET_GRANTS = sql("UPDATE clients SET grants = ?2 WHERE id = ?1");
    static DEVICE_FLOW = sql("SELECT c.grants, f.device_flow
     FROM clients c
     LEFT JOIN organization_rules f ON f.organization_id = c.organization_id
     WHERE c.id = ?1");
    static DELETE = sql("DELETE FROM clients WHERE id = ?1");
    static ANY_OF_SERVICE = sql("SELECT id FROM clients WHERE organization_id = ?1 AND service_id = ?2 LIMIT 1");
}

fn read(row: &Row<'_>) -> std::result::Result<Client, store::Error> {
    let grants: String = row.get(9)?;
    let kind: String = row.get(7)?;
    let broken = |_| store::Error::Database(format!("client of unknown kind {kind:?}"));
    Ok(Client {
        id: row.get(0)?,
        organization: row.get(1)?,
        organization_slug: row.get(2)?,
        organization_name: row.get(3)?,
        service: row.get(4)?,
        service_slug: row.get::<Option<String>>(5)?.unwrap_or_default(),
        service_name: row.get::<Option<String>>(6)?.unwrap_or_default(),
        kind: Kind::parse(&kind).map_err(broken)?,
        name: row.get(8)?,
        grants: grants.split(' ').map(str::to_owned).collect(),
        device_flow: DeviceFlow::read(row, 14)?,
        pkce_required: row.get(10)?,
        consent_required: row.get(11)?,
        id_token_alg: row.get(12)?,
        created_at: row.get(13)?,
        redirect_uris: Vec::new(),
        secret_hashes: Vec::new(),
    })
}

/// The keys on which a client depends (its service and organization apart).
pub fn keys(id: &ClientId) -> [Key; 3] {
    [
        Key::row("clients", "id", id.as_str()),
        Key::row("redirect_uris", "client_id", id.as_str()),
        Key::row("client_secrets", "client_id", id.as_str()),
    ]
}

/// Makes a client of a service, or of `platform` when `service` is none.
pub fn create(
    tx: &mut Tx<'_>,
    organization: &OrganizationId,
    service: Option<&ServiceId>,
    new: &NewClient,
    actor: &Actor,
) -> Result<()> {
    let name = names::display("name", &new.name)?;
    let grants = new.kind.default_grants().join(" ");
    let kind = new.kind.as_str();
    let row = args![&new.id, organization, service, kind, &name, &grants, new.consent_required, actor.now];
    tx.exec(&INSERT, row)?;
    redirects::replace(tx, &new.id, new.kind, &new.redirect_uris)?;
    keys(&new.id).into_iter().for_each(|key| tx.changed(key));
    audit::note(tx, organization, actor, "client.created", new.id.as_str(), kind)
}

/// Changes a client.
pub fn patch(tx: &mut Tx<'_>, client: &Client, patch: &ClientPatch, actor: &Actor) -> Result<Client> {
    refuse_first_party(client)?;
    tx.lock(&secrets::LOCK, (&client.id).into())?;
    // As it is now: somebody else may have changed other fields since `client` was read.
    let client = get(tx.snapshot(), &client.id)?;
    let name = patch.name.as_deref().map(|name| names::display("name", name)).transpose()?;
    if patch.pkce_required == Some(false) && !client.kind.is_confidential() {
        let problem = format!("a {} client cannot keep a secret, so it needs PKCE", client.kind.as_str());
        return Err(Error::invalid("pkce_required", problem));
    }
    if patch.device_flow.is_some() && !client.kind.has_device_flow() {
        let problem = format!("a {} client has no device flow; native and device have", client.kind.as_str());
        return Err(Error::invalid("device_flow", problem));
    }
    let name = name.as_ref().unwrap_or(&client.name);
    let consent_required = patch.consent_required.unwrap_or(client.consent_required);
    let pkce_required = patch.pkce_required.unwrap_or(client.pkce_required);
    tx.exec(&PATCH, args![&client.id, name, consent_required, pkce_required])?;
    if let Some(device_flow) = patch.device_flow {
        tx.exec(&SET_GRANTS, args![&client.id, &grants_of(&client, device_flow)])?;
    }
    if let Some(uris) = &patch.redirect_uris {
        redirects::replace(tx, &client.id, client.kind, uris)?;
    }
    keys(&client.id).into_iter().for_each(|key| tx.changed(key));
    audit::note(tx, &client.organization, actor, "client.changed", client.id.as_str(), &patch.says())?;
    get(tx.snapshot(), &client.id)
}

/// Its grants in their usual order, with or without that of the device flow.
fn grants_of(client: &Client, device_flow: bool) -> String {
    let wanted = |grant: &str| if grant == DEVICE_GRANT { device_flow } else { client.may(grant) };
    let known = client.kind.default_grants().iter().copied();
    known.filter(|grant| wanted(grant)).collect::<Vec<_>>().join(" ")
}

impl ClientPatch {
    /// Which fields it changes, for the audit trail.
    fn says(&self) -> String {
        audit::fields(&[
            ("name", self.name.is_some()),
            ("redirect_uris", self.redirect_uris.is_some()),
            ("consent_required", self.consent_required.is_some()),
            ("pkce_required", self.pkce_required.is_some()),
            ("device_flow", self.device_flow.is_some()),
        ])
    }
}

/// Deletes a client; with it, every token that it holds becomes worthless.
pub fn delete(tx: &mut Tx<'_>, client: &Client, actor: &Actor) -> Result<()> {
    refuse_first_party(client)?;
    redirects::delete_all(tx, &client.id)?;
    secrets::delete_all(tx, &client.id)?;
    tx.exec(&DELETE, args![&client.id])?;
    keys(&client.id).into_iter().for_each(|key| tx.changed(key));
    audit::note(tx, &client.organization, actor, "client.deleted", client.id.as_str(), &client.name)
}

/// The clients of `platform` come with the program; without them nobody could administer.
fn refuse_first_party(client: &Client) -> Result<()> {
    if client.is_first_party() {
        let problem = "the clients of platform come with the program and stay as they are";
        return Err(Error::refused("first_party", problem));
    }
    Ok(())
}

/// The client with this id.
pub fn get(snapshot: &mut Snapshot<'_>, id: &ClientId) -> Result<Client> {
    let mut client = snapshot.one(&GET, args![id], read)?.ok_or(Error::NotFound { what: "client" })?;
    client.redirect_uris = snapshot.all(&URIS, args![id], |row| row.get(0))?;
    client.secret_hashes = snapshot.all(&SECRET_HASHES, args![id], |row| row.get(0))?;
    Ok(client)
}

/// Whether a client may use the device flow now, as [`Client::may_use_device_flow`] has it.
pub(crate) fn may_use_device_flow(snapshot: &mut Snapshot<'_>, id: &ClientId) -> Result<bool> {
    let found = snapshot.one(&DEVICE_FLOW, args![id], |row| {
        let grants: String = row.get(0)?;
        let is_its_own = grants.split(' ').any(|grant| grant == DEVICE_GRANT);
        Ok(is_its_own && DeviceFlow::read(row, 1)? != DeviceFlow::Off)
    })?;
    Ok(found.unwrap_or(false))
}

/// The client with this id, if it is one of this organization.
pub fn in_organization(
    snapshot: &mut Snapshot<'_>,
    organization: &OrganizationId,
    id: &ClientId,
) -> Result<Client> {
    let client = get(snapshot, id)?;
    if client.organization == *organization { Ok(client) } else { Err(Error::NotFound { what: "client" }) }
}

/// Clients by id, after `cursor`: all, or those of a service.
pub fn list(
    snapshot: &mut Snapshot<'_>,
    organization: &OrganizationId,
    service: Option<&ServiceId>,
    cursor: Option<&str>,
    limit: i64,
) -> Result<Vec<Client>> {
    let mut filter = Where::new(COLUMNS);
    filter.and("c.organization_id =", organization);
    filter.and_if("c.service_id =", service);
    filter.and_if("c.id >", cursor);
    let (sql, args) = filter.finish(&format!("ORDER BY c.id LIMIT {limit}"));
    let mut clients = snapshot.all(&sql, &args, read)?;
    let (Some(first), Some(last)) = (clients.first(), clients.last()) else { return Ok(clients) };
    let (first, last) = (first.id.clone(), last.id.clone());
    let page = args![organization, &first, &last];
    let uris = snapshot.all(&URIS_OF_PAGE, page, |row| Ok((row.get::<ClientId>(0)?, row.get(1)?)))?;
    let hashes =
        snapshot.all(&SECRET_HASHES_OF_PAGE, page, |row| Ok((row.get::<ClientId>(0)?, row.get(1)?)))?;
    for (id, uri) in uris {
        if let Some(client) = clients.iter_mut().find(|client| client.id == id) {
            client.redirect_uris.push(uri);
        }
    }
    for (id, hash) in hashes {
        if let Some(client) = clients.iter_mut().find(|client| client.id == id) {
            client.secret_hashes.push(hash);
        }
    }
    Ok(clients)
}

/// Whether a service has clients.
pub(crate) fn any_of_service(
    snapshot: &mut Snapshot<'_>,
    organization: &OrganizationId,
    service: &ServiceId,
) -> Result<bool> {
    let found: Option<ClientId> =
        snapshot.one(&ANY_OF_SERVICE, args![organization, service], |row| row.get(0))?;
    Ok(found.is_some())
}
