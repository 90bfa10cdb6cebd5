//! `sarsen login`: signs this terminal in by the device flow. The user types the code into a browser.

use crate::api_client::{self, CredentialsFile, HttpClient};
use crate::environment::Environment;
use crate::error::Result;
use crate::output;
use serde_json::json;

/// The server when none is given and none is saved.
const SERVER: &str = "http://localhost:7070";
/// The scope of a terminal: everything that its user may administer.
const SCOPE: &str = "openid email offline_access platform org:*";

/// Sign this terminal in to a server, with a code that you type into a browser.
#[derive(clap::Args)]
#[command(after_help = "Example:  sarsen login --server https://id.example.com\n\
                  \n\
                  The sign-in is saved in $XDG_CONFIG_HOME/sarsen/credentials.json (or ~/.config/sarsen).")]
pub struct Args {
    /// The server's address [default: the current one, or http://localhost:7070]
    #[arg(long, value_name = "URL", env = "SARSEN_SERVER", hide_env_values = true)]
    server: Option<String>,
    /// Another organization to administer; may be repeated
    #[arg(long, value_name = "SLUG")]
    org: Vec<String>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub fn run(args: &Args, environment: &Environment) -> Result<()> {
    let (credentials_file, http) = (CredentialsFile::new(environment)?, HttpClient::new(environment)?);
    let current = credentials_file.read()?.current;
    let server = args.server.clone().or(current).unwrap_or_else(|| SERVER.to_owned());
    let server = server.trim_end_matches('/').to_owned();
    let discovery = api_client::discover(&http, &server)?;
    let scope = args.org.iter().fold(SCOPE.to_owned(), |scope, slug| format!("{scope} org:{slug}"));
    let codes = discovery.begin(&http, &scope)?;
    output::tell(&format!("Open  {}", output::sanitize(&codes.verification_uri)));
    output::tell(&format!("Type  {}", output::sanitize(&codes.user_code)));
    let minutes = codes.expires_in.div_ceil(60);
    output::tell(&format!("Waiting for you to allow it there; the code expires in {minutes} minutes …"));
    let login = discovery.wait(&http, &codes)?;
    let (email, powers) = (login.email.clone(), login.powers());
    let result = json!({ "server": server, "email": email, "organizations": login.organizations() });
    credentials_file.change(|saved| {
        saved.current = Some(server.clone());
        saved.servers.insert(server.clone(), login.clone());
        Ok(())
    })?;
    if args.json {
        return output::after_change(output::print_json(&result));
    }
    output::after_change(output::print(&format!(
        "Signed in to {server} as {}; you {}.\n",
        output::sanitize(&text::mail::shown(&email)),
        output::sanitize(&powers)
    )))
}
