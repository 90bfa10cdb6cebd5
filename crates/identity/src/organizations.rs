//! Organizations: the tenants. `platform` is the reserved one, whose users run the others.
//!
//! A new organization is pending until a platform owner reviews it; an active one may be suspended.
//! Slugs never change and are never given out again.

use crate::audit::{self, Actor};
use crate::ids::{OrganizationId, UserId};
use crate::{Error, Result, Time, names};
use store::{
    Key, Row, Snapshot, Tx, Where, args, insert, insert_if_absent, lock, select, sql, statements, upsert,
};

/// The slug of the organization of those who administer.
pub const PLATFORM: &str = "platform";

/// Where an organization stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Waits for its review.
    Pending,
    /// In use.
    Active,
    /// Not admitted.
    Rejected,
    /// Stopped for now: nobody signs in, no token is good.
    Suspended,
}

impl Status {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Pending => "pending",
            Status::Active => "active",
            Status::Rejected => "rejected",
            Status::Suspended => "suspended",
        }
    }
}

/// What a platform owner makes of a pending organization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It may begin.
    Approved,
    /// It may not.
    Rejected,
}

impl Decision {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Decision::Approved => "approved",
            Decision::Rejected => "rejected",
        }
    }

    /// Reads the word on the wire.
    pub fn parse(word: &str) -> Result<Decision> {
        match word {
            "approved" => Ok(Decision::Approved),
            "rejected" => Ok(Decision::Rejected),
            _ => Err(Error::invalid(
                "decision",
                format!("{word:?} is not a decision; use approved or rejected"),
            )),
        }
    }
}

/// How an organization's clients may use the device flow: whoever gets somebody to approve a code of his own is signed
/// in as that somebody (RFC 8628 section 5.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceFlow {
    /// As it comes.
    Allowed,
    /// With codes that live shorter: little time to send one to somebody.
    Short,
    /// Not at all, not with codes that wait either.
    Off,
}

impl DeviceFlow {
    /// The word on the wire and in the table.
    pub fn as_str(self) -> &'static str {
        match self {
            DeviceFlow::Allowed => "allowed",
            DeviceFlow::Short => "short",
            DeviceFlow::Off => "off",
        }
    }

    /// Reads the word on the wire.
    pub fn parse(word: &str) -> Result<DeviceFlow> {
        match word {
            "allowed" => Ok(DeviceFlow::Allowed),
            "short" => Ok(DeviceFlow::Short),
            "off" => Ok(DeviceFlow::Off),
            _ => {
                let problem =
                    format!("{word:?} is not a rule for the device flow; use allowed, short or off");
                Err(Error::invalid("device_flow", problem))
            }
        }
    }

    /// Reads a column that is none where nothing was ever set.
    pub(crate) fn read(row: &Row<'_>, column: usize) -> std::result::Result<DeviceFlow, store::Error> {
        let Some(word) = row.get::<Option<String>>(column)? else { return Ok(DeviceFlow::Allowed) };
        DeviceFlow::parse(&word)
            .map_err(|_| store::Error::Database(format!("organization with the unknown rule {word:?}")))
    }
}

/// A tenant.
#[derive(Clone, Debug)]
pub struct Organization {
    /// Its id.
    pub id: OrganizationId,
    /// Its name in tokens and addresses; never changes.
    pub slug: String,
    /// Its name for people.
    pub name: String,
    /// Where it stands.
    pub status: Status,
    /// How its clients may use the device flow.
    pub device_flow: DeviceFlow,
    /// When it was made.
    pub created_at: Time,
}

/// Every query of this module reads these columns in this order.
pub(crate) const COLUMNS: &str =
    "SELECT o.id, o.slug, o.name, o.created_at, r.decision, s.suspended_at, f.device_flow
     FROM organizations o
     LEFT JOIN organization_reviews r ON r.organization_id = o.id
     LEFT JOIN organization_suspensions s ON s.organization_id = o.id
     LEFT JOIN organization_rules f ON f.organization_id = o.id";

