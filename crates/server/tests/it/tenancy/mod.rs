//! Tenancy: what is one organization's is nobody else's, who may do what in it, and how it is stopped.

mod api_keys;
mod boundaries;
mod departures;
mod machine_clients;
mod meanwhile;
mod names;
pub(crate) mod roles;
mod sent_twice;
mod service_keys;
mod stolen_keys;
mod strangers;
mod suspension;

use crate::support::*;
use serde_json::{Value, json};
use server::testing::{Answer, TestServer};

/// Every route of the API that begins like this, by method and path.
pub fn routes(prefix: &str) -> Vec<(&'static str, &'static str)> {
    /// They describe the API.
    const ABOUT_IT: [&str; 2] = ["/api/openapi.json", "/api/docs"];
    let is_wanted =
        |path: &str| path.starts_with("/api/") && path.starts_with(prefix) && !ABOUT_IT.contains(&path);
    let found: Vec<_> = server::testing::routes().into_iter().filter(|(_, path)| is_wanted(path)).collect();
    assert!(!found.is_empty(), "routes that begin with {prefix}");
    found
}

/// What an organization has, one of each kind.
pub(crate) struct Things {
    administrator: String,
    invitation: String,
    service: &'static str,
    client: String,
    machine: String,
    secret: String,
    plan: &'static str,
    subscription: String,
    user: String,
    /// In a browser.
    session: String,
    customer: String,
    key: String,
    connection: String,
}

impl Things {
    pub(crate) async fn of_acme(admin: &Admin<'_>) -> Things {
        let first = async |list: &str, name: &str| {
            let list = admin.read(&format!("/api/organizations/acme/{list}")).await;
            text(&list["items"][0], name).to_owned()
        };
        let client = admin.server.client("web").to_owned();
        admin.server.browser().sign_in("acme", "ada@acme.test").await;
        let user = first("users?email=ada@acme.test", "id").await;
        let invitations = admin.read(INVITATIONS).await;
        let nobody = "invitation_00000000000000000000000000";
        Things {
            invitation: invitations["items"][0]["id"].as_str().unwrap_or(nobody).to_owned(),
            administrator: first("administrators", "user").await,
            service: "sketch",
            secret: first(&format!("clients/{client}/secrets"), "id").await,
            client,
            machine: admin.server.client("machine").to_owned(),
            plan: "pro",
            subscription: first("subscriptions", "id").await,
            session: first(&format!("users/{user}/sessions"), "id").await,
            user,
            customer: first("customers", "id").await,
            key: first("keys", "id").await,
            connection: connection(admin).await,
        }
    }

    /// A path of the route table with these things in it, below the organization `org`.
    pub(crate) fn path(&self, org: &str, route: &str) -> String {
        [
            ("{org}", org),
            ("{user}", if route.contains("/administrators/") { &self.administrator } else { &self.user }),
            ("{invitation}", &self.invitation),
            ("{service}", self.service),
            ("{client}", if route.ends_with("/scopes") { &self.machine } else { &self.client }),
            ("{secret}", &self.secret),
            ("{plan}", self.plan),
            ("{subscription}", &self.subscription),
            ("{session}", &self.session),
            ("{key}", &self.key),
            ("{connection}", &self.connection),
            ("{price}", "price_1"),
            ("{billing_customer}", "cus_1"),
        ]
        .into_iter()
        .fold(route.to_owned(), |path, (name, value)| path.replace(name, value))
    }
}

/// Whether a route creates, changes or deletes a billing connection itself.
fn is_connection_write(method: &str, route: &str) -> bool {
    let noun = route.strip_prefix("/api/organizations/{org}").unwrap_or(route);
    method != "GET" && matches!(noun, "/billing" | "/billing/{connection}")
}

/// The first billing connection of the demo's organization, which has one after this.
async fn connection(admin: &Admin<'_>) -> String {
    let path = "/api/organizations/acme/billing";
    let found = admin.read(path).await;
    match found["items"][0]["id"].as_str() {
        Some(id) => id.to_owned(),
        None => text(&admin.make(path, json!({ "name": "Stripe" })).await, "id").to_owned(),
    }
}

