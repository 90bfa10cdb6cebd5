//! `sarsen org`: organizations, and what owners of the server decide about them.

use super::api::{Answer, Api, Fields, GlobalArgs, given, org_path, switch};
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::output::{Field, Record, Time, column, detail};
use crate::{api_client, terminal};
use serde::Deserialize;

/// Organizations: the tenants of a server.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n\
                  \x20   sarsen org create acme --name Acme\n\
                  \x20   sarsen org list --all --status pending\n\
                  \x20   sarsen org approve acme")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
    #[command(flatten)]
    global: GlobalArgs,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Create an organization; you become its owner
    Create {
        /// Short name in addresses and tokens; it never changes [default: asks]
        slug: Option<String>,
        /// Display name [default: asks]
        #[arg(long)]
        name: Option<String>,
    },
    /// List the organizations that you administer
    List {
        /// List all organizations of the server (server owners only)
        #[arg(long)]
        all: bool,
        /// Only those of this status: pending, active, rejected, suspended or deleted
        #[arg(long)]
        status: Option<String>,
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
        /// New display name
        #[arg(long)]
        name: Option<String>,
        /// Whether devices without a browser may sign in: allowed, short (codes expire after five minutes) or off
        #[arg(long, value_name = "RULE")]
        device_flow: Option<String>,
        /// Whether people may create accounts themselves
        #[arg(long, value_name = "on|off", value_parser = switch)]
        sign_up: Option<bool>,
    },
    /// Delete an organization: nobody signs in any more, and after 30 days its data is gone
    #[command(
        after_help = "Within 30 days, sarsen org restore undoes it. The slug stays taken for ever. Backups keep the data until they \
                            are deleted."
    )]
    Delete {
        /// Its slug
        slug: String,
        /// The slug once more, because this ends the sign-in of all its users
        #[arg(long, value_name = "SLUG")]
        confirm: String,
    },
    /// Restore a deleted organization within 30 days
    Restore {
        /// Its slug
        slug: String,
    },
    /// Approve a pending organization (server owners only)
    Approve(Decision),
    /// Reject a pending organization (server owners only)
    Reject(Decision),
    /// Suspend an organization: no session or token works until it is activated (server owners only)
    Suspend(Decision),
    /// Activate a suspended organization (server owners only)
    Activate {
        /// Its slug
        slug: String,
    },
}

#[derive(clap::Args)]
struct Decision {
    /// Its slug
    slug: String,
    /// Reason for the audit trail
    #[arg(long)]
    reason: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Organization {
    slug: String,
    name: String,
    status: String,
    device_flow: String,
    sign_up: bool,
    created_at: Time,
}

impl Record for Organization {
    fn fields(&self) -> Vec<Field> {
        vec![
            column("slug", &self.slug),
            column("name", &self.name),
            column("status", &self.status),
            detail("device flow", &self.device_flow),
            detail("sign-up", self.sign_up),
            column("created", &self.created_at),
        ]
    }
}

const ALL: &str = "/api/platform/organizations";

/// Runs it.
pub fn run(args: &Args, environment: &Environment) -> Result<()> {
    let mut api = Api::open(&args.global, environment)?;
    match &args.verb {
        Verb::Create { slug, name } => create(&mut api, slug.as_deref(), name.as_deref()),
        Verb::List { all, status } => {
            let path = if *all { ALL } else { "/api/organizations" };
            let found = api.list::<Organization>(path, &given(&[("status", status)]))?;
            let nothing = match status {
                Some(status) => format!("No organizations are {status}."),
                None => "No organizations. Create one with sarsen org create.".to_owned(),
            };
            api.show_list(&found, &nothing)
        }
        Verb::Show { slug } => {
            let found = find(&mut api, slug)?;
            api.show(&found)
        }
        Verb::Change { slug, name, device_flow, sign_up } => {
            let fields = Fields::new().with("name", name.clone()).with("device_flow", device_flow.clone());
            let fields = fields.with("sign_up", *sign_up);
            let changed = api.patch::<Organization>(&org_path(slug, &[]), fields)?;
            api.show(&changed)
        }
        Verb::Delete { slug, confirm } => {
            if slug != confirm {
                return Err(Error::usage(format!(
                    "--confirm is not {slug}; enter the slug of the organization"
                )));
            }
            api.delete(&org_path(slug, &[]))?;
            api.confirm(&format!(
                "{slug} is deleted: nobody can sign in. sarsen org restore {slug} undoes it for 30 days; then the data is gone."
            ));
            Ok(())
        }
        Verb::Restore { slug } => {
            let restored = api.delete_and_read::<Organization>(&org_path(slug, &["deletion"]))?;
            api.show(&restored)
        }
        Verb::Approve(decision) => review(&mut api, decision, "approved"),
        Verb::Reject(decision) => review(&mut api, decision, "rejected"),
        Verb::Suspend(Decision { slug, reason }) => {
            let fields = Fields::new().with("reason", reason.clone());
            let suspended = api.put::<Organization>(&platform_path(slug, "suspension"), fields)?;
            api.show(&suspended)
        }
        Verb::Activate { slug } => {
            let activated = api.delete_and_read::<Organization>(&platform_path(slug, "suspension"))?;
            api.show(&activated)
        }
    }
}

fn create(api: &mut Api, slug: Option<&str>, name: Option<&str>) -> Result<()> {
    let answer = |given: Option<&str>, question: &str, what: &str| match given {
        Some(text) => Ok(text.to_owned()),
        None if terminal::is_interactive() => terminal::ask(question, None, |_| Ok(())),
        None => Err(Error::usage(format!("{what} is missing; use sarsen org create SLUG --name NAME"))),
    };
    let slug = answer(slug, "Short name in addresses (a-z, 0-9, -)", "the slug")?;
    let name = answer(name, "Display name", "the name")?;
    let fields = Fields::new().with("slug", Some(slug)).with("name", Some(name));
    let created = api.post::<Organization>("/api/organizations", fields)?;
    // The token does not name the organization. The next command asks for another one if this fails.
    let renewed = api.refresh();
    api.show(&created)?;
    if let Err(error) = renewed {
        api.confirm(&format!(
            "sarsen: the organization was created, but the sign-in was not renewed: {error}"
        ));
    }
    if created.read().is_ok_and(|created| created.status == "pending") {
        api.confirm("The organization is pending until an owner of the server approves it.");
    }
    Ok(())
}

/// Its own administrators and owners of the server may read an organization.
fn find(api: &mut Api, slug: &str) -> Result<Answer<Organization>> {
    match api.get(&org_path(slug, &[])) {
        Err(Error::Refused { status: 403 | 404, .. }) => {}
        other => return other,
    }
    let all = match api.list::<Organization>(ALL, &[]) {
        Err(Error::Refused { status: 403, .. }) => {
            return Err(Error::failed(format!(
                "{} does not administer an organization {slug}; sarsen org list shows yours",
                api.email()
            )));
        }
        all => all?,
    };
    all.find(|organization| organization.slug == slug)?.ok_or_else(|| {
        Error::failed(format!("there is no organization {slug}; sarsen org list --all shows all of them"))
    })
}

fn review(api: &mut Api, decision: &Decision, word: &str) -> Result<()> {
    let fields = Fields::new().with("decision", Some(word)).with("reason", decision.reason.clone());
    let reviewed = api.post::<Organization>(&platform_path(&decision.slug, "review"), fields)?;
    api.show(&reviewed)
}

fn platform_path(slug: &str, what: &str) -> String {
    format!("{ALL}/{}/{what}", api_client::segment(slug))
}
