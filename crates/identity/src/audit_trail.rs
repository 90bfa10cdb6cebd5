//! The audit log as a list with filters. It finds users and names what an entry is about, so it is above their modules;
//! `audit`, which all of them write with, knows none of them.

use crate::audit::{SYSTEM, UNKNOWN};
use crate::ids::{ApiKeyId, AuditId, ClientId, OrganizationId, UserId};
use crate::organizations::{self, PLATFORM};
use crate::{Error, Result, Time, administrators, ids, names, users};
use store::{Snapshot, Where};

/// An audit log entry.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The id. Ids sort by time.
    pub id: AuditId,
    /// The id of a user, an API key, a machine client or a billing connection, `system` for the server itself, or `unknown` for an
    /// unauthenticated client.
    pub actor: String,
    /// The actor's e-mail address, if the organization may see it.
    pub actor_email: Option<String>,
    /// The action, like `service.created`.
    pub action: String,
    /// The id of the changed object.
    pub target: String,
    /// The name of the target: the e-mail address of a user or an invitation, the slug of a service or a plan, or a
    /// client's name. `None` if the target has no name or was deleted.
    pub target_name: Option<String>,
    /// The IP address of the actor.
    pub address: String,
    /// Details as text.
    pub details: String,
    /// The time of the change.
    pub created_at: Time,
}

/// Joins the e-mail address of a user who belongs to the organization or administers it. Platform owners who do neither
/// appear only as an id.
const WITH_NAMES: &str =
    "SELECT a.id, a.actor, a.action, a.target, a.address, a.details, a.created_at, actor.email,
            COALESCE(target.email, s.slug, p.slug, c.name, i.email)
     FROM audit a
     LEFT JOIN administrators m ON m.organization_id = a.organization_id AND m.user_id = a.actor
     LEFT JOIN users actor ON actor.id = a.actor
       AND (actor.organization_id = a.organization_id OR m.user_id IS NOT NULL)
     LEFT JOIN administrators n ON n.organization_id = a.organization_id AND n.user_id = a.target
     LEFT JOIN users target ON target.id = a.target
       AND (target.organization_id = a.organization_id OR n.user_id IS NOT NULL)
     LEFT JOIN services s ON s.id = a.target AND s.organization_id = a.organization_id
     LEFT JOIN plans p ON p.id = a.target AND p.organization_id = a.organization_id
     LEFT JOIN clients c ON c.id = a.target AND c.organization_id = a.organization_id
     LEFT JOIN invitations i ON i.id = a.target AND i.organization_id = a.organization_id";

/// Actors that are no user and no API key. Both have many entries.
const NOBODY: [&str; 2] = [SYSTEM, UNKNOWN];

/// A filter for [`list`]. The default matches all entries.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Matches entries of this actor, from [`actor`].
    pub actor: Option<String>,
    /// Matches entries of this action, from [`action`].
    pub action: Option<String>,
    /// Matches entries about this object, from [`target`].
    pub target: Option<String>,
    /// Matches entries from this time on.
    pub since: Option<Time>,
    /// Matches entries before this time.
    pub until: Option<Time>,
}

/// Validates the actor of a filter: an id, an e-mail address, `system` or `unknown`.
pub fn actor(text: &str) -> Result<String> {
    if text.contains('@') {
        return names::known_email(text).map_err(|_| {
            Error::invalid("actor", "this is not an e-mail address; use one like ada@example.com, or an id")
        });
    }
    let is_id = UserId::parse(text).is_ok() || ApiKeyId::parse(text).is_ok() || ClientId::parse(text).is_ok();
    if is_id || NOBODY.contains(&text) {
        return Ok(text.to_owned());
    }
    let rule = "use an e-mail address, the id of a user, an API key or a client, system or unknown";
    Err(Error::invalid("actor", format!("{text:?} is not an actor; {rule}")))
}

/// The longest target, in bytes.
pub const TARGET_LENGTH_MAX: usize = 255;

/// Validates the target of a filter: an e-mail address or an id. Payment providers give ids of any form, so only the length and
/// the characters of an id are checked.
pub fn target(text: &str) -> Result<String> {
    if text.contains('@') {
        return names::known_email(text).map_err(|_| {
            Error::invalid("target", "this is not an e-mail address; use one like ada@example.com, or an id")
        });
    }
    if (1..=TARGET_LENGTH_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(text.to_owned());
    }
    Err(Error::invalid(
        "target",
        format!("{text:?} is not an id; use an id of the list, or an e-mail address"),
    ))
}

/// The longest action, in characters.
pub const ACTION_LENGTH_MAX: usize = 64;

