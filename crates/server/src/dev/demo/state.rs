//! What the server of a demo knows of it: who may sign in, and where.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// The state of the demo; empty until it is seeded.
#[derive(Debug)]
pub struct Demo {
    /// How a terminal finds the command line, as a word of a shell.
    pub(super) sarsen: String,
    pub(super) credentials: OnceLock<Credentials>,
}

impl Demo {
    /// A demo before seeding. Its pages show lines for a terminal that begin with this program.
    pub fn new(sarsen: &str) -> Demo {
        Demo { sarsen: shell_word(sarsen), credentials: OnceLock::new() }
    }
}

/// A text as one word of a shell.
pub fn shell_word(text: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "@%+=:,./_-".contains(char);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// A sign-in of a user. Passwords are shown in the demo only.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Login {
    /// The e-mail address.
    pub email: String,
    /// The password.
    pub password: String,
    /// The slug of the plan, for users of products.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
}

/// The organization of the demo and its administrator.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DemoOrganization {
    /// Its slug.
    pub slug: String,
    /// Its administrator.
    pub admin: Login,
}

/// A client of the demo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DemoClient {
    /// Its id.
    pub client_id: String,
    /// Its secret, for confidential clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<String>,
    /// Its redirect addresses.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub redirect_uris: Vec<String>,
}

/// A sample product.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DemoProduct {
    /// Its display name.
    pub name: String,
    /// Its URL.
    pub url: String,
    /// The slug of the product and of its service.
    pub slug: String,
    /// Its client.
    pub client_id: String,
}

/// Everything that is needed to try the demo.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Credentials {
    /// The owner of the platform.
    pub owner: Login,
    /// The organization.
    pub organization: DemoOrganization,
    /// The clients `web`, `spa`, `cli` and `machine`.
    pub clients: BTreeMap<String, DemoClient>,
    /// The services of the clients `web` and `cli`.
    pub services: BTreeMap<String, String>,
    /// An API key of the service of the client `web`.
    #[serde(default)]
    pub api_key: String,
    /// The users.
    pub users: Vec<Login>,
    /// The sample products.
    pub products: Vec<DemoProduct>,
}
