//! Organizations: the tenants. The reserved organization `platform` holds the users who administer the others.
//!
//! A new organization is pending until a platform owner reviews it. An active organization can be suspended.
//! A slug never changes and is never reused.

use crate::audit::{self, Actor};
use crate::ids::{OrganizationId, UserId};
use crate::{Error, Result, Time, names};
use store::{
    FromRow, FromValue, Key, Snapshot, ToRow, ToValue, Tx, Value, ValueRef, Where, args, insert_if_absent,
    insert_row, lock, select_row, sql, statements, upsert_row,
};

/// The slug of the organization that holds the administrators.
pub const PLATFORM: &str = "platform";

/// The status of an organization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Not reviewed yet.
    Pending,
    /// Approved and in use.
    Active,
    /// Rejected in the review.
    Rejected,
    /// Suspended: users cannot sign in and all tokens are invalid.
    Suspended,
    /// An owner has deleted it. For 30 days, an owner can restore it.
    Deleted,
}

impl Status {
    /// Returns the name used in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Pending => "pending",
            Status::Active => "active",
            Status::Rejected => "rejected",
            Status::Suspended => "suspended",
            Status::Deleted => "deleted",
        }
    }

    /// All of them.
    pub const ALL: [Status; 5] =
        [Status::Pending, Status::Active, Status::Rejected, Status::Suspended, Status::Deleted];

    /// Parses the name used in the API.
    pub fn parse(word: &str) -> Result<Status> {
        Status::ALL.into_iter().find(|status| status.as_str() == word).ok_or_else(|| {
            let problem =
                format!("{word:?} is not a status; use pending, active, rejected, suspended or deleted");
            Error::wrong("not_allowed", "status", problem)
        })
    }

    /// The rows of which [`Standing::status`] is this status.
    fn condition(self) -> &'static str {
        match self {
            Status::Pending => "AND d.deleted_at IS NULL AND r.decision IS NULL",
            Status::Active => {
                "AND d.deleted_at IS NULL AND r.decision = 'approved' AND s.suspended_at IS NULL"
            }
            Status::Suspended => {
                "AND d.deleted_at IS NULL AND r.decision = 'approved' AND s.suspended_at IS NOT NULL"
            }
            Status::Rejected => "AND d.deleted_at IS NULL AND r.decision = 'rejected'",
            Status::Deleted => "AND d.deleted_at IS NOT NULL",
        }
    }
}

/// A platform owner's decision about a pending organization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The organization becomes active.
    Approved,
    /// The organization stays inactive.
    Rejected,
}

impl Decision {
    /// Returns the name used in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Decision::Approved => "approved",
            Decision::Rejected => "rejected",
        }
    }

    /// Parses the name used in the API.
    pub fn parse(word: &str) -> Result<Decision> {
        match word {
            "approved" => Ok(Decision::Approved),
            "rejected" => Ok(Decision::Rejected),
            _ => Err(Error::wrong(
                "not_allowed",
                "decision",
                format!("{word:?} is not a decision; use approved or rejected"),
            )),
        }
    }
}

/// The device flow setting of an organization. It limits remote phishing: an attacker starts a flow and gets a user to
/// approve the code (RFC 8628 section 5.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceFlow {
    /// Clients use the device flow without restriction.
    Allowed,
    /// Codes have a short lifetime, which leaves an attacker less time to send one to a user.
    Short,
    /// Clients cannot use the device flow. Pending codes become invalid too.
    Off,
}

impl DeviceFlow {
    /// Returns the name used in the API and in the table.
    pub fn as_str(self) -> &'static str {
        match self {
            DeviceFlow::Allowed => "allowed",
            DeviceFlow::Short => "short",
            DeviceFlow::Off => "off",
        }
    }

    /// Parses the name used in the API.
    pub fn parse(word: &str) -> Result<DeviceFlow> {
        match word {
            "allowed" => Ok(DeviceFlow::Allowed),
            "short" => Ok(DeviceFlow::Short),
            "off" => Ok(DeviceFlow::Off),
            _ => {
                let problem = format!("{word:?} is not a device flow setting; use allowed, short or off");
                Err(Error::wrong("not_allowed", "device_flow", problem))
            }
        }
    }
}

