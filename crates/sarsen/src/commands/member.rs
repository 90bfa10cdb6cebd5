//! `sarsen member`: the administrators of an organization and their roles. The API calls them administrators.

use super::api::{Api, Fields, GlobalArgs, OrgArgs};
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::output::{Cell, Field, Record, column};
use serde::Deserialize;

/// The administrators of an organization.
#[derive(clap::Args)]
#[command(after_help = "Example:  sarsen member add grace@example.com --role admin --org acme\n\
                  \n\
                  Roles: member (read), admin (read and change), owner (also changes roles).")]
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
    /// List the administrators
    List,
    /// Add an administrator, who has signed up on the server's own pages before
    Add {
        /// E-mail address
        email: String,
        /// owner, admin or member
        #[arg(long, default_value = "member")]
        role: String,
    },
    /// Change the role of an administrator
    Change {
        /// E-mail address or id
        user: String,
        /// owner, admin or member
        #[arg(long)]
        role: String,
    },
    /// Remove an administrator
    Remove {
        /// E-mail address or id
        user: String,
    },
}

#[derive(Deserialize)]
struct Member {
    user: String,
    email: String,
    name: String,
    role: String,
}

impl Record for Member {
    fn fields(&self) -> Vec<Field> {
        vec![
            column("email", &self.email),
            column("role", &self.role),
            column("name", &self.name),
            column("user", Cell::id(&self.user)),
        ]
    }
}

/// Runs it.
pub fn run(args: &Args, environment: &Environment) -> Result<()> {
    let mut api = Api::open_in_org(&args.global, &args.org, environment)?;
    match &args.verb {
        Verb::List => {
            let found = api.list::<Member>(&api.path(&["administrators"]), &[])?;
            api.show_list(&found, "No administrators.")
        }
        Verb::Add { email, role } => {
            let fields = Fields::new().with("email", Some(email.clone())).with("role", Some(role.clone()));
            let added = api.post::<Member>(&api.path(&["administrators"]), fields)?;
            api.show(&added)
        }
        Verb::Change { user, role } => {
            let id = id(&mut api, user)?;
            let fields = Fields::new().with("role", Some(role.clone()));
            let changed = api.patch::<Member>(&api.path(&["administrators", &id]), fields)?;
            api.show(&changed)
        }
        Verb::Remove { user } => {
            let id = id(&mut api, user)?;
            api.delete(&api.path(&["administrators", &id]))?;
            api.confirm(&format!("{user} no longer administers {}.", api.org_slug()));
            Ok(())
        }
    }
}

/// Administrators are users of the platform, so the list of the organization's own users does not have them.
fn id(api: &mut Api, user: &str) -> Result<String> {
    if !user.contains('@') {
        return Ok(user.to_owned());
    }
    let all = api.list::<Member>(&api.path(&["administrators"]), &[])?.read()?;
    let found = all.into_iter().find(|member| member.email.eq_ignore_ascii_case(user));
    let missing = || Error::failed(format!("{user} does not administer {}", api.org_slug()));
    found.map(|member| member.user).ok_or_else(missing)
}
