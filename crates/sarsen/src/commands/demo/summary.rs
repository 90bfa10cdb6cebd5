//! What a demo prints when it is ready: a line of JSON, or a text with what to try next.

use crate::error::{Error, Result};
use serde::Serialize;
use server::demo::{self, Commands, Credentials, commands};
use std::fmt::Write as _;
use std::path::Path;

/// The demo that it describes.
pub(super) struct Summary<'a> {
    pub(super) issuer: &'a str,
    pub(super) credentials: &'a Credentials,
    pub(super) folder: &'a Path,
}

#[derive(Serialize)]
struct Line<'a> {
    issuer: &'a str,
    console: String,
    #[serde(flatten)]
    credentials: &'a Credentials,
}

impl Summary<'_> {
    fn console(&self) -> String {
        format!("{}/console", self.issuer)
    }

    /// One line, for programs.
    pub(super) fn json(&self) -> Result<String> {
        let line = Line { issuer: self.issuer, console: self.console(), credentials: self.credentials };
        serde_json::to_string(&line)
            .map_err(|error| Error::failed(format!("cannot write the credentials: {error}")))
    }

    /// A text, for people.
    pub(super) fn text(&self) -> String {
        let Summary { issuer, credentials, folder } = self;
        let mut rows: Vec<(&str, String)> = vec![("Open", (*issuer).to_owned())];
        for product in &credentials.products {
            rows.push(("Product", format!("{}  {}", product.url, product.name)));
        }
        for user in &credentials.users {
            let plan = user.plan.as_deref().unwrap_or("free");
            rows.push(("Sign in as", format!("{}  {}  (plan {plan})", user.email, user.password)));
        }
        rows.push(("Console", self.console()));
        let admin = &credentials.organization.admin;
        let slug = &credentials.organization.slug;
        rows.push(("  as", format!("{}  {}  (administrator of {slug})", admin.email, admin.password)));
        let owner = &credentials.owner;
        rows.push(("  or", format!("{}  {}  (server owner)", owner.email, owner.password)));
        rows.push(("Mails", format!("{issuer}/dev/mail")));

        let mut text = String::from("The demo is running. Ctrl-C ends it.\n\n");
        for (label, value) in rows {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  {label:<12}{value}");
        }
        let cli = credentials.clients.get("cli").map_or("", |client| client.client_id.as_str());
        let Commands { field, begin, redeem, ask } = commands(issuer, cli);
        let user = credentials.users.first().map_or("", |user| user.email.as_str());
        let administrator = &admin.email;
        let sarsen = demo::shell_word(&program());
        let _ = write!(
            text,
            "\nSign in a device, such as a terminal or a television. Request a code, open the verification_uri_complete\n\
             of the answer and allow it as {user}, get the tokens, and read the plan of {user}:\n\
             \x20 {field}\n\
             \x20 {begin}\n\
             \x20 {redeem}\n\
             \x20 {ask}\n\
             Sign this terminal in as {administrator} and change a plan:\n\
             \x20 {sarsen} login --server {issuer}\n\
             \x20 {sarsen} subscription change --org {slug} --user {user} --plan starter\n\
             \n\
             The data is in {}. Start with the same --data to use it again.\n",
            folder.display()
        );
        text
    }
}

/// What this program was started as, so that the lines can be pasted where `sarsen` is not on the search path.
pub(super) fn program() -> String {
    std::env::args().next().unwrap_or_else(|| "sarsen".to_owned())
}
