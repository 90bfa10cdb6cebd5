//! `sarsen member`: those who administer an organization, in which role. The API calls them administrators.

use super::api::{Api, Fields, GlobalArgs, OrgArgs};
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::output::Column;
use serde_json::Value;

/// Those who administer an organization.
#[derive(clap::Args)]
#[command(after_help = "Example:  sarsen member add grace@example.com --role admin --org acme\n\
                  \n\
                  Members may look, admins may change things, owners may change roles.")]
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
    /// List them
    List,
    /// Let somebody administer, who has an account on the server's own pages
    Add {
        /// E-mail address
        email: String,
        /// owner, admin or member
        #[arg(long, default_value = "member")]
        role: String,
    },
    /// Change somebody's role
    Change {
        /// E-mail address or id
        user: String,
        /// owner, admin or member
        #[arg(long)]
        role: String,
    },
    /// Take somebody out
    Remove {
        /// E-mail address or id
        user: String,
    },
}

const FIELDS: [Column; 4] = [("email", "/email"), ("role", "/role"), ("name", "/name"), ("user", "/user")];

/// Runs it.
pub fn run(args: &Args, environment: &Environment) -> Result<()> {
    let mut api = Api::open_in_org(&args.global, &args.org, environment)?;
    match &args.verb {
        Verb::List => {
            let found = api.list(&api.path(&["administrators"]), &[])?;
            api.show_list(&FIELDS, found, "Nobody administers it.")
        }
        Verb::Add { email, role } => {
            let fields = Fields::new().with("email", Some(email.clone())).with("role", Some(role.clone()));
            let added = api.post(&api.path(&["administrators"]), fields)?;
            api.show(&FIELDS, &added)
        }
        Verb::Change { user, role } => {
            let id = id(&mut api, user)?;
            let fields = Fields::new().with("role", Some(role.clone()));
            let changed = api.patch(&api.path(&["administrators", &id]), fields)?;
            api.show(&FIELDS, &changed)
        }
        Verb::Remove { user } => {
            let id = id(&mut api, user)?;
            api.delete(&api.path(&["administrators", &id]))?;
            api.message(&format!("{user} administers it no more."));
            Ok(())
        }
    }
}

/// Administrators are users of the platform, so they are not found among the organization's own.
fn id(api: &mut Api, named: &str) -> Result<String> {
    if !named.contains('@') {
        return Ok(named.to_owned());
    }
    let all = api.list(&api.path(&["administrators"]), &[])?;
    let has_address = |someone: &&Value| {
        someone.get("email").and_then(Value::as_str).is_some_and(|email| email.eq_ignore_ascii_case(named))
    };
    let id = all.iter().find(has_address).and_then(|someone| someone.get("user")).and_then(Value::as_str);
    id.map(str::to_owned).ok_or_else(|| Error::failed(format!("{named} does not administer it")))
}