/// Validates the action of a filter, like `service.created`.
pub fn action(text: &str) -> Result<String> {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte == b'_' || byte == b'.';
    if (1..=ACTION_LENGTH_MAX).contains(&text.len()) && text.bytes().all(is_letter) {
        return Ok(text.to_owned());
    }
    Err(Error::invalid(
        "action",
        format!("{text:?} is not an action; use one of the list, like service.created"),
    ))
}

/// The ids that an actor or a target (`what`) of a filter stands for. An e-mail address may belong to a user and to an
/// administrator.
fn ids_of(
    snapshot: &mut Snapshot<'_>,
    organization: &OrganizationId,
    what: &'static str,
    text: &str,
) -> Result<Vec<String>> {
    if !text.contains('@') {
        return Ok(vec![text.to_owned()]);
    }
    let own = users::find(snapshot, organization, text)?;
    let mut found: Vec<String> = own.map(|user| user.id.to_string()).into_iter().collect();
    let platform = organizations::find(snapshot, PLATFORM)?.id;
    if platform != *organization {
        // The address of somebody who does not administer the organization is not revealed to it.
        let user = users::find(snapshot, &platform, text)?;
        let role = match &user {
            Some(user) => administrators::role_of(snapshot, organization, &user.id)?,
            None => None,
        };
        found.extend(user.filter(|_| role.is_some()).map(|user| user.id.to_string()));
    }
    if found.is_empty() {
        let rule = "use the address of a user or an administrator, or an id".to_owned();
        return Err(Error::Unknown { what, name: text.to_owned(), rule });
    }
    Ok(found)
}

/// Lists the entries of an organization before `cursor`, newest first.
pub fn list(
    snapshot: &mut Snapshot<'_>,
    organization: &OrganizationId,
    filter: &Filter,
    cursor: Option<&str>,
    limit: i64,
) -> Result<Vec<Entry>> {
    let mut ids = |what, text: &Option<String>| match text {
        Some(text) => {
            let ids = ids_of(snapshot, organization, what, text)?;
            Ok::<_, Error>(ids.into_iter().map(Some).collect())
        }
        None => Ok(vec![None]),
    };
    let (actors, targets): (Vec<_>, Vec<_>) = (ids("actor", &filter.actor)?, ids("target", &filter.target)?);
    let mut entries = Vec::new();
    for actor in &actors {
        for target in &targets {
            let who_and_what = (actor.as_deref(), target.as_deref());
            entries.extend(page(snapshot, organization, who_and_what, filter, cursor, limit)?);
        }
    }
    entries.sort_by(|one, other| other.id.cmp(&one.id));
    entries.truncate(usize::try_from(limit).unwrap_or_default());
    Ok(entries)
}

/// Ids contain their time, so a span of time is a range of ids.
fn page(
    snapshot: &mut Snapshot<'_>,
    organization: &OrganizationId,
    (actor, target): (Option<&str>, Option<&str>),
    Filter { action, since, until, .. }: &Filter,
    cursor: Option<&str>,
    limit: i64,
) -> Result<Vec<Entry>> {
    let mut filter = Where::new(WITH_NAMES);
    match (actor, action) {
        // One object has few entries.
        _ if target.is_some() => filter.by_index("audit a", "audit_target"),
        // One user has few entries.
        (Some(id), action) if action.is_none() || !NOBODY.contains(&id) => {
            filter.by_index("audit a", "audit_actor");
        }
        (_, Some(_)) => filter.by_index("audit a", "audit_action"),
        _ => {}
    }
    filter.and("a.organization_id =", organization);
    filter.and_if("a.actor =", actor);
    filter.and_if("a.target =", target);
    filter.and_if("a.action =", action.as_deref());
    let at = |time: &Time| ids::smallest_at(AuditId::PREFIX, *time);
    let (first, end) = (since.as_ref().map(at), until.as_ref().map(at));
    filter.and_if("a.id >=", first.as_deref());
    // Both are bounds of the same side, and databases use only one of them to search.
    let end = match (cursor, end.as_deref()) {
        (Some(cursor), Some(end)) => Some(cursor.min(end)),
        (cursor, end) => cursor.or(end),
    };
    filter.and_if("a.id <", end);
    let (sql, args) = filter.finish(&format!("ORDER BY a.id DESC LIMIT {limit}"));
    Ok(snapshot.all(&sql, &args, |row| {
        Ok(Entry {
            id: row.get(0)?,
            actor: row.get(1)?,
            action: row.get(2)?,
            target: row.get(3)?,
            address: row.get(4)?,
            details: row.get(5)?,
            created_at: row.get(6)?,
            actor_email: name(row.get(7)?),
            target_name: name(row.get(8)?),
        })
    })?)
}

/// Returns `None` for a deleted user: the address of the account is then its id, and the address of an invitation is empty.
fn name(found: Option<String>) -> Option<String> {
    found.filter(|name| !name.is_empty() && UserId::parse(name).is_err())
}
