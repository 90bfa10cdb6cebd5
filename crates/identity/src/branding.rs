//! What the pages of an organization show beside its name, in the organization's own words. Today that is a line that says
//! whom to ask for help.
//!
//! It is plain text. The pages of an organization that is not active show none of it: an owner of the server has not
//! approved, or has suspended, who would speak there.

use crate::audit::{self, Actor};
use crate::ids::OrganizationId;
use crate::organizations::{self, Organization};
use crate::{Result, names};
use store::{Key, Snapshot, Tx, args, sql, statements, upsert};

/// The longest contact, in characters.
pub const CONTACT_LENGTH_MAX: usize = 200;

/// What an organization shows on its pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Branding {
    /// Whom users ask for help, such as an address or a room; empty for nobody.
    pub contact: String,
}

statements! {
    static PUT =
        upsert("organization_branding", &["organization_id"], &["contact", "changed_by", "changed_at"]);
    static GET = sql("SELECT contact FROM organization_branding WHERE organization_id = ?1");
    static DELETE = sql("DELETE FROM organization_branding WHERE organization_id = ?1");
}

/// The key that changes with what an organization shows.
fn key(id: &OrganizationId) -> Key {
    Key::row("organization_branding", "organization_id", id.as_str())
}

/// Validates a contact: at most 200 characters by the rules for names. Spaces around it are trimmed; an empty one is none.
pub fn contact(text: &str) -> Result<String> {
    match text.trim() {
        "" => Ok(String::new()),
        text => names::line("contact", text, CONTACT_LENGTH_MAX),
    }
}

/// Gets what an organization shows.
pub fn get(snapshot: &mut Snapshot<'_>, id: &OrganizationId) -> Result<Branding> {
    snapshot.depends(|| [key(id)]);
    let contact: Option<Option<String>> = snapshot.one(&GET, args![id], |row| row.get(0))?;
    Ok(Branding { contact: contact.flatten().unwrap_or_default() })
}

/// Replaces what an organization shows. Setting the current values again has no effect.
pub fn put(
    tx: &mut Tx<'_>,
    organization: &Organization,
    branding: &Branding,
    actor: &Actor,
) -> Result<Branding> {
    let id = &organization.id;
    let branding = Branding { contact: contact(&branding.contact)? };
    tx.lock(&organizations::LOCK, id.into())?;
    if get(tx.snapshot(), id)? == branding {
        return Ok(branding);
    }
    let contact = Some(branding.contact.as_str()).filter(|contact| !contact.is_empty());
    tx.exec(&PUT, args![id, contact, &actor.who, actor.now])?;
    tx.changed(key(id));
    let details = format!("contact: {}", branding.contact);
    audit::note(tx, id, actor, "branding.changed", id.as_str(), &details)?;
    Ok(branding)
}

/// Removes what a deleted organization showed.
pub(crate) fn delete(tx: &mut Tx<'_>, id: &OrganizationId) -> Result<()> {
    tx.exec(&DELETE, args![id])?;
    tx.changed(key(id));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contact_is_a_short_visible_line() {
        assert_eq!(contact("  help@acme.test, room 12 ").expect("valid"), "help@acme.test, room 12");
        assert_eq!(contact(" \t\u{a0} ").expect("none"), "");
        assert_eq!(contact(&"ä".repeat(CONTACT_LENGTH_MAX)).expect("valid").chars().count(), 200);
        for wrong in
            ["two\nlines", "in\u{200b}visible", "\u{202e}drawkcab", &"x".repeat(CONTACT_LENGTH_MAX + 1)]
        {
            assert!(contact(wrong).is_err(), "{wrong:?}");
        }
    }
}
