//! `sarsen whoami`: the account that this terminal is signed in to.

use super::api::{Api, GlobalArgs};
use crate::environment::Environment;
use crate::error::Result;
use crate::output::{self, Cell, Field, Record, column};
use serde::{Deserialize, Serialize};
use serde_json::json;

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

#[derive(Deserialize)]
struct Administered {
    slug: String,
}

/// The organization of those who own the server.
const PLATFORM: &str = "platform";

#[derive(Serialize)]
struct Whoami {
    email: String,
    user: String,
    server: String,
    owns_server: bool,
    organizations: Vec<String>,
}

/// The most organizations that are printed by name.
const NAMED_MAX: usize = 32;

impl Whoami {
    fn organizations_in_words(&self) -> Cell {
        match self.organizations.len() {
            many if many > NAMED_MAX => Cell::from(&format!("{many}; sarsen org list shows them")),
            _ => Cell::from(&self.organizations),
        }
    }
}

impl Record for Whoami {
    fn fields(&self) -> Vec<Field> {
        vec![
            column("email", Cell::address(&self.email)),
            column("user", &self.user),
            column("server", &self.server),
            column("server owner", self.owns_server),
            column("organizations", self.organizations_in_words()),
        ]
    }
}

/// Runs it. A token does not name many organizations, so the server is asked for them.
pub fn run(args: &Args, environment: &Environment) -> Result<()> {
    let global = GlobalArgs::of_server(args.server.clone());
    let mut api = Api::open(&global, environment)?;
    let Claims { sub: user, email } = api.get("/auth/userinfo")?.read()?;
    let all = api.list::<Administered>("/api/organizations", &[])?.read()?;
    let whoami = Whoami {
        email,
        user,
        server: api.server().to_owned(),
        // Only the owners of the server administer it.
        owns_server: all.iter().any(|organization| organization.slug == PLATFORM),
        organizations: all.into_iter().map(|found| found.slug).filter(|slug| slug != PLATFORM).collect(),
    };
    if args.json { output::print_json(&json!(whoami)) } else { output::print_record(&whoami) }
}
