//! `sarsen user`: the accounts of an organization, their sessions, and one-time links.

use super::api::{Api, Fields, GlobalArgs, Nullable, OrgArgs, given};
use crate::environment::Environment;
use crate::error::Result;
use crate::output::{self, Cell, Field, Record, Time, column, detail};
use serde::{Deserialize, Serialize};

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
    Create {
        /// E-mail address
        email: String,
        /// Display name
        #[arg(long)]
        name: Option<String>,
        /// Mark the e-mail address as verified
        #[arg(long)]
        verified: bool,
        /// Create a link as well with which the user sets a password within seven days
        #[arg(long)]
        password_link: bool,
    },
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
        profile: ProfileArgs,
    },
    /// Suspend an account and end all of its sessions
    Suspend {
        /// E-mail address or id
        user: String,
        /// Reason for the audit trail
        #[arg(long)]
        reason: Option<String>,
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

/// What an administrator changes of an account.
#[derive(clap::Args, Serialize)]
struct ProfileArgs {
    /// New display name
    #[arg(long)]
    name: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct User {
    id: String,
    email: String,
    email_verified: bool,
    name: String,
    suspended_at: Nullable<Time>,
    /// Only in the answer to a request for one user.
    last_seen_at: Option<Time>,
    created_at: Time,
    /// Only in the answer to a request that creates a user with a link.
    password_link: Option<Link>,
}

impl Record for User {
    fn fields(&self) -> Vec<Field> {
        let mut fields = vec![
            column("email", Cell::address(&self.email)),
            detail("verified", self.email_verified),
            column("name", &self.name),
            column("suspended", Cell::nullable(self.suspended_at.0.as_ref())),
            detail("last seen", Cell::optional(self.last_seen_at.as_ref())),
            detail("created", &self.created_at),
            column("id", Cell::id(&self.id)),
        ];
        if let Some(link) = &self.password_link {
            fields.push(detail("password link", Cell::optional(link.url.as_ref())));
            fields.push(detail("link expires", &link.expires_at));
        }
        fields
    }
}

#[derive(Deserialize)]
pub(super) struct Session {
    id: String,
    kind: String,
    address: String,
    agent: String,
    created_at: Time,
    expires_at: Time,
}

impl Record for Session {
    fn fields(&self) -> Vec<Field> {
        vec![
            column("kind", &self.kind),
            column("address", &self.address),
            column("created", &self.created_at),
            column("expires", &self.expires_at),
            column("user agent", &self.agent),
            column("id", Cell::id(&self.id)),
        ]
    }
}

#[derive(Deserialize)]
pub(super) struct Link {
    /// Missing in the answer to a request that was sent again.
    url: Option<String>,
    expires_at: Time,
}

impl Record for Link {
    fn fields(&self) -> Vec<Field> {
        vec![column("link", Cell::optional(self.url.as_ref())), column("expires", &self.expires_at)]
    }
}

/// Runs it.
pub fn run(args: &Args, environment: &Environment) -> Result<()> {
    let mut api = Api::open_in_org(&args.global, &args.org, environment)?;
    match &args.verb {
        Verb::Create { email, name, verified, password_link } => {
            let fields = Fields::new().with("email", Some(email.clone())).with("name", name.clone());
            let fields = fields.with("email_verified", verified.then_some(true));
            let fields = fields.with("password_link", password_link.then_some(true));
            let created = api.post::<User>(&api.path(&["users"]), fields)?;
            if *password_link {
                let advice = format!("run sarsen user password-link {email} for another");
                return api.show_once(&created, ("link", &advice), |user| {
                    user.password_link.as_ref()?.url.as_ref()
                });
            }
            api.show(&created)?;
            api.confirm(&format!(
                "The account has no password yet. sarsen user password-link {email} creates a link to set one."
            ));
            Ok(())
        }
        Verb::List { email, search, sort } => {
            let query = given(&[("email", email), ("q", search), ("sort", sort)]);
            let found = api.list::<User>(&api.path(&["users"]), &query)?;
            api.show_list(&found, "No users.")
        }
        Verb::Show { user } => show(&mut api, user),
        Verb::Change { user, profile } => {
            let path = api.user_path(user, &[])?;
            let changed = api.patch::<User>(&path, Fields::of(profile))?;
            api.show(&changed)
        }
        Verb::Suspend { user, reason } => {
            let path = api.user_path(user, &["suspension"])?;
            let suspended = api.put::<User>(&path, Fields::new().with("reason", reason.clone()))?;
            api.show(&suspended)
        }
        Verb::Activate { user } => {
            let path = api.user_path(user, &["suspension"])?;
            api.delete(&path)?;
            match api.user_path(user, &[]).and_then(|path| api.get::<User>(&path)) {
                Ok(activated) => output::after_change(api.show(&activated)),
                Err(_) => {
                    api.confirm(&format!("{user} is active again."));
                    Ok(())
                }
            }
        }
        Verb::Delete { user } => {
            let path = api.user_path(user, &[])?;
            api.delete(&path)?;
            api.confirm(&format!("{user} is deleted. Backups keep the data until they are deleted."));
            Ok(())
        }
        Verb::Sessions { user, end, end_one } => sessions(&mut api, user, *end, end_one.as_deref()),
        Verb::Link { user } => link(&mut api, user, "sign-in-link"),
        Verb::PasswordLink { user } => link(&mut api, user, "password-link"),
    }
}

fn show(api: &mut Api, user: &str) -> Result<()> {
    let path = api.user_path(user, &[])?;
    let found = api.get::<User>(&path)?;
    api.show(&found)
}

fn link(api: &mut Api, user: &str, what: &str) -> Result<()> {
    let path = api.user_path(user, &[what])?;
    let created = api.post_empty::<Link>(&path)?;
    api.show_once(&created, ("link", "repeat the command"), |link| link.url.as_ref())
}

fn sessions(api: &mut Api, user: &str, end: bool, end_one: Option<&str>) -> Result<()> {
    if let Some(id) = end_one {
        let path = api.user_path(user, &["sessions", id])?;
        api.delete(&path)?;
        api.confirm(&format!("The session of {user} has ended."));
        return Ok(());
    }
    let path = api.user_path(user, &["sessions"])?;
    if end {
        api.delete(&path)?;
        api.confirm(&format!("All sessions of {user} have ended."));
        return Ok(());
    }
    let found = api.list::<Session>(&path, &[])?;
    api.show_list(&found, "No active sessions.")
}
