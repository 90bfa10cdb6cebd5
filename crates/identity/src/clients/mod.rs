//! OAuth clients: web, spa, native, device and machine; each with its grant types, redirect URIs and secrets.
//!
//! `kind.rs` defines the kinds, `options.rs` the options with named values, `uris.rs` what an address may be, `redirects.rs`
//! the redirect URIs, `secrets.rs` the client secrets, `administration.rs` the scopes with which a machine client
//! administers its organization, and `reviews.rs` what an owner has to look at after a program changed a client.

mod administration;
mod kind;
mod options;
mod redirects;
mod reviews;
mod secrets;
mod uris;

pub(crate) use administration::scope_now;
pub use administration::{grant_scopes, revoke_scopes};
pub use kind::{DEVICE_GRANT, Kind};
pub use options::{Pkce, parse_id_token_alg};
pub use redirects::{URIS_MAX, check_list as check_uri_list, check_redirect_uris};
pub(crate) use reviews::changes;
pub use secrets::{ClientSecret, MadeSecret, NewSecret, add_secret, delete_secret, list_secrets};
pub(crate) use secrets::{delete_made, secrets_made_by};
pub use uris::{LENGTH_MAX as URI_LENGTH_MAX, Purpose, check_uri};

use crate::administrators::Role;
use crate::audit::{self, Actor};
use crate::ids::{ClientId, OrganizationId, ServiceId};
use crate::keys::Algorithm;
use crate::organizations::DeviceFlow;
use crate::scopes::Scope;
use crate::secrets::matches;
use crate::tokens::AccessTokenTyp;
use crate::{Error, Result, Time, names, organizations, services};
use store::{
    FromRow, Key, Row, Snapshot, ToRow, Tx, Where, args, insert_row, select_row, sql, statements, update_row,
    upsert,
};

/// A client with the data of its organization and service.
#[derive(Clone, Debug, PartialEq, FromRow)]
#[row(of = "c")]
pub struct Client {
    /// The `client_id`.
    pub id: ClientId,
    /// The organization it belongs to.
    #[row("organization_id")]
    pub organization: OrganizationId,
    /// The organization's slug.
    #[row("o.slug")]
    pub organization_slug: String,
    /// The organization's display name.
    #[row("o.name")]
    pub organization_name: String,
    /// The service that its tokens are for; `None` for the clients of `platform`.
    #[row("service_id")]
    pub service: Option<ServiceId>,
    /// The service's slug.
    #[row("s.slug", with = Option::unwrap_or_default)]
    pub service_slug: String,
    /// The service's display name.
    #[row("s.name", with = Option::unwrap_or_default)]
    pub service_name: String,
    /// The kind.
    pub kind: Kind,
    /// The display name.
    pub name: String,
    /// The grant types.
    #[row(with = words)]
    pub grants: Vec<String>,
    /// The device flow setting of its organization.
    #[row("f.device_flow")]
    pub device_flow: DeviceFlow,
    /// Whether the authorization endpoint requires PKCE.
    #[row("pkce_required")]
    pub pkce: Pkce,
    /// When the client last sent a challenge, to within an hour. A cached client does not have it.
    #[row("a.pkce_used_at")]
    pub pkce_used_at: Option<Time>,
    /// Whether a user must give consent before the client gets its first code.
    pub consent_required: bool,
    /// Whether a program made the client or changed its redirect URIs, and no owner has accepted that yet. Consent is
    /// required until then.
    #[row(flatten = reviews::Review, with = reviews::Review::needs_owner)]
    pub needs_review: bool,
    /// The signature algorithm of its ID tokens.
    pub id_token_alg: Algorithm,
    /// The type of access tokens that its service accepts.
    #[row("s.access_token_typ")]
    pub access_token_typ: AccessTokenTyp,
    /// The redirect URIs.
    #[row(skip)]
    pub redirect_uris: Vec<String>,
    /// Where a user may go after a sign-out. Empty: the redirect URIs count.
    #[row(skip)]
    pub post_logout_redirect_uris: Vec<String>,
    /// What a machine client may do in its organization.
    #[row("administration_scope")]
    pub scope: Scope,
    /// The hashes of its secrets.
    #[row(skip)]
    pub secret_hashes: Vec<Vec<u8>>,
    /// The creation time.
    pub created_at: Time,
}

