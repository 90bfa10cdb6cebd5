//! The demo: an organization with products, plans and users, and two sample products that sign their users in with
//! Sarsen.
//!
//! - `state.rs`: what the server knows of it. `seed.rs` creates the organization. `product.rs` is a sample product: an OAuth client of this server.

mod product;
mod seed;
mod state;

use crate::app::App;
use crate::pages::respond::{PageError, PageResult, english_page, see_other};
use crate::pages::views::DemoHome;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use identity::{entitlements, organizations, services, users};

pub(crate) use product::{callback, live, show, sign_in, sign_out};
pub(super) use seed::new_password_text;
pub use seed::{Password, new_password, seed, seed_with};
pub use state::{Credentials, Demo, DemoClient, DemoOrganization, DemoProduct, Login, shell_word};

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