/// A column that may be NULL, which means the default, [`DeviceFlow::Allowed`].
impl FromValue for DeviceFlow {
    const KIND: &'static str = "a device flow setting";
    fn from_value(value: ValueRef<'_>) -> Option<DeviceFlow> {
        match value {
            ValueRef::Null => Some(DeviceFlow::Allowed),
            ValueRef::Text(word) => DeviceFlow::parse(word).ok(),
            _ => None,
        }
    }
}

impl ToValue for DeviceFlow {
    fn to_value(&self) -> Value<'_> {
        self.as_str().into()
    }
}

/// A tenant.
#[derive(Clone, Debug, FromRow)]
#[row(of = "o")]
pub struct Organization {
    /// The id.
    pub id: OrganizationId,
    /// The identifier in tokens and URLs. It never changes.
    pub slug: String,
    /// The display name.
    pub name: String,
    /// The status.
    #[row(flatten = Standing, with = Standing::status)]
    pub status: Status,
    /// The device flow setting for its clients.
    #[row("f.device_flow")]
    pub device_flow: DeviceFlow,
    /// Whether people may create accounts themselves. `None` in an organization from before this setting: see
    /// [`Organization::allows_sign_up`].
    #[row("f.sign_up")]
    pub sign_up: Option<bool>,
    /// The creation time.
    pub created_at: Time,
}

impl Organization {
    /// Whether people may create accounts themselves. Without a setting of its own, an organization follows the
    /// `configured` value of the server; `platform`, where administrators have their accounts, allows nobody.
    pub fn allows_sign_up(&self, configured: bool) -> bool {
        self.sign_up.unwrap_or(configured && self.slug != PLATFORM)
    }
}

/// What has been decided about an organization, which gives its status.
#[derive(FromRow)]
struct Standing {
    #[row("r.decision")]
    decision: Option<String>,
    #[row("s.suspended_at")]
    suspended_at: Option<Time>,
    #[row("d.deleted_at")]
    deleted_at: Option<Time>,
}

impl Standing {
    fn status(self) -> Status {
        match (self.decision.as_deref(), self.suspended_at) {
            _ if self.deleted_at.is_some() => Status::Deleted,
            (Some("approved"), Some(_)) => Status::Suspended,
            (Some("approved"), None) => Status::Active,
            (Some(_), _) => Status::Rejected,
            (None, _) => Status::Pending,
        }
    }
}

/// A new row of `organizations`.
#[derive(ToRow)]
struct NewRow<'a> {
    id: &'a OrganizationId,
    slug: &'a str,
    name: &'a str,
    created_by: &'a str,
    created_at: Time,
}

/// The settings of an organization: its row of `organization_rules`.
#[derive(ToRow)]
struct Rules {
    device_flow: DeviceFlow,
    sign_up: Option<bool>,
}

/// The tables of an [`Organization`].
pub(crate) const FROM: &str = "FROM organizations o
     LEFT JOIN organization_reviews r ON r.organization_id = o.id
     LEFT JOIN organization_suspensions s ON s.organization_id = o.id
     LEFT JOIN organization_rules f ON f.organization_id = o.id
     LEFT JOIN organization_deletions d ON d.organization_id = o.id";

