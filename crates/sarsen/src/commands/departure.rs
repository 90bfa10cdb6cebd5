//! What `sarsen member remove` and `sarsen owner remove` print: what the administrator made.

use super::api::Api;
use crate::error::Result;
use crate::output::{Cell, Field, Record, Time, column};
use serde::Deserialize;

#[derive(Deserialize)]
pub(super) struct Removed {
    revoked: bool,
    api_keys: Vec<MadeKey>,
    client_secrets: Vec<MadeSecret>,
    invitations: Vec<MadeInvitation>,
    more: bool,
}

#[derive(Deserialize)]
struct MadeKey {
    id: String,
    name: String,
    scopes: Vec<String>,
    created_at: Time,
}

#[derive(Deserialize)]
struct MadeSecret {
    id: String,
    client: String,
    last: bool,
    created_at: Time,
}

#[derive(Deserialize)]
struct MadeInvitation {
    id: String,
    email: String,
    role: String,
    created_at: Time,
}

/// One of these.
struct Made {
    kind: &'static str,
    name: Cell,
    details: String,
    created_at: Time,
    id: String,
}

impl Record for Made {
    fn fields(&self) -> Vec<Field> {
        vec![
            column("made", self.kind),
            column("name", self.name.clone()),
            column("details", &self.details),
            column("created", &self.created_at),
            column("id", Cell::id(&self.id)),
        ]
    }
}

impl Removed {
    fn made(&self) -> Vec<Made> {
        let keys = self.api_keys.iter().map(|key| Made {
            kind: "API key",
            name: Cell::from(&key.name),
            details: key.scopes.join(", "),
            created_at: key.created_at,
            id: key.id.clone(),
        });
        let secrets = self.client_secrets.iter().map(|secret| Made {
            kind: "client secret",
            name: Cell::from(&secret.client),
            details: self.about(secret).to_owned(),
            created_at: secret.created_at,
            id: secret.id.clone(),
        });
        let invitations = self.invitations.iter().map(|invitation| Made {
            kind: "invitation",
            name: Cell::address(&invitation.email),
            details: invitation.role.clone(),
            created_at: invitation.created_at,
            id: invitation.id.clone(),
        });
        keys.chain(secrets).chain(invitations).collect()
    }

    fn about(&self, secret: &MadeSecret) -> &'static str {
        match (secret.last, self.revoked) {
            (false, _) => "the client has others",
            (true, false) => "the client has no other",
            (true, true) => "the client has none left: add one",
        }
    }
}

/// Removes the administrator at `path`. `again` is the command that revokes what they made.
pub(super) fn remove(api: &mut Api, path: &str, revoke_made: bool, again: &str) -> Result<()> {
    let query = if revoke_made { "?revoke=made" } else { "" };
    let removed = api.delete_and_read::<Removed>(&format!("{path}{query}"))?;
    api.show_rows(&removed, Removed::made, "They made no API key, client secret or open invitation.")?;
    let Ok(removed) = removed.read() else { return Ok(()) };
    match (removed.made().is_empty(), removed.revoked, removed.more) {
        (true, ..) => {}
        (_, true, false) => api.confirm("All of it is revoked."),
        (_, true, true) => api.confirm(&format!("All of it is revoked. There is more: run {again}")),
        (_, false, _) => {
            api.confirm(&format!("Keys and secrets go on working. To revoke all of it: {again}"))
        }
    }
    Ok(())
}
