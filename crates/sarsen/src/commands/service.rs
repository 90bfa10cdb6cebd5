//! `sarsen service`: the products of an organization.

use super::api::{Api, Fields, GlobalArgs, OrgArgs};
use crate::environment::Environment;
use crate::error::Result;
use crate::output::{Field, Record, Time, column, detail};
use serde::Deserialize;

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
    /// Create a service
    Create {
        /// Short name in tokens; it never changes
        slug: String,
        /// Display name
        #[arg(long)]
        name: String,
        #[command(flatten)]
        rules: Rules,
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
        /// New display name
        #[arg(long)]
        name: Option<String>,
        #[command(flatten)]
        rules: Rules,
    },
    /// Delete a service that has no clients and no plans
    Delete {
        /// Its slug
        slug: String,
    },
}

#[derive(clap::Args)]
struct Rules {
    /// The type of the access tokens for it; JWT is for libraries that accept no other [default: at+jwt]
    #[arg(long, value_name = "at+jwt|JWT")]
    access_token_typ: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Service {
    slug: String,
    name: String,
    access_token_typ: String,
    created_at: Time,
}

impl Record for Service {
    fn fields(&self) -> Vec<Field> {
        vec![
            column("slug", &self.slug),
            column("name", &self.name),
            detail("access token type", &self.access_token_typ),
            column("created", &self.created_at),
        ]
    }
}

/// Runs it.
pub fn run(args: &Args, environment: &Environment) -> Result<()> {
    let mut api = Api::open_in_org(&args.global, &args.org, environment)?;
    match &args.verb {
        Verb::Create { slug, name, rules } => {
            let fields = Fields::new().with("slug", Some(slug.clone())).with("name", Some(name.clone()));
            let fields = fields.with("access_token_typ", rules.access_token_typ.clone());
            let created = api.post::<Service>(&api.path(&["services"]), fields)?;
            api.show(&created)
        }
        Verb::List => {
            let found = api.list::<Service>(&api.path(&["services"]), &[])?;
            api.show_list(&found, "No services. Create one with sarsen service create.")
        }
        Verb::Show { slug } => {
            let found = api.get::<Service>(&api.path(&["services", slug]))?;
            api.show(&found)
        }
        Verb::Change { slug, name, rules } => {
            let fields = Fields::new().with("name", name.clone());
            let fields = fields.with("access_token_typ", rules.access_token_typ.clone());
            let changed = api.patch::<Service>(&api.path(&["services", slug]), fields)?;
            api.show(&changed)
        }
        Verb::Delete { slug } => {
            api.delete(&api.path(&["services", slug]))?;
            api.confirm(&format!("Deleted the service {slug}."));
            Ok(())
        }
    }
}
