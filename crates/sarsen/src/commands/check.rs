//! `sarsen check`: whether a backup, or a database on a server, is whole and belongs to the secret key.

use super::rekey;
use crate::config::{Config, ConfigFile, Database};
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::secret_key;
use crate::{output, server_process};
use serde_json::json;
use server::backups::{self, Checked, Origin};
use server::{SecretKey, StoreError};
use std::path::{Path, PathBuf};

/// Check a backup, or a database on a server.
#[derive(clap::Args)]
#[command(
    after_help = "It checks that the file was made by `sarsen backup` with this secret key and is not damaged, that no row refers\n\
    to one that is not there, that the schema is that of a version of Sarsen, and that everything sealed opens with the\n\
    secret key. A file is not changed. A database on a server is brought to the schema of this version first.\n\n\
    Example:  sarsen check /mnt/backups/sarsen-2026-01-31.db\n\
    Exit code 1 when something is wrong, or when nothing shows who made the file."
)]
pub struct Args {
    /// A backup file, or the URL of a restored database
    #[arg(value_name = "FILE|URL", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    target: String,
    /// Accept a file without the mark of the secret key: a copy made in another way, or by a version before the mark
    #[arg(long)]
    accept_unmarked: bool,
    #[command(flatten)]
    config: ConfigFile,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub fn run(args: &Args, environment: &Environment) -> Result<()> {
    let config = Config::load(&args.config.flags(), environment)?;
    let keys = Keys::of(&config)?;
    let (shown, found) = match Database::parse(&args.target) {
        Some(database) if database.path().is_none() => {
            (database.to_string(), on_server(&database, keys.own())?)
        }
        Some(Database::Sqlite(path)) => (path.display().to_string(), file(&path, &keys)?),
        _ => (args.target.clone(), file(Path::new(&args.target), &keys)?),
    };
    let verdict = Verdict::of(&found, &keys, args.accept_unmarked);
    if args.json {
        let fits = found.key.and_then(|key| keys.file_of(key)).map(|file| file.display().to_string());
        output::print_json(&json!({
            "target": shown, "ok": verdict.ok, "schema": found.schema, "sealed": found.sealed,
            "problems": found.problems, "warnings": found.warnings, "origin": found.origin.map(name_of),
            "other_key": fits
        }))?;
    } else {
        output::print(&text(&shown, &found, &verdict))?;
    }
    if verdict.ok { Ok(()) } else { Err(Error::AlreadyReported) }
}

/// The secret key, and the old ones that are beside it, with their files.
pub struct Keys {
    keys: Vec<SecretKey>,
    /// Of the second key and those after it.
    old_files: Vec<PathBuf>,
}

impl Keys {
    /// The keys of a configuration.
    pub fn of(config: &Config) -> Result<Keys> {
        let (mut keys, mut old_files) = (vec![secret_key::read(config)?], Vec::new());
        for (file, key) in rekey::other_keys(config) {
            keys.push(key);
            old_files.push(file);
        }
        Ok(Keys { keys, old_files })
    }

    /// The secret key of the configuration.
    pub fn own(&self) -> &SecretKey {
        #[expect(clippy::indexing_slicing, reason = "`of` puts one there")]
        &self.keys[0]
    }

    /// The file of an old key; `None` for the secret key of the configuration.
    fn file_of(&self, key: usize) -> Option<&Path> {
        self.old_files.get(key.checked_sub(1)?).map(PathBuf::as_path)
    }
}

/// What a check means.
pub struct Verdict {
    /// The file may be restored.
    pub ok: bool,
    /// Sentences for the operator: what is known of who made the file, and which key fits. Empty if there is nothing to say.
    pub reason: String,
}

impl Verdict {
    /// Judges a file that was checked.
    pub fn of(found: &Checked, keys: &Keys, accept_unmarked: bool) -> Verdict {
        let is_known = !matches!(found.origin, Some(Origin::PlainChecksum | Origin::Unmarked));
        let ok = found.problems.is_empty() && found.key == Some(0) && (is_known || accept_unmarked);
        let mut reason = match found.origin {
            Some(Origin::PlainChecksum) => {
                "Its checksum is right, and anybody can make one: who made the file, which earlier versions wrote so, is \
                 unknown."
            }
            Some(Origin::Unmarked) => {
                "It was not made by sarsen backup: nothing shows who made it, and it may lack the newest changes."
            }
            None | Some(Origin::Marked | Origin::OtherMark) => "",
        }
        .to_owned();
        if !is_known && found.key == Some(0) {
            let accepted =
                if accept_unmarked { "It is accepted" } else { "If you know where it comes from, accept it" };
            reason.push_str(&format!(" {accepted} with --accept-unmarked."));
        }
        if found.problems.is_empty() && found.key != Some(0) {
            reason.push_str(" It was created with another key.");
            reason.push_str(&match found.key.and_then(|key| keys.file_of(key)) {
                Some(file) => format!(
                    " {0} fits: to restore it, set secret_key_file = \"{0}\", or SARSEN_SECRET_KEY to the text of that file.",
                    file.display()
                ),
                None if keys.old_files.is_empty() => " There is no old key beside the secret key.".to_owned(),
                None => format!(" None of the {} old keys beside the secret key fits.", keys.old_files.len()),
            });
        }
        Verdict { ok, reason: reason.trim_start().to_owned() }
    }
}

/// Checks a file. What cannot be read at all is an error.
pub fn file(path: &Path, keys: &Keys) -> Result<Checked> {
    backups::check_file(path, &keys.keys).map_err(refused)
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

fn name_of(origin: Origin) -> &'static str {
    match origin {
        Origin::Marked => "marked",
        Origin::OtherMark => "other_mark",
        Origin::PlainChecksum => "plain_checksum",
        Origin::Unmarked => "unmarked",
    }
}

fn text(shown: &str, found: &Checked, verdict: &Verdict) -> String {
    let list = |begin: &str, lines: &[String]| -> String {
        lines.iter().map(|line| format!("{begin}{}\n", output::sanitize(line))).collect()
    };
    let warnings = list("Warning: ", &found.warnings);
    let reason = if verdict.reason.is_empty() { String::new() } else { format!("{}\n", verdict.reason) };
    if !found.problems.is_empty() {
        let problems = list("  ", &found.problems);
        return format!("{shown} cannot be used as it is:\n{problems}{reason}{warnings}");
    }
    let is_known = !matches!(found.origin, Some(Origin::PlainChecksum | Origin::Unmarked));
    let whole = if is_known { "is whole" } else { "shows no damage" };
    let schema = found.schema.map_or_else(String::new, |schema| format!(" Its schema is {schema}."));
    let sealed = match found.key {
        Some(0) => format!(" The secret key opens all of its {} sealed values.", found.sealed),
        _ => String::new(),
    };
    format!("{shown} {whole}.{schema}{sealed}\n{reason}{warnings}")
}