statements! {
    static INSERT = insert("organizations", &[&["id", "slug", "name", "created_by", "created_at"]]);
    static REVIEW = insert_if_absent( "organization_reviews", &["organization_id", "decision", "reason", "decided_by", "decided_at"], );
    static RENAME = sql("UPDATE organizations SET name = ?2 WHERE id = ?1");
    static SUSPEND = insert_if_absent( "organization_suspensions", &["organization_id", "reason", "suspended_by", "suspended_at"], );
    static ACTIVATE = sql("DELETE FROM organization_suspensions WHERE organization_id = ?1");
    static SET_DEVICE_FLOW = upsert("organization_rules", &["organization_id"], &["device_flow"]);
    /// Taken before anything is decided about an organization as a whole.
    pub(crate) static LOCK = lock("organizations", "id");
    static FIND = select(COLUMNS, "WHERE o.slug = ?1");
    static GET = select(COLUMNS, "WHERE o.id = ?1");
}

pub(crate) fn read(row: &Row<'_>) -> std::result::Result<Organization, store::Error> {
    let decision: Option<String> = row.get(4)?;
    let suspended_at: Option<Time> = row.get(5)?;
    let status = match (decision.as_deref(), suspended_at) {
        (Some("approved"), Some(_)) => Status::Suspended,
        (Some("approved"), None) => Status::Active,
        (Some(_), _) => Status::Rejected,
        (None, _) => Status::Pending,
    };
    Ok(Organization {
        id: row.get(0)?,
        slug: row.get(1)?,
        name: row.get(2)?,
        status,
        device_flow: DeviceFlow::read(row, 6)?,
        created_at: row.get(3)?,
    })
}

/// The keys on which an organization's name, status and rules depend.
pub fn keys(id: &OrganizationId) -> [Key; 4] {
    [
        Key::row("organizations", "id", id.as_str()),
        Key::row("organization_reviews", "organization_id", id.as_str()),
        Key::row("organization_suspensions", "organization_id", id.as_str()),
        key_of_rules(id),
    ]
}

/// The key that changes when an organization sets a rule for its clients.
pub fn key_of_rules(id: &OrganizationId) -> Key {
    Key::row("organization_rules", "organization_id", id.as_str())
}

/// Makes the reserved organization of those who administer, active from the start.
pub fn create_platform(tx: &mut Tx<'_>, id: &OrganizationId, actor: &Actor) -> Result<()> {
    tx.exec(&INSERT, args![id, PLATFORM, "Sarsen", &actor.who, actor.now])?;
    tx.exec(&REVIEW, args![id, "approved", Option::<&str>::None, &actor.who, actor.now])?;
    keys(id).into_iter().for_each(|key| tx.changed(key));
    audit::note(tx, id, actor, "organization.created", id.as_str(), PLATFORM)
}

/// Makes an organization; `approved` when its maker may decide that.
pub fn create(
    tx: &mut Tx<'_>,
    id: &OrganizationId,
    slug: &str,
    name: &str,
    approved: bool,
    actor: &Actor,
) -> Result<Organization> {
    let slug = names::organization_slug(slug)?;
    let name = names::display("name", name)?;
    tx.exec(&INSERT, args![id, &slug, &name, &actor.who, actor.now]).map_err(Error::taken(
        "organizations_slug",
        "slug",
        &slug,
    ))?;
    if approved {
        tx.exec(&REVIEW, args![id, "approved", Option::<&str>::None, &actor.who, actor.now])?;
    }
    keys(id).into_iter().for_each(|key| tx.changed(key));
    audit::note(tx, id, actor, "organization.created", id.as_str(), &slug)?;
    let status = if approved { Status::Active } else { Status::Pending };
    let device_flow = DeviceFlow::Allowed;
    Ok(Organization { id: id.clone(), slug, name, status, device_flow, created_at: actor.now })
}

/// Gives an organization another name for people.
pub fn rename(
    tx: &mut Tx<'_>,
    organization: &Organization,
    name: &str,
    actor: &Actor,
) -> Result<Organization> {
    let name = names::display("name", name)?;
    tx.exec(&RENAME, args![&organization.id, &name])?;
    keys(&organization.id).into_iter().for_each(|key| tx.changed(key));
    audit::note(tx, &organization.id, actor, "organization.renamed", organization.id.as_str(), &name)?;
    Ok(Organization { name, ..organization.clone() })
}

