//! What a file declares about an organization: its services, plans, clients and test users. The fields are those of the
//! API's create bodies, with their rules; an unknown field is an error.
//!
//! `sarsen dev` reads the file. This module promises that a declaration is applied in one transaction or not at all, and
//! that applying it again changes nothing. What a declaration no longer names stays as it is.
//!
//! - `credentials.rs`: what the server generates for a declaration, and the caller keeps.
//! - `apply.rs`: the transaction. `people.rs`: accounts and their plans in it.

mod apply;
mod credentials;
mod people;

pub use apply::{Account, Applied, Refusal, apply};
pub use credentials::{ClientCredentials, Credentials};

use crate::api::{clients, plans, services};
use crate::web::fields::{self, FieldError, FieldErrors, Rules as _, Validate};
use identity::organizations::DeviceFlow;
use identity::{names, passwords};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeSet;
use std::fmt;

/// The plan of a user without a subscription.
const FREE: &str = "free";

/// A declaration whose form is right.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Declaration {
    organization: Organization,
    services: Vec<services::CreateBody>,
    #[serde(default)]
    plans: Vec<plans::CreateBody>,
    #[serde(default)]
    clients: Clients,
    #[serde(default)]
    users: Vec<User>,
}

/// The organization, with what its owner may change.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Organization {
    slug: String,
    name: String,
    sign_up: Option<bool>,
    device_flow: Option<String>,
}

/// Clients in their order, each with the key by which the file names it: a client has no slug.
#[derive(Default)]
struct Clients(Vec<(String, clients::CreateBody)>);

/// A test user. `plan` and `password` are of this file only.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct User {
    email: String,
    name: Option<String>,
    /// Counts when the account is made.
    #[serde(default = "verified")]
    email_verified: bool,
    plan: Option<String>,
    password: Option<String>,
}

fn verified() -> bool {
    true
}

impl Declaration {
    /// Reads a JSON object. Fails with everything that is wrong with it.
    pub fn read(json: &[u8]) -> Result<Declaration, Vec<FieldError>> {
        fields::read_body(json, Declaration::validate).map_err(|problem| match problem.errors.is_empty() {
            true => vec![FieldError::new("invalid", "", &problem.detail)],
            false => problem.errors,
        })
    }

    /// The slug of the organization.
    pub fn organization(&self) -> &str {
        &self.organization.slug
    }

    /// The keys of the clients, in their order.
    pub fn client_keys(&self) -> impl Iterator<Item = &str> {
        self.clients.0.iter().map(|(key, _)| key.as_str())
    }

    /// A name for each thing that it declares, such as `plan pro`.
    pub fn names(&self) -> BTreeSet<String> {
        let organization = [format!("organization {}", self.organization.slug)];
        let services = self.services.iter().map(|service| format!("service {}", service.slug));
        let plans = self.plans.iter().map(|plan| format!("plan {}", plan.slug));
        let clients = self.client_keys().map(|key| format!("client {key}"));
        let users = self.users.iter().map(|user| format!("user {}", user.email));
        organization.into_iter().chain(services).chain(plans).chain(clients).chain(users).collect()
    }
}

impl Validate for Declaration {
    fn validate(&self, errors: &mut FieldErrors) {
        errors.check_part("organization", |errors| self.organization.validate(errors));
        for (place, service) in self.services.iter().enumerate() {
            errors.check_part(&format!("services[{place}]"), |errors| service.validate(errors));
        }
        for (place, plan) in self.plans.iter().enumerate() {
            errors.check_part(&format!("plans[{place}]"), |errors| plan.validate(errors));
        }
        for (key, client) in &self.clients.0 {
            match names::slug("clients", key) {
                Ok(_) => errors.check_part(&format!("clients.{key}"), |errors| client.validate(errors)),
                Err(error) => drop(errors.check::<()>(Err(error))),
            }
        }
        for (place, user) in self.users.iter().enumerate() {
            let Organization { name, slug, .. } = &self.organization;
            let own_names = [user.email.as_str(), user.name.as_deref().unwrap_or_default(), name, slug];
            errors
                .check_part(&format!("users[{place}]"), |errors| Named { user, own_names }.validate(errors));
        }
        self.check_references(errors);
    }
}

impl Declaration {
    /// The file is complete: what it refers to, it declares, once.
    fn check_references(&self, errors: &mut FieldErrors) {
        let services: Vec<&str> = self.services.iter().map(|service| service.slug.as_str()).collect();
        let plans: Vec<&str> = self.plans.iter().map(|plan| plan.slug.as_str()).collect();
        let emails: Vec<String> = self.users.iter().map(|user| user.email.to_lowercase()).collect();
        let emails: Vec<&str> = emails.iter().map(String::as_str).collect();
        note_repeated("services", "slug", &services, errors);
        note_repeated("plans", "slug", &plans, errors);
        note_repeated("users", "email", &emails, errors);
        for (place, plan) in self.plans.iter().enumerate() {
            for (number, slug) in plan.services.iter().enumerate() {
                note_unknown(
                    "service",
                    format!("plans[{place}].services[{number}]"),
                    slug,
                    &services,
                    errors,
                );
            }
        }
        for (key, client) in &self.clients.0 {
            note_unknown("service", format!("clients.{key}.service"), &client.service, &services, errors);
        }
        let offered: Vec<&str> = plans.iter().copied().chain([FREE]).collect();
        for (place, user) in self.users.iter().enumerate() {
            if let Some(plan) = &user.plan {
                note_unknown("plan", format!("users[{place}].plan"), plan, &offered, errors);
            }
        }
    }
}

