//! What the commands share that are the API from a terminal: the server, the organization, lists that are
//! followed to their end, results for people or as JSON.

use crate::api_client::{ApiClient, Body, segment};
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::output::{self, Column};
use serde_json::{Map, Value};
use ureq::http::Method;

/// The most that a page of a list may hold.
const PAGE: &str = "200";

/// Which server, and how results look.
#[derive(clap::Args)]
#[command(next_help_heading = "Global options")]
pub struct GlobalArgs {
    /// The server's address [default: the current one]
    #[arg(long, value_name = "URL", env = "SARSEN_SERVER", hide_env_values = true, global = true)]
    server: Option<String>,
    /// Print JSON, as the API says it
    #[arg(long, global = true)]
    json: bool,
}

/// Which organization.
#[derive(clap::Args)]
#[command(next_help_heading = "Global options")]
pub struct OrgArgs {
    /// The organization [default: the only one that you administer]
    #[arg(long, value_name = "SLUG", env = "SARSEN_ORG", hide_env_values = true, global = true)]
    org: Option<String>,
}

/// An administrator at a terminal.
pub struct Api {
    client: ApiClient,
    org: Option<String>,
    json: bool,
}

impl Api {
    /// For commands that name their organization themselves, or need none.
    pub fn open(asked: &GlobalArgs, environment: &Environment) -> Result<Api> {
        let client = ApiClient::open(environment, asked.server.as_deref())?;
        Ok(Api { client, org: None, json: asked.json })
    }

    /// For commands that work inside of an organization.
    pub fn open_in_org(asked: &GlobalArgs, org: &OrgArgs, environment: &Environment) -> Result<Api> {
        let mut api = Api::open(asked, environment)?;
        api.org = Some(match &org.org {
            Some(slug) => slug.clone(),
            None => api.only_organization()?,
        });
        Ok(api)
    }

    fn only_organization(&mut self) -> Result<String> {
        if self.client.login().organizations().is_empty() {
            // One may have been made since the token was.
            self.client.refresh()?;
        }
        match self.client.login().organizations().as_slice() {
            [only] => Ok((*only).to_owned()),
            [] if self.client.login().covers_all() => {
                Err(Error::usage("which organization? Say --org; sarsen org list shows yours"))
            }
            [] => Err(Error::usage("you administer no organization yet; make one with sarsen org create")),
            several => {
                Err(Error::usage(format!("which organization? Say --org, one of {}", several.join(", "))))
            }
        }
    }

    /// The address of something inside of the organization.
    pub fn path(&self, parts: &[&str]) -> String {
        let org = self.org.as_deref().unwrap_or_default();
        org_path(org, parts)
    }

    fn send(&mut self, method: &Method, path: &str, body: &Body<'_>) -> Result<Value> {
        let sent = self.client.send(method, path, body);
        match (sent, &self.org) {
            // The token is new by now and covers all that he administers, and this is not among it.
            (Err(Error::Refused { code, .. }), Some(org)) if code == "insufficient_scope" => {
                Err(Error::failed(format!(
                    "{} does not administer {org}; sarsen whoami says what it does, and sarsen login signs somebody \
                     else in",
                    self.client.login().email
                )))
            }
            (sent, _) => sent,
        }
    }

    /// One object.
    pub fn get(&mut self, path: &str) -> Result<Value> {
        self.send(&Method::GET, path, &Body::None)
    }

    /// Makes something.
    pub fn post(&mut self, path: &str, fields: Fields) -> Result<Value> {
        self.send(&Method::POST, path, &Body::Json(&fields.0.into()))
    }

    /// Makes something that needs no words.
    pub fn post_nothing(&mut self, path: &str) -> Result<Value> {
        self.send(&Method::POST, path, &Body::None)
    }

    /// Changes something. Nothing to change is a mistake.
    pub fn patch(&mut self, path: &str, fields: Fields) -> Result<Value> {
        if fields.0.is_empty() {
            return Err(Error::usage("nothing is to be changed; see --help for what can be"));
        }
        self.send(&Method::PATCH, path, &Body::Json(&fields.0.into()))
    }

    /// Puts something in its place.
    pub fn put(&mut self, path: &str, fields: Fields) -> Result<Value> {
        self.send(&Method::PUT, path, &Body::Json(&fields.0.into()))
    }