statements! {
    static INSERT = insert_row::<NewRow<'_>>("organizations");
    static REVIEW = insert_if_absent( "organization_reviews", &["organization_id", "decision", "reason", "decided_by", "decided_at"], );
    static APPROVE_AFTER_ALL = sql("UPDATE organization_reviews SET decision = 'approved', reason = ?2, decided_by = ?3, decided_at = ?4
     WHERE organization_id = ?1 AND decision = 'rejected'");
    static RENAME = sql("UPDATE organizations SET name = ?2 WHERE id = ?1");
    static SUSPEND = insert_if_absent( "organization_suspensions", &["organization_id", "reason", "suspended_by", "suspended_at"], );
    static ACTIVATE = sql("DELETE FROM organization_suspensions WHERE organization_id = ?1");
    static SET_RULES = upsert_row::<Rules>("organization_rules", &["organization_id"]);
    /// Locks an organization for a decision that depends on several of its rows.
    pub(crate) static LOCK = lock("organizations", "id");
    static FIND = select_row::<Organization>(FROM, "WHERE o.slug = ?1");
    static GET = select_row::<Organization>(FROM, "WHERE o.id = ?1");
    static NEXT_ID = sql("SELECT id FROM organizations WHERE id > ?1 ORDER BY id LIMIT ?2");
    static BLANK = sql("UPDATE organizations SET name = slug, created_by = NULL WHERE id = ?1");
    static DELETE_RULES = sql("DELETE FROM organization_rules WHERE organization_id = ?1");
    static FORGET_REASON = sql("UPDATE organization_suspensions SET reason = NULL WHERE organization_id = ?1");
    static FORGET_REVIEW = sql("UPDATE organization_reviews SET reason = NULL WHERE organization_id = ?1");
}

/// The keys of an organization's name, status and settings.
pub fn keys(id: &OrganizationId) -> [Key; 5] {
    [
        key(id),
        Key::row("organization_reviews", "organization_id", id.as_str()),
        key_of_suspension(id),
        key_of_rules(id),
        key_of_deletion(id),
    ]
}

/// The key that changes with an organization's name.
pub(crate) fn key(id: &OrganizationId) -> Key {
    Key::row("organizations", "id", id.as_str())
}

/// The key that changes when an organization is suspended or activated.
pub(crate) fn key_of_suspension(id: &OrganizationId) -> Key {
    Key::row("organization_suspensions", "organization_id", id.as_str())
}

/// The key that changes when an organization is deleted or restored.
pub fn key_of_deletion(id: &OrganizationId) -> Key {
    Key::row("organization_deletions", "organization_id", id.as_str())
}

/// The key that changes when an organization changes a setting for its clients.
pub fn key_of_rules(id: &OrganizationId) -> Key {
    Key::row("organization_rules", "organization_id", id.as_str())
}

/// Creates the reserved organization `platform`, already active.
pub fn create_platform(tx: &mut Tx<'_>, id: &OrganizationId, actor: &Actor) -> Result<()> {
    let row = NewRow { id, slug: PLATFORM, name: "Sarsen", created_by: &actor.who, created_at: actor.now };
    tx.exec(&INSERT, &row.values())?;
    tx.exec(&REVIEW, args![id, "approved", Option::<&str>::None, &actor.who, actor.now])?;
    keys(id).into_iter().for_each(|key| tx.changed(key));
    audit::note(tx, id, actor, "organization.created", id.as_str(), PLATFORM)
}

/// Creates an organization. With `approved` it is active at once; the caller checks that the actor may approve. Sign-up
/// is closed until an owner opens it.
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
    let row = NewRow { id, slug: &slug, name: &name, created_by: &actor.who, created_at: actor.now };
    tx.exec(&INSERT, &row.values()).map_err(Error::taken("organizations_slug", "slug", &slug))?;
    if approved {
        tx.exec(&REVIEW, args![id, "approved", Option::<&str>::None, &actor.who, actor.now])?;
    }
    keys(id).into_iter().for_each(|key| tx.changed(key));
    audit::note(tx, id, actor, "organization.created", id.as_str(), &slug)?;
    let status = if approved { Status::Active } else { Status::Pending };
    let (device_flow, sign_up) = (DeviceFlow::Allowed, Some(false));
    let organization =
        Organization { id: id.clone(), slug, name, status, device_flow, sign_up, created_at: actor.now };
    put_rules(tx, &organization)?;
    Ok(organization)
}

