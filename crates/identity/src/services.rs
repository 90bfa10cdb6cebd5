//! Services: the products of an organization.

use crate::audit::{self, Actor};
use crate::events::{self, Entry};
use crate::ids::{OrganizationId, ServiceId};
use crate::tokens::AccessTokenTyp;
use crate::{Error, Result, Time, names};
use store::{FromRow, Key, Snapshot, ToRow, Tx, Where, args, insert_row, lock, select_row, sql, statements};

/// A service.
#[derive(Clone, Debug, FromRow, ToRow)]
pub struct Service {
    /// The id.
    pub id: ServiceId,
    /// The organization it belongs to.
    #[row("organization_id")]
    pub organization: OrganizationId,
    /// The identifier in tokens and URLs. It never changes.
    pub slug: String,
    /// The display name.
    pub name: String,
    /// The type of access tokens that it accepts.
    pub access_token_typ: AccessTokenTyp,
    /// The creation time.
    pub created_at: Time,
}

/// The input for [`create`].
#[derive(Clone, Debug)]
pub struct NewService {
    /// The new id.
    pub id: ServiceId,
    /// The slug, unique in the organization.
    pub slug: String,
    /// The display name.
    pub name: String,
    /// The type of access tokens that it accepts.
    pub access_token_typ: AccessTokenTyp,
}

const FROM: &str = "FROM services";

statements! {
    static INSERT = insert_row::<Service>("services");
    static GET = select_row::<Service>(FROM, "WHERE id = ?1");
    static FIND = select_row::<Service>(FROM, "WHERE organization_id = ?1 AND slug = ?2");
    static RENAME = sql("UPDATE services SET name = ?2 WHERE id = ?1");
    static SET_TYP = sql("UPDATE services SET access_token_typ = ?2 WHERE id = ?1");
    static SLUGS = sql("SELECT slug FROM services WHERE organization_id = ?1 ORDER BY slug LIMIT ?2");
    /// Locks a service for a decision that depends on its clients and plans.
    pub(crate) static LOCK = lock("services", "id");
    static DELETE = sql("DELETE FROM services WHERE id = ?1");
}

/// The key that changes with a service.
pub fn key(id: &ServiceId) -> Key {
    key_of(Some(id))
}

/// The same for a client or an API key that may belong to no service. No service has the empty id.
pub(crate) fn key_of(id: Option<&ServiceId>) -> Key {
    Key::row("services", "id", id.map_or("", ServiceId::as_str))
}

/// Creates a service.
pub fn create(
    tx: &mut Tx<'_>,
    organization: &OrganizationId,
    new: &NewService,
    actor: &Actor,
) -> Result<Service> {
    let slug = names::slug("slug", &new.slug)?;
    let name = names::display("name", &new.name)?;
    let service = Service {
        id: new.id.clone(),
        organization: organization.clone(),
        slug,
        name,
        access_token_typ: new.access_token_typ,
        created_at: actor.now,
    };
    tx.exec(&INSERT, &service.values()).map_err(Error::taken("services_slug", "slug", &service.slug))?;
    tx.changed(key(&new.id));
    audit::note(tx, organization, actor, "service.created", new.id.as_str(), &service.slug)?;
    Ok(service)
}

/// Locks a service and reads it again: another request may have changed it since.
fn locked(tx: &mut Tx<'_>, service: &Service) -> Result<Service> {
    tx.lock(&LOCK, (&service.id).into())?;
    get(tx.snapshot(), &service.id)?.ok_or(Error::NotFound { what: "service" })
}

/// Changes the display name of a service. Setting the current value again has no effect.
pub fn rename(tx: &mut Tx<'_>, service: &Service, name: &str, actor: &Actor) -> Result<Service> {
    let name = names::display("name", name)?;
    let service = locked(tx, service)?;
    if service.name == name {
        return Ok(service);
    }
    tx.exec(&RENAME, args![&service.id, &name])?;
    tx.changed(key(&service.id));
    events::note(tx, actor.now, &Entry::service(&service.id))?;
    audit::note(tx, &service.organization, actor, "service.renamed", service.id.as_str(), &name)?;
    Ok(Service { name, ..service })
}

/// Changes the type of access tokens that a service accepts. Tokens that were issued before stay valid. Setting the current
/// value again has no effect.
pub fn set_access_token_typ(
    tx: &mut Tx<'_>,
    service: &Service,
    typ: AccessTokenTyp,
    actor: &Actor,
) -> Result<Service> {
    let service = locked(tx, service)?;
    if service.access_token_typ == typ {
        return Ok(service);
    }
    tx.exec(&SET_TYP, args![&service.id, typ.as_str()])?;
    tx.changed(key(&service.id));
    events::note(tx, actor.now, &Entry::service(&service.id))?;
    let details = format!("access_token_typ {}", typ.as_str());
    audit::note(tx, &service.organization, actor, "service.changed", service.id.as_str(), &details)?;
    Ok(Service { access_token_typ: typ, ..service })
}

/// Deletes a service. The caller holds its lock and has checked that it has no clients and plans ([`crate::catalog`]).
pub(crate) fn remove(tx: &mut Tx<'_>, service: &Service, actor: &Actor) -> Result<()> {
    tx.exec(&DELETE, args![&service.id])?;
    tx.changed(key(&service.id));
    audit::note(tx, &service.organization, actor, "service.deleted", service.id.as_str(), &service.slug)
}

/// Gets the service with this id.
pub(crate) fn get(snapshot: &mut Snapshot<'_>, id: &ServiceId) -> Result<Option<Service>> {
    snapshot.depends(|| [key(id)]);
    Ok(snapshot.one(&GET, args![id], Service::from_row)?)
}

/// Finds the service with this slug.
pub fn find(snapshot: &mut Snapshot<'_>, organization: &OrganizationId, slug: &str) -> Result<Service> {
    snapshot
        .one(&FIND, args![organization, slug], Service::from_row)?
        .ok_or(Error::NotFound { what: "service" })
}

/// Finds the service that a request names. The caller may list services, so the error for an unknown slug lists the
/// existing ones.
pub fn named(snapshot: &mut Snapshot<'_>, organization: &OrganizationId, slug: &str) -> Result<Service> {
    let found = find(snapshot, organization, slug);
    names::suggest_existing(found, slug, || {
        snapshot.all(&SLUGS, args![organization, names::SUGGESTIONS_MAX as i64 + 1], |row| row.get(0))
    })
}

/// Lists services by slug after `cursor`.
pub fn list(
    snapshot: &mut Snapshot<'_>,
    organization: &OrganizationId,
    cursor: Option<&str>,
    limit: i64,
) -> Result<Vec<Service>> {
    let mut filter = Where::of::<Service>(FROM);
    filter.and("organization_id =", organization);
    filter.and_if("slug >", cursor);
    let (sql, args) = filter.finish(&format!("ORDER BY slug LIMIT {limit}"));
    Ok(snapshot.all(&sql, &args, Service::from_row)?)
}
