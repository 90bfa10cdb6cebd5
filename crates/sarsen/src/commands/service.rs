//! `sarsen service`: the products of an organization.

use super::api::{Api, Fields, GlobalArgs, OrgArgs};
use crate::environment::Environment;
use crate::error::Result;
use crate::output::Column;

/// Services: the products of an organization.
#[derive(clap::Args)]
#[command(after_help = "Example:  sarsen service create sketch --name \"Acme Sketch\" --org acme")]
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
    /// Make a service
    Create {
        /// Its short name in tokens; never changes
        slug: String,
        /// Its name for people
        #[arg(long)]
        name: String,
    },
    /// List the services
    List,
    /// Show a service
    Show {
        /// Its slug
        slug: String,
    },
    /// Change a service
    Change {
        /// Its slug
        slug: String,
        /// Its new name for people
        #[arg(long)]
        name: Option<String>,
    },
    /// Delete a service that has no clients and no plans
    Delete {
        /// Its slug
        slug: String,
    },
}

const FIELDS: [Column; 3] = [("slug", "/slug"), ("name", "/name"), ("created", "/created_at")];

/// Runs it.
pub fn run(args: &Args, environment: &Environment) -> Result<()> {
    let mut api = Api::open_in_org(&args.global, &args.org, environment)?;
    match &args.verb {
        Verb::Create { slug, name } => {
            let fields = Fields::new().with("slug", Some(slug.clone())).with("name", Some(name.clone()));
            let made = api.post(&api.path(&["services"]), fields)?;
            api.show(&FIELDS, &made)
        }
        Verb::List => {
            let found = api.list(&api.path(&["services"]), &[])?;
            api.show_list(&FIELDS, found, "No services yet; make one with sarsen service create.")
        }
        Verb::Show { slug } => {
            let found = api.get(&api.path(&["services", slug]))?;
            api.show(&FIELDS, &found)
        }
        Verb::Change { slug, name } => {
            let fields = Fields::new().with("name", name.clone());
            let changed = api.patch(&api.path(&["services", slug]), fields)?;
            api.show(&FIELDS, &changed)
        }
        Verb::Delete { slug } => {
            api.delete(&api.path(&["services", slug]))?;
            api.message(&format!("The service {slug} is deleted."));
            Ok(())
        }
    }
}
