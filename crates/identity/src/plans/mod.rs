//! Plans. A plan covers one or more services of its organization. `terms.rs` validates its terms, `room.rs` limits the plans
//! of a service.

mod room;
pub mod terms;

use crate::audit::{self, Actor};
use crate::events::{self, Entry};
use crate::ids::{OrganizationId, PlanId, ServiceId};
use crate::{Error, Result, Time, customers, names, services};
use serde_json::Number;
use std::collections::BTreeMap;
use store::{Key, Row, Snapshot, Tx, Where, args, insert, lock, select, sql, statements};

/// Usage limits by name.
pub type Limits = BTreeMap<String, Number>;

const SERVICES_MAX: usize = 50;

/// A plan.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The id.
    pub id: PlanId,
    /// The organization that sells it.
    pub organization: OrganizationId,
    /// The identifier in responses and URLs. It never changes.
    pub slug: String,
    /// The display name.
    pub name: String,
    /// The services that it covers, by slug.
    pub services: Vec<Covered>,
    /// The price per billing period.
    pub price_cents: i64,
    /// The currency of the price: three capital letters.
    pub currency: String,
    /// The features that products enable for it.
    pub features: Vec<String>,
    /// The usage limits.
    pub limits: Limits,
    /// The number of seats of a subscription. `None` means unlimited.
    pub seats: Option<i64>,
    /// The creation time.
    pub created_at: Time,
}

/// A service that a plan covers.
#[derive(Clone, Debug)]
pub struct Covered {
    /// The id.
    pub id: ServiceId,
    /// The slug.
    pub slug: String,
}

/// The input for [`create`].
#[derive(Clone, Debug)]
pub struct NewPlan {
    /// The new id.
    pub id: PlanId,
    /// The slug, unique in the organization.
    pub slug: String,
    /// The display name.
    pub name: String,
    /// The slugs of the services that it covers, at least one.
    pub services: Vec<String>,
    /// The price per billing period.
    pub price_cents: i64,
    /// The currency of the price: three capital letters.
    pub currency: String,
    /// The features that products enable for it.
    pub features: Vec<String>,
    /// The usage limits.
    pub limits: Limits,
    /// The number of seats of a subscription. `None` means unlimited.
    pub seats: Option<i64>,
}

/// The input for [`patch`]. `None` leaves a field unchanged.
#[derive(Clone, Debug, Default)]
pub struct PlanPatch {
    /// The display name.
    pub name: Option<String>,
    /// The price per billing period.
    pub price_cents: Option<i64>,
    /// The features; they replace all current ones.
    pub features: Option<Vec<String>>,
    /// The usage limits; they replace all current ones.
    pub limits: Option<Limits>,
    /// The number of seats of a subscription. `Some(None)` means unlimited.
    pub seats: Option<Option<i64>>,
}

const COLUMNS: &str =
    "SELECT id, organization_id, slug, name, price_cents, currency, features, limits, seats,
            created_at FROM plans";

