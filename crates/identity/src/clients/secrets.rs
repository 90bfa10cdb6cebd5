//! The secrets of confidential clients. Each is shown once and stored as a hash. A client can have several valid
//! secrets, so that they can be rotated without downtime.

use super::{Client, in_organization, keys};
use crate::administrators::Role;
use crate::audit::{self, Actor};
use crate::ids::{ClientId, ClientSecretId, OrganizationId};
use crate::secrets::{self, Hash, Random};
use crate::{Error, Result, Time};
use store::{Row, Snapshot, Tx, args, insert, lock, sql, statements};

const SECRETS_MAX: usize = 10;
const HINT_LENGTH: usize = 4;

/// The input for [`add_secret`], generated before the command.
#[derive(Clone)]
pub struct NewSecret {
    /// The new id.
    pub id: ClientSecretId,
    /// The secret, shown once.
    pub secret: String,
    /// The stored hash.
    pub hash: Hash,
    /// The last characters of the secret. Administrators use it to distinguish secrets.
    pub hint: String,
}

impl NewSecret {
    /// Generates the id and the secret.
    pub fn generate(now: Time, random: &dyn Random) -> NewSecret {
        let secret = secrets::secret(random);
        let hint = secret[secret.len() - HINT_LENGTH..].to_owned();
        NewSecret {
            id: ClientSecretId::new(now, random),
            hash: secrets::hash(secret.as_bytes()),
            hint,
            secret,
        }
    }
}

/// The visible data of a stored secret.
#[derive(Clone, Debug)]
pub struct ClientSecret {
    /// The id.
    pub id: ClientSecretId,
    /// The last characters of the secret.
    pub hint: String,
    /// The creation time.
    pub created_at: Time,
}

statements! {
    static INSERT = insert(
        "client_secrets",
        &[&["id", "client_id", "hash", "hint", "created_by", "created_at"]],
    );
    static OF_CLIENT = sql("SELECT id, hint, created_at FROM client_secrets WHERE client_id = ?1 ORDER BY id");
    static DELETE = sql("DELETE FROM client_secrets WHERE id = ?1 AND client_id = ?2");
    static DELETE_ALL = sql("DELETE FROM client_secrets WHERE client_id = ?1");
    /// Locks a client for a decision that depends on its current data.
    pub(super) static LOCK = lock("clients", "id");
}

fn read(row: &Row<'_>) -> std::result::Result<ClientSecret, store::Error> {
    Ok(ClientSecret { id: row.get(0)?, hint: row.get(1)?, created_at: row.get(2)? })
}

/// Adds a secret to a client. Its other secrets stay valid until they are deleted. Only an owner may add one to a client
/// that administers: the secret outlives the role of the one who knows it.
pub fn add_secret(
    tx: &mut Tx<'_>,
    organization: &OrganizationId,
    client: &ClientId,
    new: &NewSecret,
    role: Role,
    actor: &Actor,
) -> Result<()> {
    tx.lock(&LOCK, client.into())?;
    let client = in_organization(tx.snapshot(), organization, client)?;
    if !client.kind.is_confidential() {
        let problem = format!(
            "a {} client is public and has no secrets; create a web or machine client",
            client.kind.as_str()
        );
        return Err(Error::refused("public_client", problem));
    }
    if !client.scope.is_empty() && role < Role::Owner {
        let problem = "Only an owner may add a secret to a client with scopes.";
        return Err(Error::Forbidden { problem });
    }
    if client.secret_hashes.len() >= SECRETS_MAX {
        let problem = format!("this client has {SECRETS_MAX} secrets already; delete one first");
        return Err(Error::refused("too_many_secrets", problem));
    }
    let NewSecret { id, hash, hint, .. } = new;
    tx.exec(&INSERT, args![id, &client.id, hash, hint, &actor.who, actor.now])?;
    keys(&client.id).into_iter().for_each(|key| tx.changed(key));
    audit::note(tx, organization, actor, "client.secret_added", client.id.as_str(), hint)
}

/// Deletes a secret. It becomes invalid immediately.
pub fn delete_secret(tx: &mut Tx<'_>, client: &Client, id: &ClientSecretId, actor: &Actor) -> Result<()> {
    if tx.exec(&DELETE, args![id, &client.id])? == 0 {
        return Err(Error::NotFound { what: "client secret" });
    }
    keys(&client.id).into_iter().for_each(|key| tx.changed(key));
    audit::note(tx, &client.organization, actor, "client.secret_deleted", client.id.as_str(), id.as_str())
}

/// Lists the secrets of a client, oldest first. The list is not paged, because a client has at most `SECRETS_MAX`.
pub fn list_secrets(snapshot: &mut Snapshot<'_>, client: &Client) -> Result<Vec<ClientSecret>> {
    Ok(snapshot.all(&OF_CLIENT, args![&client.id], read)?)
}

/// Deletes all secrets of a client. The caller declares the changed keys.
pub(super) fn delete_all(tx: &mut Tx<'_>, client: &ClientId) -> Result<()> {
    tx.exec(&DELETE_ALL, args![client])?;
    Ok(())
}