impl Client {
    /// Whether the client may use this grant type.
    pub fn may(&self, grant: &str) -> bool {
        self.grants.iter().any(|known| known == grant)
    }

    /// Whether the client may use the device flow: it is enabled for both the client and its organization.
    pub fn may_use_device_flow(&self) -> bool {
        self.may(DEVICE_GRANT) && self.device_flow != DeviceFlow::Off
    }

    /// Whether the client belongs to `platform`. Its tokens can carry administrative scopes.
    pub fn is_first_party(&self) -> bool {
        self.service.is_none()
    }

    /// The audience of tokens for its service.
    pub fn service_audience(&self) -> String {
        format!("service:{}/{}", self.organization_slug, self.service_slug)
    }

    /// Whether a consent counts for later requests to this redirect URI. Any program on a machine can pretend to be its
    /// native app, but not claim the app's https address (RFC 8252 section 8.6). Before its review, a consent to the
    /// product must not count for an address that a stolen key has added.
    pub fn keeps_consent(&self, redirect_uri: &str) -> bool {
        !self.needs_review && (self.kind != Kind::Native || redirect_uri.starts_with("https://"))
    }

    /// The name of the product that users sign in to: its service, or the client itself if it belongs to `platform`.
    pub fn product(&self) -> &str {
        if self.is_first_party() { &self.name } else { &self.service_name }
    }

    /// Whether `secret` is one of its secrets. It compares all of them, so that the duration reveals nothing.
    pub fn has_secret(&self, secret: &str) -> bool {
        let hits = self.secret_hashes.iter().filter(|hash| matches(secret.as_bytes(), hash));
        hits.count() > 0
    }
}

/// The input for [`create`].
#[derive(Clone, Debug)]
pub struct NewClient {
    /// The new id.
    pub id: ClientId,
    /// The kind.
    pub kind: Kind,
    /// The display name.
    pub name: String,
    /// The redirect URIs.
    pub redirect_uris: Vec<String>,
    /// Where a user may go after a sign-out. Empty: the redirect URIs count.
    pub post_logout_redirect_uris: Vec<String>,
    /// Whether a user must give consent before the client gets its first code.
    pub consent_required: bool,
    /// Whether the authorization endpoint requires PKCE. Public clients always require it.
    pub pkce: Pkce,
    /// The signature algorithm of its ID tokens.
    pub id_token_alg: Algorithm,
}

impl NewClient {
    /// A client with the default settings of its kind.
    pub fn new(id: ClientId, kind: Kind, name: &str, redirect_uris: Vec<String>) -> NewClient {
        NewClient {
            id,
            kind,
            name: name.to_owned(),
            redirect_uris,
            post_logout_redirect_uris: Vec::new(),
            // Any program on a machine can pretend to be its native app (RFC 8252 section 8.6).
            consent_required: kind == Kind::Native,
            pkce: Pkce::default_of(kind),
            id_token_alg: Algorithm::Rs256,
        }
    }
}

/// The input for [`patch`]. `None` leaves a field unchanged.
#[derive(Clone, Debug, Default)]
pub struct ClientPatch {
    /// The display name.
    pub name: Option<String>,
    /// The redirect URIs; they replace all current ones.
    pub redirect_uris: Option<Vec<String>>,
    /// Where a user may go after a sign-out; they replace all current ones. Empty: the redirect URIs count again.
    pub post_logout_redirect_uris: Option<Vec<String>>,
    /// Whether a user must give consent before the client gets its first code.
    pub consent_required: Option<bool>,
    /// Whether the authorization endpoint requires PKCE. Public clients always require it.
    pub pkce: Option<Pkce>,
    /// The signature algorithm of its ID tokens.
    pub id_token_alg: Option<Algorithm>,
    /// Whether the client may use the device flow. Only kinds with a device flow have this setting.
    pub device_flow: Option<bool>,
}

