//! `sarsen backup`: copies the database to a file. It reads beside a running server and does not stop it.

use crate::config::{Config, ConfigFile, Database};
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::secret_key;
use crate::{files, output, server_process};
use serde_json::json;
use server::backups;
use std::path::{Path, PathBuf};

/// Copy the database to a file, also while the server runs.
#[derive(clap::Args)]
#[command(
    after_help = "The backup has every change that the server has acknowledged before the command began. It gets its name\n\
    when it is complete. It does not have the secret key: keep a copy of that in another place. At its end are a SHA-256\n\
    of what is before, and a mark under the secret key that shows who made it.\n\n\
    Example:  sarsen backup /mnt/backups/sarsen-$(date +%F).db\n\
    The server makes backups by itself with `backup_directory` in sarsen.toml."
)]
pub struct Args {
    /// The file to write; it must not exist
    file: PathBuf,
    #[command(flatten)]
    config: ConfigFile,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub fn run(args: &Args, environment: &Environment) -> Result<()> {
    let config = Config::load(&args.config.flags(), environment)?;
    let database = sqlite_file(&config)?;
    // SQLite would say that the disk is read-only.
    files::require_own_or_root(database)?;
    server_process::keep_files_private();
    files::remove_unfinished_copies(&args.file);
    let key = secret_key::read(&config)?;
    let bytes = backups::copy(database, &args.file, &key)
        .map_err(|error| Error::failed(format!("the backup was not made: {error}")))?;
    let shown = args.file.display();
    // A database that is not as it should be needs a backup too, and its operator learns it now, not at the restore.
    let made = backups::check_made(&args.file, &key)
        .map_err(|error| Error::failed(format!("{shown} was written, and cannot be read: {error}")))?;
    if args.json {
        let key_file =
            config.secret_key.is_none().then(|| config.secret_key_file.value.display().to_string());
        output::after_change(output::print_json(&json!({
            "file": shown.to_string(), "bytes": bytes, "secret_key_file": key_file, "problems": made.problems,
            "warnings": made.warnings
        })))?;
    } else {
        let lines = |what: &str, lines: &[String]| -> String {
            lines.iter().map(|line| format!("{what}: {}\n", output::sanitize(line))).collect()
        };
        output::after_change(output::print(&format!(
            "Wrote {shown} ({}).\nIt does not have the secret key, without which it is of no use: {}\n{}{}",
            size(bytes),
            place_of_key(&config),
            lines("Warning", &made.warnings),
            lines("Problem, for which sarsen restore refuses it", &made.problems)
        )))?;
    }
    if made.problems.is_empty() { Ok(()) } else { Err(Error::AlreadyReported) }
}

/// The file of the database that these commands work on. With a server, the error names the tools of that.
pub fn sqlite_file(config: &Config) -> Result<&Path> {
    let database = &config.database.value;
    let Some(path) = database.path() else {
        return Err(Error::usage(format!(
            "this command is for SQLite, and database is {database}. {}",
            tools_of(database)
        )));
    };
    require_database(path)?;
    Ok(path)
}

/// Fails if the file of the database does not exist.
pub fn require_database(path: &Path) -> Result<()> {
    if path.exists() {
        return Ok(());
    }
    Err(Error::usage(format!(
        "there is no database {}; run the command in the folder of sarsen.toml, or name the file with --config",
        path.display()
    )))
}

/// What backs up a database server.
pub fn tools_of(database: &Database) -> &'static str {
    if database.is_postgres() {
        "Back up with `pg_dump --format=custom --file=FILE URL`, restore with `pg_restore --exit-on-error --dbname=URL \
         FILE`, and check the restored database with `sarsen check URL`"
    } else {
        "Back up with `mariadb-dump --single-transaction --hex-blob DATABASE > FILE`, restore with `mariadb DATABASE < \
         FILE`, and check the restored database with `sarsen check URL`"
    }
}

/// Where the secret key is, in a sentence.
pub fn place_of_key(config: &Config) -> String {
    match &config.secret_key {
        Some(_) => "the key comes from SARSEN_SECRET_KEY.".to_owned(),
        None => format!(
            "keep a copy of {} in another place than the backups.",
            config.secret_key_file.value.display()
        ),
    }
}

/// A size for people.
pub fn size(bytes: u64) -> String {
    const KIB: u64 = 1024;
    match bytes {
        ..0x10_0000 => format!("{} KiB", bytes.div_ceil(KIB)),
        _ => format!("{:.1} MiB", bytes as f64 / (KIB * KIB) as f64),
    }
}
