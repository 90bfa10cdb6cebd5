//! `sarsen member`: those who administer an organization, in which role. The API calls them administrators.

use super::admin::{Admin, Asked, Fields, InOrg};
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
    org: InOrg,
    #[command(flatten)]
    asked: Asked,
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
    let mut admin = Admin::open_in(&args.asked, &args.org, environment)?;
    match &args.verb {
        Verb::List => {
            let found = admin.list(&admin.path(&["administrators"]), &[])?;
            admin.show_list(&FIELDS, found, "Nobody administers it.")
        }
        Verb::Add { email, role } => {
            let fields = Fields::new().with("email", Some(email.clone())).with("role", Some(role.clone()));
            let added = admin.post(&admin.path(&["administrators"]), fields)?;
            admin.show(&FIELDS, &added)
        }
        Verb::Change { user, role } => {
            let id = id(&mut admin, user)?;
            let fields = Fields::new().with("role", Some(role.clone()));
            let changed = admin.patch(&admin.path(&["administrators", &id]), fields)?;
            admin.show(&FIELDS, &changed)
        }
        Verb::Remove { user } => {
            let id = id(&mut admin, user)?;
            admin.delete(&admin.path(&["administrators", &id]))?;
            admin.say(&format!("{user} administers it no more."));
            Ok(())
        }
    }
}

/// Administrators are users of the platform, so they are not found among the organization's own.
fn id(admin: &mut Admin, named: &str) -> Result<String> {
    if !named.contains('@') {
        return Ok(named.to_owned());
    }
    let all = admin.list(&admin.path(&["administrators"]), &[])?;
    let has_address = |someone: &&Value| {
        someone.get("email").and_then(Value::as_str).is_some_and(|email| email.eq_ignore_ascii_case(named))
    };
    let id = all.iter().find(has_address).and_then(|someone| someone.get("user")).and_then(Value::as_str);
    id.map(str::to_owned).ok_or_else(|| Error::failed(format!("{named} does not administer it")))
}
