//! Writes the audit log: each entry in the same transaction as the change that it describes. `audit_trail` lists it.

use crate::ids::{ApiKeyId, AuditId, BillingConnectionId, ClientId, OrganizationId, UserId};
use crate::scan::Page;
use crate::secrets::Random;
use crate::{Error, Result, Time, names};
use std::sync::atomic::{AtomicU32, Ordering};
use store::{Snapshot, Tx, args, insert, sql, statements};

/// The actor of a request. It is created once per request and passed to every command that writes an audit entry.
#[derive(Debug)]
pub struct Actor {
    /// The id of a user, an API key, a machine client or a billing connection, `system`, or `unknown`.
    pub who: String,
    /// The client's IP address, or empty.
    pub address: String,
    /// The time of the request.
    pub now: Time,
    /// The id of the first entry of this request. The ids of its other entries follow it.
    pub(crate) first_entry: AuditId,
    entries: AtomicU32,
}

/// The clone counts its entries from zero. Each run of a command gets its own clone, so a retry reuses the same ids.
impl Clone for Actor {
    fn clone(&self) -> Actor {
        Actor {
            who: self.who.clone(),
            address: self.address.clone(),
            now: self.now,
            first_entry: self.first_entry.clone(),
            entries: AtomicU32::new(0),
        }
    }
}

/// The server itself, or who controls its machine.
pub(crate) const SYSTEM: &str = "system";
/// An unauthenticated client.
pub(crate) const UNKNOWN: &str = "unknown";

impl Actor {
    /// An authenticated user.
    pub fn user(user: &UserId, address: &str, now: Time, random: &dyn Random) -> Actor {
        Actor::new(user.to_string(), address.to_owned(), now, random)
    }

    /// A program with an API key.
    pub fn api_key(id: &ApiKeyId, address: &str, now: Time, random: &dyn Random) -> Actor {
        Actor::new(id.to_string(), address.to_owned(), now, random)
    }

    /// A machine client with a token of its own.
    pub fn client(id: &ClientId, address: &str, now: Time, random: &dyn Random) -> Actor {
        Actor::new(id.to_string(), address.to_owned(), now, random)
    }

    /// A payment provider.
    pub fn billing(id: &BillingConnectionId, address: &str, now: Time, random: &dyn Random) -> Actor {
        Actor::new(id.to_string(), address.to_owned(), now, random)
    }

    /// The server itself.
    pub fn system(now: Time, random: &dyn Random) -> Actor {
        Actor::new(SYSTEM.to_owned(), String::new(), now, random)
    }

    /// An unauthenticated client.
    pub fn unknown(address: &str, now: Time, random: &dyn Random) -> Actor {
        Actor::new(UNKNOWN.to_owned(), address.to_owned(), now, random)
    }

    /// Whether a program acts: an API key or a machine client.
    pub(crate) fn is_program(&self) -> bool {
        ApiKeyId::parse(&self.who).is_ok() || ClientId::parse(&self.who).is_ok()
    }

    /// The same request as an action of `user`, who is known only inside the command. It counts its entries from zero:
    /// the command uses either the one or the other.
    pub(crate) fn as_user(&self, user: &UserId) -> Actor {
        Actor { who: user.to_string(), ..self.clone() }
    }

    fn new(who: String, address: String, now: Time, random: &dyn Random) -> Actor {
        Actor { who, address, now, first_entry: AuditId::new(now, random), entries: AtomicU32::new(0) }
    }

    /// The id of the next entry, derived from the first because a command has no source of randomness.
    fn next_entry(&self) -> AuditId {
        self.first_entry.plus(self.entries.fetch_add(1, Ordering::Relaxed))
    }
}

/// The longest reason, in characters.
pub const REASON_LENGTH_MAX: usize = 500;

/// Validates the reason that an actor gives for a change. An empty text counts as none.
pub fn reason(text: Option<&str>) -> Result<Option<String>> {
    let Some(text) = text.map(str::trim).filter(|text| !text.is_empty()) else { return Ok(None) };
    if text.chars().count() > REASON_LENGTH_MAX || text.chars().any(char::is_control) {
        let code = if text.chars().count() > REASON_LENGTH_MAX { "too_long" } else { "invalid" };
        let problem = format!("use at most {REASON_LENGTH_MAX} characters on one line");
        return Err(Error::wrong(code, "reason", problem));
    }
    names::refuse_deceptive("reason", text)?;
    Ok(Some(text.to_owned()))
}

