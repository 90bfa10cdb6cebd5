//! What the commands that call the API share: the server, the organization, typed answers, output as text or JSON.

use crate::api_client::{ApiClient, Body, parse, segment};
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::output::{self, Record};
use ::api::Operation;
use ::api::users::{ListUsers, User, UserFilter};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::marker::PhantomData;
use ureq::http::Method;

const NO_CHANGE: &str = "no change was given; --help lists what can be changed";
/// The most items that a page of a list may hold.
const PAGE: &str = "200";

/// Which server, and the form of the output.
#[derive(clap::Args)]
#[command(next_help_heading = "Global options")]
pub struct GlobalArgs {
    /// The server's address [default: the current one]
    #[arg(long, value_name = "URL", env = "SARSEN_SERVER", hide_env_values = true, global = true)]
    server: Option<String>,
    /// Print the JSON of the API
    #[arg(long, global = true)]
    json: bool,
}

impl GlobalArgs {
    /// For commands that print what is no object of the API.
    pub fn of_server(server: Option<String>) -> GlobalArgs {
        GlobalArgs { server, json: false }
    }
}

/// Which organization.
#[derive(clap::Args)]
#[command(next_help_heading = "Global options")]
pub struct OrgArgs {
    /// The organization [default: the only one that you administer]
    #[arg(long, value_name = "SLUG", env = "SARSEN_ORG", hide_env_values = true, global = true)]
    org: Option<String>,
}

/// An object that the API answered with. It is printed as it came, or as its type `T`.
pub struct Answer<T> {
    json: Value,
    /// Whether the request changed something: that is done, whatever becomes of its answer here.
    is_of_change: bool,
    kind: PhantomData<T>,
}

impl<T: DeserializeOwned> Answer<T> {
    fn of_read(json: Value) -> Answer<T> {
        Answer { json, is_of_change: false, kind: PhantomData }
    }

    fn of_change(json: Value) -> Answer<T> {
        Answer { json, is_of_change: true, kind: PhantomData }
    }

    /// The object. A field that is missing or has another type is an error that names it.
    pub fn read(&self) -> Result<T> {
        parse(&self.json)
    }
}

/// A list that the API answered with, from all of its pages.
pub struct List<T> {
    items: Vec<Value>,
    kind: PhantomData<T>,
}

impl<T: DeserializeOwned> List<T> {
    /// The objects.
    pub fn read(&self) -> Result<Vec<T>> {
        self.items.iter().map(parse).collect()
    }

    /// The first object that `is_it` accepts.
    pub fn find(self, is_it: impl Fn(&T) -> bool) -> Result<Option<Answer<T>>> {
        for json in self.items {
            let answer = Answer::of_read(json);
            if is_it(&answer.read()?) {
                return Ok(Some(answer));
            }
        }
        Ok(None)
    }
}

/// A field that the API always sends and that may be null. An `Option` may also be missing.
#[derive(Clone, Debug, Deserialize)]
pub struct Nullable<T>(pub Option<T>);

#[derive(Deserialize)]
struct Page {
    items: Vec<Value>,
    next: Nullable<String>,
}

/// The API of a server, called by the user of this terminal.
pub struct Api {
    client: ApiClient,
    org: Option<String>,
    json: bool,
}

impl Api {
    /// For commands that name their organization themselves, or need none.
    pub fn open(global: &GlobalArgs, environment: &Environment) -> Result<Api> {
        let client = ApiClient::open(environment, global.server.as_deref())?;
        Ok(Api { client, org: None, json: global.json })
    }

    /// For commands about things of an organization.
    pub fn open_in_org(global: &GlobalArgs, org: &OrgArgs, environment: &Environment) -> Result<Api> {
        let mut api = Api::open(global, environment)?;
        api.org = Some(match &org.org {
            Some(slug) => slug.clone(),
            None => api.only_organization()?,
        });
        Ok(api)
    }

    fn only_organization(&mut self) -> Result<String> {
        if self.client.login().organizations().is_empty() {
            // The token does not cover an organization that was created after it.
            self.client.refresh()?;
        }
        match self.client.login().organizations().as_slice() {
            [only] => Ok((*only).to_owned()),
            [] if self.client.login().covers_all() => {
                Err(Error::usage("name the organization with --org; sarsen org list shows yours"))
            }
            [] => Err(Error::usage("you administer no organization; create one with sarsen org create")),
            several => {
                Err(Error::usage(format!("name the organization with --org: one of {}", several.join(", "))))
            }
        }
    }

