//! The demo: an organization with products, plans and users, and two sample products that sign their users in with
//! Sarsen.
//!
//! - `seed.rs` creates the organization. `product.rs` is a sample product: an OAuth client of this server.

mod product;
mod seed;

use crate::app::App;
use crate::pages::respond::{PageError, page, see_other};
use crate::pages::views::DemoHome;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::OnceLock;

pub(crate) use product::{callback, live, show, sign_in, sign_out};
pub use seed::{Password, new_password, seed, seed_with};

/// The state of the demo; empty until it is seeded.
#[derive(Debug, Default)]
pub struct Demo {
    credentials: OnceLock<Credentials>,
}

impl Demo {
    /// A demo before seeding.
    pub fn new() -> Demo {
        Demo::default()
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
pub(crate) async fn home(State(app): State<App>) -> Response {
    let Some(known) = app.demo.as_ref().and_then(|demo| demo.credentials.get()) else {
        return see_other("/console", Vec::new());
    };
    let users: Vec<(&str, &str, &str)> = known
        .users
        .iter()
        .map(|user| (user.email.as_str(), user.password.as_str(), user.plan.as_deref().unwrap_or("free")))
        .collect();
    let products: Vec<(&str, &str)> =
        known.products.iter().map(|product| (product.name.as_str(), product.url.as_str())).collect();
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
        login_line: &format!("sarsen login --server {}", app.settings.issuer),
        plan_line: &format!("sarsen subscription change --org {slug} --user {ada} --plan starter"),
        console_href: "/console",
    };
    page(StatusCode::OK, view.markup(), Vec::new())
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