/// A new row of `clients`.
#[derive(ToRow)]
struct NewRow<'a> {
    id: &'a ClientId,
    organization_id: &'a OrganizationId,
    service_id: Option<&'a ServiceId>,
    kind: Kind,
    grants: &'a str,
    #[row(flatten)]
    settings: Settings<'a>,
    created_at: Time,
}

/// The settings of a client that are columns of its row, and that a change may set.
#[derive(ToRow)]
struct Settings<'a> {
    name: &'a str,
    #[row("pkce_required")]
    pkce: Pkce,
    consent_required: bool,
    id_token_alg: Algorithm,
}

/// The grants of a client, with the setting of its organization.
#[derive(FromRow)]
struct DeviceUse {
    #[row("c.grants", with = words)]
    grants: Vec<String>,
    #[row("f.device_flow")]
    device_flow: DeviceFlow,
}

/// A row that belongs to a client, on a page of a list.
#[derive(FromRow)]
#[row(of = "r")]
struct UriOf {
    client_id: ClientId,
    uri: String,
}

/// A secret that belongs to a client, on a page of a list.
#[derive(FromRow)]
#[row(of = "r")]
struct HashOf {
    client_id: ClientId,
    hash: Vec<u8>,
}

const FROM: &str = "FROM clients c
     JOIN organizations o ON o.id = c.organization_id
     LEFT JOIN client_activity a ON a.client_id = c.id
     LEFT JOIN client_reviews v ON v.client_id = c.id
     LEFT JOIN organization_rules f ON f.organization_id = c.organization_id
     LEFT JOIN services s ON s.id = c.service_id";

statements! {
    static INSERT = insert_row::<NewRow<'_>>("clients");
    static GET = select_row::<Client>(FROM, "WHERE c.id = ?1");
    static URIS = sql("SELECT uri FROM redirect_uris WHERE client_id = ?1 ORDER BY uri");
    static POST_LOGOUT_URIS = sql("SELECT uri FROM post_logout_redirect_uris WHERE client_id = ?1 ORDER BY uri");
    static SECRET_HASHES = sql("SELECT hash FROM client_secrets WHERE client_id = ?1 ORDER BY id");
    // For one page of a list: the rows of the clients with ids from ?2 to ?3.
    static URIS_OF_PAGE = select_row::<UriOf>(
        "FROM clients c JOIN redirect_uris r ON r.client_id = c.id",
        "WHERE c.organization_id = ?1 AND c.id >= ?2 AND c.id <= ?3 ORDER BY r.uri",
    );
    static POST_LOGOUT_URIS_OF_PAGE = select_row::<UriOf>(
        "FROM clients c JOIN post_logout_redirect_uris r ON r.client_id = c.id",
        "WHERE c.organization_id = ?1 AND c.id >= ?2 AND c.id <= ?3 ORDER BY r.uri",
    );
    static SECRET_HASHES_OF_PAGE = select_row::<HashOf>(
        "FROM clients c JOIN client_secrets r ON r.client_id = c.id",
        "WHERE c.organization_id = ?1 AND c.id >= ?2 AND c.id <= ?3 ORDER BY r.id",
    );
    static PATCH = update_row::<Settings<'_>>("clients", "id");
    static PKCE_USED = upsert("client_activity", &["client_id"], &["pkce_used_at"]);
    static DELETE_ACTIVITY = sql("DELETE FROM client_activity WHERE client_id = ?1");
    static SET_GRANTS = sql("UPDATE clients SET grants = ?2 WHERE id = ?1");
    static DEVICE_FLOW = select_row::<DeviceUse>(
        "FROM clients c LEFT JOIN organization_rules f ON f.organization_id = c.organization_id",
        "WHERE c.id = ?1",
    );
    static DELETE = sql("DELETE FROM clients WHERE id = ?1");
    static ANY_OF_SERVICE = sql("SELECT id FROM clients WHERE organization_id = ?1 AND service_id = ?2 LIMIT 1");
}

/// Reads a client without its addresses and secrets.
fn read(row: &Row<'_>) -> std::result::Result<Client, store::Error> {
    let client = Client::from_row(row)?;
    Ok(Client { consent_required: client.consent_required || client.needs_review, ..client })
}

/// The words of a column.
fn words(text: String) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

/// The key of a client's own row.
pub(crate) fn key(id: &ClientId) -> Key {
    Key::row("clients", "id", id.as_str())
}

