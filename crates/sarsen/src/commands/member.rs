//! `sarsen member`: the administrators of an organization, their roles, and invitations of new ones. The API calls them
//! administrators.

use super::api::{Api, Fields, GlobalArgs, OrgArgs};
use super::departure;
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::output::{Cell, Field, Record, Time, column, detail};
use serde::Deserialize;

/// The administrators of an organization.
#[derive(clap::Args)]
#[command(after_help = "Example:  sarsen member invite grace@example.com --role admin --org acme\n\
                  \n\
                  Pass the link on yourself: it is shown once and valid for 7 days. It gives the role to an account with\n\
                  that e-mail address.\n\
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
    /// Create a link with which a person becomes an administrator
    Invite {
        /// E-mail address of the person's account
        email: String,
        /// owner, admin or member
        #[arg(long, default_value = "member")]
        role: String,
    },
    /// List the open invitations
    Invitations,
    /// Revoke an open invitation
    Revoke {
        /// E-mail address or id of the invitation
        invitation: String,
    },
    /// Change the role of an administrator
    Change {
        /// E-mail address or id
        user: String,
        /// owner, admin or member
        #[arg(long)]
        role: String,
    },
    /// Remove an administrator, and list the API keys, client secrets and open invitations that they made
    Remove {
        /// E-mail address or id
        user: String,
        /// Revoke these as well; also after the administrator was removed, by their id
        #[arg(long)]
        revoke_made: bool,
    },
}

#[derive(Deserialize)]
pub(super) struct Member {
    user: String,
    email: String,
    name: String,
    role: String,
}

impl Record for Member {
    fn fields(&self) -> Vec<Field> {
        vec![
            column("email", Cell::address(&self.email)),
            column("role", &self.role),
            column("name", &self.name),
            column("user", Cell::id(&self.user)),
        ]
    }
}

/// An invitation that nobody has accepted yet.
#[derive(Deserialize)]
pub(super) struct Open {
    id: String,
    email: String,
    role: String,
    expires_at: Time,
}

impl Record for Open {
    fn fields(&self) -> Vec<Field> {
        vec![
            column("email", Cell::address(&self.email)),
            column("role", &self.role),
            column("expires", &self.expires_at),
            column("invitation", Cell::id(&self.id)),
        ]
    }
}

/// A new invitation, with its link.
#[derive(Deserialize)]
pub(super) struct Invited {
    email: String,
    role: String,
    /// Missing in the answer to a request that was sent again.
    pub(super) url: Option<String>,
    expires_at: Time,
}

/// What to do when the link of an invitation was lost.
pub(super) const LOST_INVITATION: &str = "invite the address again";

impl Record for Invited {
    fn fields(&self) -> Vec<Field> {
        vec![
            column("email", Cell::address(&self.email)),
            column("role", &self.role),
            column("link", Cell::optional(self.url.as_ref())),
            detail("expires", &self.expires_at),
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
        Verb::Invite { email, role } => {
            let fields = Fields::new().with("email", Some(email.clone())).with("role", Some(role.clone()));
            let invited = api.post::<Invited>(&api.path(&["invitations"]), fields)?;
            api.show_once(&invited, ("link", LOST_INVITATION), |invited| invited.url.as_ref())
        }
        Verb::Invitations => {
            let found = api.list::<Open>(&api.path(&["invitations"]), &[])?;
            api.show_list(&found, "No open invitations.")
        }
        Verb::Revoke { invitation } => {
            let id = invitation_id(&mut api, invitation)?;
            api.delete(&api.path(&["invitations", &id]))?;
            api.confirm(&format!("The invitation of {invitation} is revoked."));
            Ok(())
        }
        Verb::Change { user, role } => {
            let id = id(&mut api, user)?;
            let fields = Fields::new().with("role", Some(role.clone()));
            let changed = api.patch::<Member>(&api.path(&["administrators", &id]), fields)?;
            api.show(&changed)
        }
        Verb::Remove { user, revoke_made } => {
            let id = id(&mut api, user)?;
            let path = api.path(&["administrators", &id]);
            let again = format!("sarsen member remove {id} --revoke-made --org {}", api.org_slug());
            departure::remove(&mut api, &path, *revoke_made, &again)?;
            api.confirm(&format!("{user} no longer administers {}.", api.org_slug()));
            Ok(())
        }
    }
}

/// The id of an open invitation, from the id or the e-mail address.
fn invitation_id(api: &mut Api, invitation: &str) -> Result<String> {
    if !invitation.contains('@') {
        return Ok(invitation.to_owned());
    }
    let all = api.list::<Open>(&api.path(&["invitations"]), &[])?.read()?;
    let found = all.into_iter().find(|open| text::mail::is_same(&open.email, invitation));
    let missing = || Error::failed(format!("there is no open invitation of {invitation}"));
    found.map(|open| open.id).ok_or_else(missing)
}

/// Administrators are users of the platform, so the list of the organization's own users does not have them.
fn id(api: &mut Api, user: &str) -> Result<String> {
    if !user.contains('@') {
        return Ok(user.to_owned());
    }
    let all = api.list::<Member>(&api.path(&["administrators"]), &[])?.read()?;
    let found = all.into_iter().find(|member| text::mail::is_same(&member.email, user));
    let missing = || Error::failed(format!("{user} does not administer {}", api.org_slug()));
    found.map(|member| member.user).ok_or_else(missing)
}