fn note_repeated(list: &str, field: &str, values: &[&str], errors: &mut FieldErrors) {
    for (place, value) in values.iter().enumerate() {
        if values[..place].contains(value) {
            let problem = format!("{value:?} is declared twice; declare it once");
            errors.note("repeated", format!("{list}[{place}].{field}"), &problem);
        }
    }
}

fn note_unknown(what: &str, field: String, value: &str, known: &[&str], errors: &mut FieldErrors) {
    if !known.contains(&value) {
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let problem = format!("this file declares no {what} {value:?}; declared: {known}");
        errors.note("not_found", field, &problem);
    }
}

impl Validate for Organization {
    fn validate(&self, errors: &mut FieldErrors) {
        errors.check(names::organization_slug(&self.slug));
        errors.check(names::display("name", &self.name));
        errors.check_sent(self.device_flow.as_deref(), DeviceFlow::parse);
    }
}

/// A user with the names that a password must not be.
struct Named<'a> {
    user: &'a User,
    own_names: [&'a str; 4],
}

impl Validate for Named<'_> {
    fn validate(&self, errors: &mut FieldErrors) {
        let User { email, name, password, .. } = self.user;
        errors.check(names::email(email));
        errors.check_sent(name.as_deref(), |name| names::display("name", name));
        errors.check_sent(password.as_deref(), |password| passwords::check(password, &self.own_names));
    }
}

impl<'de> Deserialize<'de> for Clients {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Clients, D::Error> {
        deserializer.deserialize_map(ClientsVisitor)
    }
}

struct ClientsVisitor;

impl<'de> Visitor<'de> for ClientsVisitor {
    type Value = Clients;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object of clients by their keys")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Clients, A::Error> {
        let mut clients = Vec::new();
        while let Some(client) = fields.next_entry()? {
            clients.push(client);
        }
        Ok(Clients(clients))
    }
}

#[cfg(test)]
mod tests {
    use super::Declaration;

    const GOOD: &str = r#"{
        "organization": {"slug": "example", "name": "Example"},
        "services": [{"slug": "notes", "name": "Notes"}],
        "plans": [{"slug": "pro", "name": "Pro", "services": ["notes"], "price_cents": 900, "currency": "EUR"}],
        "clients": {"web": {"service": "notes", "kind": "web", "name": "Notes",
                            "redirect_uris": ["http://localhost:3000/callback"]}},
        "users": [{"email": "ada@example.test", "plan": "pro"}, {"email": "grace@example.test", "plan": "free"}]
    }"#;

    fn wrong(json: &str) -> Vec<String> {
        let errors = Declaration::read(json.as_bytes()).err().unwrap_or_default();
        errors.into_iter().map(|error| format!("{}: {}", error.field, error.detail)).collect()
    }

    #[test]
    fn a_declaration_names_what_it_declares() {
        assert_eq!(wrong(GOOD), Vec::<String>::new());
        let good = Declaration::read(GOOD.as_bytes()).unwrap_or_else(|_| panic!("it is right"));
        let names: Vec<String> = good.names().into_iter().collect();
        let all = [
            "client web",
            "organization example",
            "plan pro",
            "service notes",
            "user ada@example.test",
            "user grace@example.test",
        ];
        assert_eq!(names, all);
    }

    #[test]
    fn everything_that_is_wrong_is_listed_by_its_place() {
        let text = GOOD
            .replace("\"kind\": \"web\"", "\"kind\": \"wbe\"")
            .replace("[\"notes\"]", "[\"nots\"]")
            .replace("\"grace@example.test\", \"plan\": \"free\"", "\"ada@example.test\", \"colour\": 1")
            .replace("\"price_cents\": 900", "\"price_cents\": \"9\"");
        let found = wrong(&text);
        for place in [
            "clients.web.kind: \"wbe\" is not a client kind",
            "plans[0].services[0]: This file declares no service \"nots\"; declared: notes",
            "users[1].email: \"ada@example.test\" is declared twice",
            "users[1].colour: Unknown; use",
            "plans[0].price_cents: ",
        ] {
            assert!(found.iter().any(|line| line.starts_with(place)), "{place} is not in {found:#?}");
        }
        assert_eq!(found.len(), 5, "{found:#?}");
    }

    #[test]
    fn a_key_of_a_client_is_a_plain_word() {
        let found = wrong(&GOOD.replace("\"web\": {", "\"we b\": {"));
        assert!(found.len() == 1 && found[0].starts_with("clients: \"we b\" is not a slug"), "{found:?}");
    }

    #[test]
    fn a_password_is_one_that_the_sign_up_would_take() {
        let found = wrong(&GOOD.replace("\"plan\": \"pro\"}", "\"password\": \"example1\"}"));
        assert!(found.len() == 1 && found[0].starts_with("users[0].password: "), "{found:?}");
    }
}