/// The keys of a client, without those of its service and organization.
pub fn keys(id: &ClientId) -> [Key; 5] {
    [
        key(id),
        Key::row("redirect_uris", "client_id", id.as_str()),
        Key::row("post_logout_redirect_uris", "client_id", id.as_str()),
        Key::row("client_secrets", "client_id", id.as_str()),
        reviews::key(id),
    ]
}

/// Creates a client of a service, or of `platform` if `service` is `None`. One that a program creates needs a review.
pub fn create(
    tx: &mut Tx<'_>,
    organization: &OrganizationId,
    service: Option<&ServiceId>,
    new: &NewClient,
    actor: &Actor,
) -> Result<()> {
    let name = names::display("name", &new.name)?;
    check_pkce(new.kind, new.pkce)?;
    let grants = new.kind.default_grants().join(" ");
    let settings = Settings {
        name: &name,
        pkce: new.pkce,
        consent_required: new.consent_required,
        id_token_alg: new.id_token_alg,
    };
    let row = NewRow {
        id: &new.id,
        organization_id: organization,
        service_id: service,
        kind: new.kind,
        grants: &grants,
        settings,
        created_at: actor.now,
    };
    tx.exec(&INSERT, &row.values())?;
    redirects::replace(tx, &new.id, new.kind, &new.redirect_uris)?;
    redirects::replace_post_logout(tx, &new.id, &new.post_logout_redirect_uris)?;
    // No other kind gets codes: a device asks its user each time, and a machine has none.
    if actor.is_program() && new.kind.default_grants().contains(&"authorization_code") {
        reviews::need(tx, &new.id, actor)?;
    }
    keys(&new.id).into_iter().for_each(|key| tx.changed(key));
    audit::note(tx, organization, actor, "client.created", new.id.as_str(), new.kind.as_str())
}

/// Changes a client. Values that it has already change nothing, and leave no audit entry. An owner who sets
/// `consent_required`, to either value, accepts what programs have changed.
pub fn patch(
    tx: &mut Tx<'_>,
    client: &Client,
    patch: &ClientPatch,
    role: Role,
    actor: &Actor,
) -> Result<Client> {
    refuse_first_party(client)?;
    tx.lock(&secrets::LOCK, (&client.id).into())?;
    // Reads the client again under the lock: another request may have changed other fields since `client` was read.
    let client = get(tx.snapshot(), &client.id)?;
    let name = patch.name.as_deref().map(|name| names::display("name", name)).transpose()?;
    let pkce = patch.pkce.unwrap_or(client.pkce);
    check_pkce(client.kind, pkce)?;
    if patch.device_flow.is_some() && !client.kind.has_device_flow() {
        let problem = format!(
            "a {} client cannot use the device flow; use a native or device client",
            client.kind.as_str()
        );
        return Err(Error::invalid("device_flow", problem));
    }
    let moves = differ(patch.redirect_uris.as_deref(), &client.redirect_uris);
    let is_reviewed = client.needs_review && role == Role::Owner && patch.consent_required.is_some();
    let stays_open =
        client.needs_review && !is_reviewed || actor.is_program() && (moves || client.consent_required);
    if stays_open && patch.consent_required == Some(false) {
        return Err(Error::Forbidden { problem: reviews::OWNERS_ACCEPT });
    }
    let fields = patch.fields_unlike(&client, name.as_deref(), is_reviewed);
    if fields.is_empty() {
        return Ok(client);
    }
    let settings = Settings {
        name: name.as_ref().unwrap_or(&client.name),
        pkce,
        consent_required: patch.consent_required.unwrap_or(client.consent_required),
        id_token_alg: patch.id_token_alg.unwrap_or(client.id_token_alg),
    };
    tx.exec(&PATCH, &settings.values_of(&client.id))?;
    if let Some(device_flow) = patch.device_flow {
        tx.exec(&SET_GRANTS, args![&client.id, &grants_of(&client, device_flow)])?;
    }
    if let Some(uris) = &patch.redirect_uris {
        redirects::replace(tx, &client.id, client.kind, uris)?;
    }
    if let Some(uris) = &patch.post_logout_redirect_uris {
        redirects::replace_post_logout(tx, &client.id, uris)?;
    }
    if moves && actor.is_program() {
        reviews::need(tx, &client.id, actor)?;
    }
    if is_reviewed {
        reviews::accept(tx, &client, actor)?;
    }
    keys(&client.id).into_iter().for_each(|key| tx.changed(key));
    audit::note(tx, &client.organization, actor, "client.changed", client.id.as_str(), &fields)?;
    get(tx.snapshot(), &client.id)
}

