//! `sarsen check`: whether a backup, or a database on a server, is whole and belongs to the secret key.

use super::serve;
use crate::config::{Config, ConfigFile, Database};
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::{output, server_process};
use serde_json::json;
use server::backups::{self, Checked};
use server::{SecretKey, StoreError};
use std::path::Path;

/// Check a backup, or a database on a server.
#[derive(clap::Args)]
#[command(
    after_help = "It checks that the file is not damaged, that no row refers to one that is not there, that the schema is that\n\
    of a version of Sarsen, and that everything sealed opens with the secret key. A file is not changed.\n\
    A database on a server is brought to the schema of this version first.\n\n\
    Example:  sarsen check /mnt/backups/sarsen-2026-01-31.db\n\
    Exit code 1 when something is wrong."
)]
pub struct Args {
    /// A backup file, or the URL of a restored database
    #[arg(value_name = "FILE|URL", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    target: String,
    #[command(flatten)]
    config: ConfigFile,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub fn run(args: &Args, environment: &Environment) -> Result<()> {
    let config = Config::load(&args.config.flags(), environment)?;
    let key = serve::secret_key(&config)?;
    let (shown, found) = match Database::parse(&args.target) {
        Some(database) if database.path().is_none() => (database.to_string(), on_server(&database, &key)?),
        Some(Database::Sqlite(path)) => (path.display().to_string(), file(&path, &key)?),
        _ => (args.target.clone(), file(Path::new(&args.target), &key)?),
    };
    if args.json {
        output::print_json(&json!({
            "target": shown, "ok": found.problems.is_empty(), "schema": found.schema, "sealed": found.sealed,
            "problems": found.problems, "warnings": found.warnings
        }))?;
    } else {
        output::print(&text(&shown, &found))?;
    }
    if found.problems.is_empty() { Ok(()) } else { Err(Error::AlreadyReported) }
}

/// Checks a file. What cannot be read at all is an error.
pub fn file(path: &Path, key: &SecretKey) -> Result<Checked> {
    backups::check_file(path, key).map_err(refused)
}

fn refused(error: StoreError) -> Error {
    Error::failed(error.to_string())
}

fn on_server(database: &Database, key: &SecretKey) -> Result<Checked> {
    let store = server_process::open_store(database, server::store_options(database.url()))?;
    let found = server_process::runtime()?.block_on(backups::check_store(&store, key));
    store.close();
    found.map_err(refused)
}

fn text(shown: &str, found: &Checked) -> String {
    let warnings = found.warnings.iter().map(|warning| format!("Warning: {}\n", output::sanitize(warning)));
    let warnings: String = warnings.collect();
    if found.problems.is_empty() {
        let schema = found.schema.map_or_else(String::new, |schema| format!(" Its schema is {schema}."));
        return format!(
            "{shown} is whole.{schema} The secret key opens all of its {} sealed values.\n{warnings}",
            found.sealed
        );
    }
    let lines = found.problems.iter().map(|problem| format!("  {}\n", output::sanitize(problem)));
    format!("{shown} cannot be used as it is:\n{}{warnings}", lines.collect::<String>())
}
