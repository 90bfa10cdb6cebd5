//! `sarsen user`: the accounts of an organization, where they are signed in, and links that let them in.

use super::api::{Api, Fields, GlobalArgs, OrgArgs};
use crate::environment::Environment;
use crate::error::Result;
use crate::output::Column;

/// Users: the accounts of an organization. A user is named by e-mail address or id.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n\
                  \x20   sarsen user create ada@example.com --name Ada --org acme\n\
                  \x20   sarsen user link ada@example.com --org acme")]
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
    /// Make an account without a password; `user link` lets its owner in
    Create {
        /// E-mail address
        email: String,
        /// Name for people
        #[arg(long)]
        name: Option<String>,
        /// You know that the address is theirs
        #[arg(long)]
        verified: bool,
    },
    /// List the accounts
    List {
        /// Of this e-mail address only
        #[arg(long)]
        email: Option<String>,
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
        /// New name for people
        #[arg(long)]
        name: Option<String>,
    },
    /// Stop an account: all of its sign-ins end now
    Suspend {
        /// E-mail address or id
        user: String,
        /// Why; kept in the audit trail
        #[arg(long)]
        reason: Option<String>,
    },
    /// Let a suspended account go on
    Activate {
        /// E-mail address or id
        user: String,
    },
    /// List where somebody is signed in
    Sessions {
        /// E-mail address or id
        user: String,
        /// End them all instead
        #[arg(long)]
        end: bool,
    },
    /// Make a link that signs somebody in once
    Link {
        /// E-mail address or id
        user: String,
    },
}

const COLUMNS: [Column; 4] =
    [("email", "/email"), ("name", "/name"), ("suspended", "/suspended_at"), ("id", "/id")];
const FIELDS: [Column; 7] = [
    ("email", "/email"),
    ("verified", "/email_verified"),
    ("name", "/name"),
    ("id", "/id"),
    ("suspended", "/suspended_at"),
    ("last seen", "/last_seen_at"),
    ("created", "/created_at"),
];
const SESSION_COLUMNS: [Column; 5] = [
    ("kind", "/kind"),
    ("address", "/address"),
    ("since", "/created_at"),
    ("until", "/expires_at"),
    ("says it is", "/agent"),
];
const LINK_FIELDS: [Column; 2] = [("link", "/url"), ("good until", "/expires_at")];

/// Runs it.
pub fn run(args: &Args, environment: &Environment) -> Result<()> {
    let mut api = Api::open_in_org(&args.global, &args.org, environment)?;
    match &args.verb {
        Verb::Create { email, name, verified } => {
            let fields = Fields::new().with("email", Some(email.clone())).with("name", name.clone());
            let made =
                api.post(&api.path(&["users"]), fields.with("email_verified", verified.then_some(true)))?;
            api.show(&FIELDS, &made)
        }
        Verb::List { email } => {
            let query: Vec<(&str, &str)> = email.iter().map(|email| ("email", email.as_str())).collect();
            let found = api.list(&api.path(&["users"]), &query)?;
            api.show_list(&COLUMNS, found, "No users.")
        }
        Verb::Show { user } => {
            let path = api.user_path(user, &[])?;
            let found = api.get(&path)?;
            api.show(&FIELDS, &found)
        }
        Verb::Change { user, name } => {
            let path = api.user_path(user, &[])?;
            let changed = api.patch(&path, Fields::new().with("name", name.clone()))?;
            api.show(&FIELDS, &changed)
        }
        Verb::Suspend { user, reason } => {
            let path = api.user_path(user, &["suspension"])?;
            let suspended = api.put(&path, Fields::new().with("reason", reason.clone()))?;
            api.show(&FIELDS, &suspended)
        }
        Verb::Activate { user } => {
            let path = api.user_path(user, &["suspension"])?;
            api.delete(&path)?;
            api.message(&format!("{user} goes on."));
            Ok(())
        }
        Verb::Sessions { user, end } => sessions(&mut api, user, *end),
        Verb::Link { user } => {
            let path = api.user_path(user, &["sign_in_link"])?;
            let made = api.post_nothing(&path)?;
            api.show(&LINK_FIELDS, &made)
        }
    }
}

fn sessions(api: &mut Api, user: &str, end: bool) -> Result<()> {
    let path = api.user_path(user, &["sessions"])?;
    if end {
        api.delete(&path)?;
        api.message(&format!("{user} is signed out everywhere."));
        return Ok(());
    }
    let found = api.list(&path, &[])?;
    api.show_list(&SESSION_COLUMNS, found, "Signed in nowhere.")
}
