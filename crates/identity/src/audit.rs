//! The audit trail: who did what to what, written in the transaction of the change itself.

use crate::ids::{AuditId, OrganizationId, UserId};
use crate::secrets::Random;
use crate::{Error, Result, Time};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use store::{Snapshot, Sql, Tx, Where, args, sql};

/// Who acts, from where: made once a request and handed to every command that leaves a trace.
#[derive(Clone, Debug)]
pub struct Actor {
    /// A user's id, or `system`.
    pub who: String,
    /// The client's address, or empty.
    pub address: String,
    /// When.
    pub now: Time,
    /// The id of the first entry that this request writes; the others follow it.
    pub(crate) first_entry: AuditId,
    pub(crate) entries: Arc<AtomicU32>,
}

impl Actor {
    /// A user at an address.
    pub fn user(user: &UserId, address: &str, now: Time, random: &dyn Random) -> Actor {
        Actor::new(user.to_string(), address.to_owned(), now, random)
    }

    /// The program itself.
    pub fn system(now: Time, random: &dyn Random) -> Actor {
        Actor::new("system".to_owned(), String::new(), now, random)
    }

    fn new(who: String, address: String, now: Time, random: &dyn Random) -> Actor {
        Actor { who, address, now, first_entry: AuditId::new(now, random), entries: Arc::default() }
    }

    /// The id of the next entry. Drawn from the first, because a command has no randomness.
    fn next_entry(&self) -> AuditId {
        self.first_entry.plus(self.entries.fetch_add(1, Ordering::Relaxed))
    }
}

const REASON_LENGTH_MAX: usize = 500;

/// Checks the reason that somebody gives for what he does; empty is none.
pub fn reason(text: Option<&str>) -> Result<Option<String>> {
    let Some(text) = text.map(str::trim).filter(|text| !text.is_empty()) else { return Ok(None) };
    if text.chars().count() > REASON_LENGTH_MAX || text.chars().any(char::is_control) {
        return Err(Error::invalid(
            "reason",
            format!("expected at most {REASON_LENGTH_MAX} characters on one line"),
        ));
    }
    Ok(Some(text.to_owned()))
}

/// The names of the fields that a change touches, as details of its entry.
pub(crate) fn fields(touched: &[(&str, bool)]) -> String {
    let names: Vec<&str> =
        touched.iter().filter(|(_, is_touched)| *is_touched).map(|(name, _)| *name).collect();
    names.join(", ")
}

static INSERT: Sql =
    sql("INSERT INTO audit (organization_id, id, actor, action, target, address, details, created_at)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)");

/// Notes that `actor` did `action` (like `service.created`) to `target` (an id) in an organization.
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

/// An entry of the trail.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Sortable by time.
    pub id: AuditId,
    /// A user's id, or `system`.
    pub actor: String,
    /// Like `service.created`.
    pub action: String,
    /// The id of what it was done to.
    pub target: String,
    /// Where it came from.
    pub address: String,
    /// More about it, for people.
    pub details: String,
    /// When.
    pub created_at: Time,
}

/// The newest entries of an organization, before `cursor`.
pub fn list(
    snapshot: &mut Snapshot<'_>,
    organization: &OrganizationId,
    cursor: Option<&str>,
    limit: i64,
) -> Result<Vec<Entry>> {
    let mut filter = Where::new("SELECT id, actor, action, target, address, details, created_at FROM audit");
    filter.and("organization_id =", organization);
    filter.and_if("id <", cursor);
    let (sql, args) = filter.finish(&format!("ORDER BY id DESC LIMIT {limit}"));
    Ok(snapshot.all(&sql, &args, |row| {
        Ok(Entry {
            id: row.get(0)?,
            actor: row.get(1)?,
            action: row.get(2)?,
            target: row.get(3)?,
            address: row.get(4)?,
            details: row.get(5)?,
            created_at: row.get(6)?,
        })
    })?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_one_line_of_limited_length() {
        assert_eq!(reason(Some("  spam ")).expect("fine").as_deref(), Some("spam"));
        assert_eq!(reason(Some("  ")).expect("fine"), None);
        assert_eq!(reason(None).expect("fine"), None);
        for wrong in ["two\nlines", &"x".repeat(REASON_LENGTH_MAX + 1)] {
            let error = reason(Some(wrong)).expect_err("too much").to_string();
            assert!(error.starts_with("reason: ") && error.contains("500 characters"), "{error}");
        }
    }
}