/// Joins the names of the changed fields, for the details of an audit entry.
pub(crate) fn fields(touched: &[(&str, bool)]) -> String {
    let names: Vec<&str> =
        touched.iter().filter(|(_, is_touched)| *is_touched).map(|(name, _)| *name).collect();
    names.join(", ")
}

statements! {
    static INSERT = insert(
        "audit",
        &[&["organization_id", "id", "actor", "action", "target", "address", "details", "created_at"]],
    );
}

/// Writes an audit entry: `actor` did `action` (like `service.created`) to `target` (an id) in an organization.
pub fn note(
    tx: &mut Tx<'_>,
    organization: &OrganizationId,
    actor: &Actor,
    action: &str,
    target: &str,
    details: &str,
) -> Result<()> {
    let id = actor.next_entry();
    tx.exec(
        &INSERT,
        args![organization, &id, &actor.who, action, target, &actor.address, details, actor.now],
    )?;
    Ok(())
}

statements! {
    static NEWEST = sql("SELECT created_at FROM audit WHERE organization_id = ?1 ORDER BY id DESC LIMIT 1");
    static IDS = sql("SELECT id FROM audit WHERE organization_id = ?1 ORDER BY id LIMIT ?2");
    static DELETE = sql("DELETE FROM audit WHERE organization_id = ?1 AND id = ?2");
    static PAGE = sql("SELECT id, actor, target FROM audit WHERE organization_id = ?1 AND id > ?2 AND id < ?3
     ORDER BY id LIMIT ?4");
    // What the user did has the user's address, and so may have a sign-in as the user that failed.
    static BLANK_ADDRESS = sql("UPDATE audit SET address = '' WHERE organization_id = ?1 AND id = ?2
     AND (actor = ?3 OR actor = 'unknown')");
    // A reason may name the user; a failed sign-in may list networks.
    static BLANK_DETAILS = sql("UPDATE audit SET details = '' WHERE organization_id = ?1 AND id = ?2
     AND target = ?3 AND action LIKE 'user.%'");
}

/// Reads up to `most` entries of an organization after the id `after` and before `until`. Returns the ones that name a
/// user.
pub(crate) fn page_about(
    snapshot: &mut Snapshot<'_>,
    organization: &OrganizationId,
    user: &UserId,
    (after, until): (&str, &str),
    most: i64,
) -> Result<Page<AuditId>> {
    let rows = snapshot.all(&PAGE, args![organization, after, until, most], |row| {
        let (actor, target): (String, String) = (row.get(1)?, row.get(2)?);
        Ok((row.get(0)?, actor == user.as_str() || target == user.as_str()))
    })?;
    Ok(Page::of(rows, most))
}

/// Deletes up to `most` entries of an organization. Returns the number of deleted entries.
pub(crate) fn delete_some(tx: &mut Tx<'_>, organization: &OrganizationId, most: i64) -> Result<i64> {
    let ids: Vec<AuditId> = tx.all(&IDS, args![organization, most], |row| row.get(0))?;
    for id in &ids {
        tx.exec(&DELETE, args![organization, id])?;
    }
    Ok(ids.len() as i64)
}

/// Removes network addresses and details about a deleted user from an entry.
pub(crate) fn blank(
    tx: &mut Tx<'_>,
    organization: &OrganizationId,
    user: &UserId,
    id: &AuditId,
) -> Result<()> {
    tx.exec(&BLANK_ADDRESS, args![organization, id, user])?;
    tx.exec(&BLANK_DETAILS, args![organization, id, user])?;
    Ok(())
}

/// The time of the newest entry of an organization.
pub fn newest(snapshot: &mut Snapshot<'_>, organization: &OrganizationId) -> Result<Option<Time>> {
    Ok(snapshot.one(&NEWEST, args![organization], |row| row.get(0))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_one_line_of_limited_length() {
        assert_eq!(reason(Some("  spam ")).expect("valid").as_deref(), Some("spam"));
        assert_eq!(reason(Some("  ")).expect("valid"), None);
        assert_eq!(reason(None).expect("valid"), None);
        let long = "x".repeat(REASON_LENGTH_MAX + 1);
        for (wrong, why) in [
            ("two\nlines", "500 characters"),
            (&*long, "500 characters"),
            ("drawkcab \u{202e}txet", "changes the direction"),
            ("in\u{200b}visible", "an invisible character"),
        ] {
            let error = reason(Some(wrong)).expect_err("it is refused").to_string();
            assert!(error.starts_with("reason: ") && error.contains(why), "{error}");
        }
    }
}
