//! Every route of the API without credentials, with those of somebody else, and about something that is not there. Equal
//! answers are written down once, with all requests that get them.

use super::server_wide::example;
use super::{People, Recording, call, is_recorded, recorded_server};
use crate::support::{Admin, tokens};
use crate::tenancy::{Things, body, routes};
use serde_json::json;
use server::testing::TestServer;

/// A list of so many requests is written down once.
const LONG: usize = 20;

/// The answers to one caller, each with its requests.
#[derive(Default)]
struct Answers(Vec<(String, Vec<String>)>);

impl Answers {
    fn add(&mut self, request: String, answer: String) {
        match self.0.iter_mut().find(|(known, _)| *known == answer) {
            Some((_, requests)) => requests.push(request),
            None => self.0.push((answer, vec![request])),
        }
    }
}

struct Refusals<'s> {
    server: &'s TestServer,
    things: Things,
    to: Recording,
    /// Long lists of requests, and who has sent them.
    long: Vec<(String, Vec<String>)>,
}

impl Refusals<'_> {
    /// Asks these routes, and records those that refuse it.
    async fn ask(&mut self, title: &str, token: Option<&str>, routes: &[(&'static str, String)]) {
        let mut answers = Answers::default();
        for (method, path) in routes {
            let mut request = call(method, path.clone());
            if let Some(token) = token {
                request = request.by("somebody", token);
            }
            let route = self.route_of(path);
            if !matches!(*method, "GET" | "DELETE") {
                let body = match route.as_str() {
                    "/api/service/check" => json!({ "checks": [{ "user": "x", "feature": "y" }] }),
                    route => body(method, route, &self.things),
                };
                request = if body.is_null() { request } else { request.json(&body) };
            }
            let answer = self.to.silently(self.server, &request).await;
            if answer.status >= 400 {
                let shown = self.to.shown(&answer);
                answers.add(format!("{method} {path}\n"), shown);
            }
        }
        self.to.section(title);
        for (answer, requests) in answers.0 {
            self.to.count += requests.len();
            let count = requests.len();
            let before = self.long.iter().find(|(_, known)| *known == requests);
            let listed = match before {
                Some((of, _)) => format!("the same as of: {of}\n"),
                None => requests.concat(),
            };
            if count >= LONG && before.is_none() {
                self.long.push((title.to_owned(), requests));
            }
            self.to.add(&format!("{count} requests"), &format!("{listed}{answer}"));
        }
    }

    /// The row of the table of routes that a path was made of.
    fn route_of(&self, path: &str) -> String {
        let known = routes("/api/").into_iter().map(|(_, route)| route);
        let found = known.into_iter().find(|route| example(route) == path || elsewhere(route) == path);
        found.unwrap_or(path).to_owned()
    }
}

/// A path of an organization that does not exist.
fn elsewhere(route: &str) -> String {
    example(&route.replace("{org}", "nothing"))
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals() {
    if !is_recorded() {
        return;
    }
    let server = recorded_server(|_| {}, true).await;
    let people = People::of(&server).await;
    let things = Things::of_acme(&people.as_admin()).await;
    let user = tokens(&server, "ada@acme.test", "openid profile").await.text("access_token");
    let program = json!({ "name": "Reads the audit trail", "scopes": ["audit:read"] });
    let program = people.as_admin().make("/api/organizations/acme/keys", program).await;
    let member = Admin::sign_in(&server, "owner@sarsen.test", "org:*").await;
    let mut refusals = Refusals { server: &server, things, to: Recording::of(&server), long: Vec::new() };
    let all: Vec<_> = routes("/api/").into_iter().map(|(method, route)| (method, example(route))).collect();
    let of_programs = |route: &str| !matches!(route, "/api/live" | "/api/service/state");
    let answered: Vec<_> = all.iter().filter(|(_, path)| of_programs(path)).cloned().collect();
    refusals.ask("Nobody", None, &all).await;
    refusals.ask("A token that is none", Some("x"), &all).await;
    refusals.ask("A user of a service", Some(&user), &answered).await;
    refusals.ask("A key of a service", Some(&server.demo.api_key), &answered).await;
    let program = program["key"].as_str().unwrap_or_default();
    refusals.ask("A program with one scope", Some(program), &all).await;
    refusals.ask("An administrator elsewhere", Some(&member.token), &all).await;
    let others: Vec<_> = routes("/api/")
        .into_iter()
        .filter(|(_, route)| route.contains("{org}") || route.starts_with("/api/platform"))
        .map(|(method, route)| (method, elsewhere(route)))
        .collect();
    refusals.ask("An organization that does not exist", Some(&people.admin), &others).await;
    let inside: Vec<_> = routes("/api/organizations/{org}/")
        .into_iter()
        .filter(|(_, route)| route.matches('{').count() > 1)
        .map(|(method, route)| (method, example(route)))
        .collect();
    refusals.ask("Objects that do not exist", Some(&people.admin), &inside).await;
    insta::assert_snapshot!("refusals", refusals.to.finish());
    server.stop().await;
}
