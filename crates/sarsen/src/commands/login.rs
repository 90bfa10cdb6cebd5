//! `sarsen login`: signs this terminal in by the device flow. The code is typed, not linked.

use crate::api_client::{self, CredentialsFile, HttpClient};
use crate::environment::Environment;
use crate::error::Result;
use crate::output;
use serde_json::json;

/// The server when none is named and none is known.
const SERVER: &str = "http://localhost:7070";
/// What a terminal asks for: to administer what its user administers.
const SCOPE: &str = "openid email offline_access platform org:*";

/// Sign this terminal in to a server, by typing a code into a browser.
#[derive(clap::Args)]
#[command(after_help = "Example:  sarsen login --server https://id.example.com\n\
                  \n\
                  The sign-in is kept in $XDG_CONFIG_HOME/sarsen/credentials.json (or ~/.config/sarsen).")]
pub struct Args {
    /// The server's address [default: the current one, else http://localhost:7070]
    #[arg(long, value_name = "URL", env = "SARSEN_SERVER", hide_env_values = true)]
    server: Option<String>,
    /// An organization to administer, beside those that you administer already; may be repeated
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
    eprintln!("Open  {}", output::sanitize(&codes.verification_uri));
    eprintln!("Type  {}", output::sanitize(&codes.user_code));
    eprintln!(
        "Waiting until you have allowed it there ({} minutes at most) …",
        codes.expires_in.div_ceil(60)
    );
    let login = discovery.wait(&http, &codes)?;
    let (email, powers) = (login.email.clone(), login.powers());
    let says = json!({ "server": server, "email": email, "organizations": login.organizations() });
    credentials_file.change(|saved| {
        saved.current = Some(server.clone());
        saved.servers.insert(server.clone(), login.clone());
        Ok(())
    })?;
    if args.json {
        return output::print_json(&says);
    }
    output::print(&format!(
        "Signed in to {server} as {}; you {}.\n",
        output::sanitize(&email),
        output::sanitize(&powers)
    ))
}
