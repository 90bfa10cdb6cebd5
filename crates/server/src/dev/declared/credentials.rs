//! What the server generates for a declaration: client ids and secrets, and an API key. The caller keeps it, so that it is the
//! same at each start.

use super::Declaration;
use crate::app::App;
use crate::dev::demo::new_password_text;
use identity::api_keys::Generated;
use identity::clients::Kind;
use identity::ids::ClientId;
use identity::secrets;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything that was generated for an organization. It has secrets: no log may have it.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Credentials {
    /// The slug of the organization.
    pub organization: String,
    /// The first password of the server's owner.
    #[serde(default)]
    pub owner_password: String,
    /// The clients by their keys, also those that the declaration names no longer.
    pub clients: BTreeMap<String, ClientCredentials>,
    /// The service of the first client, and a key for its back end.
    pub api_key: Option<ApiKey>,
}

/// The credentials of a client.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientCredentials {
    /// Its id.
    pub client_id: String,
    /// Its secret, for confidential clients.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub client_secret: Option<String>,
}

/// The credential of a back end.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct ApiKey {
    /// The slug of its service.
    pub service: String,
    /// The key.
    pub key: String,
}

impl Credentials {
    /// The same with what the declaration needs beside it. Save the result before [`apply`](super::apply()): what is applied
    /// must not be lost.
    pub fn completed(self, app: &App, declaration: &Declaration) -> Credentials {
        let organization = declaration.organization().to_owned();
        let mut all = match self.organization == organization {
            true => self,
            false => {
                let owner_password = self.owner_password;
                Credentials { organization, owner_password, ..Credentials::default() }
            }
        };
        let (now, random) = (app.now(), app.random());
        if all.owner_password.is_empty() {
            all.owner_password = new_password_text(random);
        }
        for (key, client) in &declaration.clients.0 {
            all.clients.entry(key.clone()).or_insert_with(|| ClientCredentials {
                client_id: ClientId::new(now, random).to_string(),
                client_secret: Kind::parse(&client.kind)
                    .is_ok_and(Kind::is_confidential)
                    .then(|| secrets::secret(random)),
            });
        }
        let service = declaration.clients.0.first().map(|(_, client)| client.service.clone());
        all.api_key = service.map(|service| match all.api_key.take() {
            Some(known) if known.service == service => known,
            _ => ApiKey { service, key: Generated::new(now, random).key },
        });
        all
    }
}