    /// The address of something in the organization.
    pub fn path(&self, parts: &[&str]) -> String {
        org_path(self.org_slug(), parts)
    }

    /// The slug of the organization.
    pub fn org_slug(&self) -> &str {
        self.org.as_deref().unwrap_or_default()
    }

    /// The server's issuer.
    pub fn server(&self) -> &str {
        self.client.server()
    }

    /// The e-mail address of the user.
    pub fn email(&self) -> &str {
        &self.client.login().email
    }

    fn send(&mut self, method: &Method, path: &str, body: &Body<'_>) -> Result<Value> {
        let sent = self.client.send(method, path, body);
        match (sent, &self.org) {
            // The token is new and covers every organization of this user: this one is not among them.
            (Err(Error::Refused { code, .. }), Some(org)) if code == "insufficient_scope" => {
                Err(Error::failed(format!(
                    "{} does not administer {org}; sarsen whoami lists the organizations, sarsen login signs in another \
                     user",
                    self.email()
                )))
            }
            (sent, _) => sent,
        }
    }

    /// Calls an operation. `names` are the parameters of its path beside the organization's.
    pub fn call<O, T, const STATUS: u16>(
        &mut self,
        _: O,
        names: &[&str],
        body: &O::Takes,
    ) -> Result<Answer<T>>
    where
        O: Operation<Gives = ::api::Answer<STATUS, T>, Takes: Serialize>,
        T: DeserializeOwned,
    {
        let path = self.path_of::<O>(names);
        let fields = match serde_json::to_value(body) {
            Ok(Value::Null) => None,
            fields => Some(fields.unwrap_or_default()),
        };
        if O::METHOD == ::api::Method::Patch && fields.as_ref().is_none_or(is_empty) {
            return Err(Error::usage(NO_CHANGE));
        }
        let body = fields.as_ref().map_or(Body::None, Body::Json);
        let (method, is_of_change) = match O::METHOD {
            ::api::Method::Get => (Method::GET, false),
            ::api::Method::Post => (Method::POST, true),
            ::api::Method::Put => (Method::PUT, true),
            ::api::Method::Patch => (Method::PATCH, true),
            ::api::Method::Delete => (Method::DELETE, true),
        };
        let json = self.send(&method, &path, &body)?;
        Ok(Answer { json, is_of_change, kind: PhantomData })
    }

    /// All pages of a list.
    pub fn list_of<O, T>(&mut self, _: O, names: &[&str], query: &O::Asks) -> Result<List<T>>
    where
        O: Operation<Gives = ::api::Answer<200, ::api::List<T>>, Asks: Serialize>,
    {
        let path = self.path_of::<O>(names);
        let query = serde_json::to_value(query).unwrap_or_default();
        let pairs = query.as_object().into_iter().flatten();
        let pairs: Vec<(&str, &str)> =
            pairs.filter_map(|(name, value)| Some((name.as_str(), value.as_str()?))).collect();
        self.list(&path, &pairs)
    }

    fn path_of<O: Operation>(&self, names: &[&str]) -> String {
        let mut names = names.iter();
        let parts = O::PATH.split('/').map(|part| match part {
            "{org}" => segment(self.org_slug()),
            part if part.starts_with('{') => names.next().map(|name| segment(name)).unwrap_or_default(),
            part => part.to_owned(),
        });
        parts.collect::<Vec<_>>().join("/")
    }

    /// One object.
    pub fn get<T: DeserializeOwned>(&mut self, path: &str) -> Result<Answer<T>> {
        self.send(&Method::GET, path, &Body::None).map(Answer::of_read)
    }

    /// Creates an object.
    pub fn post<T: DeserializeOwned>(&mut self, path: &str, fields: Fields) -> Result<Answer<T>> {
        self.send(&Method::POST, path, &Body::Json(&fields.0.into())).map(Answer::of_change)
    }

    /// Creates an object that has no fields of its own.
    pub fn post_empty<T: DeserializeOwned>(&mut self, path: &str) -> Result<Answer<T>> {
        self.send(&Method::POST, path, &Body::None).map(Answer::of_change)
    }

