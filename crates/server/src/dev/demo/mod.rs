//! The demo: an organization with products, plans and users, and two sample products that sign their users in with
//! Sarsen.
//!
//! - `seed.rs` creates the organization. `product.rs` is a sample product: an OAuth client of this server.

mod product;
mod seed;

use crate::app::App;
use crate::pages::respond::{PageError, PageResult, english_page, see_other};
use crate::pages::views::DemoHome;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use identity::{entitlements, organizations, services, users};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::OnceLock;

pub(crate) use product::{callback, live, show, sign_in, sign_out};
pub(super) use seed::new_password_text;
pub use seed::{Password, new_password, seed, seed_with};

/// The state of the demo; empty until it is seeded.
#[derive(Debug)]
pub struct Demo {
    /// How a terminal finds the command line, as a word of a shell.
    sarsen: String,
    credentials: OnceLock<Credentials>,
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

/// `/`: the start page of a demo; without a demo, a redirect to the console.
pub(crate) async fn home(State(app): State<App>) -> PageResult {
    let demo = app.demo.as_ref().and_then(|demo| Some((&demo.sarsen, demo.credentials.get()?)));
    let Some((sarsen, known)) = demo else { return Ok(see_other("/console", Vec::new())) };
    let users = users_now(&app, known).await?;
    let users: Vec<(&str, &str, &str)> = users
        .iter()
        .map(|user| (user.email.as_str(), user.password.as_str(), user.plan.as_deref().unwrap_or("free")))
        .collect();
    // The second one signs the visitor in at once, which is what the page promises.
    let addresses = known.products.iter().enumerate().map(|(place, product)| {
        let path = if place == 0 { "" } else { "/login" };
        (product.name.as_str(), format!("{}{path}", product.url))
    });
    let addresses: Vec<(&str, String)> = addresses.collect();
    let products: Vec<(&str, &str)> = addresses.iter().map(|(name, url)| (*name, url.as_str())).collect();
    let cli = known.clients.get("cli").map_or("", |client| client.client_id.as_str());
    let Commands { field, begin, redeem, ask } = commands(&app.settings.issuer, cli);
    let (slug, admin) = (&known.organization.slug, &known.organization.admin);
    let ada = known.users.first().map_or("", |user| user.email.as_str());
    let view = DemoHome {
        owner_email: &known.owner.email,
        owner_password: &known.owner.password,
        users: &users,
        products: &products,
        admin_email: &admin.email,
        admin_password: &admin.password,
        field_line: field,
        curl_line: &begin,
        token_line: &redeem,
        api_line: &ask,
        login_line: &format!("{sarsen} login --server {}", app.settings.issuer),
        plan_line: &format!("{sarsen} subscription change --org {slug} --user {ada} --plan starter"),
        console_href: "/console",
        mail_href: app.relay().map(|_| "/dev/mail"),
    };
    Ok(english_page(view.markup(app.settings.languages.english()), Vec::new()))
}

/// The users with the plans that they have now.
async fn users_now(app: &App, known: &Credentials) -> identity::Result<Vec<Login>> {
    let (slug, now) = (known.organization.slug.clone(), app.now());
    let (service, logins) = (known.services.get("web").cloned().unwrap_or_default(), known.users.clone());
    app.store
        .read(move |snapshot| {
            let organization = organizations::find(snapshot, &slug)?.id;
            let service = services::find(snapshot, &organization, &service)?.id;
            let with_plan = |login: &Login| {
                let user = users::find(snapshot, &organization, &login.email)?;
                let plan = user.map(|user| entitlements::of_user(snapshot, &user.id, &service, now));
                Ok(Login { plan: plan.transpose()?.map(|found| found.plan), ..login.clone() })
            };
            logins.iter().map(with_plan).collect()
        })
        .await
}

/// The command lines that sign in a device by hand. They can be pasted into a shell one after another.
pub struct Commands {
    /// Defines a function that extracts a field from an answer.
    pub field: &'static str,
    /// Requests a code and prints the answer.
    pub begin: String,
    /// Exchanges the approved code for tokens and prints them.
    pub redeem: String,
    /// Requests the subscription of the user.
    pub ask: String,
}

/// The command lines for a server and one of its device clients.
pub fn commands(issuer: &str, client_id: &str) -> Commands {
    const GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";
    const FIELD: &str = r#"field() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"; }"#;
    Commands {
        field: FIELD,
        begin: format!(r#"code=$(curl -s -d client_id={client_id} {issuer}/auth/device/code); echo "$code""#),
        redeem: format!(
            r#"tokens=$(curl -s -d client_id={client_id} -d grant_type={GRANT} -d device_code=$(echo "$code" | field device_code) {issuer}/auth/token); echo "$tokens""#
        ),
        ask: format!(
            r#"curl -s -H "Authorization: Bearer $(echo "$tokens" | field access_token)" {issuer}/api/subscription; echo"#
        ),
    }
}

fn no_demo(slug: &str) -> Response {
    PageError::not_found(&format!("/demo/{slug}")).into_response()
}

#[cfg(test)]
mod tests {
    use super::shell_word;

    #[test]
    fn a_word_of_a_shell_is_quoted_if_it_must_be() {
        for (text, word) in [
            ("ada@acme.test", "ada@acme.test"),
            ("target/release/sarsen", "target/release/sarsen"),
            ("", "''"),
            ("my files/sarsen", "'my files/sarsen'"),
            ("o'neil$(x)@acme.test", r"'o'\''neil$(x)@acme.test'"),
        ] {
            assert_eq!(shell_word(text), word);
        }
    }
}
