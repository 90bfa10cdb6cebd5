//! The verbs of `sarsen owner` that call the API: who owns the server, invitations, and removal.

use super::api::{Api, Fields, GlobalArgs};
use super::departure;
use super::member::{Invited, LOST_INVITATION};
use crate::api_client;
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::output::{Cell, Field, Record, Time, column};
use serde::Deserialize;

/// What an owner of the server does from any terminal.
#[derive(clap::Subcommand)]
pub enum Verb {
    /// List the owners of the server
    List {
        #[command(flatten)]
        global: GlobalArgs,
    },
    /// Create a link with which a person becomes an owner of the server
    Invite {
        /// E-mail address of the person's account
        email: String,
        #[command(flatten)]
        global: GlobalArgs,
    },
    /// Remove an owner of the server, and list what they made in the organization platform; the last one stays
    Remove {
        /// E-mail address or id
        user: String,
        /// Revoke that as well; also after the owner was removed, by their id
        #[arg(long)]
        revoke_made: bool,
        #[command(flatten)]
        global: GlobalArgs,
    },
}

#[derive(Deserialize)]
pub(super) struct Owner {
    user: String,
    email: String,
    name: String,
    created_at: Time,
}

impl Record for Owner {
    fn fields(&self) -> Vec<Field> {
        vec![
            column("email", Cell::address(&self.email)),
            column("name", &self.name),
            column("since", &self.created_at),
            column("user", Cell::id(&self.user)),
        ]
    }
}

const OWNERS: &str = "/api/platform/owners";

/// Runs it.
pub fn run(verb: &Verb, environment: &Environment) -> Result<()> {
    let (Verb::List { global } | Verb::Invite { global, .. } | Verb::Remove { global, .. }) = verb;
    let mut api = Api::open(global, environment)?;
    match verb {
        Verb::List { .. } => {
            let found = api.list::<Owner>(OWNERS, &[])?;
            api.show_list(&found, "No owners.")
        }
        Verb::Invite { email, .. } => {
            let invited = api.post::<Invited>(OWNERS, Fields::new().with("email", Some(email.clone())))?;
            api.show_once(&invited, ("link", LOST_INVITATION), |invited| invited.url.as_ref())
        }
        Verb::Remove { user, revoke_made, .. } => {
            let id = id(&mut api, user)?;
            let path = format!("{OWNERS}/{}", api_client::segment(&id));
            let again = format!("sarsen owner remove {id} --revoke-made");
            departure::remove(&mut api, &path, *revoke_made, &again)?;
            api.confirm(&format!("{user} no longer owns the server."));
            Ok(())
        }
    }
}

fn id(api: &mut Api, user: &str) -> Result<String> {
    if !user.contains('@') {
        return Ok(user.to_owned());
    }
    let all = api.list::<Owner>(OWNERS, &[])?.read()?;
    let found = all.into_iter().find(|owner| text::mail::is_same(&owner.email, user));
    let missing = || Error::failed(format!("{user} does not own the server"));
    found.map(|owner| owner.user).ok_or_else(missing)
}
