//! `sarsen owner`: the owners of the server, and a way back for one who has lost the password.
//!
//! `server_owners.rs` has the verbs that call the API. `recover` works on the server's machine. A running server on SQLite makes the link itself, asked over the control socket;
//! otherwise this process opens the database.

use super::server_owners;
use crate::config::{Config, Flags};
use crate::context::Context;
use crate::control::{self, Answer, Request};
use crate::error::{Error, Result};
use crate::output::{self, Cell, Field, Record, Time, column};
use crate::secret_key;
use crate::server_process;
use serde::Deserialize;
use serde_json::{Value, json};
use server::App;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

/// The time in which a running server answers.
const WAIT: Duration = Duration::from_secs(60);

/// Owners of the server: they review organizations and invite each other.
#[derive(clap::Args)]
#[command(after_help = "Example:  sarsen owner invite grace@example.com\n\
                  \n\
                  Pass the link on yourself: it is shown once and valid for 7 days. List and revoke invitations with\n\
                  sarsen member invitations and sarsen member revoke, both with --org platform.")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    #[command(flatten)]
    Api(server_owners::Verb),
    /// Create a link that sets the password of an owner; on the server's machine, whether the server runs or not
    #[command(after_help = "The link works once, for one hour. A suspension of the owner ends.\n\
                            The audit trail of the organization platform says who asked for it.\n\
                            \n\
                            Example:  sudo -u sarsen sarsen owner recover --config /var/lib/sarsen/sarsen.toml --email olga@example.com")]
    Recover(Box<Recover>),
}

#[derive(clap::Args)]
struct Recover {
    /// E-mail address of the owner
    #[arg(long, help_heading = None::<&str>)]
    email: String,
    /// Print JSON
    #[arg(long, help_heading = None::<&str>)]
    json: bool,
    #[command(flatten)]
    flags: Flags,
}

#[derive(Deserialize)]
struct Link {
    email: String,
    url: String,
    expires_at: Time,
}

impl Record for Link {
    fn fields(&self) -> Vec<Field> {
        vec![
            column("owner", Cell::address(&self.email)),
            column("link", &self.url),
            column("expires", &self.expires_at),
        ]
    }
}

/// Runs it.
pub fn run(args: &Args, context: &Context) -> Result<()> {
    let recover = match &args.verb {
        Verb::Api(verb) => return server_owners::run(verb, &context.environment),
        Verb::Recover(recover) => recover,
    };
    let config = Config::load(&recover.flags, &context.environment)?;
    let link = server_process::runtime()?.block_on(link(recover, &config, context))?;
    if recover.json {
        return output::print_json(&link);
    }
    let unreadable = |error| Error::failed(format!("the server's answer cannot be read: {error}"));
    output::print_record(&serde_json::from_value::<Link>(link).map_err(unreadable)?)
}

async fn link(recover: &Recover, config: &Config, context: &Context) -> Result<Value> {
    let database = &config.database.value;
    if let Some(file) = database.path() {
        let owner = owner_of(file)?;
        let request = Request::RecoverOwner { email: recover.email.clone() };
        match control::ask(&control::path_beside(file), owner, &request, WAIT).await? {
            Some(Answer::Done(link)) => return Ok(link),
            Some(Answer::Refused(text)) => return Err(Error::Failed(text)),
            None => require_owner(file, owner)?,
        }
    }
    let (database, options) = (database.clone(), config.store_options(context.writer_limits.clone()));
    server_process::keep_files_private();
    let key = secret_key::read(config)?;
    let of_app = key.clone();
    let open = move || server_process::open_store_of(&database, options, &key);
    let store = tokio::task::spawn_blocking(open).await;
    let store = store.map_err(|error| Error::failed(format!("cannot open the database: {error}")))??;
    let app = server_process::app(store.clone(), config.settings(&config.listen.value), of_app, None)?;
    let made = answer(&app, &recover.email, rustix::process::geteuid().as_raw(), "in the database").await;
    tokio::task::spawn_blocking(move || store.close())
        .await
        .map_err(|error| Error::failed(format!("cannot close the database: {error}")))?;
    made
}

/// Makes the link, as JSON.
pub async fn answer(app: &App, email: &str, uid: u32, how: &str) -> Result<Value> {
    let made = server::owner_recovery::link(app, email, &format!("user {uid} of the machine, {how}")).await;
    let made = made.map_err(|error| Error::failed(error.to_string()))?;
    let expires_at = server::rfc3339(made.expires_at);
    Ok(json!({ "email": made.email, "url": made.url, "expires_at": expires_at }))
}

fn owner_of(file: &Path) -> Result<u32> {
    // Opening would create a database that is not there.
    std::fs::metadata(file).map(|found| found.uid()).map_err(Error::file("find the database", file))
}

/// SQLite creates files beside the database. They would belong to this user, and the server could not open them.
fn require_owner(file: &Path, owner: u32) -> Result<()> {
    if rustix::process::geteuid().as_raw() == owner {
        return Ok(());
    }
    Err(Error::failed(format!(
        "{} belongs to another user (number {owner}) and no server is running; run the command as that user, such as \
         sudo -u '#{owner}' sarsen owner recover …",
        file.display()
    )))
}