statements! {
    static INSERT = insert(
        "plans",
        &[&[
            "id", "organization_id", "slug", "name", "price_cents", "currency", "features", "limits", "seats",
            "created_at",
        ]],
    );
    static INSERT_SERVICE = insert("plan_services", &[&["plan_id", "service_id"]]);
    static FIND = select(COLUMNS, "WHERE organization_id = ?1 AND slug = ?2");
    static SERVICES = sql("SELECT s.id, s.slug FROM plan_services p JOIN services s ON s.id = p.service_id
     WHERE p.plan_id = ?1 ORDER BY s.slug");
    // For one page of a list: the services of the plans with slugs from ?2 to ?3.
    static SERVICES_OF_PAGE = sql("SELECT p.id, s.id, s.slug FROM plans p
     JOIN plan_services ps ON ps.plan_id = p.id
     JOIN services s ON s.id = ps.service_id
     WHERE p.organization_id = ?1 AND p.slug >= ?2 AND p.slug <= ?3 ORDER BY s.slug");
    static PATCH = sql(
        "UPDATE plans SET name = ?2, price_cents = ?3, features = ?4, limits = ?5, seats = ?6 WHERE id = ?1",
    );
    static SLUGS = sql("SELECT slug FROM plans WHERE organization_id = ?1 ORDER BY slug LIMIT ?2");
    /// Locks a plan for a decision that depends on its subscriptions.
    pub(crate) static LOCK = lock("plans", "id");
    static DELETE_SERVICES = sql("DELETE FROM plan_services WHERE plan_id = ?1");
    static DELETE = sql("DELETE FROM plans WHERE id = ?1");
    static SERVICE_IDS = sql("SELECT service_id FROM plan_services WHERE plan_id = ?1");
    static OF_SERVICE =
        select(COLUMNS, "WHERE id IN (SELECT plan_id FROM plan_services WHERE service_id = ?1) ORDER BY slug");
    static IDS_OF_SERVICE = sql("SELECT plan_id FROM plan_services WHERE service_id = ?1 ORDER BY plan_id");
    static ANY_OF_SERVICE = sql("SELECT plan_id FROM plan_services WHERE service_id = ?1 LIMIT 1");
}

fn read(row: &Row<'_>) -> std::result::Result<Plan, store::Error> {
    let broken =
        |error: serde_json::Error| store::Error::Database(format!("plan with invalid JSON: {error}"));
    Ok(Plan {
        id: row.get(0)?,
        organization: row.get(1)?,
        slug: row.get(2)?,
        name: row.get(3)?,
        services: Vec::new(),
        price_cents: row.get(4)?,
        currency: row.get(5)?,
        features: serde_json::from_str(&row.get::<String>(6)?).map_err(broken)?,
        limits: serde_json::from_str(&row.get::<String>(7)?).map_err(broken)?,
        seats: row.get(8)?,
        created_at: row.get(9)?,
    })
}

fn read_covered(row: &Row<'_>) -> std::result::Result<Covered, store::Error> {
    Ok(Covered { id: row.get(0)?, slug: row.get(1)? })
}

/// The keys that change with a plan: its own key and one for each service that it covers.
pub fn keys(plan: &Plan) -> Vec<Key> {
    let mut keys = vec![key_of(Some(&plan.id))];
    keys.extend(plan.services.iter().map(|service| key_of_service(&service.id)));
    keys
}

/// The key that changes with a plan, for a reader that may have found none. No plan has the empty id.
pub(crate) fn key_of(id: Option<&PlanId>) -> Key {
    Key::row("plans", "id", id.map_or("", PlanId::as_str))
}

/// The key that changes when a plan begins or ceases to cover a service.
pub(crate) fn key_of_service(service: &ServiceId) -> Key {
    Key::row("plan_services", "service_id", service.as_str())
}

/// Creates a plan.
pub fn create(tx: &mut Tx<'_>, organization: &OrganizationId, new: &NewPlan, actor: &Actor) -> Result<Plan> {
    let slug = names::slug("slug", &new.slug)?;
    let plan = Plan {
        id: new.id.clone(),
        organization: organization.clone(),
        name: names::display("name", &new.name)?,
        services: covered(tx.snapshot(), organization, &new.services)?,
        price_cents: terms::price(new.price_cents)?,
        currency: terms::currency(&new.currency)?,
        features: terms::features(&new.features)?,
        limits: terms::limits(&new.limits)?,
        seats: terms::seats(new.seats)?,
        created_at: actor.now,
        slug,
    };
    let (features, limits) = (json(&plan.features)?, json(&plan.limits)?);
    room::for_new(tx, &plan.services, features.len() + limits.len())?;
    tx.exec(
        &INSERT,
        args![
            &plan.id,
            organization,
            &plan.slug,
            &plan.name,
            plan.price_cents,
            &plan.currency,
            &features,
            &limits,
            plan.seats,
            actor.now
        ],
    )
    .map_err(Error::taken("plans_slug", "slug", &plan.slug))?;
    for service in &plan.services {
        tx.exec(&INSERT_SERVICE, args![&plan.id, &service.id])?;
    }
    keys(&plan).into_iter().for_each(|key| tx.changed(key));
    note_change(tx, &plan, false, actor.now)?;
    audit::note(tx, organization, actor, "plan.created", plan.id.as_str(), &plan.slug)?;
    Ok(plan)
}

/// Changes a plan. The change applies to existing subscriptions immediately. Values that the plan has already change
/// nothing, and leave no audit entry.
pub fn patch(tx: &mut Tx<'_>, plan: &Plan, patch: &PlanPatch, actor: &Actor) -> Result<Plan> {
    tx.lock(&LOCK, (&plan.id).into())?;
    // Reads the plan again under the lock: another request may have changed other fields since `plan` was read.
    let before = find(tx.snapshot(), &plan.organization, &plan.slug)?;
    let size_before = json(&before.features)?.len() + json(&before.limits)?.len();
    let mut changed = before.clone();
    if let Some(name) = &patch.name {
        changed.name = names::display("name", name)?;
    }
    if let Some(price_cents) = patch.price_cents {
        changed.price_cents = terms::price(price_cents)?;
    }
    if let Some(features) = &patch.features {
        changed.features = terms::features(features)?;
    }
    if let Some(limits) = &patch.limits {
        changed.limits = terms::limits(limits)?;
    }
    if let Some(seats) = patch.seats {
        changed.seats = terms::seats(seats)?;
    }
    let fields = changed.fields_unlike(&before);
    if fields.is_empty() {
        return Ok(changed);
    }
    let (features, limits) = (json(&changed.features)?, json(&changed.limits)?);
    room::for_changed(tx, &changed.services, size_before, features.len() + limits.len())?;
    let row = args![&plan.id, &changed.name, changed.price_cents, &features, &limits, changed.seats];
    tx.exec(&PATCH, row)?;
    tx.changed(key_of(Some(&plan.id)));
    let selects = (before.price_cents, before.seats) != (changed.price_cents, changed.seats)
        && customers::has_members(tx.snapshot())?;
    note_change(tx, &changed, selects, actor.now)?;
    audit::note(tx, &plan.organization, actor, "plan.changed", plan.id.as_str(), &fields)?;
    Ok(changed)
}

/// Notes for the products that a plan covers that it changed: one entry, however many subscribers it has.
fn note_change(tx: &mut Tx<'_>, plan: &Plan, selects: bool, now: Time) -> Result<()> {
    events::note(tx, now, &Entry::plan(plan.services.iter().map(|service| &service.id), selects))
}

impl Plan {
    /// The names of the fields that a patch has changed, for the audit log.
    fn fields_unlike(&self, before: &Plan) -> String {
        audit::fields(&[
            ("name", self.name != before.name),
            ("price_cents", self.price_cents != before.price_cents),
            ("features", self.features != before.features),
            ("limits", self.limits != before.limits),
            ("seats", self.seats != before.seats),
        ])
    }
}

/// Deletes a plan. The caller holds its lock and has checked that it has no subscriptions ([`crate::catalog`]).
pub(crate) fn remove(tx: &mut Tx<'_>, plan: &Plan, actor: &Actor) -> Result<()> {
    tx.exec(&DELETE_SERVICES, args![&plan.id])?;
    tx.exec(&DELETE, args![&plan.id])?;
    keys(plan).into_iter().for_each(|key| tx.changed(key));
    note_change(tx, plan, false, actor.now)?;
    audit::note(tx, &plan.organization, actor, "plan.deleted", plan.id.as_str(), &plan.slug)
}

/// Finds the plan with this slug.
pub fn find(snapshot: &mut Snapshot<'_>, organization: &OrganizationId, slug: &str) -> Result<Plan> {
    let found = snapshot.one(&FIND, args![organization, slug], read)?;
    let mut plan = found.ok_or(Error::NotFound { what: "plan" })?;
    plan.services = snapshot.all(&SERVICES, args![&plan.id], read_covered)?;
    Ok(plan)
}

/// Finds the plan that a request names. The caller may list plans, so the error for an unknown slug lists the existing
/// ones.
pub fn named(snapshot: &mut Snapshot<'_>, organization: &OrganizationId, slug: &str) -> Result<Plan> {
    let found = find(snapshot, organization, slug);
    names::suggest_existing(found, slug, || {
        snapshot.all(&SLUGS, args![organization, names::SUGGESTIONS_MAX as i64 + 1], |row| row.get(0))
    })
}

/// Lists plans by slug after `cursor`.
pub fn list(
    snapshot: &mut Snapshot<'_>,
    organization: &OrganizationId,
    cursor: Option<&str>,
    limit: i64,
) -> Result<Vec<Plan>> {
    let mut filter = Where::new(COLUMNS);
    filter.and("organization_id =", organization);
    filter.and_if("slug >", cursor);
    let (sql, args) = filter.finish(&format!("ORDER BY slug LIMIT {limit}"));
    let mut plans = snapshot.all(&sql, &args, read)?;
    let (Some(first), Some(last)) = (plans.first(), plans.last()) else { return Ok(plans) };
    let covered = snapshot.all(&SERVICES_OF_PAGE, args![organization, &first.slug, &last.slug], |row| {
        Ok((row.get::<PlanId>(0)?, Covered { id: row.get(1)?, slug: row.get(2)? }))
    })?;
    for (id, service) in covered {
        if let Some(plan) = plans.iter_mut().find(|plan| plan.id == id) {
            plan.services.push(service);
        }
    }
    Ok(plans)
}

/// The services that a plan covers.
pub(crate) fn service_ids(snapshot: &mut Snapshot<'_>, plan: &PlanId) -> Result<Vec<ServiceId>> {
    Ok(snapshot.all(&SERVICE_IDS, args![plan], |row| row.get(0))?)
}

/// The plans that cover a service, by slug, without the list of their services.
pub(crate) fn of_service(snapshot: &mut Snapshot<'_>, service: &ServiceId) -> Result<Vec<Plan>> {
    Ok(snapshot.all(&OF_SERVICE, args![service], read)?)
}

/// The ids of the plans that cover a service, in their order.
pub(crate) fn of_service_by_id(snapshot: &mut Snapshot<'_>, service: &ServiceId) -> Result<Vec<PlanId>> {
    Ok(snapshot.all(&IDS_OF_SERVICE, args![service], |row| row.get(0))?)
}

/// Whether any plan covers a service.
pub(crate) fn any_of_service(snapshot: &mut Snapshot<'_>, service: &ServiceId) -> Result<bool> {
    Ok(snapshot.one(&ANY_OF_SERVICE, args![service], |row| row.get::<PlanId>(0))?.is_some())
}

/// Validates the list of a plan's services: how many there are, and that each is listed once.
pub fn check_services(slugs: &[String]) -> Result<()> {
    if slugs.is_empty() || slugs.len() > SERVICES_MAX {
        let code = if slugs.is_empty() { "missing" } else { "too_many" };
        return Err(Error::wrong(code, "services", format!("use the slugs of 1 to {SERVICES_MAX} services")));
    }
    names::refuse_repeated("services", slugs)
}

/// Resolves the slugs of the covered services.
fn covered(
    snapshot: &mut Snapshot<'_>,
    organization: &OrganizationId,
    slugs: &[String],
) -> Result<Vec<Covered>> {
    check_services(slugs)?;
    let mut covered: Vec<Covered> = Vec::with_capacity(slugs.len());
    for slug in slugs {
        let service = services::named(snapshot, organization, slug).map_err(|error| match error {
            Error::Unknown { .. } => Error::wrong("not_found", "services", error.to_string()),
            error => error,
        })?;
        covered.push(Covered { id: service.id, slug: service.slug });
    }
    covered.sort_by(|one, other| one.slug.cmp(&other.slug));
    Ok(covered)
}

fn json(value: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Error::Internal(format!("JSON of a plan: {error}")))
}
