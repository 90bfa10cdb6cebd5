//! Reviews of what programs change. A client that a program made, or whose redirect URIs a program changed, asks for
//! consent at each request until an owner of the organization decides otherwise: a stolen key must not lead the codes of
//! users who are signed in to an address of the thief without a page.
//!
//! A consent counts the changes that it knew ([`changes`]), so that each change ends all remembered consents, also those
//! that the next owner finds after the review.

use super::Client;
use crate::audit::Actor;
use crate::ids::ClientId;
use crate::{Error, Result, Time};
use store::{FromRow, Key, Snapshot, Tx, args, insert_if_absent, sql, statements};

/// The refusal of a program, or of an administrator who is no owner, to end the question for consent.
pub(super) const OWNERS_ACCEPT: &str = "A program made this client or changed its redirect addresses, so it asks each user for \
     consent. Only an owner may turn that off; leave consent_required out.";

statements! {
    static BEGIN = insert_if_absent("client_reviews", &["client_id", "changes", "changed_by", "changed_at"]);
    static AGAIN = sql("UPDATE client_reviews SET changes = changes + 1, changed_by = ?2, changed_at = ?3,
     accepted_by = NULL, accepted_at = NULL WHERE client_id = ?1");
    static ACCEPT = sql("UPDATE client_reviews SET accepted_by = ?2, accepted_at = ?3
     WHERE client_id = ?1 AND accepted_at IS NULL");
    static CHANGES = sql("SELECT changes FROM client_reviews WHERE client_id = ?1");
    static DELETE = sql("DELETE FROM client_reviews WHERE client_id = ?1");
}

/// The last change of a program, and the review of it.
#[derive(FromRow)]
#[row(of = "v")]
pub(super) struct Review {
    changed_at: Option<Time>,
    accepted_at: Option<Time>,
}

impl Review {
    /// Whether no owner has accepted the change yet.
    pub(super) fn needs_owner(self) -> bool {
        self.changed_at.is_some() && self.accepted_at.is_none()
    }
}

/// The key that changes with the review of a client.
pub(super) fn key(id: &ClientId) -> Key {
    Key::row("client_reviews", "client_id", id.as_str())
}

/// Notes that a program decided where the codes of a client go. The caller declares the changed keys.
pub(super) fn need(tx: &mut Tx<'_>, id: &ClientId, actor: &Actor) -> Result<()> {
    if tx.exec(&BEGIN, args![id, 1, &actor.who, actor.now])? == 0 {
        tx.exec(&AGAIN, args![id, &actor.who, actor.now])?;
    }
    Ok(())
}

/// Notes that an owner accepts a client as it is. The caller declares the changed keys.
pub(super) fn accept(tx: &mut Tx<'_>, client: &Client, actor: &Actor) -> Result<()> {
    tx.exec(&ACCEPT, args![&client.id, &actor.who, actor.now])?;
    Ok(())
}

/// How many changes of programs a client has had. A consent that knew fewer has ended.
pub(crate) fn changes(snapshot: &mut Snapshot<'_>, id: &ClientId) -> std::result::Result<i64, Error> {
    Ok(snapshot.one(&CHANGES, args![id], |row| row.get(0))?.unwrap_or_default())
}

/// Deletes the review of a client. The caller declares the changed keys.
pub(super) fn delete(tx: &mut Tx<'_>, id: &ClientId) -> Result<()> {
    tx.exec(&DELETE, args![id])?;
    Ok(())
}