/// Stores the settings of an organization. The caller holds its lock, because all settings are written.
fn put_rules(tx: &mut Tx<'_>, organization: &Organization) -> Result<()> {
    let id = &organization.id;
    let rules = Rules { device_flow: organization.device_flow, sign_up: organization.sign_up };
    tx.exec(&SET_RULES, &rules.values_of(id))?;
    tx.changed(key_of_rules(id));
    Ok(())
}

/// Changes the display name of an organization. Setting the current value again has no effect.
pub fn rename(
    tx: &mut Tx<'_>,
    organization: &Organization,
    name: &str,
    actor: &Actor,
) -> Result<Organization> {
    let name = names::display("name", name)?;
    tx.lock(&LOCK, (&organization.id).into())?;
    let organization = get(tx.snapshot(), &organization.id)?;
    if organization.name == name {
        return Ok(organization);
    }
    tx.exec(&RENAME, args![&organization.id, &name])?;
    keys(&organization.id).into_iter().for_each(|key| tx.changed(key));
    audit::note(tx, &organization.id, actor, "organization.renamed", organization.id.as_str(), &name)?;
    Ok(Organization { name, ..organization })
}

/// Changes the device flow setting of an organization. Setting the current value again has no effect. Pending codes
/// keep their expiry, but none can be approved or redeemed while the flow is off. `platform` cannot turn it off.
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
        let problem = "the organization platform needs the device flow for sign-in on the command line; use allowed or short";
        return Err(Error::refused("platform_stays", problem));
    }
    if organization.device_flow == device_flow {
        return Ok(organization);
    }
    let organization = Organization { device_flow, ..organization };
    put_rules(tx, &organization)?;
    let details = format!("device_flow: {}", device_flow.as_str());
    audit::note(tx, id, actor, "organization.changed", id.as_str(), &details)?;
    Ok(organization)
}

/// Opens or closes sign-up at an organization. Setting the current value again has no effect.
pub fn set_sign_up(
    tx: &mut Tx<'_>,
    organization: &Organization,
    is_open: bool,
    actor: &Actor,
) -> Result<Organization> {
    let id = &organization.id;
    tx.lock(&LOCK, id.into())?;
    let organization = get(tx.snapshot(), id)?;
    if organization.sign_up == Some(is_open) {
        return Ok(organization);
    }
    let organization = Organization { sign_up: Some(is_open), ..organization };
    put_rules(tx, &organization)?;
    let details = format!("sign_up: {is_open}");
    audit::note(tx, id, actor, "organization.changed", id.as_str(), &details)?;
    Ok(organization)
}

/// Stores the decision about a pending organization. Returns false if it was reviewed before. The caller declares the change.
pub(crate) fn decide(
    tx: &mut Tx<'_>,
    id: &OrganizationId,
    decision: Decision,
    reason: Option<&str>,
    actor: &Actor,
) -> Result<bool> {
    Ok(tx.exec(&REVIEW, args![id, decision.as_str(), reason, &actor.who, actor.now])? == 1)
}

/// Approves an organization that was rejected. Returns false if it was not. The caller declares the change.
pub(crate) fn approve_after_all(
    tx: &mut Tx<'_>,
    id: &OrganizationId,
    reason: Option<&str>,
    actor: &Actor,
) -> Result<bool> {
    Ok(tx.exec(&APPROVE_AFTER_ALL, args![id, reason, &actor.who, actor.now])? == 1)
}

/// Notes what an owner of the server decides about an organization: for its administrators, and for the other owners, who do not
/// see its trail. The reason is in the first only, which goes with the organization's data.
pub(crate) fn note_decision(
    tx: &mut Tx<'_>,
    organization: &Organization,
    actor: &Actor,
    action: &str,
    reason: Option<&str>,
) -> Result<()> {
    let id = &organization.id;
    audit::note(tx, id, actor, action, id.as_str(), reason.unwrap_or_default())?;
    let platform = find(tx.snapshot(), PLATFORM)?.id;
    audit::note(tx, &platform, actor, action, id.as_str(), &organization.slug)
}