/// A body that a route takes. A new route must say here what it takes, and is then tested with the others.
pub(crate) fn body(method: &str, route: &str, things: &Things) -> Value {
    match (method, route.strip_prefix("/api/organizations/{org}").unwrap_or(route)) {
        ("GET" | "DELETE", _)
        | (
            "POST",
            "/users/{user}/sign-in-link"
            | "/users/{user}/password-link"
            | "/clients/{client}/secrets"
            | "/billing/{connection}/retry",
        ) => Value::Null,
        (
            "PATCH",
            ""
            | "/services/{service}"
            | "/clients/{client}"
            | "/plans/{plan}"
            | "/users/{user}"
            | "/billing/{connection}",
        ) => json!({ "name": "Taken over" }),
        ("POST", "/billing") => json!({ "name": "Made" }),
        ("PUT", "/billing/{connection}/prices/{price}") => json!({ "plan": things.plan }),
        ("PUT", "/billing/{connection}/customers/{billing_customer}")
        | ("POST", "/billing/{connection}/references") => json!({ "user": things.user }),
        ("PUT", "/branding") => json!({ "contact": "Eve" }),
        ("POST", "/invitations") => json!({ "email": "owner@sarsen.test", "role": "member" }),
        ("PATCH", "/administrators/{user}") => json!({ "role": "member" }),
        ("POST", "/services") => json!({ "slug": "made", "name": "Made" }),
        ("POST", "/clients") => {
            json!({ "service": things.service, "kind": "spa", "name": "Made", "redirect_uris": [CALLBACK] })
        }
        ("PUT", "/clients/{client}/scopes") => json!({ "scopes": ["audit:read"] }),
        ("POST", "/plans") => {
            json!({ "slug": "made", "name": "Made", "services": [things.service], "price_cents": 1, "currency": "EUR" })
        }
        ("POST", "/subscriptions") => json!({ "user": things.user, "plan": things.plan }),
        ("PATCH", "/subscriptions/{subscription}") => json!({ "status": "canceled" }),
        ("POST", "/keys") => json!({ "name": "Made", "service": things.service }),
        ("POST", "/users") => json!({ "email": "made@acme.test" }),
        ("PUT", "/users/{user}/suspension") => json!({ "reason": "because" }),
        ("POST", "/api/platform/owners") => json!({ "email": "new@sarsen.test" }),
        ("POST", "/api/organizations") => json!({ "slug": "made", "name": "Made" }),
        ("POST", "/api/platform/organizations/{org}/review") => json!({ "decision": "rejected" }),
        ("PUT", "/api/platform/organizations/{org}/suspension") => json!({}),
        other => panic!("{other:?} is a new route: say what it takes"),
    }
}

/// Everything that an administrator can read about an organization.
async fn everything(admin: &Admin<'_>, org: &str) -> Vec<Value> {
    let mut all = Vec::new();
    for list in [
        "",
        "/branding",
        "/administrators",
        "/invitations",
        "/services",
        "/clients",
        "/plans",
        "/customers",
        "/subscriptions",
        "/users",
        "/keys",
        "/billing",
        "/audit",
    ] {
        all.push(admin.read(&format!("/api/organizations/{org}{list}")).await);
    }
    all
}

/// The platform's owner makes a second organization with open sign-up, and administers it.
async fn globex(server: &TestServer) -> Admin<'_> {
    organization(server, "globex").await
}

async fn organization<'s>(server: &'s TestServer, slug: &str) -> Admin<'s> {
    let platform = Admin::sign_in(server, "owner@sarsen.test", "platform").await;
    platform.make("/api/organizations", json!({ "slug": slug, "name": slug })).await;
    open_sign_up(server, slug).await;
    Admin::sign_in(server, "owner@sarsen.test", &format!("org:{slug} platform")).await
}

fn problem(answer: &Answer) -> (u16, String) {
    (answer.status, answer.text("code"))
}

fn is(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

const PASSWORD: &str = "correct horse battery";