/// Whether a list of addresses differs from the registered ones, in any order.
fn differ(wanted: Option<&[String]>, uris: &[String]) -> bool {
    let sorted = |uris: &[String]| {
        let mut uris = uris.to_vec();
        uris.sort_unstable();
        uris
    };
    wanted.is_some_and(|wanted| sorted(wanted) != sorted(uris))
}

/// Sets the redirect URIs of a client that is built in. They follow the address of the server, and nobody else sets them.
pub fn redirect_built_in(tx: &mut Tx<'_>, client: &Client, uris: &[String], actor: &Actor) -> Result<()> {
    redirects::replace(tx, &client.id, client.kind, uris)?;
    keys(&client.id).into_iter().for_each(|key| tx.changed(key));
    let id = client.id.as_str();
    audit::note(tx, &client.organization, actor, "client.changed", id, "redirect_uris")
}

/// Validates the PKCE setting. A public client has no secret, so PKCE is what protects its codes.
pub fn check_pkce(kind: Kind, pkce: Pkce) -> Result<()> {
    if pkce == Pkce::Optional && !kind.is_confidential() {
        let problem = format!("a {} client is public and requires PKCE; use required", kind.as_str());
        return Err(Error::invalid("pkce", problem));
    }
    Ok(())
}

/// Stores that a client sent a PKCE challenge.
pub fn set_pkce_used(tx: &mut Tx<'_>, id: &ClientId, now: Time) -> Result<()> {
    tx.exec(&PKCE_USED, args![id, now])?;
    Ok(())
}

/// Returns its grant types in default order, with or without the device grant.
fn grants_of(client: &Client, device_flow: bool) -> String {
    let wanted = |grant: &str| if grant == DEVICE_GRANT { device_flow } else { client.may(grant) };
    let known = client.kind.default_grants().iter().copied();
    known.filter(|grant| wanted(grant)).collect::<Vec<_>>().join(" ")
}

impl ClientPatch {
    /// The names of the fields that it changes, for the audit log.
    fn fields_unlike(&self, client: &Client, name: Option<&str>, is_reviewed: bool) -> String {
        let may_use_devices = client.may(DEVICE_GRANT);
        audit::fields(&[
            ("name", name.is_some_and(|name| name != client.name)),
            ("redirect_uris", differ(self.redirect_uris.as_deref(), &client.redirect_uris)),
            (
                "consent_required",
                is_reviewed || self.consent_required.is_some_and(|wanted| wanted != client.consent_required),
            ),
            (
                "post_logout_redirect_uris",
                differ(self.post_logout_redirect_uris.as_deref(), &client.post_logout_redirect_uris),
            ),
            ("pkce", self.pkce.is_some_and(|wanted| wanted != client.pkce)),
            ("id_token_alg", self.id_token_alg.is_some_and(|wanted| wanted != client.id_token_alg)),
            ("device_flow", self.device_flow.is_some_and(|wanted| wanted != may_use_devices)),
        ])
    }
}

/// Deletes a client. All its tokens become invalid.
pub fn delete(tx: &mut Tx<'_>, client: &Client, actor: &Actor) -> Result<()> {
    refuse_first_party(client)?;
    redirects::delete_all(tx, &client.id)?;
    secrets::delete_all(tx, &client.id)?;
    reviews::delete(tx, &client.id)?;
    tx.exec(&DELETE_ACTIVITY, args![&client.id])?;
    tx.exec(&DELETE, args![&client.id])?;
    keys(&client.id).into_iter().for_each(|key| tx.changed(key));
    audit::note(tx, &client.organization, actor, "client.deleted", client.id.as_str(), &client.name)
}