/// Sets how an organization's clients may use the device flow; the same again is fine. Codes that wait keep their time,
/// but none is approved or redeemed while it is off. `platform` keeps it.
pub fn set_device_flow(
    tx: &mut Tx<'_>,
    organization: &Organization,
    device_flow: DeviceFlow,
    actor: &Actor,
) -> Result<Organization> {
    let id = &organization.id;
    tx.lock(&LOCK, id.into())?;
    let organization = get(tx.snapshot(), id)?;
    if organization.slug == PLATFORM && device_flow == DeviceFlow::Off {
        let problem = "the organization platform keeps the device flow: the command line signs in with it";
        return Err(Error::refused("platform_stays", problem));
    }
    if organization.device_flow == device_flow {
        return Ok(organization);
    }
    tx.exec(&SET_DEVICE_FLOW, args![id, device_flow.as_str()])?;
    tx.changed(key_of_rules(id));
    let details = format!("device_flow: {}", device_flow.as_str());
    audit::note(tx, id, actor, "organization.changed", id.as_str(), &details)?;
    Ok(Organization { device_flow, ..organization })
}

/// Admits a pending organization, or does not. Once.
pub fn review(
    tx: &mut Tx<'_>,
    organization: &Organization,
    decision: Decision,
    reason: Option<&str>,
    actor: &Actor,
) -> Result<Organization> {
    let reason = audit::reason(reason)?;
    let id = &organization.id;
    let row = args![id, decision.as_str(), reason.as_deref(), &actor.who, actor.now];
    if tx.exec(&REVIEW, row)? == 0 {
        let problem = "this organization was reviewed before; suspend or activate it instead";
        return Err(Error::refused("already_reviewed", problem));
    }
    keys(id).into_iter().for_each(|key| tx.changed(key));
    let action = format!("organization.{}", decision.as_str());
    audit::note(tx, id, actor, &action, id.as_str(), reason.as_deref().unwrap_or_default())?;
    get(tx.snapshot(), id)
}

/// Stops an organization for now; again is fine. `platform` cannot be stopped.
pub fn suspend(
    tx: &mut Tx<'_>,
    organization: &Organization,
    reason: Option<&str>,
    actor: &Actor,
) -> Result<Organization> {
    let reason = audit::reason(reason)?;
    if organization.slug == PLATFORM {
        let problem = "the organization platform cannot be suspended: nobody could end that";
        return Err(Error::refused("platform_stays", problem));
    }
    if !matches!(organization.status, Status::Active | Status::Suspended) {
        let status = organization.status.as_str();
        let problem = format!("this organization is {status}; only an active one can be suspended");
        return Err(Error::refused("organization_not_active", problem));
    }
    let id = &organization.id;
    let is_new = tx.exec(&SUSPEND, args![id, reason.as_deref(), &actor.who, actor.now])? == 1;
    keys(id).into_iter().for_each(|key| tx.changed(key));
    if is_new {
        let details = reason.as_deref().unwrap_or_default();
        audit::note(tx, id, actor, "organization.suspended", id.as_str(), details)?;
    }
    get(tx.snapshot(), id)
}

/// Lets a suspended organization go on; one that is not suspended stays as it is.
pub fn activate(tx: &mut Tx<'_>, organization: &Organization, actor: &Actor) -> Result<Organization> {
    let id = &organization.id;
    let was_suspended = tx.exec(&ACTIVATE, args![id])? == 1;
    keys(id).into_iter().for_each(|key| tx.changed(key));
    if was_suspended {
        audit::note(tx, id, actor, "organization.activated", id.as_str(), "")?;
    }
    get(tx.snapshot(), id)
}

/// The organization with this slug.
pub fn find(snapshot: &mut Snapshot<'_>, slug: &str) -> Result<Organization> {
    snapshot.one(&FIND, args![slug], read)?.ok_or(Error::NotFound { what: "organization" })
}

/// The organization with this id.
pub fn get(snapshot: &mut Snapshot<'_>, id: &OrganizationId) -> Result<Organization> {
    snapshot.one(&GET, args![id], read)?.ok_or(Error::NotFound { what: "organization" })
}

/// Organizations by slug, after `cursor`: all, or those that a user administers.
pub fn list(
    snapshot: &mut Snapshot<'_>,
    administrator: Option<&UserId>,
    cursor: Option<&str>,
    limit: i64,
) -> Result<Vec<Organization>> {
    let select = match administrator {
        None => COLUMNS.to_owned(),
        Some(_) => format!("{COLUMNS} JOIN administrators a ON a.organization_id = o.id"),
    };
    let mut filter = Where::new(&select);
    filter.and_if("a.user_id =", administrator);
    filter.and_if("o.slug >", cursor);
    let (sql, args) = filter.finish(&format!("ORDER BY o.slug LIMIT {limit}"));
    Ok(snapshot.all(&sql, &args, read)?)
}
