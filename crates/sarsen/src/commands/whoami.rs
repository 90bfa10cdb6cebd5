//! `sarsen whoami`: who this terminal is signed in as, as the server sees it now.

use crate::api_client::{ApiClient, Body};
use crate::environment::Environment;
use crate::error::Result;
use crate::output::{self, Column};
use serde_json::json;
use ureq::http::Method;

/// Say who this terminal is signed in as, and what it may administer.
#[derive(clap::Args)]
pub struct Args {
    /// The server's address [default: the current one]
    #[arg(long, value_name = "URL", env = "SARSEN_SERVER", hide_env_values = true)]
    server: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const FIELDS: [Column; 5] = [
    ("email", "/email"),
    ("user", "/user"),
    ("server", "/server"),
    ("owns it", "/owns_server"),
    ("organizations", "/organizations"),
];

/// Runs it.
pub fn run(args: &Args, environment: &Environment) -> Result<()> {
    let mut client = ApiClient::open(environment, args.server.as_deref())?;
    let user = client.send(&Method::GET, "/auth/userinfo", &Body::None)?;
    let login = client.login();
    let says = json!({
        "email": user.get("email"),
        "user": user.get("sub"),
        "server": client.server(),
        "owns_server": login.owns_server(),
        "organizations": login.organizations(),
    });
    if args.json { output::print_json(&says) } else { output::print_record(&FIELDS, &says) }
}