    /// Changes an object. No field to change is an error.
    pub fn patch<T: DeserializeOwned>(&mut self, path: &str, fields: Fields) -> Result<Answer<T>> {
        if fields.0.is_empty() {
            return Err(Error::usage(NO_CHANGE));
        }
        self.send(&Method::PATCH, path, &Body::Json(&fields.0.into())).map(Answer::of_change)
    }

    /// Puts an object in its place.
    pub fn put<T: DeserializeOwned>(&mut self, path: &str, fields: Fields) -> Result<Answer<T>> {
        self.send(&Method::PUT, path, &Body::Json(&fields.0.into())).map(Answer::of_change)
    }

    /// Deletes an object.
    pub fn delete(&mut self, path: &str) -> Result<()> {
        self.send(&Method::DELETE, path, &Body::None).map(|_| ())
    }

    /// Deletes an object, where the API answers with what the deletion changed.
    pub fn delete_and_read<T: DeserializeOwned>(&mut self, path: &str) -> Result<Answer<T>> {
        self.send(&Method::DELETE, path, &Body::None).map(Answer::of_change)
    }

    /// A list from all of its pages, but at most `most` items.
    pub fn list_up_to<T>(&mut self, path: &str, query: &[(&str, &str)], most: usize) -> Result<List<T>> {
        let mut items = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let mut pairs = form_urlencoded::Serializer::new(String::new());
            pairs.append_pair("limit", PAGE).extend_pairs(query);
            if let Some(cursor) = &cursor {
                pairs.append_pair("cursor", cursor);
            }
            let json = self.send(&Method::GET, &format!("{path}?{}", pairs.finish()), &Body::None)?;
            let Page { items: found, next: Nullable(next) } = parse(&json)?;
            items.extend(found);
            items.truncate(most);
            if next.is_none() || items.len() == most || next == cursor {
                return Ok(List { items, kind: PhantomData });
            }
            cursor = next;
        }
    }

    /// A list from all of its pages.
    pub fn list<T>(&mut self, path: &str, query: &[(&str, &str)]) -> Result<List<T>> {
        self.list_up_to(path, query, usize::MAX)
    }

    /// Gets a new token, which covers organizations that were created since.
    pub fn refresh(&mut self) -> Result<()> {
        self.client.refresh()
    }

    /// The id of a user, from the id or the e-mail address.
    pub fn user_id(&mut self, user: &str) -> Result<String> {
        if !user.contains('@') {
            return Ok(user.to_owned());
        }
        let filter = UserFilter { email: Some(user.to_owned()), ..UserFilter::default() };
        let found: Vec<User> = self.list_of(ListUsers, &[], &filter)?.read()?;
        let missing = || Error::failed(format!("there is no user {user} in {}", self.org_slug()));
        found.into_iter().next().map(|found| found.account.id).ok_or_else(missing)
    }

    /// Prints a list, or `nothing` when it is empty.
    pub fn show_list<T: Record + DeserializeOwned>(&self, list: &List<T>, nothing: &str) -> Result<()> {
        if self.json {
            output::print_json(&list.items.clone().into())
        } else {
            output::print_table(&list.read()?, nothing)
        }
    }

    /// Prints an object. Where a request changed something, no fault of printing fails the command: a script would repeat
    /// what is done.
    pub fn show<T: Record + DeserializeOwned>(&self, answer: &Answer<T>) -> Result<()> {
        match self.print(answer) {
            Err(error) if answer.is_of_change => {
                self.confirm(&format!("sarsen: the change was made, but it cannot be printed: {error}"));
                Ok(())
            }
            printed => printed,
        }
    }

    fn print<T: Record + DeserializeOwned>(&self, answer: &Answer<T>) -> Result<()> {
        if self.json {
            return output::print_json(&answer.json);
        }
        match answer.read() {
            Ok(object) => output::print_record(&object),
            Err(error) if answer.is_of_change => {
                self.confirm(&format!("sarsen: the change was made, but {error}"));
                output::print_json(&answer.json)
            }
            Err(error) => Err(error),
        }
    }

    /// Prints the parts of an object as a table, or `nothing` when there are none.
    pub fn show_rows<T: DeserializeOwned, R: Record>(
        &self,
        answer: &Answer<T>,
        rows: impl Fn(&T) -> Vec<R>,
        nothing: &str,
    ) -> Result<()> {
        let printed = match answer.read() {
            Ok(object) if !self.json => output::print_table(&rows(&object), nothing),
            _ => output::print_json(&answer.json),
        };
        if answer.is_of_change { output::after_change(printed) } else { printed }
    }

    /// Prints an object with a text that is shown once. That this text is lost is the one fault of printing that fails a
    /// command: with it, another has to be made.
    pub fn show_once<T: Record + DeserializeOwned>(
        &self,
        answer: &Answer<T>,
        (what, advice): (&str, &str),
        text: impl Fn(&T) -> Option<&String>,
    ) -> Result<()> {
        self.print(answer).map_err(|error| {
            Error::failed(format!("the {what} was made, but it cannot be printed ({error}); {advice}"))
        })?;
        // An answer of another version of the server was printed as it came.
        let Ok(object) = answer.read() else { return Ok(()) };
        // Missing in the answer to a request that was sent again, because the first answer was lost.
        let lost =
            || Error::failed(format!("the {what} was made, but the answer with it was lost; {advice}"));
        text(&object).map(|_| ()).ok_or_else(lost)
    }

    /// The same, and asks to save that text.
    pub fn show_secret<T: Record + DeserializeOwned>(
        &self,
        answer: &Answer<T>,
        (what, advice): (&str, &str),
        text: impl Fn(&T) -> Option<&String>,
    ) -> Result<()> {
        self.show_once(answer, (what, advice), text)?;
        self.confirm(&format!("Save the {what} now: it is not shown again."));
        Ok(())
    }

    /// Confirms on stderr what was done, where there is no object to print.
    pub fn confirm(&self, text: &str) {
        output::tell(&output::sanitize(text));
    }
}

