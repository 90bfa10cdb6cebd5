//! `sarsen key`: the API keys of an organization and of its services.

use super::api::{Api, Fields, GlobalArgs, OrgArgs};
use crate::environment::Environment;
use crate::error::Result;
use crate::output::{Cell, Field, Record, Time, column, detail};
use serde::Deserialize;

/// API keys: the credentials of programs.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n\
                  \x20   sarsen key create \"Back end\" --service sketch --org acme\n\
                  \x20   sarsen key create Billing --scope subscriptions:write --scope users:read --org acme\n\
                  \n\
                  A key with --service reads the users of that service and what they may use; its scopes are users:read\n\
                  and entitlements:read. A key without --service administers the organization; its scopes are services,\n\
                  clients, plans, subscriptions, users and billing with :read or :write, customers:read and audit:read;\n\
                  and clients:redirects, clients:secrets and users:links, each worth more to a thief than it looks.")]
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
    /// Create a key; it is shown only once
    Create {
        /// Display name
        name: String,
        /// The slug of the service whose users it reads
        #[arg(long, value_name = "SLUG")]
        service: Option<String>,
        /// A scope; may be repeated
        #[arg(long = "scope", value_name = "SCOPE")]
        scopes: Vec<String>,
        /// When it expires, like 2027-01-31T00:00:00Z [default: never]
        #[arg(long, value_name = "TIME")]
        expires_at: Option<String>,
    },
    /// List the keys by their last characters
    List,
    /// Show a key
    Show {
        /// Its id
        key: String,
    },
    /// Revoke a key; it stops working at once
    Revoke {
        /// Its id
        key: String,
    },
}

#[derive(Deserialize)]
pub(super) struct Key {
    id: String,
    /// Only in the answer to the request that created the key.
    key: Option<String>,
    name: String,
    service: Option<String>,
    scopes: Vec<String>,
    hint: String,
    created_at: Time,
    expires_at: Option<Time>,
    last_used_at: Option<Time>,
}

impl Record for Key {
    fn fields(&self) -> Vec<Field> {
        vec![
            column("id", Cell::id(&self.id)),
            detail("key", Cell::optional(self.key.as_ref())),
            column("name", &self.name),
            column("service", Cell::optional(self.service.as_ref())),
            column("scopes", &self.scopes),
            column("last characters", &self.hint),
            column("last used", Cell::optional(self.last_used_at.as_ref())),
            column("expires", Cell::optional(self.expires_at.as_ref())),
            detail("created", &self.created_at),
        ]
    }
}

/// Runs it.
pub fn run(args: &Args, environment: &Environment) -> Result<()> {
    let mut api = Api::open_in_org(&args.global, &args.org, environment)?;
    match &args.verb {
        Verb::Create { name, service, scopes, expires_at } => {
            let fields = Fields::new().with("name", Some(name.clone())).with("service", service.clone());
            let fields = fields.with_list("scopes", scopes).with("expires_at", expires_at.clone());
            let created = api.post::<Key>(&api.path(&["keys"]), fields)?;
            api.show_secret(&created, ("key", "revoke it and create another"), |key| key.key.as_ref())
        }
        Verb::List => {
            let found = api.list::<Key>(&api.path(&["keys"]), &[])?;
            api.show_list(&found, "No API keys. Create one with sarsen key create.")
        }
        Verb::Show { key } => {
            let found = api.get::<Key>(&api.path(&["keys", key]))?;
            api.show(&found)
        }
        Verb::Revoke { key } => {
            api.delete(&api.path(&["keys", key]))?;
            api.confirm(&format!("Revoked the API key {key}."));
            Ok(())
        }
    }
}
