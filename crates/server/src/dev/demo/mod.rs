//! The demo: a tenant with products, plans and people, made in seconds, and two tiny sample products that
//! sign in with Sarsen like anybody's product would.
//!
//! - `seed.rs` makes the tenant. `product.rs` is a sample product: an OAuth client that speaks to this
//!   server's own endpoints.

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

pub(crate) use product::{callback, show, sign_in, sign_out};
pub use seed::seed;

/// What the demo knows about itself, once it is seeded.
#[derive(Debug, Default)]
pub struct Demo {
    credentials: OnceLock<Credentials>,
}

impl Demo {
    /// A demo that is to be seeded.
    pub fn new() -> Demo {
        Demo::default()
    }
}

/// A person's way in. Made up for the demo: a real server never shows a password.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Login {
    /// Address.
    pub email: String,
    /// Password.
    pub password: String,
    /// The plan's slug, for users of products.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
}

/// The demo's organization and who administers it.
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
    /// Its secret, if it keeps one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<String>,
    /// Where its codes go.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub redirect_uris: Vec<String>,
}

/// A sample product.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DemoProduct {
    /// Its name for people.
    pub name: String,
    /// Where it is.
    pub url: String,
    /// Its slug, which is its service's too.
    pub slug: String,
    /// Its client.
    pub client_id: String,
}

/// Everything that one needs to play with a demo.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Credentials {
    /// The platform's owner.
    pub owner: Login,
    /// The tenant.
    pub organization: DemoOrganization,
    /// `web`, `spa`, `cli`, `machine`.
    pub clients: BTreeMap<String, DemoClient>,
    /// The services of the clients `web` and `cli`.
    pub services: BTreeMap<String, String>,
    /// People.
    pub users: Vec<Login>,
    /// The sample products.
    pub products: Vec<DemoProduct>,
}

/// `/`: what to try in a demo; the console anywhere else.
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

/// The lines for a terminal that is signed in by hand. A shell takes them one after another as they are.
pub struct Commands {
    /// Finds a field in an answer, for the lines that follow.
    pub field: &'static str,
    /// Asks for a code and shows the answer.
    pub begin: String,
    /// Exchanges the code for tokens, once it is allowed, and shows them.
    pub redeem: String,
    /// Asks what the user may use.
    pub ask: String,
}

/// These lines, for a server and one of its device clients.
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
