//! `sarsen audit`: who did what in an organization, newest first.

use super::api::{Api, GlobalArgs, OrgArgs};
use crate::environment::Environment;
use crate::error::Result;
use crate::output::Column;

/// The audit trail of an organization: who did what, newest first.
#[derive(clap::Args)]
#[command(after_help = "Example:  sarsen audit list --org acme --limit 20")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
    #[command(flatten)]
    org: OrgArgs,
    #[command(flatten)]
    global: GlobalArgs,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// List the newest entries
    List {
        /// How many at most
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: usize,
    },
}

const COLUMNS: [Column; 6] = [
    ("when", "/created_at"),
    ("who", "/actor_email /actor"),
    ("what", "/action"),
    ("to", "/target_name /target"),
    ("details", "/details"),
    ("from", "/address"),
];

/// Runs it.
pub fn run(args: &Args, environment: &Environment) -> Result<()> {
    let mut api = Api::open_in_org(&args.global, &args.org, environment)?;
    let Verb::List { limit } = args.verb;
    let found = api.list_up_to(&api.path(&["audit"]), &[], limit)?;
    api.show_list(&COLUMNS, found, "Nothing has happened.")
}