    /// Takes something away.
    pub fn delete(&mut self, path: &str) -> Result<()> {
        self.send(&Method::DELETE, path, &Body::None).map(|_| ())
    }

    /// A whole list, page after page; of `most` items, if that is less.
    pub fn list_up_to(&mut self, path: &str, query: &[(&str, &str)], most: usize) -> Result<Vec<Value>> {
        let mut items = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let mut pairs = form_urlencoded::Serializer::new(String::new());
            pairs.append_pair("limit", PAGE).extend_pairs(query);
            if let Some(cursor) = &cursor {
                pairs.append_pair("cursor", cursor);
            }
            let mut page = self.get(&format!("{path}?{}", pairs.finish()))?;
            if let Some(found) = page.get_mut("items").and_then(Value::as_array_mut) {
                items.append(found);
            }
            let next = page.get("next").and_then(Value::as_str).map(str::to_owned);
            items.truncate(most);
            if next.is_none() || items.len() == most || next == cursor {
                return Ok(items);
            }
            cursor = next;
        }
    }

    /// A whole list.
    pub fn list(&mut self, path: &str, query: &[(&str, &str)]) -> Result<Vec<Value>> {
        self.list_up_to(path, query, usize::MAX)
    }

    /// Gets a new token, which covers what was made since.
    pub fn refresh(&mut self) -> Result<()> {
        self.client.refresh()
    }

    /// The id of a user, who may be named by it or by e-mail address.
    pub fn user_id(&mut self, named: &str) -> Result<String> {
        if !named.contains('@') {
            return Ok(named.to_owned());
        }
        let found = self.list(&self.path(&["users"]), &[("email", named)])?;
        let id = found.first().and_then(|user| user.get("id")).and_then(Value::as_str);
        let org = self.org.as_deref().unwrap_or_default();
        id.map(str::to_owned).ok_or_else(|| Error::failed(format!("there is no user {named} in {org}")))
    }

    /// The address of a user, who may be named by id or by e-mail address.
    pub fn user_path(&mut self, named: &str, parts: &[&str]) -> Result<String> {
        let id = self.user_id(named)?;
        Ok(self.path(&[&["users", &id], parts].concat()))
    }

    /// Shows a list.
    pub fn show_list(&self, columns: &[Column], items: Vec<Value>, nothing: &str) -> Result<()> {
        if self.json {
            output::print_json(&items.into())
        } else {
            output::print_table(columns, &items, nothing)
        }
    }

    /// Shows an object.
    pub fn show(&self, fields: &[Column], object: &Value) -> Result<()> {
        if self.json { output::print_json(object) } else { output::print_record(fields, object) }
    }

    /// Says to a person what was done, when there is nothing to show.
    pub fn message(&self, text: &str) {
        eprintln!("{}", output::sanitize(text));
    }
}

/// The address of something inside of an organization.
pub fn org_path(org: &str, parts: &[&str]) -> String {
    let rest: String = parts.iter().map(|part| format!("/{}", segment(part))).collect();
    format!("/api/organizations/{}{rest}", segment(org))
}

/// The fields of a body; what was not given is not in it.
#[derive(Default)]
pub struct Fields(Map<String, Value>);

impl Fields {
    /// No fields.
    pub fn new() -> Fields {
        Fields::default()
    }

    /// With a field, if it was given.
    #[must_use]
    pub fn with<T: Into<Value>>(mut self, name: &str, value: Option<T>) -> Fields {
        if let Some(value) = value {
            self.0.insert(name.to_owned(), value.into());
        }
        self
    }

    /// With a list, if it has items.
    #[must_use]
    pub fn with_list(self, name: &str, items: &[String]) -> Fields {
        self.with(name, (!items.is_empty()).then(|| items.to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_its_place_in_the_address() {
        assert_eq!(
            org_path("acme", &["users", "../../platform"]),
            "/api/organizations/acme/users/..%2F..%2Fplatform"
        );
        assert_eq!(org_path("a b?c", &[]), "/api/organizations/a%20b%3Fc");
    }

    #[test]
    fn what_was_not_given_is_not_sent() {
        let fields =
            Fields::new().with("name", Some("x")).with("seats", None::<i64>).with_list("features", &[]);
        assert_eq!(Value::from(fields.0), serde_json::json!({"name": "x"}));
    }
}
