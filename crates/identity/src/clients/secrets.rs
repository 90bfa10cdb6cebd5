//! The secrets of confidential clients. Each is shown once and stored as a hash. A client can have several valid
//! secrets, so that they can be rotated without downtime.

use super::{Client, in_organization, keys};
use crate::administrators::Role;
use crate::audit::{self, Actor};
use crate::ids::{ClientId, ClientSecretId, OrganizationId, UserId};
use crate::secrets::{self, Hash, Random};
use crate::{Error, Result, Time};
use store::{FromRow, Snapshot, ToRow, Tx, args, insert_row, lock, select_row, sql, statements};

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
        NewSecret::of(ClientSecretId::new(now, random), &secrets::secret(random))
    }

    /// The same of a secret that was generated before.
    pub fn of(id: ClientSecretId, secret: &str) -> NewSecret {
        let hint = secret.get(secret.len().saturating_sub(HINT_LENGTH)..).unwrap_or_default().to_owned();
        NewSecret { id, hash: secrets::hash(secret.as_bytes()), hint, secret: secret.to_owned() }
    }
}

/// The visible data of a stored secret.
#[derive(Clone, Debug, FromRow)]
#[row(of = "s")]
pub struct ClientSecret {
    /// The id.
    pub id: ClientSecretId,
    /// The last characters of the secret.
    pub hint: String,
    /// The creation time.
    pub created_at: Time,
}

/// A secret that an administrator made, with its client.
#[derive(Clone, Debug, FromRow)]
#[row(of = "s")]
pub struct MadeSecret {
    /// The secret.
    #[row(flatten)]
    pub secret: ClientSecret,
    /// The client.
    #[row("client_id")]
    pub client: ClientId,
    /// The name of the client.
    #[row("c.name")]
    pub client_name: String,
    /// Whether all secrets of the client are from that administrator: without them, the client cannot prove who it is.
    #[row(
        "(SELECT COUNT(*) FROM client_secrets o
          WHERE o.client_id = s.client_id AND (o.created_by IS NULL OR o.created_by <> ?2))",
        with = is_none
    )]
    pub is_last: bool,
}

fn is_none(others: i64) -> bool {
    others == 0
}

/// A new row of `client_secrets`.
#[derive(ToRow)]
struct NewRow<'a> {
    id: &'a ClientSecretId,
    client_id: &'a ClientId,
    hash: &'a Hash,
    hint: &'a str,
    created_by: &'a str,
    created_at: Time,
}

statements! {
    static MADE_BY = select_row::<MadeSecret>(
        "FROM client_secrets s JOIN clients c ON c.id = s.client_id",
        "WHERE c.organization_id = ?1 AND s.created_by = ?2 ORDER BY s.id LIMIT ?3",
    );
    static INSERT = insert_row::<NewRow<'_>>("client_secrets");
    static OF_CLIENT =
        select_row::<ClientSecret>("FROM client_secrets s", "WHERE s.client_id = ?1 ORDER BY s.id");
    static DELETE = sql("DELETE FROM client_secrets WHERE id = ?1 AND client_id = ?2");
    static DELETE_ALL = sql("DELETE FROM client_secrets WHERE client_id = ?1");
    /// Locks a client for a decision that depends on its current data.
    pub(super) static LOCK = lock("clients", "id");
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
    let (client_id, created_by, created_at) = (&client.id, &*actor.who, actor.now);
    tx.exec(&INSERT, &NewRow { id, client_id, hash, hint, created_by, created_at }.values())?;
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
    Ok(snapshot.all(&OF_CLIENT, args![&client.id], ClientSecret::from_row)?)
}

/// The secrets of an organization's clients that a user made, by id: `limit` at most.
pub(crate) fn secrets_made_by(
    snapshot: &mut Snapshot<'_>,
    organization: &OrganizationId,
    user: &UserId,
    limit: i64,
) -> Result<Vec<MadeSecret>> {
    Ok(snapshot.all(&MADE_BY, args![organization, user, limit], MadeSecret::from_row)?)
}

/// Deletes a secret of an administrator, also the last one of its client.
pub(crate) fn delete_made(
    tx: &mut Tx<'_>,
    organization: &OrganizationId,
    made: &MadeSecret,
    actor: &Actor,
) -> Result<()> {
    let (client, id) = (&made.client, &made.secret.id);
    if tx.exec(&DELETE, args![id, client])? == 1 {
        keys(client).into_iter().for_each(|key| tx.changed(key));
        audit::note(tx, organization, actor, "client.secret_deleted", client.as_str(), id.as_str())?;
    }
    Ok(())
}

/// Deletes all secrets of a client. The caller declares the changed keys.
pub(super) fn delete_all(tx: &mut Tx<'_>, client: &ClientId) -> Result<()> {
    tx.exec(&DELETE_ALL, args![client])?;
    Ok(())
}
