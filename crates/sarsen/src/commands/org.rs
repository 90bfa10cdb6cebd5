//! `sarsen org`: organizations, and what platform owners decide about them.

use super::api::{Api, Fields, GlobalArgs, org_path};
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::output::Column;
use crate::{api_client, terminal};
use serde_json::Value;

/// Organizations: the tenants of a server.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n\
                  \x20   sarsen org create acme --name Acme\n\
                  \x20   sarsen org list --all\n\
                  \x20   sarsen org approve acme")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
    #[command(flatten)]
    global: GlobalArgs,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Make an organization; you become its owner
    Create {
        /// Its short name in addresses and tokens; never changes [default: asked]
        slug: Option<String>,
        /// Its name for people [default: asked]
        #[arg(long)]
        name: Option<String>,
    },
    /// List the organizations that you administer
    List {
        /// All of the server's (platform owners only)
        #[arg(long)]
        all: bool,
    },
    /// Show an organization
    Show {
        /// Its slug
        slug: String,
    },
    /// Change an organization
    Change {
        /// Its slug
        slug: String,
        /// Its new name for people
        #[arg(long)]
        name: Option<String>,
        /// How devices without a browser may sign in: allowed, short (codes live five minutes) or off
        #[arg(long, value_name = "RULE")]
        device_flow: Option<String>,
    },
    /// Approve a pending organization (platform owners only)
    Approve(Decision),
    /// Reject a pending organization (platform owners only)
    Reject(Decision),
    /// Stop an organization and all of its sign-ins (platform owners only)
    Suspend(Decision),
    /// Let a suspended organization go on (platform owners only)
    Activate {
        /// Its slug
        slug: String,
    },
}

#[derive(clap::Args)]
struct Decision {
    /// Its slug
    slug: String,
    /// Why; kept in the audit trail
    #[arg(long)]
    reason: Option<String>,
}

const COLUMNS: [Column; 4] =
    [("slug", "/slug"), ("name", "/name"), ("status", "/status"), ("created", "/created_at")];
const FIELDS: [Column; 5] = [
    ("slug", "/slug"),
    ("name", "/name"),
    ("status", "/status"),
    ("device flow", "/device_flow"),
    ("created", "/created_at"),
];
const ALL: &str = "/api/platform/organizations";

/// Runs it.
pub fn run(args: &Args, environment: &Environment) -> Result<()> {
    let mut api = Api::open(&args.global, environment)?;
    match &args.verb {
        Verb::Create { slug, name } => create(&mut api, slug.as_deref(), name.as_deref()),
        Verb::List { all } => {
            let found = api.list(if *all { ALL } else { "/api/organizations" }, &[])?;
            api.show_list(&COLUMNS, found, "No organizations yet; make one with sarsen org create.")
        }
        Verb::Show { slug } => {
            let found = find(&mut api, slug)?;
            api.show(&FIELDS, &found)
        }
        Verb::Change { slug, name, device_flow } => {
            let fields = Fields::new().with("name", name.clone()).with("device_flow", device_flow.clone());
            let changed = api.patch(&org_path(slug, &[]), fields)?;
            api.show(&FIELDS, &changed)
        }
        Verb::Approve(decision) => review(&mut api, decision, "approved"),
        Verb::Reject(decision) => review(&mut api, decision, "rejected"),
        Verb::Suspend(Decision { slug, reason }) => {
            let suspended =
                api.put(&platform_path(slug, "suspension"), Fields::new().with("reason", reason.clone()))?;
            api.show(&FIELDS, &suspended)
        }
        Verb::Activate { slug } => {
            api.delete(&platform_path(slug, "suspension"))?;
            api.message(&format!("{slug} goes on."));
            Ok(())
        }
    }
}

fn create(api: &mut Api, slug: Option<&str>, name: Option<&str>) -> Result<()> {
    let answer = |given: Option<&str>, question: &str, what: &str| match given {
        Some(text) => Ok(text.to_owned()),
        None if terminal::is_interactive() => terminal::ask(question, None, |_| Ok(())),
        None => Err(Error::usage(format!("{what} is missing: sarsen org create SLUG --name NAME"))),
    };
    let slug = answer(slug, "Short name, as in addresses (a-z, 0-9, -)", "the slug")?;
    let name = answer(name, "Name for people", "the name")?;
    let made =
        api.post("/api/organizations", Fields::new().with("slug", Some(slug)).with("name", Some(name)))?;
    // The next command wants to work inside of it.
    api.refresh()?;
    api.show(&FIELDS, &made)?;
    if made.get("status").and_then(Value::as_str) == Some("pending") {
        api.message("It is pending: an owner of the server has to approve it.");
    }
    Ok(())
}

/// Its own administrators may look, and platform owners.
fn find(api: &mut Api, slug: &str) -> Result<Value> {
    let refused = match api.get(&org_path(slug, &[])) {
        Err(error @ Error::Refused { status: 403 | 404, .. }) => error,
        other => return other,
    };
    let all = api.list(ALL, &[]).unwrap_or_default();
    let found =
        all.into_iter().find(|organization| organization.get("slug").and_then(Value::as_str) == Some(slug));
    found.ok_or(refused)
}

fn review(api: &mut Api, decision: &Decision, word: &str) -> Result<()> {
    let fields = Fields::new().with("decision", Some(word)).with("reason", decision.reason.clone());
    let reviewed = api.post(&platform_path(&decision.slug, "review"), fields)?;
    api.show(&FIELDS, &reviewed)
}

fn platform_path(slug: &str, what: &str) -> String {
    format!("{ALL}/{}/{what}", api_client::segment(slug))
}
