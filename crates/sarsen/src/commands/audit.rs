//! `sarsen audit`: the audit trail of an organization, newest entries first.

use super::api::{Api, GlobalArgs, Nullable, OrgArgs, given};
use crate::environment::Environment;
use crate::error::Result;
use crate::output::{Cell, Field, Record, Time, column};
use serde::Deserialize;

/// The audit trail of an organization, newest entries first.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n\
                  \x20   sarsen audit list --org acme --limit 20\n\
                  \x20   sarsen audit list --org acme --actor ada@example.com --since 2027-01-31\n\
                  \x20   sarsen audit list --org acme --target grace@example.com")]
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
        /// Number of entries at most
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: usize,
        /// Only entries of this actor: an e-mail address, an id, system or unknown
        #[arg(long)]
        actor: Option<String>,
        /// Only entries of this action, like user.created
        #[arg(long)]
        action: Option<String>,
        /// Only entries about this object: an id, or the e-mail address of a user or an administrator
        #[arg(long, value_name = "TARGET")]
        target: Option<String>,
        /// Only entries from this time on: a date, or a time like 2027-01-31T08:00:00Z
        #[arg(long, value_name = "TIME")]
        since: Option<String>,
        /// Only entries before this time
        #[arg(long, value_name = "TIME")]
        until: Option<String>,
    },
}

#[derive(Deserialize)]
pub(super) struct Entry {
    created_at: Time,
    actor: String,
    actor_email: Nullable<String>,
    action: String,
    target: String,
    target_name: Nullable<String>,
    details: String,
    address: String,
}

impl Record for Entry {
    fn fields(&self) -> Vec<Field> {
        vec![
            column("time", &self.created_at),
            column("actor", Cell::named(self.actor_email.0.as_deref(), &self.actor)),
            column("action", &self.action),
            column("target", Cell::named(self.target_name.0.as_deref(), &self.target)).dispensable(),
            column("details", &self.details).dispensable(),
            column("address", &self.address).dispensable(),
        ]
    }
}

/// Runs it.
pub fn run(args: &Args, environment: &Environment) -> Result<()> {
    let mut api = Api::open_in_org(&args.global, &args.org, environment)?;
    let Verb::List { limit, actor, action, target, since, until } = &args.verb;
    let query = given(&[
        ("actor", actor),
        ("action", action),
        ("target", target),
        ("since", since),
        ("until", until),
    ]);
    let found = api.list_up_to::<Entry>(&api.path(&["audit"]), &query, *limit)?;
    api.show_list(&found, "No entries.")
}
