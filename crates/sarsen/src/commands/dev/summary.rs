//! What `sarsen dev` prints when the server is ready: a line of JSON, or a text with what to do. The text has the links that
//! sign test users in, but no secret of a client.

use super::env_file::Variables;
use crate::error::{Error, Result};
use crate::output::sanitize;
use serde::Serialize;
use server::declared::{Account, Applied, ClientCredentials, Credentials, Declaration};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// A server that is ready.
pub(super) struct Summary<'a> {
    pub(super) issuer: &'a str,
    pub(super) folder: &'a Path,
    pub(super) declaration: &'a Declaration,
    pub(super) credentials: &'a Credentials,
    pub(super) applied: &'a Applied,
}

#[derive(Serialize)]
struct Line<'a> {
    issuer: &'a str,
    organization: &'a str,
    folder: String,
    clients: BTreeMap<&'a str, &'a ClientCredentials>,
    #[serde(skip_serializing_if = "Option::is_none")]
    api_key: Option<&'a str>,
    owner: Owner<'a>,
    users: Vec<User<'a>>,
}

#[derive(Serialize)]
struct Owner<'a> {
    email: &'a str,
    password: &'a str,
    sign_in_link: &'a str,
}

#[derive(Serialize)]
struct User<'a> {
    id: &'a str,
    email: &'a str,
    plan: &'a str,
    sign_in_link: &'a str,
}

impl<'a> From<&'a Account> for User<'a> {
    fn from(account: &'a Account) -> User<'a> {
        let Account { id, email, plan, sign_in_link } = account;
        User { id, email, plan, sign_in_link }
    }
}

impl<'a> Summary<'a> {
    /// The declared clients in their order.
    fn clients(&self) -> impl Iterator<Item = (&'a str, &'a ClientCredentials)> {
        let known = &self.credentials.clients;
        self.declaration.client_keys().filter_map(|key| Some((key, known.get(key)?)))
    }

    /// What the product needs to know, by the names of the guides. The first client has the plain names.
    pub(super) fn variables(&self) -> Variables {
        let mut variables = vec![("OIDC_ISSUER".to_owned(), self.issuer.to_owned())];
        for (place, (key, client)) in self.clients().enumerate() {
            let prefix = match place {
                0 => "OIDC".to_owned(),
                _ => format!("OIDC_{}", key.to_uppercase().replace('-', "_")),
            };
            variables.push((format!("{prefix}_CLIENT_ID"), client.client_id.clone()));
            if let Some(secret) = &client.client_secret {
                variables.push((format!("{prefix}_CLIENT_SECRET"), secret.clone()));
            }
        }
        if let Some(key) = &self.credentials.api_key {
            variables.push(("SERVICE_API_KEY".to_owned(), key.key.clone()));
        }
        variables
    }

    /// One line, for programs.
    pub(super) fn json(&self) -> Result<String> {
        let owner = &self.applied.owner;
        let line = Line {
            issuer: self.issuer,
            organization: self.declaration.organization(),
            folder: self.folder.display().to_string(),
            clients: self.clients().collect(),
            api_key: self.credentials.api_key.as_ref().map(|key| key.key.as_str()),
            owner: Owner {
                email: &owner.email,
                password: &self.credentials.owner_password,
                sign_in_link: &owner.sign_in_link,
            },
            users: self.applied.users.iter().map(User::from).collect(),
        };
        serde_json::to_string(&line)
            .map_err(|error| Error::failed(format!("cannot write the credentials: {error}")))
    }

    /// A text, for people.
    pub(super) fn text(&self) -> String {
        let mut text =
            format!("The server for {} is ready at {}.\n", self.declaration.organization(), self.issuer);
        for (key, client) in self.clients() {
            row(&mut text, "Client", &format!("{key}  {}", client.client_id));
        }
        for user in &self.applied.users {
            row(&mut text, "Sign in", &format!("{}  (plan {})", sanitize(&user.email), user.plan));
            row(&mut text, "", &user.sign_in_link);
        }
        let owner = &self.applied.owner;
        row(&mut text, "Console", &format!("{}  {}  (owner)", owner.email, self.credentials.owner_password));
        row(&mut text, "", &owner.sign_in_link);
        row(&mut text, "Mails", &format!("{}/dev/mail", self.issuer));
        text
    }
}

fn row(text: &mut String, label: &str, value: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "  {label:<9}{value}");
}