fn is_empty(fields: &Value) -> bool {
    fields.as_object().is_none_or(Map::is_empty)
}

/// The address of something in an organization.
pub fn org_path(org: &str, parts: &[&str]) -> String {
    let rest: String = parts.iter().map(|part| format!("/{}", segment(part))).collect();
    format!("/api/organizations/{}{rest}", segment(org))
}

/// The parameters of a query that have a value.
pub fn given<'a>(parameters: &[(&'a str, &'a Option<String>)]) -> Vec<(&'a str, &'a str)> {
    parameters.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?))).collect()
}

/// Parses the value of a flag like `--device-flow on`.
pub fn switch(text: &str) -> std::result::Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("use on or off".to_owned()),
    }
}

/// The fields of a request. A field that was not given is not sent.
#[derive(Default)]
pub struct Fields(Map<String, Value>);

impl Fields {
    /// No fields.
    pub fn new() -> Fields {
        Fields::default()
    }

    /// With this field, if it was given.
    #[must_use]
    pub fn with<T: Into<Value>>(mut self, name: &str, value: Option<T>) -> Fields {
        if let Some(value) = value {
            self.0.insert(name.to_owned(), value.into());
        }
        self
    }

    /// With this list, if it has items.
    #[must_use]
    pub fn with_list(self, name: &str, items: &[String]) -> Fields {
        self.with(name, (!items.is_empty()).then(|| items.to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_name_cannot_leave_its_place_in_the_address() {
        assert_eq!(
            org_path("acme", &["users", "../../platform"]),
            "/api/organizations/acme/users/..%2F..%2Fplatform"
        );
        assert_eq!(org_path("a b?c", &[]), "/api/organizations/a%20b%3Fc");
    }

    #[test]
    fn a_field_that_was_not_given_is_not_sent() {
        let fields =
            Fields::new().with("name", Some("x")).with("seats", None::<i64>).with_list("features", &[]);
        assert_eq!(Value::from(fields.0), json!({"name": "x"}));
    }

    #[test]
    fn a_missing_field_of_an_answer_is_named() {
        #[derive(Deserialize)]
        struct Plan {
            slug: String,
            seats: Nullable<i64>,
            limit: Option<i64>,
        }
        let plan: Plan = parse(&json!({"slug": "pro", "seats": null, "new": 1})).expect("null is a value");
        assert_eq!((plan.slug.as_str(), plan.seats.0, plan.limit), ("pro", None, None));
        for (json, name) in [
            (json!({"seats": 1}), "missing field `slug`"),
            (json!({"slug": "pro"}), "missing field `seats`"),
            (json!({"slug": 7, "seats": 1}), "field `slug` has the wrong type"),
        ] {
            let error = parse::<Plan>(&json).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(name), "{error:?} does not name {name}");
        }
    }
}
