//! `sarsen billing`: connections to payment providers, and what their ids stand for.

mod activity;
mod mappings;

use super::api::{Api, Fields, GlobalArgs, Nullable, OrgArgs, org_path};
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::output::{Cell, Field, Record, Time, column, detail};
use serde::Deserialize;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Billing: payment providers whose events change subscriptions.
#[derive(clap::Args)]
#[command(after_help = "Example, for Stripe:\n\
                  \x20   sarsen billing create Stripe --test --org acme          (shows the endpoint's address)\n\
                  \x20   sarsen billing change --secret-file - --org acme        (reads whsec_… from stdin)\n\
                  \x20   sarsen billing price set price_1Nx… --plan pro --org acme\n\
                  \x20   sarsen billing reference --user ada@example.com --org acme\n\
                  \x20   sarsen billing subscriptions --waiting --org acme\n\
                  \n\
                  --connection is needed only where the organization has several.")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
    /// The id of the connection [default: the only one]
    #[arg(long, value_name = "ID", global = true)]
    connection: Option<String>,
    #[command(flatten)]
    org: OrgArgs,
    #[command(flatten)]
    global: GlobalArgs,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Create a connection to Stripe
    Create {
        /// Display name
        name: String,
        /// It takes events of the test mode instead of the live mode
        #[arg(long)]
        test: bool,
        /// The connected account whose events it takes, for platforms of Stripe Connect
        #[arg(long, value_name = "ACCT")]
        account: Option<String>,
        /// File with the signing secret (whsec_…), or - for stdin; it can be set later
        #[arg(long, value_name = "FILE")]
        secret_file: Option<PathBuf>,
    },
    /// List the connections
    List,
    /// Show a connection
    Show,
    /// Change a connection
    Change {
        /// New display name
        #[arg(long)]
        name: Option<String>,
        /// File with the new signing secret (whsec_…), or - for stdin
        #[arg(long, value_name = "FILE")]
        secret_file: Option<PathBuf>,
    },
    /// Delete a connection; subscriptions stay as they are
    Delete,
    /// The plans that prices stand for
    Price {
        #[command(subcommand)]
        verb: mappings::PriceVerb,
    },
    /// The users and customers that customers of the provider stand for
    Customer {
        #[command(subcommand)]
        verb: mappings::CustomerVerb,
    },
    /// Make the reference of a user or a customer, for client_reference_id of a checkout
    Reference(mappings::CustomerArgs),
    /// List the provider's subscriptions
    Subscriptions {
        /// Only those that wait for a mapping, with the reason
        #[arg(long)]
        waiting: bool,
    },
    /// Apply the subscriptions that wait, where that is possible now
    Retry,
    /// List the newest events
    Events {
        /// Number of events at most
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: usize,
    },
}

#[derive(Deserialize)]
struct Connection {
    id: String,
    provider: String,
    name: String,
    livemode: bool,
    account: Nullable<String>,
    endpoint: String,
    has_secret: bool,
    created_at: Time,
}

impl Record for Connection {
    fn fields(&self) -> Vec<Field> {
        vec![
            column("id", Cell::id(&self.id)),
            column("provider", &self.provider),
            column("name", &self.name),
            column("mode", if self.livemode { "live" } else { "test" }),
            column("secret", if self.has_secret { "set" } else { "missing" }),
            detail("account", Cell::optional(self.account.0.as_ref())),
            detail("endpoint", &self.endpoint),
            detail("created", &self.created_at),
        ]
    }
}

/// Runs it.
pub fn run(args: &Args, environment: &Environment) -> Result<()> {
    let mut api = Api::open_in_org(&args.global, &args.org, environment)?;
    match &args.verb {
        Verb::Create { name, test, account, secret_file } => {
            let secret = secret_file.as_deref().map(read_secret).transpose()?;
            let fields = Fields::new().with("name", Some(name.clone())).with("livemode", Some(!test));
            let fields = fields.with("account", account.clone()).with("secret", secret);
            let created = api.post::<Connection>(&api.path(&["billing"]), fields)?;
            return api.show(&created);
        }
        Verb::List => {
            let found = api.list::<Connection>(&api.path(&["billing"]), &[])?;
            return api.show_list(&found, "No connections. Create one with sarsen billing create.");
        }
        _ => {}
    }
    let connection = connection(&mut api, args.connection.as_deref())?;
    let org = api.org_slug().to_owned();
    let path = |parts: &[&str]| org_path(&org, &[&["billing", &connection], parts].concat());
    match &args.verb {
        Verb::Create { .. } | Verb::List => Ok(()),
        Verb::Show => {
            let found = api.get::<Connection>(&path(&[]))?;
            api.show(&found)
        }
        Verb::Change { name, secret_file } => {
            let secret = secret_file.as_deref().map(read_secret).transpose()?;
            let fields = Fields::new().with("name", name.clone()).with("secret", secret);
            let changed = api.patch::<Connection>(&path(&[]), fields)?;
            api.show(&changed)
        }
        Verb::Delete => {
            api.delete(&path(&[]))?;
            api.confirm(&format!("Deleted the connection {connection}."));
            Ok(())
        }
        Verb::Price { verb } => mappings::price(&mut api, verb, path),
        Verb::Customer { verb } => mappings::customer(&mut api, verb, path),
        Verb::Reference(of) => mappings::reference(&mut api, of, &path(&["references"])),
        Verb::Subscriptions { waiting } => {
            activity::subscriptions(&mut api, &path(&["subscriptions"]), *waiting)
        }
        Verb::Retry => activity::retry(&mut api, &path(&["retry"])),
        Verb::Events { limit } => activity::events(&mut api, &path(&["events"]), *limit),
    }
}

/// The connection that is meant.
fn connection(api: &mut Api, named: Option<&str>) -> Result<String> {
    if let Some(id) = named {
        return Ok(id.to_owned());
    }
    let found = api.list::<Connection>(&api.path(&["billing"]), &[])?.read()?;
    match found.as_slice() {
        [only] => Ok(only.id.clone()),
        [] => Err(Error::failed("the organization has no connection; create one with sarsen billing create")),
        several => {
            let ids: Vec<String> = several.iter().map(|one| format!("{} ({})", one.id, one.name)).collect();
            Err(Error::usage(format!("name the connection with --connection: one of {}", ids.join(", "))))
        }
    }
}

/// A secret never stands in an argument, where other users of the machine can read it.
fn read_secret(path: &Path) -> Result<String> {
    let mut text = String::new();
    if path == Path::new("-") {
        std::io::stdin().lock().read_to_string(&mut text).map_err(Error::io("cannot read stdin"))?;
    } else {
        text = std::fs::read_to_string(path).map_err(Error::file("read", path))?;
    }
    Ok(text.trim().to_owned())
}