/// Stores the suspension of an organization. Returns false if it was suspended before.
pub(crate) fn put_suspension(
    tx: &mut Tx<'_>,
    id: &OrganizationId,
    reason: Option<&str>,
    actor: &Actor,
) -> Result<bool> {
    let is_new = tx.exec(&SUSPEND, args![id, reason, &actor.who, actor.now])? == 1;
    keys(id).into_iter().for_each(|key| tx.changed(key));
    Ok(is_new)
}

/// Suspends a deleted organization for a reason of its own, beside its deletion. The caller declares the change.
pub(crate) fn suspend_anew(
    tx: &mut Tx<'_>,
    id: &OrganizationId,
    reason: Option<&str>,
    actor: &Actor,
) -> Result<()> {
    tx.exec(&ACTIVATE, args![id])?;
    tx.exec(&SUSPEND, args![id, reason, &actor.who, actor.now])?;
    Ok(())
}

/// Ends the suspension of an organization. Returns false if it was not suspended.
pub(crate) fn end_suspension(tx: &mut Tx<'_>, id: &OrganizationId) -> Result<bool> {
    let was_suspended = tx.exec(&ACTIVATE, args![id])? == 1;
    keys(id).into_iter().for_each(|key| tx.changed(key));
    Ok(was_suspended)
}

/// Removes what the owners of a deleted organization wrote. The slug stays taken.
pub(crate) fn blank(tx: &mut Tx<'_>, id: &OrganizationId) -> Result<()> {
    tx.exec(&BLANK, args![id])?;
    tx.exec(&DELETE_RULES, args![id])?;
    tx.exec(&FORGET_REASON, args![id])?;
    tx.exec(&FORGET_REVIEW, args![id])?;
    keys(id).into_iter().for_each(|key| tx.changed(key));
    Ok(())
}

/// Finds the organization with this slug.
pub fn find(snapshot: &mut Snapshot<'_>, slug: &str) -> Result<Organization> {
    snapshot.one(&FIND, args![slug], Organization::from_row)?.ok_or(Error::NotFound { what: "organization" })
}

/// Gets the organization with this id.
pub fn get(snapshot: &mut Snapshot<'_>, id: &OrganizationId) -> Result<Organization> {
    snapshot.depends(|| keys(id));
    snapshot.one(&GET, args![id], Organization::from_row)?.ok_or(Error::NotFound { what: "organization" })
}

/// Gets the id of the organization after this one, by id.
pub(crate) fn next_id(
    snapshot: &mut Snapshot<'_>,
    after: Option<&OrganizationId>,
) -> Result<Option<OrganizationId>> {
    Ok(snapshot.one(&NEXT_ID, args![after.map_or("", OrganizationId::as_str), 1], |row| row.get(0))?)
}

/// Lists organizations by slug after `cursor`: all, or the ones that `administrator` administers; of every status, or of one.
pub fn list(
    snapshot: &mut Snapshot<'_>,
    administrator: Option<&UserId>,
    status: Option<Status>,
    cursor: Option<&str>,
    limit: i64,
) -> Result<Vec<Organization>> {
    let join = administrator.map_or("", |_| "JOIN administrators a ON a.organization_id = o.id");
    let mut filter = Where::of::<Organization>(&format!("{FROM} {join}"));
    filter.and_if("a.user_id =", administrator);
    filter.and("o.slug >", cursor.unwrap_or_default());
    let condition = status.map_or("", Status::condition);
    let (sql, args) = filter.finish(&format!("{condition} ORDER BY o.slug LIMIT {limit}"));
    Ok(snapshot.all(&sql, &args, Organization::from_row)?)
}