/// Protects the built-in clients of `platform`. Administration depends on them.
fn refuse_first_party(client: &Client) -> Result<()> {
    if client.is_first_party() {
        let problem = "the clients of platform are built in; they cannot be changed or deleted";
        return Err(Error::refused("first_party", problem));
    }
    Ok(())
}

/// Gets the client with this id.
pub fn get(snapshot: &mut Snapshot<'_>, id: &ClientId) -> Result<Client> {
    snapshot.depends(|| keys(id));
    let mut client = snapshot.one(&GET, args![id], read)?.ok_or(Error::NotFound { what: "client" })?;
    snapshot.depends(|| {
        let organization = &client.organization;
        let service = services::key_of(client.service.as_ref());
        [organizations::key(organization), organizations::key_of_rules(organization), service]
    });
    client.redirect_uris = snapshot.all(&URIS, args![id], |row| row.get(0))?;
    client.post_logout_redirect_uris = snapshot.all(&POST_LOGOUT_URIS, args![id], |row| row.get(0))?;
    client.secret_hashes = snapshot.all(&SECRET_HASHES, args![id], |row| row.get(0))?;
    Ok(client)
}

/// Whether a client may use the device flow, by the same rule as [`Client::may_use_device_flow`].
pub(crate) fn may_use_device_flow(snapshot: &mut Snapshot<'_>, id: &ClientId) -> Result<bool> {
    let found = snapshot.one(&DEVICE_FLOW, args![id], DeviceUse::from_row)?;
    Ok(found.is_some_and(|DeviceUse { grants, device_flow }| {
        grants.iter().any(|grant| grant == DEVICE_GRANT) && device_flow != DeviceFlow::Off
    }))
}

/// Gets the client with this id if it belongs to this organization.
pub fn in_organization(
    snapshot: &mut Snapshot<'_>,
    organization: &OrganizationId,
    id: &ClientId,
) -> Result<Client> {
    let client = get(snapshot, id)?;
    if client.organization == *organization { Ok(client) } else { Err(Error::NotFound { what: "client" }) }
}

/// Lists clients by id after `cursor`: all, or the ones of a service.
pub fn list(
    snapshot: &mut Snapshot<'_>,
    organization: &OrganizationId,
    service: Option<&ServiceId>,
    cursor: Option<&str>,
    limit: i64,
) -> Result<Vec<Client>> {
    let mut filter = Where::of::<Client>(FROM);
    filter.and("c.organization_id =", organization);
    filter.and_if("c.service_id =", service);
    filter.and_if("c.id >", cursor);
    let (sql, args) = filter.finish(&format!("ORDER BY c.id LIMIT {limit}"));
    let mut clients = snapshot.all(&sql, &args, read)?;
    let (Some(first), Some(last)) = (clients.first(), clients.last()) else { return Ok(clients) };
    let (first, last) = (first.id.clone(), last.id.clone());
    let page = args![organization, &first, &last];
    let mut of = |id: &ClientId, add: &dyn Fn(&mut Client)| {
        clients.iter_mut().filter(|client| client.id == *id).for_each(add);
    };
    for UriOf { client_id, uri } in snapshot.all(&URIS_OF_PAGE, page, UriOf::from_row)? {
        of(&client_id, &|client| client.redirect_uris.push(uri.clone()));
    }
    for UriOf { client_id, uri } in snapshot.all(&POST_LOGOUT_URIS_OF_PAGE, page, UriOf::from_row)? {
        of(&client_id, &|client| client.post_logout_redirect_uris.push(uri.clone()));
    }
    for HashOf { client_id, hash } in snapshot.all(&SECRET_HASHES_OF_PAGE, page, HashOf::from_row)? {
        of(&client_id, &|client| client.secret_hashes.push(hash.clone()));
    }
    Ok(clients)
}

/// Whether a service has any client.
pub(crate) fn any_of_service(
    snapshot: &mut Snapshot<'_>,
    organization: &OrganizationId,
    service: &ServiceId,
) -> Result<bool> {
    let found: Option<ClientId> =
        snapshot.one(&ANY_OF_SERVICE, args![organization, service], |row| row.get(0))?;
    Ok(found.is_some())
}
