//! `sarsen user`: the accounts of an organization, their sessions, and one-time links.

use super::api::{Answer, Api, GlobalArgs, OrgArgs};
use crate::environment::Environment;
use crate::error::Result;
use crate::output::{self, Cell, Field, Record, column, detail};
use ::api::Pages;
use ::api::users::*;

/// Users: the accounts of an organization. Name a user by e-mail address or id.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n\
                  \x20   sarsen user create ada@example.com --name Ada --password-link --org acme\n\
                  \x20   sarsen user list --search ada --org acme\n\
                  \x20   sarsen user password-link ada@example.com --org acme")]
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
    /// Create an account without a password; the user sets one with a link from `user password-link`
    Create(NewUser),
    /// List the accounts
    List {
        /// Only the account with this e-mail address
        #[arg(long, conflicts_with = "search")]
        email: Option<String>,
        /// Only accounts whose e-mail address, name or part of the name begins with this text
        #[arg(long, value_name = "TEXT", conflicts_with = "sort")]
        search: Option<String>,
        /// Order: created_at, -created_at (newest first) or email
        #[arg(long, value_name = "ORDER", allow_hyphen_values = true)]
        sort: Option<String>,
    },
    /// Show an account
    Show {
        /// E-mail address or id
        user: String,
    },
    /// Change an account
    Change {
        /// E-mail address or id
        user: String,
        #[command(flatten)]
        change: UserChange,
    },
    /// Suspend an account and end all of its sessions
    Suspend {
        /// E-mail address or id
        user: String,
        #[command(flatten)]
        suspension: UserSuspension,
    },
    /// Activate a suspended account
    Activate {
        /// E-mail address or id
        user: String,
    },
    /// Delete an account: subscriptions end, and names, addresses and e-mails are blanked
    #[command(
        after_help = "It cannot be undone. Ids stay in the audit trail. Backups keep the data until they are deleted."
    )]
    Delete {
        /// E-mail address or id
        user: String,
    },
    /// List the sessions of a user
    Sessions {
        /// E-mail address or id
        user: String,
        /// End all of them instead
        #[arg(long)]
        end: bool,
        /// End the session with this id instead
        #[arg(long, value_name = "ID", conflicts_with = "end")]
        end_one: Option<String>,
    },
    /// Create a link that signs a user in once
    Link {
        /// E-mail address or id
        user: String,
    },
    /// Create a link with which a user sets a password once: within a day, or within seven if they have none yet
    PasswordLink {
        /// E-mail address or id
        user: String,
    },
}

fn fields(User { account, suspended_at }: &User, last_seen_at: Option<&String>) -> Vec<Field> {
    vec![
        column("email", Cell::address(&account.email)),
        detail("verified", account.email_verified),
        column("name", &account.name),
        column("suspended", Cell::nullable(suspended_at.as_deref().map(Cell::time))),
        detail("last seen", Cell::optional(last_seen_at.map(|time| Cell::time(time)))),
        detail("created", Cell::time(&account.created_at)),
        column("id", Cell::id(&account.id)),
    ]
}

impl Record for User {
    fn fields(&self) -> Vec<Field> {
        fields(self, None)
    }
}

impl Record for UserDetail {
    fn fields(&self) -> Vec<Field> {
        fields(&self.user, self.last_seen_at.as_ref())
    }
}

impl Record for CreatedUser {
    fn fields(&self) -> Vec<Field> {
        let mut fields = fields(&self.user, None);
        if let Some(link) = &self.password_link {
            fields.push(detail("password link", Cell::optional(link.url.as_ref())));
            fields.push(detail("link expires", Cell::time(&link.expires_at)));
        }
        fields
    }
}

impl Record for Session {
    fn fields(&self) -> Vec<Field> {
        vec![
            column("kind", &self.kind),
            column("address", &self.address),
            column("created", Cell::time(&self.created_at)),
            column("expires", Cell::time(&self.expires_at)),
            column("user agent", &self.agent),
            column("id", Cell::id(&self.id)),
        ]
    }
}

