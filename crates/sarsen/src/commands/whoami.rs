//! `sarsen whoami`: the account that this terminal is signed in to.

use crate::api_client::{self, ApiClient, Body};
use crate::environment::Environment;
use crate::error::Result;
use crate::output::{self, Cell, Field, Record, column};
use serde::{Deserialize, Serialize};
use serde_json::json;
use ureq::http::Method;

/// Show the account that this terminal is signed in to, and what it may administer.
#[derive(clap::Args)]
pub struct Args {
    /// The server's address [default: the current one]
    #[arg(long, value_name = "URL", env = "SARSEN_SERVER", hide_env_values = true)]
    server: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The claims of `/auth/userinfo`.
#[derive(Deserialize)]
struct Claims {
    sub: String,
    email: String,
}

#[derive(Serialize)]
struct Whoami {
    email: String,
    user: String,
    server: String,
    owns_server: bool,
    organizations: Vec<String>,
}

impl Record for Whoami {
    fn fields(&self) -> Vec<Field> {
        vec![
            column("email", Cell::address(&self.email)),
            column("user", &self.user),
            column("server", &self.server),
            column("server owner", self.owns_server),
            column("organizations", &self.organizations),
        ]
    }
}

/// Runs it.
pub fn run(args: &Args, environment: &Environment) -> Result<()> {
    let mut client = ApiClient::open(environment, args.server.as_deref())?;
    let user = client.send(&Method::GET, "/auth/userinfo", &Body::None)?;
    let Claims { sub: user, email } = api_client::parse(&user)?;
    let login = client.login();
    let whoami = Whoami {
        email,
        user,
        server: client.server().to_owned(),
        owns_server: login.owns_server(),
        organizations: login.organizations().into_iter().map(str::to_owned).collect(),
    };
    if args.json { output::print_json(&json!(whoami)) } else { output::print_record(&whoami) }
}
