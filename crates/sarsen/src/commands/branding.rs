//! `sarsen branding`: what the pages of an organization show beside its name.

use super::api::{Api, Fields, GlobalArgs, OrgArgs};
use crate::environment::Environment;
use crate::error::Result;
use crate::output::{Field, Record, column};
use serde::Deserialize;

/// Branding: what the sign-in and other pages of an organization show.
#[derive(clap::Args)]
#[command(
    after_help = "Example:  sarsen branding change --contact \"help@acme.example, room 12\" --org acme"
)]
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
    /// Show what the pages show
    Show,
    /// Change what the pages show
    Change {
        /// Whom users ask for help, such as an address or a room: plain text of at most 200 characters; "" removes it
        #[arg(long, value_name = "TEXT")]
        contact: String,
    },
}

#[derive(Deserialize)]
pub(super) struct Branding {
    contact: String,
}

impl Record for Branding {
    fn fields(&self) -> Vec<Field> {
        vec![column("contact", if self.contact.is_empty() { "-" } else { &self.contact })]
    }
}

/// Runs it.
pub fn run(args: &Args, environment: &Environment) -> Result<()> {
    let mut api = Api::open_in_org(&args.global, &args.org, environment)?;
    let path = api.path(&["branding"]);
    match &args.verb {
        Verb::Show => {
            let found = api.get::<Branding>(&path)?;
            api.show(&found)
        }
        Verb::Change { contact } => {
            let fields = Fields::new().with("contact", Some(contact.clone()));
            let changed = api.put::<Branding>(&path, fields)?;
            api.show(&changed)
        }
    }
}