impl Record for OneTimeLink {
    fn fields(&self) -> Vec<Field> {
        vec![
            column("link", Cell::optional(self.url.as_ref())),
            column("expires", Cell::time(&self.expires_at)),
        ]
    }
}

/// Runs it.
pub fn run(args: &Args, environment: &Environment) -> Result<()> {
    let mut api = Api::open_in_org(&args.global, &args.org, environment)?;
    match &args.verb {
        Verb::Create(new) => create(&mut api, new),
        Verb::List { email, search, sort } => {
            let (email, q, sort) = (email.clone(), search.clone(), sort.clone());
            let filter = UserFilter { email, q, sort, ..UserFilter::default() };
            let found = api.list_of(ListUsers, &[], &filter)?;
            api.show_list(&found, "No users.")
        }
        Verb::Show { user } => show(&mut api, user),
        Verb::Change { user, change } => {
            let id = api.user_id(user)?;
            let changed = api.call(ChangeUser, &[&id], change)?;
            api.show(&changed)
        }
        Verb::Suspend { user, suspension } => {
            let id = api.user_id(user)?;
            let suspended = api.call(SuspendUser, &[&id], suspension)?;
            api.show(&suspended)
        }
        Verb::Activate { user } => {
            let id = api.user_id(user)?;
            api.call(ActivateUser, &[&id], &())?;
            match api.call(GetUser, &[&id], &()) {
                Ok(activated) => output::after_change(api.show(&activated)),
                Err(_) => {
                    api.confirm(&format!("{user} is active again."));
                    Ok(())
                }
            }
        }
        Verb::Delete { user } => {
            let id = api.user_id(user)?;
            api.call(DeleteUser, &[&id], &())?;
            api.confirm(&format!("{user} is deleted. Backups keep the data until they are deleted."));
            Ok(())
        }
        Verb::Sessions { user, end, end_one } => sessions(&mut api, user, *end, end_one.as_deref()),
        Verb::Link { user } => {
            let id = api.user_id(user)?;
            let created = api.call(CreateSignInLink, &[&id], &())?;
            show_link(&api, &created)
        }
        Verb::PasswordLink { user } => {
            let id = api.user_id(user)?;
            let created = api.call(CreatePasswordLink, &[&id], &())?;
            show_link(&api, &created)
        }
    }
}

fn create(api: &mut Api, new: &NewUser) -> Result<()> {
    let created = api.call(CreateUser, &[], new)?;
    let email = &new.email;
    if new.password_link {
        let advice = format!("run sarsen user password-link {email} for another");
        return api.show_once(&created, ("link", &advice), |user| user.password_link.as_ref()?.url.as_ref());
    }
    api.show(&created)?;
    api.confirm(&format!(
        "The account has no password yet. sarsen user password-link {email} creates a link to set one."
    ));
    Ok(())
}

fn show(api: &mut Api, user: &str) -> Result<()> {
    let id = api.user_id(user)?;
    let found = api.call(GetUser, &[&id], &())?;
    api.show(&found)
}

fn show_link(api: &Api, created: &Answer<OneTimeLink>) -> Result<()> {
    api.show_once(created, ("link", "repeat the command"), |link| link.url.as_ref())
}

fn sessions(api: &mut Api, user: &str, end: bool, end_one: Option<&str>) -> Result<()> {
    let id = api.user_id(user)?;
    if let Some(session) = end_one {
        api.call(EndSession, &[&id, session], &())?;
        api.confirm(&format!("The session of {user} has ended."));
        return Ok(());
    }
    if end {
        api.call(EndSessions, &[&id], &())?;
        api.confirm(&format!("All sessions of {user} have ended."));
        return Ok(());
    }
    let found = api.list_of(ListSessions, &[&id], &Pages::default())?;
    api.show_list(&found, "No active sessions.")
}
