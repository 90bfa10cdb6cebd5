//! `sarsen restore`: puts a checked backup in the place of the database. `rehearsal.rs`: tries it in another folder.

mod rehearsal;

use super::check::{self, Keys, Verdict};
use crate::api_client;
use crate::commands::backup::tools_of;
use crate::config::{Config, ConfigFile};
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::secret_key;
use crate::{files, output, server_process};
use server::{StoreError, backups};
use std::path::{Path, PathBuf};

/// Put a backup in the place of the database. Stop the server first.
#[derive(clap::Args)]
#[command(
    after_help = "The backup is checked first, as by sarsen check. The old database is kept beside the new one under another\n\
    name. Everything since the backup is undone: changed passwords, suspensions and revocations too.\n\n\
    Try it at any time, also while the server runs:\n\
    \x20   sarsen restore /mnt/backups/sarsen-2026-01-31.db --rehearse"
)]
pub struct Args {
    /// The backup
    file: PathBuf,
    /// Start a server on a copy in a folder of its own, sign in there, and remove it
    #[arg(long)]
    rehearse: bool,
    /// Accept a file without the mark of the secret key: a copy made in another way, or by a version before the mark
    #[arg(long)]
    accept_unmarked: bool,
    #[command(flatten)]
    config: ConfigFile,
}

/// Runs it.
pub fn run(args: &Args, environment: &Environment) -> Result<()> {
    let config = Config::load(&args.config.flags(), environment)?;
    let database = &config.database.value;
    let Some(path) = database.path() else {
        return Err(Error::usage(format!(
            "this command is for SQLite, and database is {database}. {}",
            tools_of(database)
        )));
    };
    let judge = Judge { keys: check::Keys::of(&config)?, accept_unmarked: args.accept_unmarked };
    server_process::keep_files_private();
    if args.rehearse {
        return rehearsal::run(&args.file, &judge, &secret_key::beside_data(&config));
    }
    files::require_own(path)?;
    files::remove_unfinished_copies(path);
    let kept = free_name(path);
    let existed = put(&args.file, path, &kept, &judge)?;
    let old = if existed { format!("The old database is {}.\n", kept.display()) } else { String::new() };
    output::after_change(output::print(&format!(
        "Restored {} to {}. Everything since that backup is undone.\n{old}Next: sarsen serve\n",
        args.file.display(),
        path.display()
    )))
}

/// What a backup is judged by.
struct Judge {
    keys: Keys,
    accept_unmarked: bool,
}

/// Checks a backup and puts it in the place of `database`. Returns whether there was one.
fn put(backup: &Path, database: &Path, kept: &Path, judge: &Judge) -> Result<bool> {
    let whole = |copy: &Path| {
        // The user knows the name of the backup, not that of its copy.
        let named = |error: Error| {
            error.to_string().replace(&copy.display().to_string(), &backup.display().to_string())
        };
        let found = check::file(copy, &judge.keys).map_err(|error| Refusal(named(error)))?;
        let verdict = Verdict::of(&found, &judge.keys, judge.accept_unmarked);
        if verdict.ok {
            return Ok(());
        }
        Err(Refusal(if found.problems.is_empty() { verdict.reason } else { found.problems.join("; ") }))
    };
    let restored = backups::restore(backup, database, kept, whole);
    restored.map_err(|Refusal(text)| {
        Error::failed(format!("{} was not restored, and nothing was changed: {text}", backup.display()))
    })
}

/// Why a backup is not used.
struct Refusal(String);

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Refusal {
        Refusal(error.to_string())
    }
}

/// A name for the old database with the time in it, that no file has.
fn free_name(database: &Path) -> PathBuf {
    let now = jiff::Timestamp::from_second(api_client::now()).unwrap_or_default();
    let name = files::with_suffix(database, &now.strftime(".before-%Y%m%dT%H%M%SZ").to_string());
    let others = (2..).map(|number| files::with_suffix(&name, &format!("-{number}")));
    let free = |name: &PathBuf| name.symlink_metadata().is_err();
    std::iter::once(name.clone()).chain(others).find(free).unwrap_or(name)
}
